//! Progress of a training run: a bar with rate and ETA on a terminal, plain lines elsewhere.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use super::output;
use super::table::grouped;
use crate::engine::{Session, Workload};
use crate::run::{Event, Listener, Metric, Metrics, RunError, StepRecord, Topic};
use crate::task::Task;

/// How often a run that nobody watches says where it is.
const PLAIN_INTERVAL: Duration = Duration::from_secs(10);

/// One line about what is going to be trained, and on what.
pub(super) fn describe<T: Task>(session: &Session<T>) -> String {
    let config = session.model_config();
    let summary = config.summary();
    let kept: Vec<String> = summary
        .attending()
        .map(|stage| format!("{} of {}", stage.k, stage.keys))
        .collect();
    let device = session.device();
    let workload = session.workload();
    let processes = match session.world().size() {
        1 => String::new(),
        size => format!(", {size} processes"),
    };
    format!(
        "{}: {} parameters, {} keys per query, {} epochs of {} steps on {} ({}){processes}",
        summary.name,
        grouped(summary.params),
        kept.join(", "),
        workload.epochs,
        workload.steps_per_epoch,
        device.name,
        device.description
    )
}

/// The listener that suits the terminal.
pub(super) fn listener(workload: Workload) -> Box<dyn Listener> {
    if output::is_watched() {
        Box::new(Bar::new(workload))
    } else {
        Box::new(Lines {
            workload,
            last: None,
            told: String::new(),
        })
    }
}

/// The listener of a process that does not speak.
pub(super) fn silent() -> Box<dyn Listener> {
    struct Silent;

    impl Listener for Silent {
        fn event(&mut self, _event: &Event) -> Result<(), RunError> {
            Ok(())
        }
    }

    Box::new(Silent)
}

/// A bar, with evaluations and warnings printed above it.
struct Bar {
    bar: ProgressBar,
    metrics: &'static [Metric],
    /// What the task has told last.
    told: String,
}

impl Bar {
    fn new(workload: Workload) -> Self {
        let bar = ProgressBar::new(workload.steps);
        if let Ok(style) =
            ProgressStyle::with_template("{wide_bar} step {pos}/{len}  {msg}  eta {eta}")
        {
            bar.set_style(style);
        }
        bar.set_position(workload.done);
        bar.reset_eta();
        Self {
            bar,
            metrics: workload.metrics,
            told: String::new(),
        }
    }
}

impl Listener for Bar {
    fn event(&mut self, event: &Event) -> Result<(), RunError> {
        if let Event::Step(step) = event {
            self.told = told(step);
        }
        if let Some(line) = line(event, self.metrics) {
            self.bar.suspend(|| output::status(&line));
        }
        Ok(())
    }

    fn progress(&mut self, update: &StepRecord) {
        self.bar.set_position(update.step);
        self.bar.set_message(format!(
            "epoch {}  loss {:.3}{}  {:.0} images/s",
            update.epoch + 1,
            update.loss,
            self.told,
            update.images_per_second
        ));
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// Plain lines: the first step, one now and then, the last; every evaluation, every warning.
struct Lines {
    workload: Workload,
    last: Option<Instant>,
    /// What the task has told last.
    told: String,
}

impl Listener for Lines {
    fn event(&mut self, event: &Event) -> Result<(), RunError> {
        if let Event::Step(step) = event {
            self.told = told(step);
        }
        if let Some(line) = line(event, self.workload.metrics) {
            output::status(&line);
        }
        Ok(())
    }

    fn progress(&mut self, update: &StepRecord) {
        let due = self
            .last
            .is_none_or(|last| last.elapsed() >= PLAIN_INTERVAL);
        if due || update.step == self.workload.steps {
            self.last = Some(Instant::now());
            let left = self.workload.steps.saturating_sub(update.step) as f64;
            let per_step = self.workload.images_per_step as f64 / update.images_per_second;
            output::status(&format!(
                "step {}/{}  epoch {}  loss {:.4}{}  lr {:.3e}  {:.0} images/s  eta {}",
                update.step,
                self.workload.steps,
                update.epoch + 1,
                update.loss,
                self.told,
                update.lr,
                update.images_per_second,
                duration(left * per_step)
            ));
        }
    }
}

/// What a task tells of its updates, as of the last line of the log.
fn told(step: &StepRecord) -> String {
    let numbers = step.metrics.iter();
    let numbers = numbers.map(|(name, value)| format!("  {} {value:.3}", name.replace('_', " ")));
    numbers.collect()
}

/// Metrics in one line.
fn measured(metrics: &Metrics, known: &[Metric]) -> String {
    let texts =
        metrics.iter().map(
            |(name, value)| match known.iter().find(|metric| metric.name == name) {
                Some(metric) if metric.percent => format!("{} {value:.2} %", metric.title),
                _ => format!("{name} {value:.4}"),
            },
        );
    texts.collect::<Vec<_>>().join("  ")
}

fn line(event: &Event, known: &[Metric]) -> Option<String> {
    match event {
        Event::Step(_) => None,
        Event::Eval(eval) => Some(format!(
            "epoch {}  {} {}  ({} images)",
            eval.epoch + 1,
            eval.split,
            measured(&eval.metrics, known),
            eval.images
        )),
        Event::Epoch(epoch) => Some(format!(
            "epoch {}  train loss {:.4}  {:.1} s  {:.0} images/s",
            epoch.epoch + 1,
            epoch.train_loss,
            epoch.seconds,
            epoch.images_per_second
        )),
        Event::Note(note) => {
            let kind = match note.topic {
                Topic::Start | Topic::Resume | Topic::Stop | Topic::Scale => "",
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

/// `1h 02m`, `3m 05s`, `12s`.
fn duration(seconds: f64) -> String {
    if !seconds.is_finite() {
        return "?".to_owned();
    }
    // Whole seconds are all a reader wants.
    let seconds = seconds.round() as u64;
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, s) => format!("{s}s"),
        (0, m, s) => format!("{m}m {s:02}s"),
        (h, m, _) => format!("{h}h {m:02}m"),
    }
}

#[cfg(test)]
mod tests {
    use super::duration;

    #[test]
    fn durations_for_people() {
        assert_eq!(duration(12.4), "12s");
        assert_eq!(duration(185.0), "3m 05s");
        assert_eq!(duration(3725.0), "1h 02m");
        assert_eq!(duration(f64::INFINITY), "?");
    }
}
