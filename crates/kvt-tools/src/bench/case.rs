//! A model that is measured, with random images.

use burn::tensor::{Device, Tensor};
use kvt_models::{ImgSize, ModelConfig, Precision};
use kvt_ops::Key;

use super::inputs::normal;
use kvt_train::config::Plan;
use kvt_train::error::TrainError;
use kvt_train::task::{DenseSize, LoraConfig, TaskKind, largest_sides_of, sides_of, summary_of};

/// The model, and how it is run.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelCase {
    /// The kind of attention: `dense`, `knn` or another.
    pub kind: String,
    /// The model: a classifier, or the backbone of `dense`.
    pub config: ModelConfig,
    /// The plan of a network for segmentation or detection.
    pub dense: Option<Plan>,
    /// With detection: whether images are the largest that the plan makes, not of 4 to 3.
    pub largest: bool,
    /// Images of a step or of a forward pass.
    pub batch: usize,
    /// The type of matrix products.
    pub precision: Precision,
    /// The factors that a step trains in place of a classifier's weights. A forward pass is one of the merged weights.
    pub lora: LoraConfig,
}

impl ModelCase {
    /// The classes of pixels that are measured: ADE20K's.
    pub(super) const PIXEL_CLASSES: usize = 150;
    /// The classes of objects that are measured: COCO's.
    pub(super) const OBJECT_CLASSES: usize = 80;

    /// The model of a plan, with so many images.
    ///
    /// # Errors
    /// If the plan has no such model.
    pub fn of(kind: &str, plan: &Plan, batch: usize) -> Result<Self, TrainError> {
        let is_dense = matches!(plan.task, TaskKind::Segment | TaskKind::Detect);
        Ok(Self {
            kind: kind.to_owned(),
            config: plan.model.config(None)?,
            dense: is_dense.then(|| plan.clone()),
            largest: false,
            batch,
            precision: plan.train.precision,
            lora: plan.lora.clone(),
        })
    }

    /// Height and width of an image: with segmentation those of a crop, with detection those of an evaluation.
    pub(crate) fn sides(&self) -> (usize, usize) {
        match &self.dense {
            Some(plan) if self.largest => largest_sides_of(plan),
            Some(plan) => sides_of(plan),
            None => self.config.img_size().sides(),
        }
    }

    /// Size of an image; of a network for segmentation or detection the height as that of a square.
    pub(super) fn img_size(&self) -> ImgSize {
        match &self.dense {
            Some(_) => self.sides().0.into(),
            None => self.config.img_size(),
        }
    }

    /// Parameters, and multiply-accumulate operations of an image.
    pub(crate) fn size(&self) -> (usize, u64) {
        let dense = self.dense.as_ref();
        let size = dense.and_then(|plan| {
            let classes = match plan.task {
                TaskKind::Detect => Self::OBJECT_CLASSES,
                _ => Self::PIXEL_CLASSES,
            };
            DenseSize::at(plan, classes, self.sides()).ok()
        });
        size.map_or_else(
            || {
                let summary = self.config.summary();
                (summary.params, summary.macs.total())
            },
            |size| (size.params, size.macs),
        )
    }

    /// The images, `[batch, channels, height, width]`.
    pub(super) fn images(&self, device: &Device) -> Tensor<4> {
        let (height, width) = self.sides();
        let shape = [self.batch, self.config.in_chans(), height, width];
        normal(Key::new(0).named("images"), shape, device)
    }

    /// Keys kept per query, by stage.
    pub(super) fn kept(&self) -> Vec<usize> {
        let summary = match &self.dense {
            Some(plan) => summary_of(plan, &self.config),
            None => self.config.summary(),
        };
        summary.attending().map(|stage| stage.k).collect()
    }
}
