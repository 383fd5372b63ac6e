//! The loop: `batch -> loss -> gradients -> clip -> optimizer -> ema -> event`, epoch by epoch. The [`Task`] defines the training
//! objective and the evaluation; one update is [`TrainState::start`] in `engine/update.rs`, whose result the loop may
//! receive one update late ([`Late`]).

mod analysis;
mod evaluation;
mod feed;
mod job;
mod late;
mod reports;
mod saving;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use burn::tensor::Device;

use self::feed::Feed;
use self::late::Step;

pub use self::late::Late;
use super::checkpoint::Checkpointer;
use super::progress::{EpochSums, Progress};
use super::{Processes, Recorder, Started, TrainError, TrainState, UpdateError, UpdateSettings};
use crate::config::Plan;
use crate::data::Skipped;
use crate::recipe::{Rates, Schedule};
use crate::run::{Topic, forget_judgement};
use crate::splits::Splits;
use crate::task::Task;
use kvt_data::text::short;

/// Why the loop returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// All epochs, or `train.max_steps`, are done, or `train.patience` is over.
    Finished,
    /// The loop was asked to stop, or `train.max_hours` are over; the state is saved.
    Stopped,
}

/// A run in progress: its inputs, its state, and its listeners.
pub struct Trainer<'a, 'r, T: Task> {
    /// The validated plan.
    pub plan: &'a Plan,
    /// The source of images.
    pub splits: &'a Splits,
    /// The device, with autodiff.
    pub device: Device,
    /// The state that updates change: the weights and all that depends on them.
    pub state: TrainState<T>,
    /// Learning rate and weight decay.
    pub schedule: Schedule,
    /// How far the run has come.
    pub progress: Progress,
    /// Where the state is saved.
    pub checkpoints: Checkpointer,
    /// Whether the state in memory equals the last checkpoint.
    pub saved: bool,
    /// The processes of the job.
    pub processes: Processes,
    /// Lets the device work on an update while the host reads the result of the previous one.
    pub late: Late,
    /// The unreadable images of the epoch that the processes have exchanged.
    pub skipped: Vec<Skipped>,
    /// Receives steps and evaluations.
    pub recorder: &'a mut Recorder<'r>,
    /// Set from outside to stop after the current step.
    pub stop: &'a AtomicBool,
    /// When `train.max_hours` are over.
    pub deadline: Option<Instant>,
}

impl<T: Task> Trainer<'_, '_, T> {
    /// Trains to the end of the plan, or until asked to stop. The state is saved on return, and also before a data error, so that
    /// the run can be resumed once the data is repaired.
    ///
    /// # Errors
    /// If data, device, disk or arithmetic fail. State saved earlier stays.
    pub fn run(&mut self) -> Result<End, TrainError> {
        let end = self.train();
        // The error of a pending update came before whatever ended the training.
        match self.settle().and(end) {
            Err(error) if error.leaves_the_state_whole() => Err(self.save_before(error)),
            end => end,
        }
    }

    fn train(&mut self) -> Result<End, TrainError> {
        // A run that has ended keeps the judgement of its weights.
        let is_over = self.is_at_end() || self.is_stale();
        if (self.progress.concluding || !is_over) && self.processes.world().is_first() {
            forget_judgement(self.checkpoints.run().path())?;
        }
        loop {
            let go_on = if self.progress.concluding {
                self.conclude()?
            } else if self.is_at_end() {
                return Ok(End::Finished);
            } else if self.is_stale() {
                self.tell_stale()?;
                return Ok(End::Finished);
            } else {
                self.train_epoch()?
            };
            if !go_on {
                if !self.saved {
                    self.save(false)?;
                }
                self.note(
                    Topic::Stop,
                    "stopped before the end; resume with `--resume`",
                )?;
                return Ok(End::Stopped);
            }
        }
    }

    /// The remaining updates of one epoch. `false` if it was stopped meanwhile.
    fn train_epoch(&mut self) -> Result<bool, TrainError> {
        let world = self.processes.world();
        let own = self.batches(world.rank(), world.size())?;
        let mut feed = Feed::new(own, self.device.clone());
        let batches = self.splits.train_batch_count(self.plan);
        self.skipped.clear();
        self.late.restart_clock();
        while !self.out_of_steps() {
            if self.is_stopped()? || self.is_out_of_time()? {
                self.settle()?;
                return Ok(false);
            }
            let position = self.progress.position;
            // Not what is left in the feed: one of several processes may run out before the others.
            let left = batches.saturating_sub(position.batch);
            if left == 0 {
                break;
            }
            let (step, epoch, plan) = (position.step, position.epoch, self.plan);
            let lr = self.schedule.lr(step, epoch);
            let weight_decay = plan.optim.weight_decay;
            let weight_decay = self.schedule.weight_decay(weight_decay, step, epoch);
            let count = plan.train.accumulate.min(left);
            let started = self.update(&mut feed, Rates { lr, weight_decay }, count)?;
            self.progress.position.step += 1;
            self.progress.position.batch += count;
            let is_known = matches!(started, Started::Done(_));
            let signals = self.signals(is_known)?;
            self.late.step = Some(Step {
                started,
                before: position,
                after: self.progress.position,
                count,
                lr,
                data_wait: feed.waited(),
                communication: self.processes.waited(),
                signals,
            });
            if is_known {
                self.settle()?;
            }
            // The update with the last of these images is counted, so that the saved weights and position are consistent. A single
            // loader counts its own images.
            self.refuse_more(&self.skipped)?;
            let position = self.progress.position;
            if due(position.step, self.plan.checkpoint.every_steps) {
                self.settle()?;
                self.progress.concluding =
                    self.out_of_steps() || position.batch >= batches || self.evaluates_within();
                self.save(false)?;
                self.late.restart_clock();
            }
            if self.evaluates_within() {
                break;
            }
        }
        self.settle()?;
        self.progress.concluding = true;
        Ok(true)
    }

