//! Files that the loop writes: checkpoints, and the inputs of a step that was not finite.

use super::Trainer;
use crate::engine::dump::dump;
use crate::engine::{TrainError, Update};
use crate::run::{Listener, Topic};
use crate::task::Task;

impl<T: Task> Trainer<'_, '_, T> {
    /// Writes a checkpoint, of the best evaluation so far if it is the `best`.
    pub(super) fn save(&mut self, best: bool) -> Result<(), TrainError> {
        // All processes have the same state.
        if !self.processes.world().is_first() {
            self.saved = true;
            return Ok(());
        }
        self.recorder.sync()?;
        let warnings = self
            .checkpoints
            .save(&self.state, &self.progress, self.recorder, best)?;
        self.saved = true;
        for warning in warnings {
            self.note(Topic::Warning, warning)?;
        }
        Ok(())
    }

    /// Saves the state before an error ends the run. The error stays the first part of the message.
    pub(super) fn save_before(&mut self, error: TrainError) -> TrainError {
        // Repairing the data may change file sizes.
        self.checkpoints.forget_sizes();
        let saved = self.save(false);
        TrainError::Stopped {
            step: self.progress.position.step,
            saved: match saved {
                Ok(()) => "is saved; `--resume` continues from there".to_owned(),
                Err(error) => format!("could not be saved ({error})"),
            },
            cause: Box::new(error),
        }
    }

    /// The error of an update that is not finite. Its `count` micro-batches from the current position on are written to disk
    /// first.
    pub(super) fn not_finite(&self, update: &Update, count: usize) -> TrainError {
        let position = self.progress.position;
        let step = position.step + 1;
        let keep = self.processes.world().is_first();
        let dumped = keep.then(|| {
            self.batches(0, 1).and_then(|batches| {
                let (run, network) = (self.checkpoints.run(), &self.state.network);
                let source = &self.splits.train;
                dump(run, step, network, source, batches.take(count))
            })
        });
        TrainError::NotFinite {
            step,
            epoch: position.epoch,
            loss: update.loss,
            grad_norm: update.grad_norm,
            dump: match dumped {
                None => "the first process keeps the batch".to_owned(),
                Some(Ok(folder)) => format!(
                    "the batch and the weights before it are in `{}`",
                    folder.display()
                ),
                Some(Err(error)) => {
                    format!("the batch and the weights before it could not be kept: {error}")
                }
            },
        }
    }
}
