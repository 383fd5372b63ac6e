//! The update that the device works at while the host goes on: its numbers are read one update later.
//!
//! Whoever looks at the state of the run settles first: nothing is saved, evaluated or finished with an update on its way. So a
//! checkpoint is what it would be if the host had waited.

use super::reports::Times;
use super::{Trainer, due};
use crate::engine::{Reader, Started, TrainError};
use crate::recipe::Position;
use crate::task::{Signals, Task};

/// The reader of a run, and the update that is on its way.
#[derive(Debug, Default)]
pub struct Late {
    /// Reads the numbers of an update; without one the host waits for each.
    pub(super) reader: Option<Reader>,
    pub(super) step: Option<Step>,
}

/// An update that was started, and all that is told of it.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) started: Started,
    /// Its place, and the one of the next.
    pub(super) before: Position,
    pub(super) after: Position,
    /// Its micro-batches.
    pub(super) count: usize,
    pub(super) lr: f64,
    pub(super) times: Times,
    /// What the task tells of it, where a line of the log is due.
    pub(super) signals: Option<Signals>,
}

impl Late {
    /// By this reader, if there is one.
    pub fn by(reader: Option<Reader>) -> Self {
        Self { reader, step: None }
    }
}

impl<T: Task> Trainer<'_, '_, T> {
    /// What the task tells of the update that was just started, if a line of the log is due.
    pub(super) fn signals(&self) -> Result<Option<Signals>, TrainError> {
        let position = self.progress.position;
        due(position.step, self.plan.log.every_steps)
            .then(|| self.state.task.signals(position))
            .transpose()
    }

    /// Waits for the update that is on its way, if there is one, adds it up and tells of it.
    ///
    /// If it was not finite, the position is its own again, as the weights are.
    pub(super) fn settle(&mut self) -> Result<(), TrainError> {
        let Some(step) = self.late.step.take() else {
            return Ok(());
        };
        let update = match step.started {
            Started::Done(update) => update,
            Started::OnItsWay(pending) => match self.state.finish(pending) {
                Ok(update) => update,
                Err(error) => {
                    self.progress.position = step.before;
                    return Err(self.failed(error, step.count));
                }
            },
        };
        let sums = &mut self.progress.sums;
        sums.loss += update.loss * update.images as f64;
        sums.images += update.images as u64;
        sums.seconds += step.times.seconds;
        sums.data_wait += step.times.data_wait;
        sums.communication += step.times.communication;
        sums.lr = step.lr;
        self.report_step(&update, step.after, step.lr, step.times, step.signals)?;
        self.report_unmade(&update)
    }
}
