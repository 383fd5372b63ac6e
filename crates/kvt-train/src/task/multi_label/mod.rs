//! Several labels for each image: every class is learned by itself, and an image has all classes whose probability is above a threshold.

mod check;
mod config;
mod evaluate;
mod scores;

use std::sync::Arc;

use burn::tensor::{Device, Tensor};
use kvt_models::{Model, ModelConfig};
use kvt_ops::Phase;

use super::classify::start_model;
use super::mixer::Mixer;
use super::model::check_channels;
use super::{EvalData, Measured, Setup, Task, check_classes};
use crate::config::Plan;
use crate::data::{DataError, DeviceBatch, Prepare, Source};
use crate::error::TrainError;
use crate::recipe::{LossConfig, LossHeads, Position};
use crate::run::{Metric, Metrics};
use crate::splits::Splits;

pub(crate) use check::check;
pub use config::MultiLabelConfig;
pub use evaluate::{LabelEvaluation, evaluate_labels};
pub(crate) use scores::is_above;
pub use scores::{LabelScore, LabelScores, probability};

/// A classifier that learns all labels of images, evaluated by the mean average precision.
#[derive(Clone, Debug)]
pub struct MultiLabel {
    loss: LossConfig,
    mixer: Mixer,
    /// The training images, with their labels.
    train: Arc<Source>,
    /// The threshold of each class.
    thresholds: Vec<f64>,
}

impl Task for MultiLabel {
    type Network = Model;
    /// The labels of an image are those of its index.
    type Target = ();

    const METRICS: &'static [Metric] = &[Metric::LOSS, Metric::MAP, Metric::MICRO_F1, Metric::F1];
    const BEST: Metric = Metric::MAP;

    /// The model has as many classes as the data if the plan does not specify the number.
    fn model(plan: &Plan, splits: &Splits) -> Result<ModelConfig, TrainError> {
        let config = plan.model.config(Some(splits.classes().len()))?;
        check_classes(&config, &splits.train)?;
        check_channels(&config, plan.augment.channels())?;
        Ok(config)
    }

    fn start(setup: &mut Setup<'_>) -> Result<(Self, Model), TrainError> {
        let (plan, splits) = (setup.plan, setup.splits);
        let task = Self {
            loss: plan.loss.clone(),
            mixer: Mixer::new(plan),
            thresholds: plan.multi_label.of(splits.classes())?,
            train: Arc::clone(&splits.train),
        };
        let images = splits.val.samples.len();
        if images > 0 && splits.val.unlabelled() == images {
            return Err(TrainError::NoLabels(images));
        }
        Ok((task, start_model(setup)?))
    }

    fn prepare(plan: &Plan, splits: &Splits) -> Result<Arc<dyn Prepare<()>>, DataError> {
        Ok(splits.train_views(plan, |_| ()))
    }

    fn loss(
        &mut self,
        model: &Model,
        mut batch: DeviceBatch<()>,
        at: Position,
        phase: Phase,
    ) -> Result<Tensor<1>, TrainError> {
        let (images, own_shares) = self.mixer.mixed(batch.views.swap_remove(0), at, phase);
        let heads = model.forward_heads(images, phase);
        let logits = match self.loss.heads {
            LossHeads::Mean => heads.mean(),
            LossHeads::Class => heads.class,
        };
        let ([_, classes], device) = (logits.dims(), logits.device());
        let labels = batch.indices.iter().map(|&index| self.train.labels(index));
        let targets = self
            .loss
            .targets(labels, own_shares.as_deref(), classes, &device);
        Ok(self.loss.of(logits, targets))
    }

    fn analyzed<'n>(&self, model: &'n Model) -> Option<&'n Model> {
        Some(model)
    }

    fn evaluate(
        &self,
        model: &Model,
        data: &mut EvalData<'_>,
        device: &Device,
    ) -> Result<Measured, TrainError> {
        let (world, of) = (data.world(), (data.val_source(), &*self.thresholds));
        let evaluation = evaluate_labels(model, data.val_shard(), of, device, world, |_| {})?;
        let scores = &evaluation.scores;
        Ok(Measured {
            metrics: Metrics::from([
                (Metric::LOSS.name, evaluation.loss),
                (Metric::MAP.name, scores.map()),
                (Metric::MICRO_F1.name, scores.micro_f1()),
                (Metric::F1.name, scores.macro_f1()),
            ]),
            images: evaluation.images,
        })
    }
}

#[cfg(test)]
mod tests;
