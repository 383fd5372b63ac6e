//! The network of segmentation for a plan, and its weights before training.

use burn::module::ParamId;
use burn::tensor::Device;
use kvt_models::dense::upernet::{CLASSIFIERS, UperNet};
use kvt_models::dense::{DenseKind, Pyramid, read_dense};
use kvt_models::weights::{self, Outcome, StateDict, WeightsError};
use kvt_models::{ModelConfig, Parameter};
use kvt_ops::Key;

use super::size::heads;
use crate::config::Plan;
use crate::error::TrainError;
use crate::fetch::locate;
use crate::recipe::Network;
use crate::run::{Note, Topic};
use crate::task::model::hint;
use crate::task::{InitConfig, ResetHead};

/// Builds the network of a plan for images of `classes` classes, with the plan's seed and precision.
///
/// # Errors
/// If the model has no pyramid, or settings do not describe a network.
pub fn segment_network(
    plan: &Plan,
    model: &ModelConfig,
    classes: usize,
    device: &Device,
) -> Result<UperNet, TrainError> {
    let key = Key::new(plan.seed).named("init");
    let pyramid = Pyramid::new(model, plan.segment.window_padding, device, key)?
        .with_precision(plan.train.precision);
    let config = heads(plan, classes);
    let key = key.named("segment");
    Ok(UperNet::new(pyramid, &config, device, key)?)
}

/// A network with the weights in `init.weights`: those of a classifier for the backbone, or those of a whole network, of which
/// `init.reset_head` can leave out the last layers. A note describes the outcome.
///
/// # Errors
/// If the weights cannot be read or do not match.
pub(super) fn start_from(
    init: &InitConfig,
    model: &ModelConfig,
    network: UperNet,
    notes: &mut Vec<Note>,
) -> Result<UperNet, TrainError> {
    let Some(path) = &init.weights else {
        return Ok(network);
    };
    let refused = |source| TrainError::InitWeights {
        path: path.clone(),
        hint: match &source {
            WeightsError::Incompatible { misfit, .. } => hint(*misfit),
            _ => "",
        },
        source,
    };
    let state = weights::read(&locate(path)?).map_err(refused)?;
    let (network, message) = loaded(init, model, network, state).map_err(refused)?;
    let message = format!("weights of `{}`: {message}", path.display());
    notes.push(Note::new(0, Topic::Start, message));
    Ok(network)
}

/// A network with the weights of a file, and what they are.
fn loaded(
    init: &InitConfig,
    model: &ModelConfig,
    mut network: UperNet,
    state: StateDict,
) -> Result<(UperNet, String), WeightsError> {
    let read = read_dense(state, model)?;
    if read.kind == DenseKind::Classifier {
        let (pyramid, report) = network
            .pyramid
            .clone()
            .load(&read.state, DenseKind::Classifier)?;
        let matched = report.names(Outcome::Matched).count();
        let message = format!(
            "a classifier's: {matched} of the backbone; norms of the maps and heads are new"
        );
        network.pyramid = pyramid;
        return Ok((network, message));
    }
    let own = network.state_dict()?;
    let same_size = |name: &str| {
        let shape = |state: &StateDict| state.get(name).map(|data| data.shape().to_vec());
        shape(&own) == shape(&read.state)
    };
    let is_new = |name: &str| {
        let is_classifier = CLASSIFIERS.iter().any(|prefix| name.starts_with(prefix));
        is_classifier
            && match init.reset_head {
                ResetHead::Always => true,
                ResetHead::IfOther(reset) => reset && !same_size(name),
            }
    };
    let names = own.iter().map(|(name, _)| name);
    let new: Vec<&str> = names.filter(|name| is_new(name)).collect();
    let kept = read.state.iter().filter(|(name, _)| !is_new(name));
    let added = own.iter().filter(|(name, _)| is_new(name));
    let merged = kept.chain(added);
    let merged: StateDict = merged
        .map(|(name, data)| (name.to_owned(), data.clone()))
        .collect();
    let (network, unused) = network.load_state_dict(&merged)?;
    let mut message = "a segmentation network's".to_owned();
    if !new.is_empty() {
        message += &format!(", with new `{}`", new.join("`, `"));
    }
    if !unused.is_empty() {
        message += &format!(", not used: `{}`", unused.join("`, `"));
    }
    Ok((network, message))
}

impl Network for UperNet {
    fn parameters(&self) -> Vec<Parameter> {
        UperNet::parameters(self)
    }

    fn decays(&self, parameter: &Parameter) -> bool {
        UperNet::decays_by_family(self, parameter)
    }

    fn decays_by_name(&self, parameter: &Parameter) -> bool {
        UperNet::decays(self, parameter)
    }

    fn layer(&self, parameter: &Parameter) -> usize {
        UperNet::layer(self, parameter)
    }

    fn layers(&self) -> usize {
        UperNet::layers(self)
    }

    fn frozen(&self) -> Vec<ParamId> {
        UperNet::frozen(self)
    }

    fn state_dict(&self) -> Result<StateDict, WeightsError> {
        UperNet::state_dict(self)
    }

    fn load_state_dict(self, state: &StateDict) -> Result<(Self, Vec<String>), WeightsError> {
        UperNet::load_state_dict(self, state)
    }
}
