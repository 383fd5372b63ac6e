//! An image classifier: a backbone and a head.

use std::collections::HashSet;

use burn::module::{Module, ModuleVisitor, Param, ParamId, list_param_ids};
use burn::tensor::{Device, Tensor};
use burn_store::{BurnToPyTorchAdapter, ModuleSnapshot, burn_pack};
use kvt_attention::UNDECAYED;
use kvt_ops::{Key, Phase, on_pool};

use crate::backbone::{Ask, Backbone};
use crate::error::ModelError;
use crate::family::families::{AnyBackbone, ModelConfig};
use crate::family::validate;
use crate::head::{Classifier, Logits};
use crate::layers::Init;
use crate::network::Network;
use crate::precision::Precision;
use crate::weights::{LoadOptions, Outcome, StateDict, WeightsError};

/// An image classifier.
#[derive(Module, Debug)]
pub struct Model {
    /// From images to features.
    pub backbone: AnyBackbone,
    /// From features to logits.
    pub head: Classifier,
    #[module(skip)]
    pub(crate) config: ModelConfig,
    /// Whether the backbone is not trained.
    #[module(skip)]
    is_frozen: bool,
    /// With [LoRA](Self::with_lora), the parameters that were trained without it, and no longer are.
    #[module(skip)]
    pub(crate) adapted_around: Option<Vec<ParamId>>,
    #[module(skip)]
    precision: Precision,
}

/// A parameter of a model, or a part of its state that is not trained.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// timm's name.
    pub name: String,
    /// Burn's identity, under which gradients and optimizer state are kept.
    pub id: ParamId,
    /// Shape in PyTorch's layout.
    pub shape: Vec<usize>,
}

impl Parameter {
    /// A tensor in PyTorch's layout under its name there; `None` if it is of no parameter.
    pub(crate) fn of(tensor: burn_pack::Tensor) -> Option<Self> {
        Some(Self {
            id: ParamId::from(tensor.param_id?),
            shape: tensor.shape.to_vec(),
            name: tensor.name,
        })
    }

    /// The same behind a prefix.
    #[must_use]
    pub fn within(self, prefix: &str) -> Self {
        let name = format!("{prefix}{}", self.name);
        Self { name, ..self }
    }
}

impl ModelConfig {
    /// Builds the model with the original's initialisation. The same key gives the same weights on
    /// every device.
    ///
    /// # Errors
    ///
    /// The configuration describes no model.
    pub fn init(&self, device: &Device, key: Key) -> Result<Model, ModelError> {
        self.validate()?;
        let init = Init::new(device, key);
        Ok(Model {
            backbone: self.backbone(&init),
            head: self.of_family().classifier(&init),
            config: self.clone(),
            is_frozen: false,
            adapted_around: None,
            precision: Precision::F32,
        })
    }
}

impl Model {
    /// The logits of a batch of images: several outputs are [combined](Logits::mean). In evaluation, a CPU works on them as in
    /// [`on_pool`](kvt_ops::on_pool).
    ///
    /// # Shapes
    ///
    /// `[batch, in_chans, height, width]` to `[batch, num_classes]`.
    ///
    /// # Panics
    ///
    /// On images that [`check_input`](Self::check_input) refuses, unless the backbone supports their size.
    pub fn forward(&self, images: Tensor<4>, phase: Phase) -> Tensor<2> {
        match phase {
            Phase::Eval => {
                let device = images.device();
                on_pool(&device, || self.forward_heads(images, phase).mean())
            }
            Phase::Train(_) => self.forward_heads(images, phase).mean(),
        }
    }

    /// The logits of each output.
    ///
    /// # Shapes
    ///
    /// `[batch, in_chans, height, width]` to `[batch, num_classes]` per output.
    ///
    /// # Panics
    ///
    /// As [`forward`](Self::forward).
    pub fn forward_heads(&self, images: Tensor<4>, phase: Phase) -> Logits {
        self.forward_asked(images, &Ask::default(), phase)
    }