    /// The work after the updates of an epoch, of a run that ends within one, or up to an evaluation within one: evaluation, log
    /// and checkpoint. `false` if it was stopped meanwhile; it then starts again when the run is resumed.
    ///
    /// If a checkpoint is due, it is also written before the evaluation, which may take long and fail.
    fn conclude(&mut self) -> Result<bool, TrainError> {
        let epoch = self.progress.position.epoch;
        let complete = self.progress.position.batch >= self.splits.train_batch_count(self.plan);
        let within = self.evaluates_within();
        if !complete && !self.out_of_steps() && !within {
            // Resumed with a later end.
            self.progress.concluding = false;
            return Ok(true);
        }
        let last = self.out_of_steps() || epoch + 1 == self.epochs();
        let every = self.plan.checkpoint.every_epochs;
        let save = last || complete && due(epoch + 1, every) || within && every > 0;
        let evaluates = last || within || complete && due(epoch + 1, self.plan.train.eval_every);
        let analyzes = complete && due(epoch + 1, self.plan.analysis.every);
        if (evaluates || analyzes) && save && !self.saved {
            self.save(false)?;
        }
        // Layers are logged only after the evaluation is done, since both start again if it is stopped.
        let layers = match analyzes.then(|| self.analyze()).transpose()? {
            Some(None) => return Ok(false),
            layers => layers.flatten().unwrap_or_default(),
        };
        let improved = match evaluates.then(|| self.evaluate()).transpose()? {
            Some(None) => return Ok(false),
            improved => improved.flatten().unwrap_or_default(),
        };
        self.report_layers(layers)?;
        // The last epoch of a run measured in updates counts, though it may be a part.
        if complete || self.plan.updates() == Some(self.progress.position.step) {
            self.report_epoch()?;
        }
        if complete {
            let position = &mut self.progress.position;
            position.epoch += 1;
            position.batch = 0;
            self.progress.sums = EpochSums::default();
        }
        self.progress.concluding = false;
        self.saved = false;
        if save || improved || self.is_stale() {
            self.save(improved)?;
        }
        Ok(true)
    }

    /// One update of the weights, of `count` micro-batches of all processes. The previous update is settled once the device works on
    /// this one.
    fn update(
        &mut self,
        feed: &mut Feed<T::Target>,
        rates: Rates,
        count: usize,
    ) -> Result<Started, TrainError> {
        let at = self.progress.position;
        let settings = UpdateSettings {
            seed: self.plan.seed,
            rates,
            clip: self.plan.optim.clip(),
            ema_decay: self.plan.ema.decay_after(at.step),
        };
        let known = feed.skipped().len();
        let own = self.plan.train.accumulate / self.processes.world().size();
        let ends = self.is_last(at.step + 1) || self.evaluates_after(at.step + 1);
        let window = feed.window(own, !ends);
        let processes = &self.processes;
        let reader = self.late.reader.as_ref();
        let started = self.state.start(processes, window, at, settings, reader);
        self.settle()?;
        self.pass_over(feed.skipped(), known)?;
        let started = started.map_err(|error| self.failed(error, count))?;
        self.saved = false;
        Ok(started)
    }

    /// The error of an update of `count` micro-batches from the current position on.
    fn failed(&self, error: UpdateError, count: usize) -> TrainError {
        match error {
            UpdateError::NotFinite(update) => self.not_finite(&update, count),
            // Each update is settled before the next one.
            UpdateError::Refused(_) => TrainError::Execution(error.to_string()),
            UpdateError::Failed(error) => *error,
        }
    }

    /// Whether any process was asked to stop.
    fn is_stopped(&self) -> Result<bool, TrainError> {
        Ok(self.processes.any(self.stop.load(Ordering::Relaxed))?)
    }

    /// Whether `train.max_hours` are over in any process, and says so. An evaluation that is due comes first.
    fn is_out_of_time(&mut self) -> Result<bool, TrainError> {
        let Some(hours) = self.plan.train.max_hours else {
            return Ok(false);
        };
        let is_over = self.deadline.is_some_and(|end| Instant::now() >= end);
        let is_over = self.processes.any(is_over)?;
        if is_over {
            let hours = short(hours);
            let words = format!("`train.max_hours`, {hours}, is over: the run stops");
            self.note(Topic::Warning, words)?;
        }
        Ok(is_over)
    }

    /// Whether all epochs or updates are done.
    fn is_at_end(&self) -> bool {
        self.progress.position.epoch >= self.epochs() || self.out_of_steps()
    }

    fn out_of_steps(&self) -> bool {
        self.is_last(self.progress.position.step)
    }

    /// Whether the run ends after this number of updates.
    fn is_last(&self, steps: u64) -> bool {
        self.plan.last_update().is_some_and(|max| steps >= max)
    }

    /// Whether an evaluation is due after the last update, wherever in its epoch.
    fn evaluates_within(&self) -> bool {
        self.evaluates_after(self.progress.position.step)
    }

    /// Whether `train.eval_every_updates` asks for an evaluation after this number of updates.
    fn evaluates_after(&self, steps: u64) -> bool {
        due(steps, self.plan.train.eval_every_updates)
    }

    /// Epochs of the whole run.
    fn epochs(&self) -> u32 {
        let updates = self.splits.updates_per_epoch(self.plan);
        self.plan.epochs_of(updates)
    }
}

/// Whether `count` is a multiple of `every`; 0 means never.
fn due(count: impl Into<u64>, every: impl Into<u64>) -> bool {
    let (count, every) = (count.into(), every.into());
    every > 0 && count.is_multiple_of(every)
}
