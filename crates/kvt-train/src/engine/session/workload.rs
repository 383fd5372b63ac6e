//! How much a run has to do.

use super::Session;
use crate::engine::Best;
use crate::recipe::EmaReport;
use crate::run::{EvalRecord, Metric};
use crate::task::Task;

/// The amount of work of a run, for progress bars.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Workload {
    /// Updates already made.
    pub done: u64,
    /// Updates in total.
    pub steps: u64,
    /// Updates per epoch.
    pub steps_per_epoch: u64,
    /// Epochs in total.
    pub epochs: u32,
    /// Images per update.
    pub images_per_step: usize,
    /// Images per evaluation.
    pub eval_images: usize,
    /// Epochs from one evaluation to the next; 0 evaluates only at the end, or after updates.
    pub eval_every: u32,
    /// Updates from one evaluation to the next; 0 evaluates after epochs.
    pub eval_every_updates: u64,
    /// Classes of the images.
    pub classes: usize,
    /// The metrics of evaluations.
    pub metrics: &'static [Metric],
    /// The metric that chooses the best checkpoint.
    pub best_metric: Metric,
    /// The best evaluation so far.
    pub best: Option<Best>,
    /// The split of the log by which the run is judged: of the weights, or of their average.
    pub reported: &'static str,
    /// Whether an average of the weights is also evaluated.
    pub has_ema: bool,
}

impl Workload {
    /// Whether a metric is informative: with at most five classes, top-5 is always 100 %.
    pub fn tells(&self, metric: Metric) -> bool {
        metric != Metric::TOP5 || self.classes > 5
    }
}

impl<T: Task> Session<T> {
    /// The amount of work.
    pub fn workload(&self) -> Workload {
        let train = &self.plan.train;
        let steps_per_epoch = self.splits.updates_per_epoch(&self.plan);
        let epochs = self.plan.epochs_of(steps_per_epoch);
        let steps = steps_per_epoch * u64::from(epochs);
        Workload {
            done: self.progress.position.step,
            steps: self.plan.last_update().map_or(steps, |max| max.min(steps)),
            steps_per_epoch,
            epochs,
            images_per_step: train.batch_size * train.accumulate,
            eval_images: self.splits.val.samples.len(),
            eval_every: train.eval_every,
            eval_every_updates: train.eval_every_updates,
            classes: self.splits.classes().len(),
            metrics: T::METRICS,
            best_metric: T::BEST,
            best: self.progress.best,
            reported: match self.plan.ema.report {
                EmaReport::Raw => EvalRecord::VAL,
                EmaReport::Ema => EvalRecord::VAL_EMA,
            },
            has_ema: self.state.ema.is_some(),
        }
    }
}
