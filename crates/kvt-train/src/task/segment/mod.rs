//! Semantic segmentation: the class of every pixel, by UPerNet on a backbone with dense or k-NN attention.
//!
//! - Paper: Xiao et al., *Unified Perceptual Parsing for Scene Understanding*, ECCV 2018, <https://arxiv.org/abs/1807.10221>
//! - Recipe: Liu et al., *Swin Transformer*, ICCV 2021, <https://github.com/SwinTransformer/Swin-Transformer-Semantic-Segmentation>
//!
//! Both heads' logits are resized to the size of the labels, and the loss is the main head's cross-entropy plus a share of the
//! auxiliary one's. Evaluation is image by image, at the original size of the labels.

mod check;
mod config;
mod counts;
mod evaluate;

use std::sync::Arc;

use burn::tensor::{Device, Int, Tensor, TensorData};
use kvt_data::augment::{JointEval, JointTrain};
use kvt_data::{IGNORED, LabelMap};
use kvt_models::ModelConfig;
use kvt_models::dense::upernet::{SegmentLogits, UperNet};
use kvt_ops::{Phase, pixel_cross_entropy, resize_bilinear};

use super::dense::start_from;
use super::model::check_channels;
use super::size::heads;
use super::{EvalData, Measured, Setup, Task, Unread};
use crate::config::Plan;
use crate::data::{DataError, DeviceBatch, Prepare};
use crate::error::TrainError;
use crate::recipe::Position;
use crate::run::{Metric, Metrics};
use crate::splits::{Splits, image_limits};

pub(crate) use check::check;
pub use config::{Average, SegmentConfig, SegmentEval};
pub use counts::SegmentCounts;
pub use evaluate::{SegmentEvaluation, evaluate_segments, predict_labels};

/// A network that learns the classes of pixels, evaluated by the mean intersection over union.
pub struct Segment {
    config: SegmentConfig,
    /// Prepares the images of an evaluation.
    eval: Arc<dyn Prepare<LabelMap>>,
    /// The last micro-batch.
    seen: Option<Seen>,
    crops: Crops,
}

/// The crops that this process has trained on since its start.
#[derive(Clone, Copy, Default)]
struct Crops {
    all: usize,
    /// Those of which no pixel has a class.
    unlabelled: usize,
}

impl Crops {
    /// Of fewer crops a share says little.
    const LEAST: usize = 100;

    /// A warning if nothing is learned from more than a tenth of them.
    fn warning(self) -> Option<String> {
        let Self { all, unlabelled } = self;
        (all >= Self::LEAST && 10 * unlabelled > all).then(|| {
            format!(
                "no pixel of {unlabelled} of the {all} crops of training images so far has a class: nothing is learned from them; \
                 `kvt data check` counts masks without any class"
            )
        })
    }
}

/// The last micro-batch of an update, without its graph.
struct Seen {
    /// The logits of the main head, `[batch, classes, height / 4, width / 4]`.
    logits: Tensor<4>,
    /// `[batch, height, width]`
    labels: Tensor<3, Int>,
    /// The loss of each head.
    losses: Vec<Tensor<1>>,
}

impl Segment {
    /// The task of a plan.
    ///
    /// # Errors
    /// If settings are inconsistent.
    pub fn new(plan: &Plan) -> Result<Self, DataError> {
        Ok(Self {
            config: plan.segment.clone(),
            eval: eval_images(plan)?,
            seen: None,
            crops: Crops::default(),
        })
    }
}

/// Prepares the images of an evaluation of a plan.
///
/// # Errors
/// If settings are inconsistent.
pub fn eval_images(plan: &Plan) -> Result<Arc<dyn Prepare<LabelMap>>, DataError> {
    let limits = image_limits(plan);
    let images = JointEval::new(&plan.dense, &plan.augment, limits, least_side(plan))?;
    Ok(Arc::new(images))
}

/// The minimum side of an image for the model of a plan.
pub fn least_side(plan: &Plan) -> u32 {
    let model = plan.model.config(None).ok();
    let least = model.and_then(|model| model.pyramid_least_side().ok());
    least.map_or(1, |least| least as u32)
}

impl Task for Segment {
    type Network = UperNet;
    type Target = LabelMap;

    const METRICS: &'static [Metric] = &[Metric::LOSS, Metric::MIOU, Metric::MACC, Metric::AACC];
    const BEST: Metric = Metric::MIOU;

    fn size(plan: &Plan, _: &ModelConfig) -> (usize, usize) {
        plan.dense.crop.map(|side| side as usize).into()
    }

