//! The metric by which runs are compared.

use super::Curve;
use crate::run::Metric;
use crate::task::{Classify, Dino, Task as _};

/// The metric with a name.
///
/// # Errors
/// The names of all metrics, if there is none.
pub fn named_metric(name: &str) -> Result<Metric, String> {
    let known = || Classify::METRICS.iter().chain(Dino::METRICS);
    known()
        .find(|metric| metric.name == name)
        .copied()
        .ok_or_else(|| {
            let names: Vec<&str> = known().map(|metric| metric.name).collect();
            format!("expected one of {}", names.join(", "))
        })
}

/// The metric for comparing runs: the one by which their task chooses its best checkpoint, if it is the same for all of them.
#[must_use]
pub fn best_metric(curves: &[Curve]) -> Metric {
    let has = |curve: &Curve, metric: Metric| {
        let mut epochs = curve.epochs.iter();
        epochs.any(|epoch| epoch.val.get(metric.name).is_some())
    };
    let all_have = |metric: Metric| {
        let mut begun = curves.iter().filter(|curve| !curve.epochs.is_empty());
        begun.all(|curve| has(curve, metric))
    };
    let is_classified = curves.iter().any(|curve| has(curve, Classify::BEST));
    if !is_classified && all_have(Dino::BEST) {
        Dino::BEST
    } else {
        Classify::BEST
    }
}
