//! The results of a run and the next commands: the last lines of `kvt train` and `kvt finetune`.

use std::path::Path;

use super::{duration, value as with_unit};
use kvt_data::text::{counted, shell};
use kvt_tools::report::interval_of;
use kvt_train::engine::{Best, End, Workload};
use kvt_train::run::{Event, Metric};
use kvt_train::task::TaskKind;

/// The best and the last recorded evaluation.
#[derive(Clone, Debug)]
pub(super) struct Tally {
    pub(super) workload: Workload,
    pub(super) best: Option<Best>,
    last: Option<Best>,
    /// Images of an evaluation.
    images: u64,
    pub(super) step: u64,
}

impl Tally {
    pub(super) fn new(workload: Workload) -> Self {
        Self {
            best: workload.best,
            last: None,
            images: workload.eval_images as u64,
            step: workload.done,
            workload,
        }
    }

    pub(super) fn hear(&mut self, event: &Event) {
        let metric = self.workload.best_metric;
        let Event::Eval(eval) = event else { return };
        let value = eval.metrics.get(metric.name);
        if let (Some(value), true) = (value, eval.split == self.workload.reported) {
            self.images = eval.images;
            self.last = Some(Best {
                epoch: eval.epoch,
                step: Some(eval.step),
                value,
            });
            let is_best = self
                .best
                .is_none_or(|best| metric.improves(value, best.value));
            if is_best {
                self.best = self.last;
            }
        }
    }

    /// A line for an evaluation.
    fn line(&self, what: &str, found: Option<Best>) -> Option<String> {
        let metric = self.workload.best_metric;
        let Best { epoch, step, value } = found?;
        // Of shares of images; the mean of classes over pixels has no such interval.
        let is_of_images = [Metric::TOP1, Metric::KNN].contains(&metric);
        let interval = if is_of_images {
            interval_of(value, self.images as usize)
        } else {
            String::new()
        };
        let epoch = epoch + 1;
        let place = match step {
            Some(step) if self.epochs(step).1 > 0 => {
                format!("within epoch {epoch}, after step {step}")
            }
            _ => format!("after epoch {epoch}"),
        };
        Some(format!(
            "  {what}  {} {}{interval} {place}",
            metric.title,
            with_unit(metric, value),
        ))
    }

    /// Whole epochs of so many updates, and updates after them.
    fn epochs(&self, updates: u64) -> (u64, u64) {
        let of_epoch = self.workload.steps_per_epoch.max(1);
        (updates / of_epoch, updates % of_epoch)
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
        // `train.max_steps` may end a run within an epoch.
        let length = match self.epochs(self.step) {
            (0, updates) => counted(updates, "update"),
            (epochs, 0) => counted(epochs, "epoch"),
            (epochs, updates) => format!(
                "{} and {}",
                counted(epochs, "epoch"),
                counted(updates, "update")
            ),
        };
        let time = duration(seconds);
        let mut lines = vec![if is_done_before {
            "finished before: there was nothing left to train".to_owned()
        } else if self.workload.done > 0 {
            format!("finished: {length}, {time} since the resume")
        } else {
            format!("finished: {length} in {time}")
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::progress::testing::{epoch, eval};
    use kvt_train::run::EvalRecord;

    fn workload(best: Option<Best>) -> Workload {
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
        let best = Best {
            epoch: 4,
            step: Some(50),
            value: 70.0,
        };
        let tally = Tally::new(workload(Some(best)));
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

    /// It tells of all updates of the run, and of an epoch that it ends within.
    #[test]
    fn a_resumed_run_may_end_within_an_epoch() {
        let best = Best {
            epoch: 0,
            step: Some(7),
            value: 70.0,
        };
        let mut tally = Tally::new(Workload {
            done: 17,
            ..workload(Some(best))
        });
        tally.hear(&eval(1, "val_ema", 60.0));
        let mut lines = |step| {
            tally.step = step;
            let run = Path::new("run");
            let text = tally.summary(End::Finished, 65.0, run, TaskKind::Detect);
            text.lines().take(3).collect::<Vec<_>>().join("\n")
        };
        insta::assert_snapshot!(lines(21), @r"
        finished: 2 epochs and 1 update, 1m 05s since the resume
          best  top-1 70.00 % (95 % interval 54.6 to 81.9) within epoch 1, after step 7
          last  top-1 60.00 % (95 % interval 44.6 to 73.7) after epoch 2
        ");
        assert!(lines(20).starts_with("finished: 2 epochs, 1m 05s since the resume\n"));
    }
}
