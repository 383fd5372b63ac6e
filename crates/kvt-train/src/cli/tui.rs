//! Burn's metric types and its terminal dashboard, behind one listener. The only file that knows
//! them: they change with Burn's versions.

use std::collections::HashMap;
use std::sync::Arc;

use anyhow::bail;
use burn::train::Interrupter;
use burn::train::logger::TrainingProgressLogger;
use burn::train::metric::{
    MetricAttributes, MetricDefinition, MetricEntry, MetricId, NumericAttributes, NumericEntry,
    SerializedEntry,
};
use burn::train::renderer::tui::TuiMetricsRendererWrapper;
use burn::train::renderer::{MetricState, MetricsRenderer, MetricsRendererTraining};

use super::interrupt::STOP;
use super::progress;
use crate::engine::Amount;
use crate::run::{EvalRecord, Event, Listener, RunError, StepRecord};

const LOSS: &str = "Loss";
const TOP1: &str = "Top-1 accuracy";
const TOP5: &str = "Top-5 accuracy";
const LEARNING_RATE: &str = "Learning rate";
const THROUGHPUT: &str = "Images per second";

/// The dashboard.
pub(super) struct Dashboard {
    renderer: TuiMetricsRendererWrapper,
    /// Its key `q` asks to stop through this.
    interrupter: Interrupter,
    metrics: HashMap<&'static str, MetricId>,
    amount: Amount,
}

impl Dashboard {
    /// Takes over the terminal until it is dropped.
    pub(super) fn start(amount: Amount) -> anyhow::Result<Self> {
        if !std::io::IsTerminal::is_terminal(&std::io::stdout()) {
            bail!("`--tui` needs a terminal: leave it out to get plain lines");
        }
        let interrupter = Interrupter::new();
        let mut renderer = TuiMetricsRendererWrapper::new(interrupter.clone(), None);
        let mut metrics = HashMap::new();
        for (name, unit, higher_is_better) in [
            (LOSS, None, false),
            (TOP1, Some("%"), true),
            (TOP5, Some("%"), true),
            (LEARNING_RATE, None, true),
            (THROUGHPUT, None, true),
        ] {
            let name_of_metric = Arc::new(name.to_owned());
            let id = MetricId::new(Arc::clone(&name_of_metric));
            renderer.register_metric(MetricDefinition {
                metric_id: id.clone(),
                name: name_of_metric,
                description: None,
                attributes: MetricAttributes::Numeric(NumericAttributes {
                    unit: unit.map(str::to_owned),
                    higher_is_better,
                }),
            });
            metrics.insert(name, id);
        }
        let per_epoch = amount.steps_per_epoch.max(1);
        let epoch = usize::try_from(amount.done / per_epoch)?;
        renderer.start(usize::try_from(amount.epochs)?, epoch, None, None);
        renderer.start_split("train", usize::try_from(per_epoch)?);
        Ok(Self {
            renderer,
            interrupter,
            metrics,
            amount,
        })
    }

    fn state(&self, name: &'static str, value: f64) -> Option<MetricState> {
        let id = self.metrics.get(name)?.clone();
        let text = match name {
            LEARNING_RATE => format!("{value:.3e}"),
            _ => format!("{value:.4}"),
        };
        let entry = MetricEntry::new(id, SerializedEntry::new(text, value.to_string()));
        Some(MetricState::Numeric(
            entry,
            Some(NumericEntry::Value(value)),
        ))
    }

    fn step(&mut self, step: &StepRecord) {
        for (name, value) in [
            (LOSS, step.loss),
            (LEARNING_RATE, step.lr),
            (THROUGHPUT, step.images_per_second),
        ] {
            if let Some(state) = self.state(name, value) {
                self.renderer.update_train(state);
            }
        }
        let per_epoch = self.amount.steps_per_epoch.max(1);
        // Steps count from 1: the last one of an epoch is step `per_epoch` of it, not 0.
        let within = (step.step - 1) % per_epoch + 1;
        self.renderer
            .update_split(usize::try_from(within).unwrap_or(usize::MAX));
    }

    fn eval(&mut self, eval: &EvalRecord) {
        for (name, value) in [(LOSS, eval.loss), (TOP1, eval.top1), (TOP5, eval.top5)] {
            if let Some(state) = self.state(name, value) {
                self.renderer.update_valid(state);
            }
        }
    }
}

impl Listener for Dashboard {
    fn event(&mut self, event: &Event) -> Result<(), RunError> {
        match event {
            Event::Step(step) => self.step(step),
            Event::Eval(eval) if eval.split == EvalRecord::VAL => self.eval(eval),
            // The EMA's numbers beside the curves, not among them.
            Event::Eval(_) => {
                if let Some(line) = progress::line(event) {
                    self.renderer.log_event_training(line);
                }
            }
            Event::Epoch(epoch) => {
                self.renderer
                    .update_epoch(usize::try_from(epoch.epoch).unwrap_or(usize::MAX));
            }
            Event::Note(note) => self.renderer.log_event_training(note.message.clone()),
        }
        if self.interrupter.should_stop() {
            STOP.store(true, std::sync::atomic::Ordering::Relaxed);
        }
        Ok(())
    }
}
