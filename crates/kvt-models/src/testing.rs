//! Helpers that the tests of several families share.

#![expect(clippy::unwrap_used, reason = "tests")]

use burn::tensor::{Device, Tensor, TensorData};
use kvt_attention::{AttentionConfig, KnnConfig, Neighbors};
use kvt_ops::{Key, Phase};

use crate::error::ModelError;
use crate::family::FamilyConfig;
use crate::family::families::ModelConfig;
use crate::family::model_keys::ModelOverrides;
use crate::model::Model;
use crate::network::Network;

/// The configuration of a name, in the type of its family.
pub(crate) fn named<C: FamilyConfig>(name: &str) -> C {
    let mut configs = C::named().into_iter();
    configs.find(|config| config.name() == name).unwrap()
}

/// The configuration of a name with some values replaced.
pub(crate) fn with(name: &str, overrides: &ModelOverrides) -> Result<ModelConfig, ModelError> {
    ModelConfig::by_name(name)?.with(overrides)
}

/// k-NN attention with an entry of `neighbors` per stage.
pub(crate) fn knn(neighbors: Vec<Neighbors>) -> ModelOverrides {
    ModelOverrides {
        attention: Some(AttentionConfig::Knn(KnnConfig {
            neighbors: neighbors.into(),
            ..KnnConfig::default()
        })),
        ..ModelOverrides::default()
    }
}

/// A model on the CPU.
pub(crate) fn build(config: impl Into<ModelConfig>, seed: u64) -> Model {
    let config = config.into();
    config.init(&Device::flex(), Key::new(seed)).unwrap()
}

/// Square images of two channels, all of whose pixels differ.
pub(crate) fn images(batch: usize, side: usize, device: &Device) -> Tensor<4> {
    let image = Tensor::arange(0..(batch * 2 * side * side) as i64, device).float();
    (image * 0.37).sin().reshape([batch, 2, side, side])
}

/// The logits of three images on the CPU.
pub(crate) fn logits(model: &Model, phase: Phase) -> TensorData {
    let images = images(3, model.config().img_size().side(), &Device::flex());
    model.forward(images, phase).into_data()
}

/// Trainable numbers of the parameters whose names have one of these beginnings.
pub(crate) fn count(model: &Model, beginnings: &[&str]) -> usize {
    let parameters = model.parameters().into_iter();
    let found = parameters.filter(|parameter| {
        let name = parameter.name.as_str();
        beginnings
            .iter()
            .any(|beginning| name.starts_with(beginning))
    });
    found.map(|p| p.shape.iter().product::<usize>()).sum()
}
