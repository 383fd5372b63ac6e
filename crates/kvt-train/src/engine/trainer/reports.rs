//! What the loop tells of itself: updates, evaluations, epochs, unreadable images.

use super::{Trainer, Update, due};
use crate::data::Loader;
use crate::engine::{Evaluation, TrainError};
use crate::run::{EpochRecord, EvalRecord, Event, Listener, Note, StepRecord, Topic};

impl Trainer<'_, '_> {
    /// Logs an update, if it is one of those to be logged.
    pub(super) fn report_step(
        &mut self,
        update: &Update,
        seconds: f64,
        data_wait: f64,
    ) -> Result<(), TrainError> {
        let position = self.progress.position;
        if !due(position.step, self.plan.log.every_steps) {
            return Ok(());
        }
        self.recorder.event(&Event::Step(StepRecord {
            step: position.step,
            epoch: position.epoch,
            loss: update.loss,
            lr: update.lr,
            grad_norm: update.grad_norm,
            images_per_second: update.images as f64 / seconds,
            data_wait,
        }))?;
        Ok(())
    }

    /// Logs an evaluation; `split` is what was evaluated.
    pub(super) fn report_eval(
        &mut self,
        split: &str,
        evaluation: &Evaluation,
    ) -> Result<(), TrainError> {
        let position = self.progress.position;
        self.recorder.event(&Event::Eval(EvalRecord {
            epoch: position.epoch,
            step: position.step,
            split: split.to_owned(),
            loss: evaluation.loss(),
            top1: evaluation.top1_percent(),
            top5: evaluation.top5_percent(),
            images: evaluation.images as u64,
        }))?;
        Ok(())
    }

    /// Logs a finished epoch.
    pub(super) fn report_epoch(&mut self) -> Result<(), TrainError> {
        let (position, sums) = (self.progress.position, self.progress.sums);
        self.recorder.event(&Event::Epoch(EpochRecord {
            epoch: position.epoch,
            step: position.step,
            train_loss: sums.loss / sums.images as f64,
            lr: sums.lr,
            seconds: sums.seconds,
            images_per_second: sums.images as f64 / sums.seconds,
        }))?;
        Ok(())
    }

    /// Logs the unreadable images that a loader met after the first `known`.
    pub(super) fn report_skipped(
        &mut self,
        loader: &Loader,
        known: usize,
    ) -> Result<(), TrainError> {
        let step = self.progress.position.step;
        for (count, skipped) in loader.skipped().iter().enumerate().skip(known) {
            let reason = format!(
                "{} (unreadable image {} of this pass)",
                skipped.reason,
                count + 1
            );
            let note = Note::skipped(step, &skipped.path, reason);
            self.recorder.event(&Event::Note(note))?;
        }
        Ok(())
    }

    /// Logs a line for people.
    pub(super) fn note(
        &mut self,
        topic: Topic,
        message: impl Into<String>,
    ) -> Result<(), TrainError> {
        let note = Note::new(self.progress.position.step, topic, message);
        Ok(self.recorder.event(&Event::Note(note))?)
    }
}
