//! Any of the backbones, as one module.

use burn::module::{Module, ParamId};
use burn::nn::Linear;
use burn::tensor::{Tensor, TensorData};
use burn_store::{BurnToPyTorchAdapter, ModuleSnapshot, burn_pack};
use kvt_ops::{Phase, linear};

use crate::architecture::{Network, each};
use crate::cvt::Cvt;
use crate::deit::Deit;
use crate::error::ModelError;
use crate::pit::Pit;
use crate::registry::ModelConfig;
use crate::swin::Swin;

/// An image classifier.
#[expect(
    clippy::large_enum_variant,
    reason = "a handful of models, each of which holds far more memory elsewhere"
)]
#[derive(Module, Debug)]
pub enum Model {
    /// DeiT.
    Deit(Deit),
    /// Swin.
    Swin(Swin),
    /// PiT.
    Pit(Pit),
    /// CvT.
    Cvt(Cvt),
}

impl From<Deit> for Model {
    fn from(model: Deit) -> Self {
        Self::Deit(model)
    }
}

impl From<Swin> for Model {
    fn from(model: Swin) -> Self {
        Self::Swin(model)
    }
}

impl From<Pit> for Model {
    fn from(model: Pit) -> Self {
        Self::Pit(model)
    }
}

impl From<Cvt> for Model {
    fn from(model: Cvt) -> Self {
        Self::Cvt(model)
    }
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
    /// Of a head on the first token, and one on the second where there is one.
    ///
    /// # Shapes
    ///
    /// `[batch, tokens, num_features]`.
    pub(crate) fn of_tokens(x: &Tensor<3>, head: &Linear, head_dist: Option<&Linear>) -> Self {
        let token = |i: usize| x.clone().narrow(1, i, 1).squeeze_dim::<2>(1);
        Self {
            class: linear(head, token(0)),
            distillation: head_dist.map(|head| linear(head, token(1))),
        }
    }

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
        each!(Self, self, model => model.forward_heads(images, phase))
    }

    /// Refuses images the model does not take.
    ///
    /// # Errors
    ///
    /// `dims`, `[batch, channels, height, width]`, are not those of the configuration.
    pub fn check_input(&self, dims: [usize; 4]) -> Result<(), ModelError> {
        self.config().check_input(dims)
    }

    /// The configuration this model was made from.
    pub fn config(&self) -> ModelConfig {
        each!(Self, self, model => model.config().clone().into())
    }

    /// Every trainable parameter under timm's name, in the order of the modules.
    pub fn parameters(&self) -> Vec<Parameter> {
        let mut state = self.state();
        state.retain(|entry| !is_statistic(&entry.name));
        state
    }

    /// Whether weight decay shrinks a parameter: neither biases and other one-dimensional parameters,
    /// nor what the original leaves out (position embeddings, class tokens).
    pub fn decays(&self, parameter: &Parameter) -> bool {
        let name = parameter.name.as_str();
        let last = name.rsplit_once('.').map_or(name, |(_, last)| last);
        parameter.shape.len() > 1
            && !each!(Self, self, model => no_weight_decay(model)).contains(&last)
    }

    /// Names of the layers that turn features into class scores.
    pub(crate) fn classifiers(&self) -> &'static [&'static str] {
        fn of<N: Network>(_: &N) -> &'static [&'static str] {
            N::CLASSIFIERS
        }
        each!(Self, self, model => of(model))
    }

    /// Everything that a file of weights holds: parameters, and the running statistics of batch
    /// norms.
    pub(crate) fn state(&self) -> Vec<Parameter> {
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

    /// A weight of another image size at the size of the parameter `name`.
    pub(crate) fn resize(
        &self,
        name: &str,
        shape: &[usize],
        weight: &TensorData,
    ) -> Option<TensorData> {
        each!(Self, self, model => model.resize(name, shape, weight))
            .filter(|resized| resized.shape().as_slice() == shape)
    }

    /// The parameters with timm's names and layout, not yet read from the device.
    pub(crate) fn pytorch_tensors(&self) -> Vec<burn_pack::Tensor> {
        fn name<N: Network>(_: &N, path: &str) -> String {
            N::parameter_name(path)
        }
        let mut tensors = self.collect(None, Some(Box::new(BurnToPyTorchAdapter)), true);
        for tensor in &mut tensors {
            tensor.name = each!(Self, self, model => name(model, &tensor.name));
        }
        tensors
    }

    /// The path of modules to the parameter of this name.
    pub(crate) fn path(&self, name: &str) -> String {
        fn path<N: Network>(_: &N, name: &str) -> String {
            N::parameter_path(name)
        }
        each!(Self, self, model => path(model, name))
    }
}

fn no_weight_decay<N: Network>(_: &N) -> &'static [&'static str] {
    N::NO_WEIGHT_DECAY
}

/// Whether an entry is a running statistic of a batch norm, which is saved but not trained.
fn is_statistic(name: &str) -> bool {
    name.ends_with(".running_mean") || name.ends_with(".running_var")
}
