//! Supervised classification: cross-entropy with label smoothing, judged by top-1.

use burn::tensor::{Device, Tensor};
use kvt_models::weights::Outcome;
use kvt_models::{Model, ModelConfig};
use kvt_ops::Phase;

use super::{
    EvalData, HeadReset, Measured, Task, Weights, build_model, check_classes, evaluate,
    model_config, start_from,
};
use crate::config::Plan;
use crate::data::{DeviceBatch, Sample, Splits};
use crate::error::TrainError;
use crate::recipe::{Position, cross_entropy, smooth_targets};
use crate::run::{Metric, Metrics, Note, Topic};

/// A classifier learns the labels of images, one view of each.
#[derive(Clone, Copy, Debug)]
pub struct Classify {
    /// The share of a target that is spread over all classes, in [0, 1).
    pub label_smoothing: f64,
}

impl Task for Classify {
    type Network = Model;
    type Target = u32;

    const METRICS: &'static [Metric] = &[Metric::LOSS, Metric::TOP1, Metric::TOP5];
    const BEST: Metric = Metric::TOP1;

    /// With as many classes as the data has, where the plan names no number.
    fn model(plan: &Plan, splits: &Splits) -> Result<ModelConfig, TrainError> {
        let config = model_config(&plan.model, Some(splits.classes().len()))?;
        check_classes(&config, &splits.train)?;
        if config.in_chans() != 3 {
            return Err(TrainError::Channels(config.in_chans()));
        }
        Ok(config)
    }

    fn start(
        plan: &Plan,
        config: &ModelConfig,
        weights: Weights,
        device: &Device,
        notes: &mut Vec<Note>,
    ) -> Result<(Self, Model), TrainError> {
        let task = Self {
            label_smoothing: plan.loss.label_smoothing,
        };
        let model = build_model(plan, config, device)?;
        if weights == Weights::OfCheckpoint {
            return Ok((task, model));
        }
        let (model, report) = start_from(&plan.init, HeadReset::AsPlanned, model)?;
        if let (Some(path), Some(report)) = (&plan.init.weights, report) {
            let topic = match report.names(Outcome::Unused).next() {
                Some(_) => Topic::Warning,
                None => Topic::Start,
            };
            let message = format!("weights of `{}`: {}", path.display(), report.summary());
            notes.push(Note::new(0, topic, message));
        }
        Ok((task, model))
    }

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
                (Metric::LOSS.name, evaluation.loss()),
                (Metric::TOP1.name, evaluation.top1_percent()),
                (Metric::TOP5.name, evaluation.top5_percent()),
            ]),
            images: evaluation.images,
        })
    }
}
