//! Measures the layers every few epochs.

use burn::module::Module;

use super::Trainer;
use crate::analysis::{Analyzer, Layer, analyze};
use crate::engine::TrainError;
use crate::run::{Event, LayerRecord, Listener, Metrics};
use crate::task::{EvalData, Task};
use crate::world::agree;

impl<T: Task> Trainer<'_, '_, T> {
    /// The metrics of the layers of the trained weights, on the images given by `[analysis]`; empty if the task has no layers to
    /// analyse, and `None` if it was stopped meanwhile. Each process computes all of them, since the images are few.
    pub(super) fn analyze(&mut self) -> Result<Option<Vec<Layer>>, TrainError> {
        self.share_weights()?;
        let network = self.state.network.valid();
        let Some(model) = self.state.task.analyzed(&network) else {
            return Ok(Some(Vec::new()));
        };
        let config = &self.plan.analysis;
        let mut data = EvalData::new(self.plan, self.splits, self.stop, self.processes.world());
        // Unreadable images are reported by training and evaluation.
        let batches = data.some(config.split, config.images);
        let layers = batches
            .map_err(TrainError::from)
            .and_then(|batches| analyze(Analyzer::default(), model, batches, &self.device, |_| {}));
        if self.is_stopped()? {
            return Ok(None);
        }
        agree(self.processes.world(), layers).map(Some)
    }

    /// Logs the layers of an analysis.
    pub(super) fn report_layers(&mut self, layers: Vec<Layer>) -> Result<(), TrainError> {
        let position = self.progress.position;
        for layer in layers {
            let record = LayerRecord {
                epoch: position.epoch,
                step: position.step,
                layer: layer.number,
                stage: layer.block.stage,
                block: layer.block.block,
                split: self.plan.analysis.split.name().to_owned(),
                images: layer.images(),
                metrics: metrics(&layer),
            };
            self.recorder.event(&Event::Layer(record))?;
        }
        Ok(())
    }
}

/// Means and standard errors, under their keys in the log.
fn metrics(layer: &Layer) -> Metrics {
    let numbers = layer.measures.iter().flat_map(|(measure, found)| {
        let name = measure.name();
        let error = found
            .error
            .map(|error| (format!("{name}{}", LayerRecord::ERROR), error));
        std::iter::once((name.to_owned(), found.mean)).chain(error)
    });
    numbers.collect()
}