    fn prepare(plan: &Plan, _: &Splits) -> Result<Arc<dyn Prepare<LabelMap>>, DataError> {
        let limits = image_limits(plan);
        Ok(Arc::new(JointTrain::new(
            &plan.dense,
            &plan.augment,
            limits,
        )?))
    }

    /// The classification head is not used, and has one output.
    fn model(plan: &Plan, splits: &Splits) -> Result<ModelConfig, TrainError> {
        let config = plan.model.backbone()?;
        if let [class] = splits.classes() {
            return Err(TrainError::OneClass {
                data: splits.train.root.clone(),
                class: class.clone(),
            });
        }
        check_channels(&config, 3)?;
        Ok(config)
    }

    fn start(setup: &mut Setup<'_>) -> Result<(Self, UperNet), TrainError> {
        let (plan, splits) = (setup.plan, setup.splits);
        let classes = splits.classes().len();
        if !splits.train.is_labelled(image_limits(plan)) {
            let masks = splits.train.samples.len();
            return Err(TrainError::NothingLabelled(masks, "train on"));
        }
        let images = splits.train.samples.len().min(plan.train.batch_size);
        heads(plan, classes).check_batch(images)?;
        let network = start_from(setup)?;
        Ok((Self::new(plan)?, network))
    }

    fn parameters(_: &ModelConfig, network: &UperNet) -> usize {
        super::dense::count(network)
    }

    fn loss(
        &mut self,
        network: &UperNet,
        mut batch: DeviceBatch<LabelMap>,
        _: Position,
        phase: Phase,
    ) -> Result<Tensor<1>, TrainError> {
        let images = batch.views.swap_remove(0);
        let [count, _, height, width] = images.dims();
        let unlabelled = batch.targets.iter().filter(|map| !map.is_labelled());
        self.crops.all += count;
        self.crops.unlabelled += unlabelled.count();
        let labels: Vec<i32> = batch
            .targets
            .iter()
            .flat_map(|target| target.labels.iter().map(|&label| label.into()))
            .collect();
        let labels = TensorData::new(labels, [count, height, width]);
        let labels = Tensor::<3, Int>::from_data(labels, &images.device());
        let SegmentLogits { main, auxiliary } = network.forward(images, phase);
        let average = self.config.average.into();
        let loss = |logits: Tensor<4>| {
            let logits = resize_bilinear(logits, [height, width]);
            pixel_cross_entropy(logits, labels.clone(), IGNORED.into(), average)
        };
        let mut total = loss(main.clone());
        let mut losses = vec![total.clone().inner()];
        if let Some(auxiliary) = auxiliary {
            let auxiliary = loss(auxiliary);
            losses.push(auxiliary.clone().inner());
            total = total + auxiliary * self.config.aux_weight;
        }
        self.seen = Some(Seen {
            logits: main.inner(),
            labels: labels.inner(),
            losses,
        });
        Ok(total)
    }

    fn begin(&mut self) {
        self.seen = None;
    }

    /// The loss of each head, and the share of labelled pixels whose class is predicted, in percent.
    fn signals(&self, _: Position) -> Option<Unread> {
        let seen = self.seen.as_ref()?;
        let [_, height, width] = seen.labels.dims();
        let logits = resize_bilinear(seen.logits.clone(), [height, width]);
        let predicted = logits.argmax(1).squeeze_dim::<3>(1);
        let is_labelled = seen.labels.clone().not_equal_elem(i32::from(IGNORED));
        let right = predicted.equal(seen.labels.clone()).float().sum();
        // 0 without any labelled pixel.
        let right = right * 100.0 / is_labelled.float().sum().clamp_min(1.0);
        let losses = ["main_loss", "auxiliary_loss"].into_iter();
        let named = losses.zip(seen.losses.iter().cloned());
        let named = named.chain([("pixel_accuracy", right)]);
        let named = named.map(|(name, number)| (name.to_owned(), number));
        Some(Unread::named(named, self.crops.warning()))
    }

    fn evaluate(
        &self,
        network: &UperNet,
        data: &mut EvalData<'_>,
        device: &Device,
    ) -> Result<Measured, TrainError> {
        let classes = data.val_source().classes.len();
        let (world, of) = (data.world(), (classes, &self.config));
        let batches = data.val_prepared(Arc::clone(&self.eval), 1);
        let evaluation = evaluate_segments(network, batches, of, device, world, |_| {})?;
        let counts = &evaluation.counts;
        Ok(Measured {
            metrics: Metrics::from([
                (Metric::LOSS.name, evaluation.loss),
                (Metric::MIOU.name, counts.miou()),
                (Metric::MACC.name, counts.macc()),
                (Metric::AACC.name, counts.aacc()),
            ]),
            images: evaluation.images,
        })
    }
}

#[cfg(test)]
mod tests;
