//! The loop: `batch -> loss -> gradients -> clip -> optimizer -> ema -> event`, epoch by epoch.

mod reports;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use kvt_models::Model;
use kvt_ops::{Key, Phase};

use super::checkpoint::Checkpointer;
use super::evaluate::{evaluate, upload};
use super::progress::{Best, EpochSums, Progress};
use super::{Evaluation, Recorder, Splits, TrainError};
use crate::config::Plan;
use crate::data::{Batch, Loader};
use crate::recipe::{Accumulator, AdamW, Ema, Gradients, Schedule, cross_entropy, smooth_targets};
use crate::run::{EvalRecord, Listener, Stage, Topic};

/// Why the loop returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// All epochs, or `train.max_steps`, are done.
    Finished,
    /// Somebody asked it to stop; the state is saved.
    Stopped,
}

/// Everything that training changes, and what it reads.
pub struct Trainer<'a, 'r> {
    /// The validated plan.
    pub plan: &'a Plan,
    /// Where images come from.
    pub splits: &'a Splits,
    /// The device, with autodiff.
    pub device: Device,
    /// The weights.
    pub model: Model,
    /// The optimizer and its moments.
    pub optimizer: AdamW,
    /// The average of the weights, if the plan asks for one.
    pub ema: Option<Ema>,
    /// The learning rate.
    pub schedule: Schedule,
    /// How far the run is.
    pub progress: Progress,
    /// Where the state is saved.
    pub checkpoints: Checkpointer,
    /// Whether the state that is in memory is also the last checkpoint's.
    pub saved: bool,
    /// Who hears of steps and evaluations.
    pub recorder: &'a mut Recorder<'r>,
    /// Set from outside to stop after the current step.
    pub stop: &'a AtomicBool,
}

/// One optimizer update: some micro-batches and what came of them.
struct Update {
    loss: f64,
    grad_norm: f64,
    lr: f64,
    images: usize,
}

impl Trainer<'_, '_> {
    /// Trains to the end of the plan, or until asked to stop. The state is saved on return, and also before an error
    /// of the data, which somebody may mend and then go on.
    ///
    /// # Errors
    /// If data, device, disk or arithmetic fail. What was saved before stays.
    pub fn run(&mut self) -> Result<End, TrainError> {
        match self.train() {
            Err(error) if error.leaves_the_state_whole() => Err(self.save_before(error)),
            end => end,
        }
    }

