//! The metric by which runs are compared.

use std::collections::BTreeSet;

use super::{Curve, ReportError};
use crate::groups::unique;
use kvt_train::run::{Metric, Metrics};
use kvt_train::task::{Classify, Detect, Dino, MultiLabel, Segment, Task as _, TaskKind};

const TASKS: [TaskKind; 5] = [
    TaskKind::Classify,
    TaskKind::MultiLabel,
    TaskKind::Dino,
    TaskKind::Segment,
    TaskKind::Detect,
];

/// The metric by which a task chooses its best checkpoint, and all of its metrics.
fn of_task(task: TaskKind) -> (Metric, &'static [Metric]) {
    match task {
        TaskKind::Classify => (Classify::BEST, Classify::METRICS),
        TaskKind::MultiLabel => (MultiLabel::BEST, MultiLabel::METRICS),
        TaskKind::Dino => (Dino::BEST, Dino::METRICS),
        TaskKind::Segment => (Segment::BEST, Segment::METRICS),
        TaskKind::Detect => (Detect::BEST, Detect::METRICS),
    }
}

/// The metrics of all tasks; some tasks share some.
pub(crate) fn metrics() -> impl Iterator<Item = &'static Metric> {
    TASKS.into_iter().flat_map(|task| of_task(task).1)
}

/// The metric by which a task chooses its best checkpoint, if these are all of one task.
pub(crate) fn best_of_tasks(mut tasks: impl Iterator<Item = TaskKind>) -> Metric {
    let first = tasks.next().unwrap_or_default();
    let is_one = tasks.all(|task| task == first);
    of_task(if is_one { first } else { TaskKind::default() }).0
}

/// Refuses a metric that no run of these tasks can have.
pub(crate) fn check_tasks(
    metric: Metric,
    tasks: impl Iterator<Item = TaskKind>,
) -> Result<(), ReportError> {
    let all = tasks.flat_map(|task| of_task(task).1);
    check(metric, &all.map(|metric| metric.name).collect())
}

/// The metric with a name.
///
/// # Errors
/// The names of all metrics, if there is none.
pub fn named_metric(name: &str) -> Result<Metric, String> {
    metrics()
        .find(|metric| metric.name == name)
        .copied()
        .ok_or_else(|| {
            let names = unique(metrics().map(|metric| metric.name));
            format!("expected one of {}", names.join(", "))
        })
}

/// Refuses a metric that none of the runs has. Runs without any evaluation have every one: nothing is known of them yet.
pub(crate) fn check_metric(metric: Metric, curves: &[Curve]) -> Result<(), ReportError> {
    let points = curves.iter().flat_map(|curve| &curve.epochs);
    let measured = points.flat_map(|point| [&point.val, &point.ema, &point.best]);
    let names = measured.flat_map(Metrics::iter).map(|(name, _)| name);
    check(metric, &names.collect())
}

fn check(metric: Metric, names: &BTreeSet<&str>) -> Result<(), ReportError> {
    if names.is_empty() || names.contains(metric.name) {
        return Ok(());
    }
    let near = kvt_models::similar(metric.name, names.iter().copied());
    let meant = near.first().map(|near| format!("; did you mean `{near}`?"));
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    Err(ReportError::NoSuchMetric {
        metric: metric.name,
        instead: names.join(", ") + &meant.unwrap_or_default(),
    })
}

/// The metric for comparing runs: the one by which their task chooses its best checkpoint, if it is the same for all of them.
#[must_use]
pub(crate) fn best_metric(curves: &[Curve]) -> Metric {
    let has = |curve: &Curve, metric: Metric| {
        let mut epochs = curve.epochs.iter();
        epochs.any(|epoch| epoch.val.get(metric.name).is_some())
    };
    let all_have = |metric: Metric| {
        let mut begun = curves.iter().filter(|curve| !curve.epochs.is_empty());
        begun.all(|curve| has(curve, metric))
    };
    let is_classified = curves.iter().any(|curve| has(curve, Classify::BEST));
    let mut others = TASKS.into_iter().map(|task| of_task(task).0);
    let other = others.find(|metric| !is_classified && all_have(*metric));
    other.unwrap_or(Classify::BEST)
}
