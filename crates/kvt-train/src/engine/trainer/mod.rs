//! The loop: `batch -> loss -> gradients -> clip -> optimizer -> ema -> event`, epoch by epoch. What is trained and how it
//! is judged is the [`Task`]'s; one update is [`TrainState::start`], of which the loop may hear one update late ([`Late`]).

mod analysis;
mod evaluation;
mod feed;
mod job;
mod late;
mod reports;
mod saving;

use std::sync::atomic::{AtomicBool, Ordering};

use burn::tensor::Device;

use self::feed::Feed;
use self::late::Step;

pub use self::late::Late;
use super::checkpoint::Checkpointer;
use super::progress::{EpochSums, Progress};
use super::{Processes, Recorder, Started, TrainError, TrainState, UpdateError, UpdateSettings};
use crate::config::Plan;
use crate::data::{Skipped, Splits};
use crate::recipe::{Rates, Schedule};
use crate::run::{Stage, Topic};
use crate::task::Task;

/// Why the loop returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// All epochs, or `train.max_steps`, are done.
    Finished,
    /// Somebody asked it to stop; the state is saved.
    Stopped,
}

/// A run on its way: what it reads, what it changes, who hears of it.
pub struct Trainer<'a, 'r, T: Task> {
    /// The validated plan.
    pub plan: &'a Plan,
    /// Where images come from.
    pub splits: &'a Splits,
    /// The device, with autodiff.
    pub device: Device,
    /// What updates change: the weights and all that follows them.
    pub state: TrainState<T>,
    /// Learning rate and weight decay.
    pub schedule: Schedule,
    /// How far the run is.
    pub progress: Progress,
    /// Where the state is saved.
    pub checkpoints: Checkpointer,
    /// Whether the state that is in memory is also the last checkpoint's.
    pub saved: bool,
    /// The processes of the job.
    pub processes: Processes,
    /// What lets the device work at an update while the host reads what came of the one before.
    pub late: Late,
    /// The unreadable images of the epoch that the processes have told each other of.
    pub skipped: Vec<Skipped>,
    /// Who hears of steps and evaluations.
    pub recorder: &'a mut Recorder<'r>,
    /// Set from outside to stop after the current step.
    pub stop: &'a AtomicBool,
}

impl<T: Task> Trainer<'_, '_, T> {
    /// Trains to the end of the plan, or until asked to stop. The state is saved on return, and also before an error
    /// of the data, which somebody may mend and then go on.
    ///
    /// # Errors
    /// If data, device, disk or arithmetic fail. What was saved before stays.
    pub fn run(&mut self) -> Result<End, TrainError> {
        let end = self.train();
        // An update on its way went wrong before whatever ended the training.
        match self.settle().and(end) {
            Err(error) if error.leaves_the_state_whole() => Err(self.save_before(error)),
            end => end,
        }
    }

    fn train(&mut self) -> Result<End, TrainError> {
        loop {
            let go_on = if self.progress.concluding {
                self.conclude()?
            } else if self.progress.position.epoch < self.plan.epochs() && !self.out_of_steps() {
                self.train_epoch()?
            } else {
                return Ok(End::Finished);
            };
            if !go_on {
                if !self.saved {
                    self.save(self.stage(), false)?;
                }
                self.note(
                    Topic::Stop,
                    "stopped before the end; resume with `--resume`",
                )?;
                return Ok(End::Stopped);
            }
        }
    }

    /// The updates of one epoch, or what is left of them. `false` if it was asked to stop within.
    fn train_epoch(&mut self) -> Result<bool, TrainError> {
        let mut feed = Feed::new(self.own_batches()?, self.device.clone());
        self.skipped.clear();
        self.late.restart_clock();
        while !self.out_of_steps() {
            if self.is_stopped()? {
                self.settle()?;
                return Ok(false);
            }
            if self.is_at_end(&mut feed) {
                break;
            }
            let position = self.progress.position;
            let (step, epoch, plan) = (position.step, position.epoch, self.plan);
            let lr = self.schedule.lr(step, epoch);
            let weight_decay = plan.optim.weight_decay;
            let weight_decay = self.schedule.weight_decay(weight_decay, step, epoch);
            let (started, count) = self.update(&mut feed, Rates { lr, weight_decay })?;
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
            self.refuse_skipped()?;
            let position = self.progress.position;
            if due(position.step, self.plan.checkpoint.every_steps) {
                self.settle()?;
                let count = self.splits.train_batch_count(self.plan);
                self.progress.concluding = self.out_of_steps() || position.batch >= count;
                self.save(self.stage(), false)?;
                self.late.restart_clock();
            }
        }
        self.settle()?;
        self.progress.concluding = true;
        Ok(true)
    }

