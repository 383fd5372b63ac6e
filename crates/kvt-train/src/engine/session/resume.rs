//! Resumes a session from a checkpoint.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use super::Session;
use super::initial::initial_state;
use crate::config::{Plan, diff, load_plan};
use crate::engine::TrainError;
use crate::run::{Event, Note, RunDir, RunError, Topic, Which, forget_judgement, read_log};
use crate::splits::Splits;
use crate::task::{Task, Weights};
use crate::world::World;

impl<T: Task> Session<T> {
    /// The run in the plan's folder at a checkpoint, in the first or only process of a world.
    pub(super) fn resume(
        world: Arc<dyn World>,
        plan: Plan,
        which: Which<'_>,
        generating: &mut dyn FnMut(usize, usize),
    ) -> Result<Self, TrainError> {
        let started = RunDir::open(&plan.run.dir)?;
        let notes = compare_with_started(&started, &plan)?;
        let mut class_list = None;
        let open = |plan: &Plan, size| -> Result<_, TrainError> {
            let (splits, problem) = open_splits(plan, size, &started, generating)?;
            class_list = problem;
            Ok(splits)
        };
        let mut session = Self::initial(world, plan, Weights::OfCheckpoint, open)?;
        // The run gave the warnings about its settings at its start.
        session.note_first(notes, Vec::new());
        let environment = session.take_folder(true)?;
        let (restored, class_list) = match (session.restored(which), class_list) {
            // A difference in classes explains the problem better than one in the number of images.
            (Err(TrainError::DataChanged { .. }), Some(error @ TrainError::Data(_))) => {
                return Err(error);
            }
            both => both,
        };
        let mut session = restored?;
        if let Some(error) = class_list {
            session.warn(format!(
                "`{}` is missing or altered ({error}): it was rewritten from the data, which matches the checkpoint",
                session.run.classes().display()
            ));
        }
        // Only now is it certain that the run continues with these.
        session.record_start(&environment)?;
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
            // Steps after an older checkpoint are cut off the log, so keep a copy. The judgement is of other weights.
            _ => forget_judgement(self.run.path())
                .map_err(TrainError::from)
                .and_then(|()| self.run.copy_log().map(drop).map_err(TrainError::from)),
        };
        match checkpoints.restore(which, self.state, before) {
            Ok((state, saved, warnings)) => {
                self.state = state;
                self.progress = saved.progress;
                self.resumed = Some((saved.log_offset, self.progress.position.step));
                self.tell_resumed(epochs);
                warnings.into_iter().for_each(|warning| self.warn(warning));
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

/// Keeps a copy of the log of a run that starts over, if it has finished epochs, and returns a message; refuses if a finished run has lost
/// its checkpoints.
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
        let kept = run.copy_log()?;
        message += &format!("; the log so far is kept as `{}`", kept.display());
    }
    Ok(message)
}

/// The images of a plan with their own classes, and the problem with the class list of the run, if any. The list may be wrong rather
/// than the data: the checkpoint decides. It does not know names, so as many classes with other names are refused.
fn open_splits(
    plan: &Plan,
    size: (usize, usize),
    started: &RunDir,
    generating: &mut dyn FnMut(usize, usize),
) -> Result<(Splits, Option<TrainError>), TrainError> {
    let (path, classes) = (started.classes(), started.read_classes());
    let splits = match (Splits::open(plan, size, None, generating), &classes) {
        (Ok(splits), Ok(classes)) if splits.classes() == classes => return Ok((splits, None)),
        (splits, _) => splits,
    };
    let problem = match classes {
        Ok(classes) => {
            if let Ok(splits) = &splits {
                refuse_renamed(&path, &classes, splits.classes())?;
            }
            match Splits::open(plan, size, Some(&classes), generating) {
                Ok(_) => TrainError::Run(RunError::Malformed {
                    path,
                    line: 1,
                    reason: "the order of the classes is not that of the data".to_owned(),
                }),
                Err(error) => error.into(),
            }
        }
        Err(error) => error.into(),
    };
    match splits {
        Ok(splits) => Ok((splits, Some(problem))),
        Err(_) => Err(problem),
    }
}

/// Rejects as many classes with other names, and names the first of both lists that the other lacks.
fn refuse_renamed(path: &Path, old: &[String], new: &[String]) -> Result<(), TrainError> {
    let first_not_in = |names: &[String], others: &[String]| {
        let others: HashSet<&String> = others.iter().collect();
        names.iter().find(|name| !others.contains(name)).cloned()
    };
    let is_as_long = old.len() == new.len();
    match (first_not_in(old, new), first_not_in(new, old)) {
        (Some(old), Some(new)) if is_as_long => Err(TrainError::ClassRenamed {
            path: path.to_owned(),
            old,
            new,
        }),
        _ => Ok(()),
    }
}

/// Refuses to resume with a configuration that would change the results; returns a note for each harmless difference.
fn compare_with_started(run: &RunDir, plan: &Plan) -> Result<Vec<Note>, TrainError> {
    let started = load_plan(&run.config(), &[]).map_err(|error| TrainError::RunConfig {
        run: run.path().to_owned(),
        problem: error.to_string(),
    })?;
    let differences = diff(&started, plan).map_err(Box::new)?;
    let refused = differences.iter().filter(|one| !one.is_harmless);
    let refused: Vec<String> = refused.map(|one| format!("  {one}")).collect();
    if !refused.is_empty() {
        return Err(TrainError::ConfigChanged {
            run: run.path().to_owned(),
            differences: refused.join("\n"),
        });
    }
    let messages = differences
        .iter()
        .map(|difference| format!("resumed with another setting: {difference}"));
    let note = |message| Note::new(0, Topic::Resume, message);
    Ok(messages.map(note).collect())
}