    /// The logits of each output, with requests to the backbone, for example to mix patches or to be observed.
    ///
    /// # Shapes
    ///
    /// As [`forward_heads`](Self::forward_heads).
    ///
    /// # Panics
    ///
    /// As [`forward`](Self::forward).
    pub fn forward_asked(&self, images: Tensor<4>, ask: &Ask<'_>, phase: Phase) -> Logits {
        let of_backbone = if self.is_frozen { Phase::Eval } else { phase };
        let ask = Ask {
            precision: self.precision,
            ..*ask
        };
        let features = self.backbone.features(images, &ask, of_backbone);
        self.head.forward(features, phase)
    }

    /// This model with a frozen backbone: its parameters get no gradients, and it always runs as in evaluation,
    /// without drop path and dropout, and without updates of the running statistics of batch norms. Only the head is
    /// trained (a linear probe), and the backbone keeps nothing for a backward pass.
    #[must_use]
    pub fn freeze_backbone(self) -> Self {
        Self {
            backbone: self.backbone.no_grad(),
            is_frozen: true,
            ..self
        }
    }

    /// This model with products in another type, in training and in evaluation. Its weights stay f32, and so do the outputs:
    /// the head computes in f32.
    #[must_use]
    pub fn with_precision(self, precision: Precision) -> Self {
        Self { precision, ..self }
    }

    /// The type of the backbone's products; f32 by default, see [`with_precision`](Self::with_precision).
    pub fn precision(&self) -> Precision {
        self.precision
    }

    /// Refuses images of another shape than the configured one.
    ///
    /// # Errors
    ///
    /// `dims`, `[batch, channels, height, width]`, differ from the configuration.
    pub fn check_input(&self, dims: [usize; 4]) -> Result<(), ModelError> {
        self.config.check_input(dims)
    }

    /// Refuses images of a size, `[height, width]` in pixels, that the backbone or its attention does not support. It supports more
    /// sizes than the configured one: position embeddings are interpolated.
    ///
    /// # Errors
    ///
    /// [`ModelError::ImageSize`], which names the expected sizes: on all but the configured size if the attention has weights for one
    /// number of tokens.
    pub fn check_size(&self, size: [usize; 2]) -> Result<(), ModelError> {
        let ([height, width], own) = (size, self.config.img_size());
        let stages = self.config.summary().stages.into_iter();
        let fixed = stages
            .filter_map(|stage| stage.attention)
            .any(|attention| attention.fixes_keys);
        if fixed && [own.height, own.width] != size {
            return Err(ModelError::ImageSize {
                height,
                width,
                family: "a model with this attention",
                expected: format!(
                    "{} x {}, for which the attention has weights",
                    own.height, own.width
                ),
            });
        }
        let sides = self.config.of_family().input_sides();
        validate::input(self.config.family().name, size, sides)
    }

    /// The configuration this model was made from.
    pub fn config(&self) -> ModelConfig {
        self.config.clone()
    }

    /// The contents of a file of weights: the parameters, and what is saved with them but not trained, such as the
    /// running statistics of batch norms.
    pub fn state(&self) -> Vec<Parameter> {
        let tensors = self.pytorch_tensors().into_iter();
        tensors.filter_map(Parameter::of).collect()
    }

    /// The state with timm's names and layout, not yet read from the device; the factors of [LoRA](Self::with_lora) are merged.
    pub(crate) fn pytorch_tensors(&self) -> Vec<burn_pack::Tensor> {
        let merged = self.is_adapted().then(|| self.valid().materialize());
        let model = merged.as_ref().unwrap_or(self);
        let mut tensors = model.collect(None, Some(Box::new(BurnToPyTorchAdapter)), true);
        for tensor in &mut tensors {
            tensor.name = self.name(&tensor.name);
        }
        tensors
    }

    /// The name of the parameter at a path of modules.
    pub(crate) fn name(&self, path: &str) -> String {
        let family = self.config.family();
        if let Some(path) = path.strip_prefix(BACKBONE) {
            return family.paths.own(path);
        }
        let renamed = outputs(family.outputs).find_map(|(layer, name)| {
            let part = path.strip_prefix(HEAD)?.strip_prefix(layer)?;
            Some(format!("{name}{part}"))
        });
        renamed.unwrap_or_else(|| path.to_owned())
    }

