//! The curves of a report.

use super::super::{Curve, Plot};
use super::Report;
use super::chart;
use super::markup::Markup;
use kvt_train::run::Metric;

/// All plots that have data.
pub(super) fn all(page: &mut Markup, report: &Report, curves: &[Curve]) {
    page.within("div", &[("class", "charts")], |page| {
        let mut metrics = vec![report.metric];
        // With at most five classes, top-5 is always 100 %.
        if report.records.iter().any(|run| run.facts.classes.len() > 5) {
            metrics.push(Metric::TOP5);
        }
        metrics.push(Metric::FEATURE_STD);
        for (number, metric) in metrics.iter().enumerate() {
            let is_new = metrics.iter().position(|other| other == metric) == Some(number);
            // The loss shares a plot with the training loss.
            if is_new && *metric != Metric::LOSS {
                chart::draw(page, Plot::Metric(*metric), curves);
            }
        }
        for plot in [Plot::Loss, Plot::LearningRate, Plot::Throughput] {
            chart::draw(page, plot, curves);
        }
    });
    let same = |one: &Curve| {
        curves
            .iter()
            .filter(|curve| curve.label == one.label)
            .count()
    };
    if curves.iter().any(|curve| same(curve) > 1) {
        page.note("A line is the mean over the runs of one name, its band one sample standard deviation to each side.");
    }
}
