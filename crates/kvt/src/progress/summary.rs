//! The results of a run and the next commands: the last lines of `kvt train` and `kvt finetune`.

use std::path::Path;
use std::time::Instant;

use super::{duration, value};
use kvt_data::text::{counted, shell};
use kvt_tools::report::interval_of;
use kvt_train::engine::{End, Workload};
use kvt_train::run::{Event, Listener, Metric, RunError, StepRecord};
use kvt_train::task::TaskKind;

/// The best and the last recorded evaluation.
#[derive(Clone, Debug)]
pub(super) struct Tally {
    workload: Workload,
    /// Epoch from 0, and value.
    pub(super) best: Option<(u32, f64)>,
    last: Option<(u32, f64)>,
    /// Images of an evaluation.
    images: u64,
    step: u64,
    epochs: u32,
}

impl Tally {
    pub(super) fn new(workload: Workload) -> Self {
        Self {
            best: workload.best,
            last: None,
            images: workload.eval_images as u64,
            step: workload.done,
            epochs: 0,
            workload,
        }
    }

    pub(super) fn hear(&mut self, event: &Event) {
        let metric = self.workload.best_metric;
        match event {
            Event::Eval(eval) if eval.split == self.workload.reported => {
                let Some(value) = eval.metrics.get(metric.name) else {
                    return;
                };
                self.images = eval.images;
                self.last = Some((eval.epoch, value));
                let is_best = self.best.is_none_or(|best| metric.improves(value, best.1));
                if is_best {
                    self.best = self.last;
                }
            }
            Event::Epoch(_) => self.epochs += 1,
            _ => {}
        }
    }

    /// A line for an evaluation.
    fn line(&self, what: &str, found: Option<(u32, f64)>) -> Option<String> {
        let metric = self.workload.best_metric;
        let (epoch, number) = found?;
        // Of shares of images; the mean of classes over pixels has no such interval.
        let is_of_images = [Metric::TOP1, Metric::KNN].contains(&metric);
        let interval = if is_of_images {
            interval_of(number, self.images as usize)
        } else {
            String::new()
        };
        Some(format!(
            "  {what}  {} {}{interval} after epoch {}",
            metric.title,
            value(metric, number),
            epoch + 1
        ))
    }

    /// The lines.
    pub(super) fn summary(&self, end: End, seconds: f64, dir: &Path, task: TaskKind) -> String {
        let run = shell(&dir.display().to_string());
        let Workload { steps, .. } = self.workload;
        if end == End::Stopped {
            return format!(
                "stopped after step {} of {steps}; everything is saved in `{}`: add `--resume` to the same command to continue",
                self.step,
                dir.display()
            );
        }
        let is_done_before = self.step == self.workload.done;
        let epochs = match self.epochs {
            // If `train.max_steps` is less than one epoch.
            0 => format!("{} updates", self.step - self.workload.done),
            epochs => counted(epochs, "epoch"),
        };
        let mut lines = vec![if is_done_before {
            "finished before: there was nothing left to train".to_owned()
        } else {
            format!("finished: {epochs} in {}", duration(seconds))
        }];
        lines.extend(self.line("best", self.best));
        lines.extend(self.line("last", self.last));
        lines.push(format!(
            "  run   `{}`: checkpoints (`best`, `last`), log.jsonl, epochs.csv",
            dir.display()
        ));
        let next = match task {
            TaskKind::MultiLabel => ["eval --run RUN --per-class", "predict --run RUN IMAGE..."],
            TaskKind::Classify => ["eval --run RUN", "predict --run RUN IMAGE..."],
            TaskKind::Segment | TaskKind::Detect => [
                "eval --run RUN --per-class",
                "predict --run RUN --out DIR IMAGE...",
            ],
            TaskKind::Dino => ["probe --run RUN", "attention-map --run RUN IMAGE..."],
        };
        for (number, command) in next.iter().chain(&["report RUN"]).enumerate() {
            let before = if number == 0 { "next" } else { "    " };
            lines.push(format!("  {before}  kvt {}", command.replace("RUN", &run)));
        }
        lines.join("\n")
    }
}

