//! Progress of a training run: a bar with rate and ETA on a terminal, plain lines elsewhere, and a summary at the end.

use std::path::Path;
use std::time::{Duration, Instant};

use indicatif::ProgressBar;

mod summary;

use self::summary::Tally;
use super::output;
#[cfg(feature = "tui")]
use super::tui::Dashboard;
use kvt_data::escape::one_line;
use kvt_train::engine::{End, Eta, Workload};
use kvt_train::plot::{duration, with_unit as value};
use kvt_train::run::{
    EpochRecord, EvalRecord, Event, Listener, Metrics, RunError, StepRecord, Topic,
};
use kvt_train::task::TaskKind;

/// How often a run without a terminal prints its progress.
const PLAIN_INTERVAL: Duration = Duration::from_secs(10);

/// The form in which progress is shown.
enum Form {
    /// A bar of fixed width, with evaluations and warnings printed above it.
    Bar(ProgressBar),
    /// Plain lines: the first step, one at intervals, the last; every evaluation and every warning. When the last one was printed.
    Lines(Option<Instant>),
    /// Burn's dashboard, which shows all by itself.
    #[cfg(feature = "tui")]
    Dashboard(Box<Dashboard>),
}

/// The progress of a run, and its results so far.
pub(super) struct Progress {
    form: Form,
    tally: Tally,
    start: Instant,
    eta: Eta,
    /// Lines of evaluations: the training of an epoch comes before them, although it is reported after them.
    evaluations: Vec<String>,
    /// The last metrics of the task.
    told: String,
}

impl Progress {
    /// In the form that suits the terminal.
    pub(super) fn new(workload: Workload) -> Self {
        if !output::is_watched() {
            return Self::of(workload, Form::Lines(None));
        }
        // The bar comes first and has a fixed width, so that nothing moves when a number changes its length. What does not fit in
        // the terminal is cut off at the end, where the least important numbers are.
        let bar = output::bar("", workload.steps, "{bar:10} {wide_msg}");
        bar.set_position(workload.done);
        Self::of(workload, Form::Bar(bar))
    }

    /// In a dashboard.
    #[cfg(feature = "tui")]
    pub(super) fn on(dashboard: Dashboard, workload: Workload) -> Self {
        Self::of(workload, Form::Dashboard(Box::new(dashboard)))
    }

    fn of(workload: Workload, form: Form) -> Self {
        Self {
            form,
            tally: Tally::new(workload),
            start: Instant::now(),
            eta: Eta::new(workload),
            evaluations: Vec::new(),
            told: String::new(),
        }
    }

    /// Closes the bar or the dashboard, and returns the summary of the run.
    pub(super) fn summary(self, end: End, dir: &Path, task: TaskKind) -> String {
        drop(self.form);
        let seconds = self.start.elapsed().as_secs_f64();
        self.tally.summary(end, seconds, dir, task)
    }

    /// The lines to print after an event.
    fn lines(&mut self, event: &Event) -> Vec<String> {
        let workload = &self.tally.workload;
        let line = line(event, workload).into_iter();
        match event {
            // After the line of its epoch.
            Event::Eval(eval) if ends_epoch(eval, workload) => {
                self.evaluations.extend(line);
                Vec::new()
            }
            Event::Epoch(_) => line.chain(self.evaluations.drain(..)).collect(),
            _ => line.collect(),
        }
    }

    fn message(&self, update: &StepRecord) -> String {
        let workload = &self.tally.workload;
        let (steps, epochs) = (workload.steps, workload.epochs);
        let digits = |number: u64| number.to_string().len();
        let left = match self.eta.left(update.step) {
            // Behind the last update only an evaluation is left.
            _ if update.step == steps => "evaluating".to_owned(),
            Some(left) => format!("eta {}", duration(left)),
            None => "eta -".to_owned(),
        };
        let best = match self.tally.best {
            Some(best) => format!(" best {}", value(workload.best_metric, best.value)),
            None => String::new(),
        };
        format!(
            "{:>width$}/{steps} {left:<11} loss {:<6.4}{best} {:>5.0} images/s lr {:<7.1e} epoch {:>epoch_width$}/{epochs}{}",
            update.step,
            update.loss,
            update.images_per_second,
            update.lr,
            update.epoch + 1,
            self.told,
            width = digits(steps),
            epoch_width = digits(epochs.into()),
        )
    }
}

impl Listener for Progress {
    fn event(&mut self, event: &Event) -> Result<(), RunError> {
        self.tally.hear(event);
        self.eta.event(event, self.start.elapsed().as_secs_f64());
        #[cfg(feature = "tui")]
        if let Form::Dashboard(dashboard) = &mut self.form {
            dashboard.event(event);
            return Ok(());
        }
        if let Event::Step(step) = event {
            self.told = told(step);
        }
        let lines = self.lines(event);
        lines
            .iter()
            .for_each(|line| output::status(&one_line(line)));
        Ok(())
    }

