//! Resumes a session from a checkpoint.

use super::Session;
use super::start::record_start;
use super::state::initial_state;
use crate::engine::TrainError;
use crate::run::{Environment, Event, Note, RunDir, RunError, Topic, Warning, Which, read_log};
use crate::task::{Task, Weights};

impl<T: Task> Session<T> {
    /// This session at a checkpoint, recorded in the run's folder. `class_list` is the problem with the folder's list of classes.
    pub(super) fn resume(
        self,
        which: Which<'_>,
        class_list: Option<TrainError>,
        environment: &Environment,
    ) -> Result<Self, TrainError> {
        let (restored, class_list) = match (self.restored(which), class_list) {
            // A difference in classes explains the problem better than one in the number of images.
            (Err(TrainError::DataChanged { .. }), Some(error @ TrainError::Data(_))) => {
                return Err(error);
            }
            both => both,
        };
        let mut session = restored?;
        if let Some(error) = class_list {
            session.warn(&Warning::ClassList {
                path: session.run.classes(),
                reason: error.to_string(),
            });
        }
        // Only now is it certain that the run continues with these.
        let (run, plan, splits) = (&session.run, &session.plan, &session.splits);
        record_start(run, plan, splits, environment, &mut session.notes)?;
        Ok(session)
    }

    /// This session in the state of a checkpoint, or at its start if it was killed before the first one.
    fn restored(mut self, which: Which<'_>) -> Result<Self, TrainError> {
        let checkpoints = self.checkpointer();
        let epochs = self.workload().epochs;
        let most = self.plan.train.max_steps;
        let before = |step: u64| match (which, most) {
            // The run is past that end already.
            (_, Some(most)) if step > most => Err(TrainError::PastEnd {
                run: self.run.path().to_owned(),
                step,
                most,
            }),
            (Which::Last, _) => Ok(()),
            // Steps after an older checkpoint are cut off the log, so keep a copy.
            _ => self.run.copy_log().map_err(TrainError::from),
        };
        match checkpoints.restore(which, self.state, before) {
            Ok(restored) => {
                self.state = restored.state;
                self.progress = restored.progress;
                self.resumed = Some((restored.log_offset, self.progress.position.step));
                self.tell_resumed(epochs);
                let warnings = restored.warnings.iter();
                warnings.for_each(|warning| self.warn(warning));
            }
            // Killed before its first checkpoint: starting over loses nothing.
            Err(TrainError::Run(RunError::NoCheckpoint { .. })) if which == Which::Last => {
                let message = start_over(&self.run, epochs)?;
                let device = self.device.device.clone().autodiff();
                let (plan, model, splits) = (&self.plan, &self.model, &self.splits);
                let notes = &mut self.notes;
                self.state = initial_state(plan, model, splits, Weights::OfPlan, &device, notes)?;
                self.resumed = Some((0, 0));
                self.notes.push(Note::new(0, Topic::Resume, message));
            }
            Err(error) => return Err(error),
        }
        Ok(self)
    }

    /// Logs where the run goes on, or that it has ended already.
    fn tell_resumed(&mut self, epochs: u32) {
        let progress = self.progress;
        let (step, epoch) = (progress.position.step, progress.position.epoch);
        let is_out_of_steps = self.plan.last_update().is_some_and(|most| step >= most);
        // At the end an evaluation is still to come, which may be the best one.
        let is_at_end = progress.concluding || is_out_of_steps || epoch >= epochs;
        self.progress.told_stale = progress.is_stale(self.plan.train.patience) && !is_at_end;
        let (topic, message) = if self.progress.told_stale {
            let why = progress.why_stale(T::BEST.title);
            let message = format!("finished already, {why}; with a larger one it goes on");
            // As in the line of the log that the resume cuts off: the run is still a finished one.
            (Topic::Patience, message)
        } else if epoch < epochs {
            let message = format!("resumed in epoch {}, after step {step}", epoch + 1);
            (Topic::Resume, message)
        } else {
            (Topic::Resume, format!("all {epoch} epochs are done"))
        };
        self.notes.push(Note::new(step, topic, message));
    }
}

/// Makes room for a run that starts over, and returns a message; refuses if a finished run has lost its checkpoints.
fn start_over(run: &RunDir, epochs: u32) -> Result<String, TrainError> {
    let logged = match run.log() {
        log if log.exists() => read_log(&log)?.events,
        _ => Vec::new(),
    };
    let finished = |last: u32| {
        let mut logged = logged.iter();
        logged.any(|event| matches!(event, Event::Epoch(epoch) if epoch.epoch >= last))
    };
    // The last epoch is logged after it was saved, so its checkpoint was removed.
    if finished(epochs.saturating_sub(1)) {
        return Err(TrainError::Run(RunError::CheckpointsGone(
            run.path().to_owned(),
        )));
    }
    let mut message = "no checkpoint yet: starting from the beginning".to_owned();
    if finished(0) {
        let kept = run.set_log_aside()?;
        message += &format!("; the log so far is kept as `{}`", kept.display());
    }
    Ok(message)
}
