//! Supervised classification, optionally with mixed images and a teacher; evaluated by top-1.

use std::cell::Cell;
use std::sync::Arc;

use burn::tensor::{Device, Tensor};
use kvt_models::weights::StateDict;
use kvt_models::{Ask, Logits, Model, ModelConfig};
use kvt_ops::Phase;

use super::evaluate::evaluate;
use super::lora::adapt;
use super::mixer::Mixer;
use super::model::{check_channels, start_from};
use super::teacher::{Teacher, teacher};
use super::{EvalData, Measured, Setup, Task, Weights, build_model, check_classes};
use crate::config::Plan;
use crate::data::{DataError, DeviceBatch, Prepare};
use crate::error::TrainError;
use crate::recipe::mix::draw_tokens;
use crate::recipe::{DistillConfig, LossConfig, LossHeads, Position, weighted_targets};
use crate::run::{Metric, Metrics};
use crate::splits::Splits;

/// A classifier that learns from the labels of images, one view of each, and from a teacher's outputs.
#[derive(Clone, Debug)]
pub struct Classify {
    loss: LossConfig,
    mixer: Mixer,
    distill: DistillConfig,
    teacher: Option<Arc<Teacher>>,
    /// How much the images of each class count; `None` if all count the same.
    class_weights: Option<Vec<f32>>,
}

/// The file of a checkpoint that identifies the teacher.
const TEACHER: &str = "teacher";

impl Classify {
    /// The task of a plan, with a teacher if the plan has one.
    pub fn new(plan: &Plan, teacher: Option<Teacher>) -> Self {
        Self {
            loss: plan.loss.clone(),
            mixer: Mixer::new(plan),
            distill: plan.distill.clone(),
            teacher: teacher.map(Arc::new),
            class_weights: None,
        }
    }

    /// Whether the outputs for tokens are trained, or are needed because tokens were mixed.
    fn learns_tokens(&self) -> bool {
        self.loss.token_weight > 0.0 || self.mixer.mix.mixes_tokens()
    }

    /// The logits of a micro-batch, and the number of tokens that were exchanged with the partner's: MixToken. The logits of
    /// such tokens have been moved back to their image.
    fn forward(
        &self,
        model: &Model,
        images: Tensor<4>,
        at: Position,
        phase: Phase,
    ) -> (Logits, usize) {
        let scale = model.config().token_scale();
        let (Phase::Train(key), Some(scale), true) = (
            phase,
            scale,
            self.mixer.mix.mixes_tokens() && self.mixer.mix.is_on_in(at.epoch),
        ) else {
            return (model.forward_heads(images, phase), 0);
        };
        let drawn = Cell::new(None);
        let mix = |tokens: Tensor<3>, grid: [usize; 2]| {
            let coarse @ [rows, columns] = grid.map(|side| side / scale);
            let rect = draw_tokens(&self.mixer.mix, (rows, columns), key.named("mix_token"));
            drawn.set(Some((rect, coarse)));
            rect.scaled(scale).exchange(tokens, grid)
        };
        let ask = Ask {
            mix: Some(&mix),
            ..Ask::default()
        };
        let mut heads = model.forward_asked(images, &ask, phase);
        let Some((rect, grid)) = drawn.get() else {
            return (heads, 0);
        };
        heads.aux = heads.aux.map(|tokens| rect.exchange(tokens, grid));
        (heads, rect.area())
    }
}

/// The model of a plan before the first update; a note describes the weights that it starts from.
pub(super) fn start_model(setup: &mut Setup<'_>) -> Result<Model, TrainError> {
    let (plan, device) = (setup.plan, setup.device);
    let model = build_model(plan, setup.model, device)?;
    if setup.weights == Weights::OfCheckpoint {
        return adapt(plan, model, device, &mut Vec::new());
    }
    let model = start_from(&plan.init, model, setup.notes)?;
    adapt(plan, model, device, setup.notes)
}

/// The weights of the classes of a plan.
fn class_weights(plan: &Plan, splits: &Splits) -> Result<Option<Vec<f32>>, TrainError> {
    let counts = splits.train.class_counts();
    let weights = plan.loss.class_weights.of(&counts);
    match &weights {
        Some(weights) if weights.len() != counts.len() => Err(TrainError::ClassWeights {
            weights: weights.len(),
            classes: counts.len(),
        }),
        _ => Ok(weights),
    }
}

impl Task for Classify {
    type Network = Model;
    type Target = u32;

