//! Student and teacher: a backbone with DINO's head.

use burn::module::{Module, ParamId};
use burn::tensor::{Device, Tensor};
use kvt_models::dense::state;
use kvt_models::weights::{LoadOptions, LoadReport, Misfit, Outcome, StateDict, WeightsError};
use kvt_models::{Ask, Backbone, Model, ModelConfig, Network, Parameter, Positions};
use kvt_ops::{Key, Phase};

use super::{DinoConfig, DinoHead};

/// The prefixes of the names of both parts in files, as in the original.
const BACKBONE: &str = "backbone.";
const HEAD: &str = "head.";

/// A backbone and a head: the type of both student and teacher.
#[derive(Module, Debug)]
pub struct DinoNetwork {
    /// The model whose backbone is trained. Its classification head is not used, not trained and not saved.
    pub backbone: Model,
    /// The head.
    pub head: DinoHead,
}

/// The outputs of a network for some views.
#[derive(Clone, Debug)]
pub struct DinoOutput {
    /// One feature vector for each image of each view, `[views * batch, features]`, view by view.
    pub features: Tensor<2>,
    /// The outputs of the head, `[views * batch, out_dim]`.
    pub outputs: Tensor<2>,
}

impl DinoNetwork {
    /// A model with a new head.
    pub fn new(model: Model, config: &DinoConfig, device: &Device, key: Key) -> Self {
        let features = features(&model.config(), &model, device);
        Self {
            head: DinoHead::new(config, features, device, key),
            backbone: model,
        }
    }

    /// Computes the outputs for views, `[batch, 3, height, width]` each. Consecutive views of the same size go through the
    /// backbone together, and all of them through the head together.
    pub fn forward(&self, views: &[Tensor<4>], phase: Phase) -> DinoOutput {
        let size = |view: &Tensor<4>| view.dims();
        let groups = views.chunk_by(|a, b| size(a) == size(b)).enumerate();
        let features = groups.map(|(group, views)| {
            let images = Tensor::cat(views.to_vec(), 0);
            embed(&self.backbone, images, phase.child(group as u64))
        });
        let features = Tensor::cat(features.collect(), 0);
        DinoOutput {
            outputs: self.head.forward(features.clone()),
            features,
        }
    }
}

/// One feature vector for each image, `[batch, features]`; the images have the size of crops or that of the model.
fn embed(model: &Model, images: Tensor<4>, phase: Phase) -> Tensor<2> {
    let ask = Ask {
        positions: Positions::Dino,
        precision: model.precision(),
        ..Ask::default()
    };
    model.backbone.features(images, &ask, phase).pooled()
}

/// The number of feature channels, which only the backbone knows: it is run with one image of zeros.
fn features(config: &ModelConfig, model: &Model, device: &Device) -> usize {
    let side = config.img_size().side();
    let image = Tensor::zeros([1, config.in_chans(), side, side], &device.clone().inner());
    let model = model.valid();
    embed(&model, image, Phase::Eval).dims()[1]
}

impl Network for DinoNetwork {
    fn parameters(&self) -> Vec<Parameter> {
        let all = self.backbone.parameters().into_iter();
        let backbone = all.filter(|parameter| !self.backbone.is_of_head(&parameter.name));
        let backbone = backbone.map(|parameter| parameter.within(BACKBONE));
        let head = state::parameters(&self.head, HEAD);
        backbone.chain(head).collect()
    }

    /// As in the original: all parameters with more than one dimension that are not biases, including position embeddings
    /// and class tokens.
    fn decays(&self, parameter: &Parameter) -> bool {
        parameter.shape.len() > 1 && !parameter.name.ends_with(".bias")
    }

    fn layer(&self, parameter: &Parameter) -> usize {
        match parameter.name.strip_prefix(BACKBONE) {
            Some(name) => self.backbone.layer(&Parameter {
                name: name.to_owned(),
                ..parameter.clone()
            }),
            None => self.layers().saturating_sub(1),
        }
    }

    fn layers(&self) -> usize {
        self.backbone.layers()
    }

    /// The classification head, and the lengths of the last layer if they are not trained.
    fn frozen(&self) -> Vec<ParamId> {
        let all = self.backbone.parameters().into_iter();
        let unused = all.filter(|parameter| self.backbone.is_of_head(&parameter.name));
        let unused = unused.map(|parameter| parameter.id);
        unused.chain(self.head.frozen()).collect()
    }

    fn state_dict(&self) -> Result<StateDict, WeightsError> {
        let backbone = StateDict::from_model(&self.backbone)?
            .into_iter()
            .filter(|(name, _)| !self.backbone.is_of_head(name))
            .map(|(name, data)| (format!("{BACKBONE}{name}"), data));
        let head = state::state_dict(&self.head, HEAD)?;
        Ok(backbone.chain(head).collect())
    }

    fn load_state_dict(self, state: &StateDict) -> Result<(Self, Vec<String>), WeightsError> {
        let (backbone, report) = load_backbone(self.backbone, state)?;
        let (head, rows) = state::load(self.head, HEAD, state, Outcome::Missing)?;
        let of_head = LoadReport { rows };
        if !of_head.fits() {
            return Err(WeightsError::Incompatible {
                report: of_head,
                misfit: Misfit::Others,
            });
        }
        let backbone_unused = report.names(Outcome::Unused);
        let mut unused: Vec<String> = backbone_unused
            .map(|name| format!("{BACKBONE}{name}"))
            .collect();
        let known: Vec<&str> = of_head.names(Outcome::Matched).collect();
        let others = state
            .iter()
            .map(|(name, _)| name)
            .filter(|name| !name.starts_with(BACKBONE) && !known.contains(name));
        unused.extend(others.map(str::to_owned));
        Ok((Self { backbone, head }, unused))
    }
}

/// The weights with a prefix, which is removed.
fn part(state: &StateDict, prefix: &str) -> StateDict {
    state.part(|name| name.strip_prefix(prefix).map(str::to_owned))
}

/// The weights of the backbone, if they are of a student or teacher, whose files contain a head as well; `None` for others.
pub fn part_of_backbone(state: &StateDict) -> Option<StateDict> {
    let backbone = part(state, BACKBONE);
    (!backbone.is_empty()).then_some(backbone)
}

/// A model with the backbone of a student or teacher and an unchanged classification head.
///
/// # Errors
/// If a weight is missing or has another shape.
pub fn load_backbone(model: Model, state: &StateDict) -> Result<(Model, LoadReport), WeightsError> {
    let options = LoadOptions {
        reset_head: true,
        new_head: true,
        ..LoadOptions::default()
    };
    model.load(&part(state, BACKBONE), options)
}
