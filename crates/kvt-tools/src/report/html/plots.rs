//! The curves of a report.

use super::super::curves::by_label;
use super::super::{Curve, Plot};
use super::Report;
use super::chart;
use super::markup::Markup;
use crate::groups::unique;
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
        // The loss shares a plot with the training loss.
        metrics.retain(|metric| *metric != Metric::LOSS);
        for metric in unique(metrics) {
            chart::draw(page, Plot::Metric(metric), curves);
        }
        for plot in [Plot::Loss, Plot::LearningRate, Plot::Throughput] {
            chart::draw(page, plot, curves);
        }
    });
    if by_label(curves).iter().any(|(_, runs)| runs.len() > 1) {
        page.note("A line is the mean over the runs of one name, its band one sample standard deviation to each side.");
    }
}
