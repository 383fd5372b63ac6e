//! Detection: boxes and masks of objects, by Mask R-CNN on a backbone with dense or k-NN attention.
//!
//! - Paper: He et al., *Mask R-CNN*, ICCV 2017, <https://arxiv.org/abs/1703.06870>
//! - Recipe: Liu et al., *Swin Transformer*, ICCV 2021, <https://github.com/SwinTransformer/Swin-Transformer-Object-Detection>
//!
//! The loss is the sum of the network's five. Evaluation is image by image: what is found is put back into the original image, and the
//! average precision of boxes and masks is that of pycocotools.

mod ap;
mod check;
mod evaluate;
mod found;
mod score;

use std::sync::Arc;

use burn::tensor::{Device, Tensor};
use kvt_data::augment::{Objects, PrepareObjects};
use kvt_models::ModelConfig;
use kvt_models::dense::mask_rcnn::{self, DetectLosses, MaskRcnn};
use kvt_ops::{Key, Phase};

use super::dense::start_from;
use super::model::check_channels;
use super::{EvalData, Measured, Setup, Task, Unread};
use crate::config::Plan;
use crate::data::{DataError, DeviceBatch, Prepare};
use crate::error::TrainError;
use crate::recipe::Position;
use crate::run::{Metric, Metrics};
use crate::splits::{Splits, image_limits};

pub use ap::AveragePrecision;
pub(crate) use check::check;
pub use evaluate::{DetectEvaluation, evaluate_objects};
pub use found::{FoundObject, find_objects};
pub use score::{Scores, score};

/// A network that learns to find objects, evaluated by the average precision of their boxes.
pub struct Detect {
    /// Prepares the images of an evaluation.
    eval: Arc<dyn Prepare<Objects>>,
    /// The losses of the last micro-batch, without their graph.
    seen: Option<[Tensor<1>; 5]>,
}

impl Detect {
    /// The task of a plan.
    ///
    /// # Errors
    /// If settings are inconsistent.
    pub fn new(plan: &Plan) -> Result<Self, DataError> {
        Ok(Self {
            eval: eval_objects(plan)?,
            seen: None,
        })
    }
}

/// Prepares the images of an evaluation of a plan.
///
/// # Errors
/// If settings are inconsistent.
pub fn eval_objects(plan: &Plan) -> Result<Arc<dyn Prepare<Objects>>, DataError> {
    let limits = image_limits(plan);
    let images = PrepareObjects::evaluation(&plan.multiscale, &plan.augment, limits)?;
    Ok(Arc::new(images))
}

impl Task for Detect {
    type Network = MaskRcnn;
    type Target = Objects;

    const METRICS: &'static [Metric] = &[
        Metric::BOX_AP,
        Metric::MASK_AP,
        Metric::BOX_AP50,
        Metric::BOX_AP75,
        Metric::MASK_AP50,
        Metric::MASK_AP75,
    ];
    const BEST: Metric = Metric::BOX_AP;

    fn prepare(plan: &Plan, _: &Splits) -> Result<Arc<dyn Prepare<Objects>>, DataError> {
        let limits = image_limits(plan);
        let images = PrepareObjects::train(&plan.multiscale, &plan.augment, limits)?;
        Ok(Arc::new(images))
    }

    /// The classification head is not used, and has one output.
    fn model(plan: &Plan, _: &Splits) -> Result<ModelConfig, TrainError> {
        let config = plan.model.backbone()?;
        check_channels(&config, 3)?;
        Ok(config)
    }

    fn start(setup: &mut Setup<'_>) -> Result<(Self, MaskRcnn), TrainError> {
        let network = start_from(setup)?;
        Ok((Self::new(setup.plan)?, network))
    }

    fn parameters(_: &ModelConfig, network: &MaskRcnn) -> usize {
        super::dense::count(network)
    }

    fn loss(
        &mut self,
        network: &MaskRcnn,
        mut batch: DeviceBatch<Objects>,
        _: Position,
        phase: Phase,
    ) -> Result<Tensor<1>, TrainError> {
        let images = batch.views.swap_remove(0);
        let targets = batch.targets.into_iter();
        let objects = targets.map(|target| mask_rcnn::Objects {
            size: target.size.into(),
            all: target.all,
        });
        let objects: Vec<mask_rcnn::Objects> = objects.collect();
        let key = match phase {
            Phase::Train(key) => key,
            Phase::Eval => Key::new(0),
        };
        let losses = network.losses(images, &objects, key)?;
        self.seen = Some(losses.all.clone().map(|loss| loss.inner()));
        Ok(losses.total())
    }

    fn begin(&mut self) {
        self.seen = None;
    }

    /// The five losses.
    fn signals(&self, _: Position) -> Option<Unread> {
        let seen = self.seen.as_ref()?;
        let names = DetectLosses::NAMES.map(|name| format!("{name}_loss"));
        let named = names.into_iter().zip(seen.iter().cloned());
        Some(Unread::named(named, None))
    }

    fn evaluate(
        &self,
        network: &MaskRcnn,
        data: &mut EvalData<'_>,
        device: &Device,
    ) -> Result<Measured, TrainError> {
        let (world, source) = (data.world(), data.val_source());
        let batches = data.val_prepared(Arc::clone(&self.eval), 1);
        let evaluation = evaluate_objects(network, batches, source, device, world, |_| {})?;
        Ok(measured(&evaluation.scores))
    }
}

/// Average precision in percent, by metric; without masks in the annotations there are only those of boxes.
fn measured(scores: &Scores) -> Measured {
    let boxes = [Metric::BOX_AP, Metric::BOX_AP50, Metric::BOX_AP75];
    let masks = [Metric::MASK_AP, Metric::MASK_AP50, Metric::MASK_AP75];
    // Boxes come first, and there may be no masks.
    let found = scores.kinds().flat_map(|(_, of)| [of.ap, of.ap50, of.ap75]);
    let metrics = boxes.into_iter().chain(masks).zip(found);
    let metrics: Metrics = metrics
        .filter_map(|(metric, share)| Some((metric.name.to_owned(), 100.0 * share?)))
        .collect();
    Measured {
        metrics,
        images: scores.images,
    }
}

#[cfg(test)]
mod tests;
