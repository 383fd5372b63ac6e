//! Burn's terminal dashboard. Burn's metric types, which change between its versions, are used only in this file.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use anyhow::bail;
use burn::train::Interrupter;
use burn::train::logger::TrainingProgressLogger;
use burn::train::metric::{
    MetricAttributes, MetricDefinition, MetricEntry, MetricId, NumericAttributes, NumericEntry,
    SerializedEntry,
};
use burn::train::renderer::tui::TuiMetricsRendererWrapper;
use burn::train::renderer::{MetricState, MetricsRenderer, MetricsRendererTraining};

use super::interrupt;
use kvt_train::engine::Workload;
use kvt_train::plot::duration;
use kvt_train::run::{EvalRecord, Event, Metric, StepRecord};

const LOSS: &str = Metric::LOSS.title;
const LEARNING_RATE: &str = "Learning rate";
const THROUGHPUT: &str = "Images per second";
const NOTE: &str = "Note";
/// Our own estimate: Burn has none in the first half minute and at the end, and leaves out evaluations.
const LEFT: &str = "Time left";

/// The dashboard.
pub(super) struct Dashboard {
    renderer: TuiMetricsRendererWrapper,
    /// The key `q` asks to stop through this.
    interrupter: Interrupter,
    workload: Workload,
}

impl Dashboard {
    /// Takes over the terminal until it is dropped.
    pub(super) fn start(model: &str, workload: Workload) -> anyhow::Result<Self> {
        if !std::io::IsTerminal::is_terminal(&std::io::stdout()) {
            bail!("`--tui` needs a terminal: leave it out to get plain lines");
        }
        let interrupter = Interrupter::new();
        let mut renderer = TuiMetricsRendererWrapper::new(interrupter.clone(), None);
        let mut shown = vec![
            (LOSS.to_owned(), None, false),
            (LEARNING_RATE.to_owned(), None, true),
            (THROUGHPUT.to_owned(), None, true),
        ];
        for metric in workload.metrics {
            let unit = metric.percent.then_some("%");
            // A metric that is never measured would be a tab without a curve.
            let splits = [EvalRecord::VAL, EvalRecord::VAL_EMA]
                .into_iter()
                .take(1 + usize::from(workload.has_ema));
            for split in splits.filter(|_| workload.tells(*metric)) {
                shown.push((title(*metric, split), unit, metric.higher));
            }
        }
        for (name, unit, higher_is_better) in shown {
            let attributes = MetricAttributes::Numeric(NumericAttributes {
                unit: unit.map(str::to_owned),
                higher_is_better,
            });
            register(&mut renderer, &name, attributes);
        }
        for name in [LEFT, NOTE] {
            register(&mut renderer, name, MetricAttributes::None);
        }
        let per_epoch = workload.steps_per_epoch.max(1);
        let epoch = usize::try_from(workload.done / per_epoch)?;
        // Burn counts epochs from 1.
        let label = format!("kvt, {model}");
        let epochs = usize::try_from(workload.epochs)?;
        renderer.start(epochs, epoch + 1, None, Some(&label));
        renderer.start_split("train", usize::try_from(per_epoch)?);
        Ok(Self {
            renderer,
            interrupter,
            workload,
        })
    }

    /// Shows an event. Updates are shown by [`step`](Self::step).
    pub(super) fn event(&mut self, event: &Event) {
        match event {
            Event::Step(_) | Event::Layer(_) => {}
            Event::Eval(eval) => self.eval(eval),
            Event::Epoch(epoch) => self.epoch(epoch.epoch),
            Event::Note(note) => self.tell(NOTE, &note.message),
        }
    }

    /// Shows an update, and the time that is left after it, evaluations included.
    pub(super) fn step(&mut self, step: &StepRecord, left: Option<f64>) {
        for (name, value) in [
            (LOSS, step.loss),
            (LEARNING_RATE, step.lr),
            (THROUGHPUT, step.images_per_second),
        ] {
            self.renderer.update_train(state(name, value));
        }
        let per_epoch = self.workload.steps_per_epoch.max(1);
        // Steps count from 1: the last step of an epoch is step `per_epoch`, not 0.
        let within = (step.step - 1) % per_epoch + 1;
        self.renderer
            .update_split(usize::try_from(within).unwrap_or(usize::MAX));
        let left = left.map_or_else(|| "not known yet".to_owned(), duration);
        self.tell(LEFT, &left);
        if self.interrupter.should_stop() {
            // As Ctrl-C does.
            interrupt::STOP.store(true, Ordering::Relaxed);
        }
    }

    /// The end of an epoch, counted from 0.
    fn epoch(&mut self, epoch: u32) {
        // `update_epoch` takes the number of finished epochs.
        if epoch + 1 < self.workload.epochs {
            let done = usize::try_from(epoch).unwrap_or(usize::MAX);
            self.renderer.update_epoch(done.saturating_add(1));
        }
    }

    /// A line of text under its name, such as the last status line; Burn's own event log only counts events.
    fn tell(&mut self, name: &str, message: &str) {
        let text = SerializedEntry::new(message.to_owned(), message.to_owned());
        let entry = MetricEntry::new(id(name), text);
        self.renderer.update_train(MetricState::Generic(entry));
    }

    fn eval(&mut self, eval: &EvalRecord) {
        for metric in self.workload.metrics {
            let value = eval.metrics.get(metric.name);
            if let Some(value) = value.filter(|_| self.workload.tells(*metric)) {
                let name = title(*metric, &eval.split);
                self.renderer.update_valid(state(&name, value));
            }
        }
    }
}

/// The name of a metric in the dashboard: the validation loss shares the plot of the training loss.
fn title(metric: Metric, split: &str) -> String {
    match split {
        EvalRecord::VAL_EMA => format!("{} of the EMA", metric.title),
        _ => metric.title.to_owned(),
    }
}

/// What a metric is known by.
fn id(name: &str) -> MetricId {
    MetricId::new(Arc::new(name.to_owned()))
}

/// A value of a metric.
fn state(name: &str, value: f64) -> MetricState {
    let text = match name {
        LEARNING_RATE => format!("{value:.3e}"),
        _ => format!("{value:.4}"),
    };
    let entry = MetricEntry::new(id(name), SerializedEntry::new(text, value.to_string()));
    MetricState::Numeric(entry, Some(NumericEntry::Value(value)))
}

/// Registers a metric.
fn register(renderer: &mut TuiMetricsRendererWrapper, name: &str, attributes: MetricAttributes) {
    renderer.register_metric(MetricDefinition {
        metric_id: id(name),
        name: Arc::new(name.to_owned()),
        description: None,
        attributes,
    });
}