    /// The path of modules to the parameter of this name.
    pub(crate) fn path(&self, name: &str) -> String {
        let family = self.config.family();
        let of_head = outputs(family.outputs).find_map(|(layer, output)| {
            let part = name.strip_prefix(output)?;
            part.starts_with('.')
                .then(|| format!("{HEAD}{layer}{part}"))
        });
        of_head.unwrap_or_else(|| format!("{BACKBONE}{}", family.paths.other(name)))
    }
}

impl Network for Model {
    /// Every trainable parameter under timm's name, in the order of the modules; the factors of [LoRA](Model::with_lora), as
    /// `blocks.0.attn.qkv.lora_A.weight`, after the others.
    fn parameters(&self) -> Vec<Parameter> {
        let trained = trained(self);
        let mut state = self.state();
        state.retain(|entry| trained.contains(&entry.id));
        state.extend(self.factor_parameters());
        state
    }

    /// Whether weight decay applies to a parameter. Exempt are biases and other one-dimensional parameters, those
    /// that the original exempts (position embeddings, class tokens), and those that a mechanism of attention
    /// [exempts](UNDECAYED).
    fn decays(&self, parameter: &Parameter) -> bool {
        let name = parameter.name.as_str();
        let last = name.rsplit('.').next().unwrap_or(name);
        let is_undecayed = self.config.family().is_undecayed(name)
            || is_of_mixer(name) && UNDECAYED.contains(&last);
        parameter.shape.len() > 1 && !is_undecayed
    }

    fn layer(&self, parameter: &Parameter) -> usize {
        self.config.layer(&parameter.name)
    }

    fn layers(&self) -> usize {
        self.config.layers()
    }

    /// The parameters that training does not change: all of a [frozen](Self::freeze_backbone) backbone, or what
    /// [LoRA](Self::with_lora) leaves as it is.
    fn frozen(&self) -> Vec<ParamId> {
        if let Some(frozen) = &self.adapted_around {
            return frozen.clone();
        }
        if self.is_frozen {
            list_param_ids(&self.backbone)
        } else {
            Vec::new()
        }
    }

    fn lora(&self) -> Option<&Self> {
        self.is_adapted().then_some(self)
    }

    fn lora_mut(&mut self) -> Option<&mut Self> {
        self.is_adapted().then_some(self)
    }

    fn state_dict(&self) -> Result<StateDict, WeightsError> {
        StateDict::from_model(self)
    }

    fn load_state_dict(self, state: &StateDict) -> Result<(Self, Vec<String>), WeightsError> {
        let (model, report) = self.load(state, LoadOptions::default())?;
        let unused = report.names(Outcome::Unused).map(str::to_owned).collect();
        Ok((model, unused))
    }
}

/// Whether a parameter belongs to a mechanism of attention, by its name: `blocks.0.attn.mixer.points`.
pub(crate) fn is_of_mixer(name: &str) -> bool {
    name.split('.').any(|module| module == MIXER)
}

/// How the paths to the parameters of a model begin.
const BACKBONE: &str = "backbone.";
const HEAD: &str = "head.";
/// The field of an attention layer that holds its mechanism.
const MIXER: &str = "mixer";

/// The layers of the classifier, and their names among the parameters.
fn outputs(names: &'static [&'static str]) -> impl Iterator<Item = (&'static str, &'static str)> {
    let layers = Classifier::LAYERS.into_iter().zip(names.iter().copied());
    layers.filter(|(_, name)| !name.is_empty())
}

/// The identities of the parameters of a module that are trained.
pub(crate) fn trained(module: &impl Module) -> HashSet<ParamId> {
    let mut trained = Trained::default();
    module.visit(&mut trained);
    trained.0
}

/// The parameters that are trained. A running statistic, or a parameter whose gradient was switched
/// off (`Param::set_require_grad`), is saved with the weights, but not trained.
#[derive(Default)]
struct Trained(HashSet<ParamId>);

impl ModuleVisitor for Trained {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        // Burn hides the setting on devices without autodiff, and restores it for training.
        let training = param.valid().train();
        if training.val().is_require_grad() {
            self.0.insert(param.id);
        }
    }
}
