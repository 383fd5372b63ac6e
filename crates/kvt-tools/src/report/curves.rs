//! The measurements of one run after each epoch, and how several runs are combined.

use std::collections::BTreeMap;

use super::Statistic;
use crate::groups::grouped;
use kvt_train::run::{Metric, Metrics};

/// One run's measurements.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Curve {
    /// Name of the configuration; runs of the same name are averaged.
    pub label: String,
    /// Seed of the run.
    pub seed: u64,
    /// Measurements by epoch, ascending; epochs without any may be absent.
    pub epochs: Vec<EpochPoint>,
}

/// Measurements after one epoch.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct EpochPoint {
    /// The epoch, from 0 as in the log.
    pub epoch: u32,
    /// Mean training loss of the epoch, if it was finite.
    pub train_loss: Option<f64>,
    /// Learning rate of the last update of the epoch.
    pub lr: Option<f64>,
    /// Training images per second over the epoch.
    pub images_per_second: Option<f64>,
    /// The metrics on the validation split; none without an evaluation.
    pub val: Metrics,
    /// The metrics on the validation split with the EMA of the weights.
    pub ema: Metrics,
    /// The best values of epochs that are not known one by one.
    pub best: Metrics,
}

impl Curve {
    /// The metric after the best epoch.
    pub(crate) fn best(&self, metric: Metric) -> Option<f64> {
        let of = |point: &EpochPoint| [&point.val, &point.best].map(|all| all.get(metric.name));
        let values = self.epochs.iter().flat_map(of).flatten();
        let values = values.filter(|value| value.is_finite());
        if metric.higher {
            values.max_by(f64::total_cmp)
        } else {
            values.min_by(f64::total_cmp)
        }
    }

    /// The metric after the last evaluated epoch.
    pub(crate) fn last(&self, metric: Metric) -> Option<f64> {
        self.values(val(metric)).last().map(|(_, value)| value)
    }

    /// The metric after so many finished epochs.
    pub(crate) fn at(&self, metric: Metric, epochs: u32) -> Option<f64> {
        let found = self.values(val(metric)).find(|(done, _)| *done == epochs);
        found.map(|(_, value)| value)
    }

    /// The values of one measurement: finished epochs (from 1) and value, ascending.
    pub(super) fn values(
        &self,
        field: impl Fn(&EpochPoint) -> Option<f64>,
    ) -> impl Iterator<Item = (u32, f64)> {
        self.epochs.iter().filter_map(move |point| {
            field(point)
                .filter(|value| value.is_finite())
                .map(|value| (point.epoch + 1, value))
        })
    }
}

/// A metric on the validation split.
pub(super) fn val(metric: Metric) -> impl Fn(&EpochPoint) -> Option<f64> {
    move |point| point.val.get(metric.name)
}

/// A metric on the validation split with the EMA of the weights.
pub(super) fn ema(metric: Metric) -> impl Fn(&EpochPoint) -> Option<f64> {
    move |point| point.ema.get(metric.name)
}

/// The runs of each label, labels in order of first appearance.
pub(super) fn by_label(curves: &[Curve]) -> Vec<(&str, Vec<&Curve>)> {
    grouped(curves.iter().map(|curve| (curve.label.as_str(), curve)))
}

/// Mean and spread over the runs that have a value, per finished epoch.
pub(super) fn mean_curve(
    runs: &[&Curve],
    field: impl Fn(&EpochPoint) -> Option<f64>,
) -> BTreeMap<u32, Statistic> {
    let mut values: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for run in runs {
        for (epoch, value) in run.values(&field) {
            values.entry(epoch).or_default().push(value);
        }
    }
    values
        .into_iter()
        .filter_map(|(epoch, values)| Some((epoch, Statistic::of(&values)?)))
        .collect()
}
