//! Dense attention: every query sees every key.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::KnnConfig;
use crate::{AttentionError, Cost, MechanismConfig, Neighbors, ParamInit, Place, SoftmaxAttention};

/// Scaled dot-product attention over all keys, `softmax(scale / temperature * q k^T + bias) v`
/// ([Vaswani et al., 2017](https://arxiv.org/abs/1706.03762), equation 1).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DenseConfig {
    /// Divisor of the scaled scores before the softmax.
    #[schemars(range(min = 1e-6, max = 1e6))]
    pub temperature: f64,
}

impl Default for DenseConfig {
    fn default() -> Self {
        Self { temperature: 1.0 }
    }
}

impl MechanismConfig for DenseConfig {
    const KIND: &'static str = "dense";

    type Mechanism = SoftmaxAttention;

    fn validate(&self) -> Result<(), AttentionError> {
        KnnConfig::from(*self).validate()
    }

    fn fits(&self, _place: &Place) -> Result<(), AttentionError> {
        Ok(())
    }

    fn cost(&self, place: &Place) -> Cost {
        KnnConfig::from(*self).cost(place)
    }

    fn init(&self, place: &Place, init: &impl ParamInit) -> SoftmaxAttention {
        KnnConfig::from(*self).init(place, init)
    }
}

/// Dense attention is k-NN attention that keeps all keys.
impl From<DenseConfig> for KnnConfig {
    fn from(config: DenseConfig) -> Self {
        Self {
            temperature: config.temperature,
            ..Self::new(Neighbors::All)
        }
    }
}
