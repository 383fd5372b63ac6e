//! The loop: `batch -> loss -> gradients -> clip -> optimizer -> ema -> event`, epoch by epoch.

mod reports;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use kvt_attention::{Key, Phase};
use kvt_models::Model;

use super::checkpoint::Checkpointer;
use super::evaluate::{evaluate, upload};
use super::progress::{Best, EpochSums, Progress};
use super::{Recorder, Splits, TrainError};
use crate::config::Plan;
use crate::data::{Batch, Loader};
use crate::recipe::{Accumulator, AdamW, Ema, Gradients, Schedule, cross_entropy, smooth_targets};
use crate::run::{EvalRecord, Listener, Topic};

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
    /// Trains to the end of the plan, or until asked to stop. The state is saved on return.
    ///
    /// # Errors
    /// If data, device, disk or arithmetic fail. What was saved before stays.
    pub fn run(&mut self) -> Result<End, TrainError> {
        while self.progress.position.epoch < self.plan.train.epochs && !self.out_of_steps() {
            if !self.train_epoch()? {
                self.save(false)?;
                self.note(
                    Topic::Stop,
                    "stopped before the end; resume with `--resume`",
                )?;
                return Ok(End::Stopped);
            }
        }
        Ok(End::Finished)
    }

    /// One epoch, or what is left of it. `false` if it was asked to stop within.
    fn train_epoch(&mut self) -> Result<bool, TrainError> {
        let epoch = self.progress.position.epoch;
        let mut loader =
            self.splits
                .train_batches(self.plan, epoch, self.progress.position.batch)?;
        while !self.out_of_steps() {
            if self.stop.load(Ordering::Relaxed) {
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
            if due(
                self.progress.position.step,
                self.plan.checkpoint.every_steps,
            ) {
                self.save(false)?;
            }
        }
        let complete = self.progress.position.batch >= self.splits.train_batch_count(self.plan);
        let last = self.out_of_steps() || epoch + 1 == self.plan.train.epochs;
        let evaluate = last || due(epoch + 1, self.plan.train.eval_every);
        let improved = evaluate && self.evaluate()?;
        if complete {
            self.report_epoch()?;
            let position = &mut self.progress.position;
            position.epoch += 1;
            position.batch = 0;
            self.progress.sums = EpochSums::default();
        }
        if last || improved || due(epoch + 1, self.plan.checkpoint.every_epochs) {
            self.save(improved)?;
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
    /// themselves are the best so far.
    fn evaluate(&mut self) -> Result<bool, TrainError> {
        let position = self.progress.position;
        let mut loader = self.splits.val_batches(self.plan)?;
        let evaluation = evaluate(&self.model.valid(), &mut loader, &self.device, |_| {});
        self.report_skipped(&loader, 0)?;
        let evaluation = evaluation?;
        let loss = evaluation.loss();
        if !loss.is_finite() {
            return Err(TrainError::Diverged {
                step: position.step,
                loss,
            });
        }
        self.report_eval(EvalRecord::VAL, &evaluation)?;
        if let Some(ema) = &self.ema {
            // The unreadable images are those of the pass before, where they were reported.
            let mut loader = self.splits.val_batches(self.plan)?;
            let evaluation = evaluate(ema.model(), &mut loader, &self.device, |_| {})?;
            self.report_eval(EvalRecord::VAL_EMA, &evaluation)?;
        }
        let top1 = evaluation.top1_percent();
        let improved = self.progress.best.is_none_or(|best| top1 > best.top1);
        if improved {
            self.progress.best = Some(Best {
                epoch: position.epoch,
                top1,
            });
        }
        Ok(improved)
    }

    fn save(&mut self, best: bool) -> Result<(), TrainError> {
        self.recorder.sync()?;
        let warnings = self.checkpoints.save(
            &self.model,
            &self.optimizer,
            self.ema.as_ref(),
            &self.progress,
            self.recorder,
            best,
        )?;
        for warning in warnings {
            self.note(Topic::Warning, warning.to_string())?;
        }
        Ok(())
    }

    fn dump(&self, window: &[Batch], update: &Update) -> TrainError {
        let position = self.progress.position;
        let step = position.step + 1;
        let dump = self.checkpoints.dump_path(step);
        let paths = |batch: &Batch| self.splits.train_paths(&batch.indices);
        match self.checkpoints.dump(step, window, paths, &self.model) {
            Ok(()) => TrainError::NotFinite {
                step,
                epoch: position.epoch,
                loss: update.loss,
                grad_norm: update.grad_norm,
                dump,
            },
            Err(error) => error,
        }
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
