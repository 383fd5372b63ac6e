//! What training, checkpoints and averages need of a module.

use burn::module::{Module, ParamId};

use crate::model::{Model, Parameter};
use crate::weights::{StateDict, WeightsError};

/// A module that can be trained, averaged, saved and loaded: a classifier, or a backbone with the head of another task.
pub trait Network: Module {
    /// Every trainable parameter with its name in checkpoints, in the order of the modules.
    fn parameters(&self) -> Vec<Parameter>;

    /// Whether weight decay applies to a parameter.
    fn decays(&self, parameter: &Parameter) -> bool;

    /// Whether weight decay applies to a parameter by the rule of published segmentation networks, where there is one.
    fn decays_by_name(&self, parameter: &Parameter) -> bool {
        self.decays(parameter)
    }

    /// The layer of a parameter for layer-wise learning rates, from 0 (the embedding) to [`layers`](Self::layers) `- 1` (the head).
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

    /// The model whose weights are adapted by factors of low rank ([`Model::with_lora`]), if there is one. Checkpoints have its factors,
    /// and the weights without them, beside [`state_dict`](Self::state_dict), which has the two merged.
    fn lora(&self) -> Option<&Model> {
        None
    }

    /// [`lora`](Self::lora), to be changed.
    fn lora_mut(&mut self) -> Option<&mut Model> {
        None
    }

    /// The content of a weight file: parameters, and state that is saved but not trained.
    ///
    /// # Errors
    ///
    /// The device cannot be read.
    fn state_dict(&self) -> Result<StateDict, WeightsError>;

    /// This network with the state of a file, and the names in the file that the network does not have.
    ///
    /// # Errors
    ///
    /// Something is missing or has another shape.
    fn load_state_dict(self, state: &StateDict) -> Result<(Self, Vec<String>), WeightsError>;
}