/// A listener that keeps the tally for another one.
pub(crate) struct Tallying {
    shown: Box<dyn Listener>,
    tally: Tally,
    start: Instant,
}

impl Tallying {
    pub(crate) fn new(workload: Workload, shown: Box<dyn Listener>) -> Self {
        Self {
            shown,
            tally: Tally::new(workload),
            start: Instant::now(),
        }
    }

    /// Closes the bar or the dashboard, and returns the summary of the run.
    pub(crate) fn summary(self, end: End, dir: &Path, task: TaskKind) -> String {
        drop(self.shown);
        let seconds = self.start.elapsed().as_secs_f64();
        self.tally.summary(end, seconds, dir, task)
    }
}

impl Listener for Tallying {
    fn event(&mut self, event: &Event) -> Result<(), RunError> {
        self.tally.hear(event);
        self.shown.event(event)
    }

    fn progress(&mut self, update: &StepRecord) {
        self.tally.step = update.step;
        self.shown.progress(update);
    }

    fn sync(&mut self) -> Result<(), RunError> {
        self.shown.sync()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::progress::testing::{epoch, eval};
    use kvt_train::run::EvalRecord;

    fn workload(best: Option<(u32, f64)>) -> Workload {
        Workload {
            done: 0,
            steps: 30,
            steps_per_epoch: 10,
            epochs: 3,
            images_per_step: 8,
            eval_images: 24,
            eval_every: 1,
            eval_every_updates: 0,
            classes: 3,
            metrics: &[Metric::LOSS, Metric::TOP1],
            best_metric: Metric::TOP1,
            best,
            reported: EvalRecord::VAL_EMA,
            has_ema: true,
        }
    }

    #[test]
    fn best_and_last_are_of_the_weights_that_the_run_reports() {
        let mut tally = Tally::new(workload(None));
        for event in [
            eval(0, "val_ema", 50.0),
            eval(0, "val", 99.0),
            epoch(0, 1.0),
            eval(1, "val_ema", 60.0),
            epoch(1, 1.0),
            // As good, but later: the first one stays the best.
            eval(2, "val_ema", 60.0),
            epoch(2, 1.0),
        ] {
            tally.hear(&event);
        }
        let run = Path::new("runs/my photos");
        tally.step = 30;
        let text = tally.summary(End::Finished, 185.0, run, TaskKind::Classify);
        insta::assert_snapshot!(text, @r"
        finished: 3 epochs in 3m 05s
          best  top-1 60.00 % (95 % interval 44.6 to 73.7) after epoch 2
          last  top-1 60.00 % (95 % interval 44.6 to 73.7) after epoch 3
          run   `runs/my photos`: checkpoints (`best`, `last`), log.jsonl, epochs.csv
          next  kvt eval --run 'runs/my photos'
                kvt predict --run 'runs/my photos' IMAGE...
                kvt report 'runs/my photos'
        ");
    }

    /// A resumed run keeps the best result from before, even if nothing was left to do.
    #[test]
    fn a_resumed_run_has_the_best_of_before() {
        let tally = Tally::new(workload(Some((4, 70.0))));
        let run = Path::new("run");
        let text = tally.summary(End::Finished, 1.0, run, TaskKind::Dino);
        assert!(
            text.contains("best  top-1 70.00 % (95 % interval 50.8 to 85.1) after epoch 5\n"),
            "{text}"
        );
        assert!(text.starts_with("finished before: "), "{text}");
        assert!(!text.contains("last  "), "{text}");
        assert!(text.contains("next  kvt probe --run run\n"), "{text}");
        let mut tally = tally;
        tally.hear(&eval(5, "val_ema", 69.0));
        let text = tally.summary(End::Finished, 1.0, run, TaskKind::Dino);
        assert!(
            text.contains("best  top-1 70.00 % (95 % interval 54.6 to 81.9) after epoch 5\n"),
            "{text}"
        );
        assert!(
            text.contains("last  top-1 69.00 % (95 % interval 54.6 to 81.9) after epoch 6\n"),
            "{text}"
        );
        tally.step = 7;
        let text = tally.summary(End::Stopped, 1.0, run, TaskKind::Classify);
        assert!(text.starts_with("stopped after step 7 of 30; "), "{text}");
    }
}
