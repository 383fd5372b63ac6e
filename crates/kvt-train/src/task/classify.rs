//! Supervised classification: cross-entropy with label smoothing, judged by top-1.

use burn::tensor::{Device, Tensor};
use kvt_models::Model;
use kvt_ops::Phase;

use super::{BestBy, EvalData, Measured, Task, evaluate};
use crate::data::{DeviceBatch, Sample};
use crate::error::TrainError;
use crate::recipe::{Position, cross_entropy, smooth_targets};
use crate::run::Metrics;

/// A classifier learns the labels of images, one view of each.
#[derive(Clone, Copy, Debug)]
pub struct Classify {
    /// The share of a target that is spread over all classes, in [0, 1).
    pub label_smoothing: f64,
}

impl Task for Classify {
    type Network = Model;
    type Target = u32;

    const BEST: BestBy = BestBy {
        metric: Metrics::TOP1,
        higher: true,
    };

    fn target(sample: &Sample) -> u32 {
        sample.label
    }

    fn loss(
        &mut self,
        model: &Model,
        mut batch: DeviceBatch,
        _at: Position,
        phase: Phase,
    ) -> Tensor<1> {
        // Mixup, CutMix and random erasing go here, between upload and model: they draw from the phase's key.
        let images = batch.views.swap_remove(0);
        let logits = model.forward(images, phase);
        let (classes, device) = (logits.dims()[1], logits.device());
        let targets = smooth_targets(&batch.targets, classes, self.label_smoothing, &device);
        cross_entropy(logits, targets)
    }

    fn evaluate(
        &self,
        model: &Model,
        data: &mut EvalData<'_>,
        device: &Device,
    ) -> Result<Measured, TrainError> {
        let evaluation = evaluate(model, data.val()?, device, |_| {})?;
        Ok(Measured {
            metrics: Metrics::from([
                (Metrics::LOSS, evaluation.loss()),
                (Metrics::TOP1, evaluation.top1_percent()),
                (Metrics::TOP5, evaluation.top5_percent()),
            ]),
            images: evaluation.images,
        })
    }
}