    fn progress(&mut self, update: &StepRecord) {
        self.tally.step = update.step;
        self.eta.update(self.start.elapsed().as_secs_f64());
        match self.form {
            #[cfg(feature = "tui")]
            Form::Dashboard(ref mut dashboard) => {
                dashboard.step(update, self.eta.left(update.step));
            }
            Form::Bar(ref bar) => {
                bar.set_position(update.step);
                bar.set_message(self.message(update));
            }
            Form::Lines(last) => {
                let due = last.is_none_or(|last| last.elapsed() >= PLAIN_INTERVAL);
                let steps = self.tally.workload.steps;
                let is_last = update.step == steps;
                if due || is_last {
                    self.form = Form::Lines(Some(Instant::now()));
                    // Behind the last one only an evaluation is left, which has its own line.
                    let left = self.eta.left(update.step).filter(|_| !is_last);
                    let left =
                        left.map_or_else(String::new, |left| format!("  eta {}", duration(left)));
                    output::status(&format!(
                        "step {}/{steps}  epoch {}  loss {:.4}{}  lr {:.3e}  {:.0} images/s{left}",
                        update.step,
                        update.epoch + 1,
                        update.loss,
                        self.told,
                        update.lr,
                        update.images_per_second,
                    ));
                }
            }
        }
    }
}

/// The task's metrics of the last logged update.
fn told(step: &StepRecord) -> String {
    let numbers = step
        .metrics
        .iter()
        .map(|(name, value)| format!("  {} {value:.3}", name.replace('_', " ")));
    numbers.collect()
}

/// Metrics in one line.
fn measured(metrics: &Metrics, workload: &Workload) -> String {
    let known = |name| workload.metrics.iter().find(|metric| metric.name == name);
    let shown = metrics.iter().filter_map(|(name, number)| {
        Some(match known(name) {
            Some(metric) if !workload.tells(*metric) => return None,
            Some(metric) if metric.percent => {
                format!("{} {}", metric.title, value(*metric, number))
            }
            _ => format!("{name} {number:.4}"),
        })
    });
    shown.collect::<Vec<_>>().join("  ")
}

/// Whether an evaluation is one at the end of an epoch.
fn ends_epoch(eval: &EvalRecord, workload: &Workload) -> bool {
    eval.step.is_multiple_of(workload.steps_per_epoch.max(1))
}

/// The line of the training of an epoch.
pub(super) fn of_epoch(epoch: &EpochRecord) -> String {
    format!(
        "epoch {}  train loss {:.4}  {:.1} s  {:.0} images/s",
        epoch.epoch + 1,
        epoch.train_loss,
        epoch.seconds,
        epoch.images_per_second
    )
}

fn line(event: &Event, workload: &Workload) -> Option<String> {
    match event {
        Event::Step(_) | Event::Layer(_) => None,
        Event::Eval(eval) => Some(format!(
            "{}  {} {}  ({} images)",
            if ends_epoch(eval, workload) {
                format!("epoch {}", eval.epoch + 1)
            } else {
                format!("step {}", eval.step)
            },
            eval.split,
            measured(&eval.metrics, workload),
            eval.images
        )),
        Event::Epoch(epoch) => Some(of_epoch(epoch)),
        Event::Note(note) => {
            let kind = match note.topic {
                // The summary reports it, with the command to resume.
                Topic::Stop => return None,
                Topic::Start | Topic::Resume | Topic::Scale | Topic::Patience => "",
                Topic::Skipped => "skipped ",
                Topic::Warning => "warning: ",
            };
            let path = note
                .path
                .as_ref()
                .map(|p| format!("`{p}`: "))
                .unwrap_or_default();
            Some(format!("{kind}{path}{}", note.message))
        }
    }
}

#[cfg(test)]
#[path = "../../../kvt-train/src/run/testing.rs"]
mod testing;

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::testing::{epoch, eval};
    use super::*;
    use kvt_train::run::Metric;

    /// Two epochs of ten updates.
    const WORKLOAD: Workload = Workload {
        done: 0,
        steps: 20,
        steps_per_epoch: 10,
        epochs: 2,
        images_per_step: 8,
        eval_images: 40,
        eval_every: 1,
        eval_every_updates: 0,
        classes: 3,
        metrics: &[Metric::LOSS, Metric::TOP1],
        best_metric: Metric::TOP1,
        best: None,
        reported: "val",
        has_ema: false,
    };

    /// Behind the last update the bar shows what is being done, not how long an evaluation should take.
    #[test]
    fn no_time_is_left_after_the_last_update() {
        let mut bar = Progress::new(WORKLOAD);
        let mut message = |step: u64| {
            let update = StepRecord {
                step,
                epoch: u32::try_from((step - 1) / 10).unwrap(),
                loss: 0.5,
                lr: 0.001,
                grad_norm: 1.0,
                images_per_second: 100.0,
                data_wait: 0.0,
                metrics: Metrics::default(),
                communication: None,
            };
            bar.eta.update(step as f64);
            bar.message(&update)
        };
        assert!(message(1).starts_with(" 1/20 eta -       loss 0.5000"));
        // 18 updates of a second, and two evaluations of 40 images at a third of the cost of an update's image.
        let left = message(2);
        assert!(left.starts_with(" 2/20 eta 21s     loss"), "{left}");
        let last = message(20);
        assert!(last.starts_with("20/20 evaluating  loss"), "{last}");
    }

    #[test]
    fn an_epoch_is_told_before_its_evaluation() {
        let mut progress = Progress::new(WORKLOAD);
        let mut told = Vec::new();
        for event in [
            eval(0, "val", 0.5),
            epoch(0, 1.0),
            eval(1, "val", 0.5),
            epoch(1, 1.0),
        ] {
            told.extend(progress.lines(&event));
        }
        let starts = [
            "epoch 1  train",
            "epoch 1  val",
            "epoch 2  train",
            "epoch 2  val",
        ];
        assert_eq!(told.len(), starts.len());
        for (line, start) in told.iter().zip(starts) {
            assert!(line.starts_with(start), "{line}");
        }
    }
}
