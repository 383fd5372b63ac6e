//! Resumes a session from a checkpoint.

use super::Session;
use super::state::initial_state;
use crate::engine::TrainError;
use crate::engine::checkpoint::Restored;
use crate::run::{Event, Note, RunDir, RunError, Topic, Which, read_log};
use crate::task::{Task, Weights};

impl<T: Task> Session<T> {
    /// This session in the state of a checkpoint, or at its start if it was killed before the first one.
    pub(super) fn restored(mut self, which: Which<'_>) -> Result<Self, TrainError> {
        let checkpoints = self.checkpointer();
        let epochs = self.workload().epochs;
        // Steps after an older checkpoint are cut off the log, so keep a copy.
        let keep_log = || match which {
            Which::Last => Ok(()),
            _ => self.run.copy_log(),
        };
        match checkpoints.restore(which, self.state, keep_log) {
            Ok(Restored {
                state,
                progress,
                log_offset,
                warnings,
            }) => {
                let step = progress.position.step;
                let train = &self.plan.train;
                let is_out_of_steps = self.plan.last_update().is_some_and(|most| step >= most);
                self.state = state;
                self.progress = progress;
                // An evaluation that is still to come may be the best one.
                self.progress.told_stale = progress.is_stale(train.patience)
                    && !(progress.concluding
                        || is_out_of_steps
                        || progress.position.epoch >= epochs);
                let (topic, message) = match progress.position.epoch {
                    _ if self.progress.told_stale => {
                        let why = progress.why_stale(T::BEST.title);
                        let message =
                            format!("finished already, {why}; with a larger one it goes on");
                        // As in the line of the log that the resume cuts off: the run is still a finished one.
                        (Topic::Patience, message)
                    }
                    epoch if epoch < epochs => {
                        let message = format!("resumed in epoch {}, after step {step}", epoch + 1);
                        (Topic::Resume, message)
                    }
                    epoch => (Topic::Resume, format!("all {epoch} epochs are done")),
                };
                self.notes.push(Note::new(step, topic, message));
                self.resumed = Some((log_offset, step));
                warnings.iter().for_each(|warning| self.warn(warning));
            }
            // Killed before its first checkpoint: starting over loses nothing.
            Err(TrainError::Run(RunError::NoCheckpoint { .. })) if which == Which::Last => {
                let message = start_over(&self.run, epochs)?;
                let device = self.device.device.clone().autodiff();
                self.state = initial_state(
                    &self.plan,
                    &self.model,
                    &self.splits,
                    Weights::OfPlan,
                    &device,
                    &mut self.notes,
                )?;
                self.resumed = Some((0, 0));
                self.notes.push(Note::new(0, Topic::Resume, message));
            }
            Err(error) => return Err(error),
        }
        Ok(self)
    }
}

/// Makes room for a run that starts over, and returns a message; refuses if a finished run has lost its checkpoints.
fn start_over(run: &RunDir, epochs: u32) -> Result<String, TrainError> {
    let logged = match run.log() {
        log if log.exists() => read_log(&log)?.events,
        _ => Vec::new(),
    };
    let finished = |last: u32| {
        logged.iter().any(|event| match event {
            Event::Epoch(epoch) => epoch.epoch >= last,
            _ => false,
        })
    };
    // The last epoch is logged after it was saved, so its checkpoint was removed.
    if finished(epochs.saturating_sub(1)) {
        return Err(TrainError::Run(RunError::CheckpointsGone {
            path: run.path().to_owned(),
        }));
    }
    let kept = if finished(0) {
        run.set_log_aside()?
    } else {
        None
    };
    let message = "no checkpoint yet: starting from the beginning";
    Ok(match kept {
        Some(kept) => format!("{message}; the log so far is kept as `{}`", kept.display()),
        None => message.to_owned(),
    })
}