    /// What follows the updates of an epoch, or of a run that `train.max_steps` ends within one: evaluation, log and
    /// checkpoint. `false` if it was asked to stop within; it then begins again when the run is resumed.
    ///
    /// Where a checkpoint is due it is also written before the evaluation, which may take long and fail.
    fn conclude(&mut self) -> Result<bool, TrainError> {
        let epoch = self.progress.position.epoch;
        let complete = self.progress.position.batch >= self.splits.train_batch_count(self.plan);
        if !complete && !self.out_of_steps() {
            // Resumed with a later end.
            self.progress.concluding = false;
            return Ok(true);
        }
        let last = self.out_of_steps() || epoch + 1 == self.plan.epochs();
        let save = last || due(epoch + 1, self.plan.checkpoint.every_epochs);
        let mut improved = false;
        let evaluates = last || due(epoch + 1, self.plan.train.eval_every);
        let analyzes = complete && due(epoch + 1, self.plan.analysis.every);
        if (evaluates || analyzes) && save && !self.saved {
            self.save(Stage::BeforeEval, false)?;
        }
        // Nothing of it is logged before the evaluation is done, since both begin again if that is stopped.
        let layers = match analyzes {
            true => match self.analyze()? {
                Some(layers) => layers,
                None => return Ok(false),
            },
            false => Vec::new(),
        };
        if evaluates {
            improved = match self.evaluate()? {
                Some(improved) => improved,
                None => return Ok(false),
            };
        }
        self.report_layers(layers)?;
        if complete {
            self.report_epoch()?;
            let position = &mut self.progress.position;
            position.epoch += 1;
            position.batch = 0;
            self.progress.sums = EpochSums::default();
        }
        self.progress.concluding = false;
        self.saved = false;
        if save || improved {
            self.save(Stage::Done, improved)?;
        }
        Ok(true)
    }

    /// One update of the weights, and the number of its micro-batches. The one before it is settled once the device works at
    /// this one.
    fn update(
        &mut self,
        feed: &mut Feed<T::Target>,
        rates: Rates,
    ) -> Result<(Started, usize), TrainError> {
        let at = self.progress.position;
        let settings = UpdateSettings {
            seed: self.plan.seed,
            rates,
            clip: self.plan.optim.clip(),
            ema_decay: self.plan.ema.decay_after(at.step),
        };
        let known = feed.skipped().len();
        let own = self.plan.train.accumulate / self.processes.world().size();
        let mut window = feed.window(own, !self.is_last(at.step + 1));
        let processes = &self.processes;
        let reader = self.late.reader.as_ref();
        let started = self
            .state
            .start(processes, window.by_ref(), at, settings, reader);
        let count = self.micro_batches(at, window.taken);
        self.settle()?;
        self.pass_over(feed.skipped(), known)?;
        match started {
            Ok(started) => {
                self.saved = false;
                Ok((started, count))
            }
            Err(error) => Err(self.failed(error, count)),
        }
    }

    /// The error of an update of `count` micro-batches from the present place on.
    fn failed(&self, error: UpdateError, count: usize) -> TrainError {
        match error {
            UpdateError::Data(error) => error.into(),
            UpdateError::NotFinite(update) => self.not_finite(&update, count),
            // Each update is settled before the next one.
            UpdateError::Refused(_) => TrainError::Execution(error.to_string()),
            UpdateError::Execution(reason) => TrainError::Execution(reason),
            UpdateError::NoGradient => TrainError::NoGradient,
            UpdateError::Job(failure) => TrainError::Job(failure),
            UpdateError::World(error) => error.into(),
        }
    }

    /// Whether somebody asked any process to stop.
    fn is_stopped(&self) -> Result<bool, TrainError> {
        Ok(self.processes.any(self.stop.load(Ordering::Relaxed))?)
    }

    fn out_of_steps(&self) -> bool {
        self.is_last(self.progress.position.step)
    }

    /// Whether the run ends with that many updates.
    fn is_last(&self, steps: u64) -> bool {
        self.plan.train.max_steps.is_some_and(|max| steps >= max)
    }
}

/// Whether the `count`-th time is one of every `every`; 0 means never.
fn due(count: impl Into<u64>, every: impl Into<u64>) -> bool {
    let (count, every) = (count.into(), every.into());
    every > 0 && count.is_multiple_of(every)
}