    fn train(&mut self) -> Result<End, TrainError> {
        loop {
            let go_on = if self.progress.concluding {
                self.conclude()?
            } else if self.progress.position.epoch < self.plan.train.epochs && !self.out_of_steps()
            {
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
        let epoch = self.progress.position.epoch;
        let mut loader =
            self.splits
                .train_batches(self.plan, epoch, self.progress.position.batch)?;
        while !self.out_of_steps() {
            if self.is_stopped() {
                return Ok(false);
            }
            let start = Instant::now();
            let (batches, data_wait) = self.next_window(&mut loader)?;
            if batches.is_empty() {
                break;
            }
            let count = batches.len();
            let update = self.update(&batches)?;

            let position = &mut self.progress.position;
            position.step += 1;
            position.batch += count;
            let seconds = start.elapsed().as_secs_f64();
            let sums = &mut self.progress.sums;
            sums.loss += update.loss * update.images as f64;
            sums.images += update.images as u64;
            sums.seconds += seconds;
            sums.lr = update.lr;
            self.report_step(&update, seconds, data_wait)?;
            let position = self.progress.position;
            if due(position.step, self.plan.checkpoint.every_steps) {
                let count = self.splits.train_batch_count(self.plan);
                self.progress.concluding = self.out_of_steps() || position.batch >= count;
                self.save(self.stage(), false)?;
            }
        }
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
        let last = self.out_of_steps() || epoch + 1 == self.plan.train.epochs;
        let save = last || due(epoch + 1, self.plan.checkpoint.every_epochs);
        let mut improved = false;
        if last || due(epoch + 1, self.plan.train.eval_every) {
            if save && !self.saved {
                self.save(Stage::BeforeEval, false)?;
            }
            improved = match self.evaluate()? {
                Some(improved) => improved,
                None => return Ok(false),
            };
        }
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

    /// The micro-batches of the next update, and the seconds spent waiting for them.
    fn next_window(&mut self, loader: &mut Loader) -> Result<(Vec<Batch>, f64), TrainError> {
        let start = Instant::now();
        let known = loader.skipped().len();
        let window: Result<Vec<Batch>, _> = loader.take(self.plan.train.accumulate).collect();
        let waited = start.elapsed().as_secs_f64();
        self.report_skipped(loader, known)?;
        Ok((window?, waited))
    }

    /// Forward, backward, and one step of the optimizer.
    fn update(&mut self, window: &[Batch]) -> Result<Update, TrainError> {
        let position = self.progress.position;
        let key = Key::new(self.plan.seed)
            .named("forward")
            .child(position.epoch.into());
        let lr = self.schedule.lr(position.step, position.epoch);
        let mut accumulator = Accumulator::default();
        let mut losses = Vec::with_capacity(window.len());
        let images: usize = window.iter().map(|batch| batch.labels.len()).sum();
        for (index, batch) in window.iter().enumerate() {
            let phase = Phase::Train(key.child((position.batch + index) as u64));
            let loss = self.loss(batch, phase);
            let gradients = Gradients::take(loss.backward(), &self.model);
            accumulator.add(gradients, batch.labels.len());
            losses.push(loss.inner() * (batch.labels.len() as f64 / images as f64));
        }
        let gradients = accumulator.finish();
        let norm = gradients.as_ref().and_then(Gradients::norm);
        let (Some(gradients), Some(norm)) = (gradients, norm) else {
            return Err(TrainError::Execution(
                "no parameter got a gradient".to_owned(),
            ));
        };
        losses.push(norm);
        // The one place where the host waits for the device.
        let values = read(Tensor::cat(losses, 0))?;
        let (grad_norm, losses) = match values.split_last() {
            Some((norm, losses)) => (*norm, losses),
            None => (f64::NAN, &[][..]),
        };
        let loss = losses.iter().sum();
        let update = Update {
            loss,
            grad_norm,
            lr,
            images,
        };
        if !(loss.is_finite() && grad_norm.is_finite()) {
            return Err(self.dump(window, &update));
        }
        let gradients = match self.plan.optim.clip_norm {
            max if max > 0.0 => gradients.clip(grad_norm, max),
            _ => gradients,
        };
        let model = self.model.clone();
        self.saved = false;
        self.model = self.optimizer.step(model, gradients, lr);
        self.ema = self.ema.take().map(|ema| ema.update(&self.model));
        Ok(update)
    }

    /// The mean loss of a micro-batch.
    fn loss(&self, batch: &Batch, phase: Phase) -> Tensor<1> {
        let images = upload(batch, &self.device);
        let logits = self.model.forward(images, phase);
        let classes = logits.dims()[1];
        let smoothing = self.plan.loss.label_smoothing;
        let targets = smooth_targets(&batch.labels, classes, smoothing, &self.device);
        cross_entropy(logits, targets)
    }

    /// Evaluates on the validation split, the average of the weights too; whether the weights
    /// themselves are the best so far. `None` if it was asked to stop within.
    fn evaluate(&mut self) -> Result<Option<bool>, TrainError> {
        let position = self.progress.position;
        let mut loader = self.splits.val_batches(self.plan)?;
        let evaluation = self.pass(&self.model.valid(), &mut loader);
        self.report_skipped(&loader, 0)?;
        let Some(evaluation) = evaluation? else {
            return Ok(None);
        };
        let loss = evaluation.loss();
        if !loss.is_finite() {
            return Err(TrainError::Diverged {
                step: position.step,
                loss,
            });
        }
        let average = match &self.ema {
            Some(ema) => {
                // The unreadable images are those of the pass before, where they were reported.
                let mut loader = self.splits.val_batches(self.plan)?;
                match self.pass(ema.model(), &mut loader)? {
                    Some(average) => Some(average),
                    None => return Ok(None),
                }
            }
            None => None,
        };
        self.report_eval(EvalRecord::VAL, &evaluation)?;
        if let Some(average) = average {
            self.report_eval(EvalRecord::VAL_EMA, &average)?;
        }
        let top1 = evaluation.top1_percent();
        let improved = self.progress.best.is_none_or(|best| top1 > best.top1);
        if improved {
            self.progress.best = Some(Best {
                epoch: position.epoch,
                step: Some(position.step),
                top1,
            });
        }
        Ok(Some(improved))
    }

    /// One pass over a split; `None` if it was asked to stop within.
    fn pass(&self, model: &Model, loader: &mut Loader) -> Result<Option<Evaluation>, TrainError> {
        let batches = loader.take_while(|_| !self.is_stopped());
        let evaluation = evaluate(model, batches, &self.device, |_| {});
        if self.is_stopped() {
            return Ok(None);
        }
        evaluation.map(Some)
    }

    fn save(&mut self, stage: Stage, best: bool) -> Result<(), TrainError> {
        self.recorder.sync()?;
        let warnings = self.checkpoints.save(
            &self.model,
            &self.optimizer,
            self.ema.as_ref(),
            &self.progress,
            self.recorder,
            (stage, best),
        )?;
        self.saved = true;
        for warning in warnings {
            self.note(Topic::Warning, warning.to_string())?;
        }
        Ok(())
    }

    /// What a checkpoint of the state as it is now would be.
    fn stage(&self) -> Stage {
        if self.progress.concluding {
            Stage::BeforeEval
        } else {
            Stage::Done
        }
    }

    /// Saves the state before an error ends the run. The error stays the first thing that is said.
    fn save_before(&mut self, error: TrainError) -> TrainError {
        // Mending the data may change the sizes of files.
        self.checkpoints.forget_sizes();
        let saved = self.save(self.stage(), false);
        TrainError::Stopped {
            step: self.progress.position.step,
            saved: match saved {
                Ok(()) => "is saved; `--resume` goes on from there".to_owned(),
                Err(error) => format!("could not be saved ({error})"),
            },
            cause: Box::new(error),
        }
    }

    fn dump(&self, window: &[Batch], update: &Update) -> TrainError {
        let position = self.progress.position;
        let step = position.step + 1;
        let paths = |batch: &Batch| self.splits.train_paths(&batch.indices);
        let dump = match self.checkpoints.dump(step, window, paths, &self.model) {
            Ok(folder) => format!(
                "the batch and the weights before it are in `{}`",
                folder.display()
            ),
            Err(error) => format!("the batch and the weights before it could not be kept: {error}"),
        };
        TrainError::NotFinite {
            step,
            epoch: position.epoch,
            loss: update.loss,
            grad_norm: update.grad_norm,
            dump,
        }
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn out_of_steps(&self) -> bool {
        self.plan
            .train
            .max_steps
            .is_some_and(|max| self.progress.position.step >= max)
    }
}

/// Whether the `count`-th time is one of every `every`; 0 means never.
fn due(count: impl Into<u64>, every: impl Into<u64>) -> bool {
    let (count, every) = (count.into(), every.into());
    every > 0 && count.is_multiple_of(every)
}

fn read(values: Tensor<1>) -> Result<Vec<f64>, TrainError> {
    let data = values
        .try_into_data()
        .map_err(|e| TrainError::Execution(e.to_string()))?;
    data.convert::<f64>()
        .try_to_vec()
        .map_err(|e| TrainError::Execution(format!("{e:?}")))
}
