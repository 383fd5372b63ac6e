//! Reports of the loop: updates, evaluations, epochs, unreadable images.

use super::Trainer;
use crate::data::{Skipped, Workers};
use crate::engine::{EpochSums, LogSums, TrainError, Update};
use crate::recipe::Position;
use crate::run::{EpochRecord, EvalRecord, Event, Listener, Metrics, Note, StepRecord, Topic};
use crate::task::{Measured, Signals, Task};

impl<T: Task> Trainer<'_, '_, T> {
    /// Reports an update, and logs it with those before it if a line is due: then there are signals. `position` is the one after
    /// the update, and `one` the sums of it alone.
    pub(super) fn report_step(
        &mut self,
        update: &Update,
        position: Position,
        lr: f64,
        one: LogSums,
        signals: Option<Signals>,
    ) -> Result<(), TrainError> {
        let is_alone = self.processes.world().is_alone();
        let record = |sums: LogSums| StepRecord {
            step: position.step,
            epoch: position.epoch,
            loss: sums.loss / sums.updates as f64,
            lr,
            // The mean over the updates that were made; if none was, the norm is not finite anyway.
            grad_norm: match sums.updates - sums.unmade {
                0 => update.grad_norm,
                made => sums.grad_norm / made as f64,
            },
            images_per_second: sums.images as f64 / sums.seconds,
            data_wait: sums.data_wait / sums.updates as f64,
            metrics: Metrics::default(),
            communication: (!is_alone).then(|| sums.communication / sums.updates as f64),
        };
        self.recorder.progress(&record(one));
        self.progress.log.add(one);
        if let Some(Signals { metrics, warning }) = signals {
            let sums = std::mem::take(&mut self.progress.log);
            let line = StepRecord {
                metrics,
                ..record(sums)
            };
            self.recorder.event(&Event::Step(line))?;
            if let Some(words) = warning
                && !self.progress.told_collapse
            {
                self.progress.told_collapse = true;
                self.note_at(position, Topic::Warning, words)?;
            }
        }
        Ok(())
    }

    /// Logs an update that was not made, and the loss scale after it. `position` is the one after the update.
    pub(super) fn report_unmade(
        &mut self,
        update: &Update,
        position: Position,
    ) -> Result<(), TrainError> {
        let scale = self.state.loss_scale.filter(|_| !update.made);
        let Some(scale) = scale else {
            return Ok(());
        };
        let (norm, scale) = (update.grad_norm, scale.factor());
        self.note_at(
            position,
            Topic::Scale,
            format!("update left out, gradient norm {norm}: the loss scale is halved to {scale}"),
        )
    }

    /// Logs an evaluation; `split` names the evaluated split.
    pub(super) fn report_eval(
        &mut self,
        split: &str,
        measured: Measured,
    ) -> Result<(), TrainError> {
        let position = self.progress.position;
        self.recorder.event(&Event::Eval(EvalRecord {
            epoch: position.epoch,
            step: position.step,
            split: split.to_owned(),
            metrics: measured.metrics,
            images: measured.images as u64,
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
            data_wait_share: sums.data_wait / sums.seconds,
            communication_share: (!self.processes.world().is_alone())
                .then(|| sums.communication / sums.seconds),
        }))?;
        if !self.progress.told_input_bound
            && let Some(words) = input_bound(&sums, self.plan.data.workers)
        {
            self.progress.told_input_bound = true;
            self.note(Topic::Warning, words)?;
        }
        Ok(())
    }

    /// Logs unreadable images of a pass, after `known` ones.
    pub(super) fn report_skipped(
        &mut self,
        skipped: &[Skipped],
        known: usize,
    ) -> Result<(), TrainError> {
        let step = self.progress.position.step;
        for (number, skipped) in (known + 1..).zip(skipped) {
            let reason = format!(
                "{} (unreadable image {number} of this pass)",
                skipped.reason
            );
            let note = Note {
                path: Some(skipped.path.display().to_string()),
                ..Note::new(step, Topic::Skipped, reason)
            };
            self.recorder.event(&Event::Note(note))?;
        }
        Ok(())
    }

    /// Logs a note.
    pub(super) fn note(
        &mut self,
        topic: Topic,
        message: impl Into<String>,
    ) -> Result<(), TrainError> {
        self.note_at(self.progress.position, topic, message)
    }

    /// Logs a note at a position.
    fn note_at(
        &mut self,
        position: Position,
        topic: Topic,
        message: impl Into<String>,
    ) -> Result<(), TrainError> {
        let note = Note::new(position.step, topic, message);
        Ok(self.recorder.event(&Event::Note(note))?)
    }
}

/// A warning if the device waited for images for more than a tenth of an epoch. In a short epoch, start-up dominates, so there is
/// none.
fn input_bound(sums: &EpochSums, workers: Workers) -> Option<String> {
    let share = sums.data_wait / sums.seconds;
    if sums.seconds < 20.0 || share <= 0.1 {
        return None;
    }
    let advice = match workers {
        Workers::Count(0) => "`data.workers = 0` reads them between the updates: leave it out",
        _ => {
            "raise `data.workers` up to the number of cores, pack small files with `kvt data pack`, keep small images in \
             memory with `data.cache`, or read large ones with `data.decode = \"scaled\"`"
        }
    };
    let percent = 100.0 * share;
    Some(format!(
        "input-bound: {percent:.0} % of the time waits for images; {advice}; `kvt bench loader` shows where it goes"
    ))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn an_epoch_that_waits_is_told_what_to_change() {
        let sums = |seconds, data_wait| EpochSums {
            seconds,
            data_wait,
            ..EpochSums::default()
        };
        let words = |sums, workers| input_bound(&sums, workers);
        assert_eq!(words(sums(100.0, 10.0), Workers::Auto), None);
        assert_eq!(words(sums(2.0, 1.0), Workers::Auto), None);
        let text = words(sums(100.0, 25.4), Workers::Count(2)).unwrap();
        assert!(text.starts_with("input-bound: 25 % of the time"), "{text}");
        assert!(text.contains("raise `data.workers`"), "{text}");
        let text = words(sums(100.0, 60.0), Workers::Count(0)).unwrap();
        assert!(text.contains("`data.workers = 0`"), "{text}");
    }
}
