//! The weights of a dense network before training, and what such networks refuse.

mod check;
mod network;
#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
pub(super) mod trajectory;

use burn::module::Module;
use burn::tensor::Device;
use kvt_models::dense::{CLASSIFIERS, DenseKind, OnPyramid, read_dense};
use kvt_models::weights::{self, Outcome, StateDict, WeightsError};
use kvt_models::{ModelConfig, Network};

use super::model::{hint, refused, weight_file};
use super::{InitConfig, ResetHead, Setup, Weights};
use crate::config::Plan;
use crate::error::TrainError;
use crate::run::{Note, Topic};

pub(super) use check::Words;

/// A network with heads on the maps of a backbone.
pub trait DenseNetwork: Network {
    /// What it is, for a note.
    const WHAT: &'static str;
    /// The name of a weight with a row for each class.
    const ROW_PER_CLASS: &'static str;

    /// Builds the network of a plan for so many classes, with the plan's seed and precision.
    ///
    /// # Errors
    /// If the model has no pyramid, or settings do not describe a network.
    fn build(
        plan: &Plan,
        model: &ModelConfig,
        classes: usize,
        device: &Device,
    ) -> Result<Self, TrainError>;
}

/// How many parameters a network has.
pub(super) fn count(network: &impl Network) -> usize {
    let parameters = network.parameters().into_iter();
    let sizes = parameters.map(|parameter| parameter.shape.iter().product::<usize>());
    sizes.sum()
}

/// The network of a plan for the classes of its data, with the weights in `init.weights`, unless those of a checkpoint are to follow: the
/// weights of a classifier for the backbone, or those of a whole network, of which `init.reset_head` can leave out the last layers. A
/// note describes the outcome.
///
/// # Errors
/// If settings do not describe a network, or the weights cannot be read or do not match.
pub(super) fn start_from<H: Module>(setup: &mut Setup<'_>) -> Result<OnPyramid<H>, TrainError>
where
    OnPyramid<H>: DenseNetwork,
{
    let (plan, model) = (setup.plan, setup.model);
    let classes = setup.splits.classes().len();
    let network = OnPyramid::<H>::build(plan, model, classes, setup.device)?;
    let (Some(path), Weights::OfPlan) = (&plan.init.weights, setup.weights) else {
        return Ok(network);
    };
    let refused = |source| refused(path, source, hint);
    let state = weights::read(&weight_file(path)?).map_err(refused)?;
    let (network, message) = loaded(&plan.init, model, network, state).map_err(refused)?;
    let message = format!("weights of `{}`: {message}", path.display());
    setup.notes.push(Note::new(0, Topic::Start, message));
    Ok(network)
}

/// A network with the weights of a file, and what they are.
fn loaded<H: Module>(
    init: &InitConfig,
    model: &ModelConfig,
    network: OnPyramid<H>,
    state: StateDict,
) -> Result<(OnPyramid<H>, String), WeightsError>
where
    OnPyramid<H>: DenseNetwork,
{
    let read = read_dense(state, model)?;
    if read.kind == DenseKind::Classifier {
        let (network, report) = network.with_classifier(&read.state)?;
        let matched = report.names(Outcome::Matched).count();
        let message = format!(
            "a classifier's: {matched} of the backbone; norms of the maps and heads are new"
        );
        return Ok((network, message));
    }
    let (mut merged, mut new) = (read.state, Vec::new());
    for (name, data) in network.state_dict()? {
        let found = merged.get(&name);
        let is_same_size = found.is_some_and(|found| found.shape() == data.shape());
        let is_classifier = CLASSIFIERS.iter().any(|prefix| name.starts_with(prefix));
        let is_new = is_classifier
            && match init.reset_head {
                ResetHead::Always => true,
                ResetHead::IfOther(reset) => reset && !is_same_size,
            };
        if is_new {
            merged.insert(name.clone(), data);
            new.push(name);
        }
    }
    let (network, unused) = network.load_state_dict(&merged)?;
    let mut message = OnPyramid::<H>::WHAT.to_owned();
    if !new.is_empty() {
        message += &format!(", with new `{}`", new.join("`, `"));
    }
    if !unused.is_empty() {
        message += &format!(", not used: `{}`", unused.join("`, `"));
    }
    Ok((network, message))
}
