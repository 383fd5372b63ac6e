//! Any of the backbones, as one module.

use burn::module::{Module, ParamId};
use burn::tensor::Tensor;
use burn_store::{BurnToPyTorchAdapter, ModuleSnapshot, burn_pack};
use kvt_attention::Phase;

use crate::deit::Deit;
use crate::error::ModelError;
use crate::registry::ModelConfig;

/// An image classifier.
#[derive(Module, Debug)]
pub enum Model {
    /// DeiT.
    Deit(Deit),
}

/// The logits of a classifier's heads, `[batch, num_classes]` each.
#[derive(Clone, Debug)]
pub struct Logits {
    /// The head on the class token.
    pub class: Tensor<2>,
    /// The head on the distillation token, where the model has one.
    pub distillation: Option<Tensor<2>>,
}

impl Logits {
    /// The mean over the heads: what a distilled model predicts.
    pub fn mean(self) -> Tensor<2> {
        match self.distillation {
            Some(distillation) => (self.class + distillation) * 0.5,
            None => self.class,
        }
    }
}

/// A trainable parameter of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// timm's name.
    pub name: String,
    /// Burn's identity, under which gradients and optimizer state are kept.
    pub id: ParamId,
    /// Shape in PyTorch's layout.
    pub shape: Vec<usize>,
}

impl Model {
    /// The logits of a batch of images: the mean of both heads where there are two.
    ///
    /// # Shapes
    ///
    /// `[batch, in_chans, img_size, img_size]` to `[batch, num_classes]`.
    ///
    /// # Panics
    ///
    /// On images that [`check_input`](Self::check_input) refuses.
    pub fn forward(&self, images: Tensor<4>, phase: Phase) -> Tensor<2> {
        self.forward_heads(images, phase).mean()
    }

    /// The logits of each head.
    ///
    /// # Shapes
    ///
    /// `[batch, in_chans, img_size, img_size]` to `[batch, num_classes]` per head.
    ///
    /// # Panics
    ///
    /// On images that [`check_input`](Self::check_input) refuses.
    pub fn forward_heads(&self, images: Tensor<4>, phase: Phase) -> Logits {
        match self {
            Self::Deit(model) => model.forward_heads(images, phase),
        }
    }

    /// Refuses images the model does not take.
    ///
    /// # Errors
    ///
    /// `dims`, `[batch, channels, height, width]`, are not those of the configuration.
    pub fn check_input(&self, dims: [usize; 4]) -> Result<(), ModelError> {
        match self {
            Self::Deit(model) => model.config().check_input(dims),
        }
    }

    /// The configuration this model was made from.
    pub fn config(&self) -> ModelConfig {
        match self {
            Self::Deit(model) => ModelConfig::Deit(model.config().clone()),
        }
    }

    /// Every trainable parameter under timm's name, in the order of the modules.
    pub fn parameters(&self) -> Vec<Parameter> {
        self.pytorch_tensors()
            .into_iter()
            .filter_map(|tensor| {
                Some(Parameter {
                    id: ParamId::from(tensor.param_id?),
                    shape: tensor.shape.to_vec(),
                    name: tensor.name,
                })
            })
            .collect()
    }

    /// Names of parameters that get no weight decay although they are no bias and have more than
    /// one dimension.
    pub fn no_weight_decay(&self) -> &'static [&'static str] {
        match self {
            Self::Deit(_) => &["cls_token", "dist_token", "pos_embed"],
        }
    }

    /// Names of the layers that turn features into class scores.
    pub(crate) fn classifiers(&self) -> &'static [&'static str] {
        match self {
            Self::Deit(_) => &["head", "head_dist"],
        }
    }

    /// The parameters with timm's names and layout, not yet read from the device.
    pub(crate) fn pytorch_tensors(&self) -> Vec<burn_pack::Tensor> {
        self.collect(None, Some(Box::new(BurnToPyTorchAdapter)), true)
    }
}