    const METRICS: &'static [Metric] = &[
        Metric::LOSS,
        Metric::TOP1,
        Metric::TOP5,
        Metric::RECALL,
        Metric::F1,
    ];
    const BEST: Metric = Metric::TOP1;

    /// The model has as many classes as the data if the plan does not specify the number.
    fn model(plan: &Plan, splits: &Splits) -> Result<ModelConfig, TrainError> {
        let config = plan.model.config(Some(splits.classes().len()))?;
        check_classes(&config, &splits.train)?;
        class_weights(plan, splits)?;
        check_channels(&config, plan.augment.channels())?;
        let keys = [
            ("mix.mix_token", plan.mix.mixes_tokens()),
            ("loss.token_weight", plan.loss.token_weight > 0.0),
        ];
        if let Some((key, _)) = keys.into_iter().find(|(_, is_on)| *is_on)
            && config.token_scale().is_none()
        {
            let model = config.name();
            return Err(TrainError::NoTokenOutputs { key, model });
        }
        Ok(config)
    }

    fn start(setup: &mut Setup<'_>) -> Result<(Self, Model), TrainError> {
        let (plan, splits) = (setup.plan, setup.splits);
        let device = setup.device.clone().inner();
        let teacher = teacher(plan, setup.model, splits, &device, setup.notes)?;
        let task = Self {
            class_weights: class_weights(plan, splits)?,
            ..Self::new(plan, teacher)
        };
        Ok((task, start_model(setup)?))
    }

    fn prepare(plan: &Plan, splits: &Splits) -> Result<Arc<dyn Prepare<u32>>, DataError> {
        Ok(splits.train_views(plan, |sample| sample.label))
    }

    fn loss(
        &mut self,
        model: &Model,
        mut batch: DeviceBatch,
        at: Position,
        phase: Phase,
    ) -> Result<Tensor<1>, TrainError> {
        let (images, own_shares) = self.mixer.mixed(batch.views.swap_remove(0), at, phase);
        // The teacher gets the student's images.
        let teacher = self.teacher.as_ref();
        let taught = teacher.map(|teacher| teacher.logits(&images, &batch.indices));
        let (heads, mixed) = self.forward(model, images, at, phase);
        let ([_, classes], device) = (heads.class.dims(), heads.class.device());
        let targets = self.loss.targets(
            batch.targets.chunks(1),
            own_shares.as_deref(),
            classes,
            &device,
        );
        let targets = match &self.class_weights {
            Some(weights) => {
                weighted_targets(targets, &batch.targets, own_shares.is_some(), weights)
            }
            None => targets,
        };
        // Both heads together, as in prediction.
        let together = self.loss.heads == LossHeads::Mean && !self.learns_tokens();
        if together && taught.is_none() {
            return Ok(self.loss.of(heads.mean(), targets));
        }
        let base = |heads: Logits| match (heads.aux, self.learns_tokens()) {
            (Some(tokens), true) => self.loss.of_tokens(heads.class, tokens, mixed, targets),
            _ => self.loss.of(heads.class, targets),
        };
        Ok(match taught {
            None => base(heads),
            Some(taught) => {
                let student = heads
                    .distillation
                    .clone()
                    .unwrap_or_else(|| heads.class.clone());
                self.distill.blend(base(heads), student, taught)
            }
        })
    }

    /// The teacher itself is not saved, only its fingerprint.
    fn state(&self) -> Result<Vec<(&'static str, StateDict)>, TrainError> {
        let teacher = self.teacher.iter();
        Ok(teacher
            .map(|teacher| (TEACHER, teacher.fingerprint.to_state_dict()))
            .collect())
    }

    fn load_state(
        &mut self,
        read: &dyn Fn(&str) -> Result<StateDict, TrainError>,
    ) -> Result<(), TrainError> {
        match &self.teacher {
            Some(teacher) if !teacher.fingerprint.is_of(&read(TEACHER)?) => {
                Err(TrainError::OtherTeacher(teacher.path.clone()))
            }
            _ => Ok(()),
        }
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
        let (world, batches) = (data.world(), data.val_shard());
        let evaluation = evaluate(model, batches, device, world, None, |_| {}, |_, _| {})?;
        Ok(Measured {
            metrics: Metrics::from([
                (Metric::LOSS.name, evaluation.loss),
                (Metric::TOP1.name, evaluation.top1_percent()),
                (Metric::TOP5.name, evaluation.top5_percent()),
                (Metric::RECALL.name, evaluation.recall_percent),
                (Metric::F1.name, evaluation.f1_percent),
            ]),
            images: evaluation.images,
        })
    }
}
