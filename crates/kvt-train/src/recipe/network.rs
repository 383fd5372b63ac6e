//! The interface between a trained module, the recipe and checkpoints.

use burn::module::{Module, ParamId};
use kvt_models::weights::{LoadOptions, Outcome, StateDict, WeightsError};
use kvt_models::{Model, Parameter};

/// A module that can be trained, averaged, saved and loaded: a classifier, or a backbone with the head of another task.
pub trait Network: Module {
    /// Every trainable parameter with its name in checkpoints, in the order of the modules.
    fn parameters(&self) -> Vec<Parameter>;

    /// Whether weight decay applies to a parameter.
    fn decays(&self, parameter: &Parameter) -> bool;

    /// Whether weight decay applies to a parameter with `optim.decay = "names"`: where it is another rule.
    fn decays_by_name(&self, parameter: &Parameter) -> bool {
        self.decays(parameter)
    }

    /// The layer of a parameter for layer-wise learning rates, from 0 (the embedding) to `layers() - 1` (the head).
    fn layer(&self, _parameter: &Parameter) -> usize {
        0
    }

    /// The number of layers: 1 if they are not distinguished.
    fn layers(&self) -> usize {
        1
    }

    /// Parameters that training does not change, in addition to those without gradients: none, unless a part is frozen.
    fn frozen(&self) -> Vec<ParamId> {
        Vec::new()
    }

    /// The content of a weight file: parameters, and state that is saved but not trained.
    ///
    /// # Errors
    /// If the device cannot be read.
    fn state_dict(&self) -> Result<StateDict, WeightsError>;

    /// The factors of low-rank adaptation; none, unless weights are adapted. A network with factors has [`adapted`](Self::adapted) and
    /// [`with_apart`](Self::with_apart) too.
    ///
    /// # Errors
    /// If the device cannot be read.
    fn factors(&self) -> Result<StateDict, WeightsError> {
        Ok(StateDict::default())
    }

    /// The weights that the factors adapt, without them: [`state_dict`](Self::state_dict) has the two merged.
    ///
    /// # Errors
    /// If the device cannot be read.
    fn adapted(&self) -> Result<StateDict, WeightsError> {
        Ok(StateDict::default())
    }

    /// This network with what [`factors`](Self::factors) and [`adapted`](Self::adapted) gave.
    ///
    /// # Errors
    /// If something is missing or has another shape, or there are factors where this network takes none.
    fn with_apart(self, [factors, _]: &[StateDict; 2]) -> Result<Self, WeightsError> {
        match factors.iter().next() {
            Some((name, _)) => Err(WeightsError::NoFactors {
                name: name.to_owned(),
            }),
            None => Ok(self),
        }
    }

    /// This network with the state of a file, and the names in the file that the network does not have.
    ///
    /// # Errors
    /// If something is missing or has another shape.
    fn load_state_dict(self, state: &StateDict) -> Result<(Self, Vec<String>), WeightsError>;
}

/// Whether a parameter belongs to the head: the last of several layers.
pub(super) fn is_head(network: &impl Network, parameter: &Parameter) -> bool {
    let layers = network.layers();
    layers > 1 && network.layer(parameter) + 1 == layers
}

impl Network for Model {
    fn parameters(&self) -> Vec<Parameter> {
        Model::parameters(self)
    }

    fn decays(&self, parameter: &Parameter) -> bool {
        Model::decays(self, parameter)
    }

    fn layer(&self, parameter: &Parameter) -> usize {
        Model::layer(self, parameter)
    }

    fn layers(&self) -> usize {
        Model::layers(self)
    }

    fn frozen(&self) -> Vec<ParamId> {
        Model::frozen(self)
    }

    fn state_dict(&self) -> Result<StateDict, WeightsError> {
        StateDict::from_model(self)
    }

    fn factors(&self) -> Result<StateDict, WeightsError> {
        Model::factors(self)
    }

    fn adapted(&self) -> Result<StateDict, WeightsError> {
        Model::adapted(self)
    }

    fn with_apart(self, [factors, adapted]: &[StateDict; 2]) -> Result<Self, WeightsError> {
        self.with_factors(factors, adapted)
    }

    fn load_state_dict(self, state: &StateDict) -> Result<(Self, Vec<String>), WeightsError> {
        let (model, report) = self.load(state, LoadOptions::default())?;
        let unused = report.names(Outcome::Unused).map(str::to_owned).collect();
        Ok((model, unused))
    }
}

#[cfg(test)]
mod tests;
