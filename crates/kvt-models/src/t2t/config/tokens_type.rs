//! The layers between the soft splits.

use kvt_attention::AttentionConfig;

use crate::error::ModelError;
use crate::family::model_keys::ModelOverrides;
use crate::family::validate;

/// The beginning of the names of sizes with token transformers.
const TRANSFORMER: &str = "t_";

/// The layers between the soft splits.
#[derive(Clone, Debug, PartialEq)]
pub enum TokensType {
    /// Softmax attention.
    Transformer {
        /// The attention of each layer.
        attention: [AttentionConfig; 2],
    },
    /// Attention by random features, without scores.
    Performer {
        /// Dropout of both branches, in [0, 1).
        drop: f64,
    },
}

impl TokensType {
    /// The layers of the original's size of this name: transformers with dense attention, or Performers with its
    /// dropout.
    pub(super) fn named(size: &str) -> Self {
        if size.starts_with(TRANSFORMER) {
            Self::Transformer {
                attention: [AttentionConfig::dense(), AttentionConfig::dense()],
            }
        } else {
            Self::Performer { drop: 0.1 }
        }
    }

    /// Whether the original's size of this name has such layers.
    pub(super) fn is_named(&self, size: &str) -> bool {
        size.starts_with(TRANSFORMER) == matches!(self, Self::Transformer { .. })
    }

    /// The beginning of the size in a name.
    pub(super) fn prefix(&self) -> &'static str {
        match self {
            Self::Transformer { .. } => TRANSFORMER,
            Self::Performer { .. } => "",
        }
    }

    /// The attention of a layer; `None` if there are no scores.
    pub(super) fn attention(&self, layer: usize) -> Option<&AttentionConfig> {
        match self {
            Self::Transformer { attention } => attention.get(layer),
            Self::Performer { .. } => None,
        }
    }

    /// Refuses invalid layers of `token_dim` channels, whatever their attention.
    pub(super) fn validate(&self, token_dim: usize) -> Result<(), ModelError> {
        let Self::Performer { drop } = *self else {
            return Ok(());
        };
        validate::rate("drop", drop)?;
        let expected = "at least 2, since a Performer has half as many features";
        validate::within("token_dim", token_dim as f64, token_dim >= 2, expected)
    }

    /// These layers and the attention of the blocks, both with some values replaced.
    pub(super) fn with(
        self,
        blocks: AttentionConfig,
        overrides: &ModelOverrides,
    ) -> Result<(Self, AttentionConfig), ModelError> {
        match self {
            Self::Transformer {
                attention: [first, second],
            } => {
                let own = [first.clone(), second.clone()];
                let mut all = overrides.attentions(&[first, second, blocks], 3)?;
                let [blocks, second, first] = [2, 1, 0].map(|i| all.swap_remove(i));
                // Attention that cannot be used between the soft splits applies only to the blocks.
                let attention = if blocks.is_softmax() {
                    [first, second]
                } else {
                    own
                };
                Ok((Self::Transformer { attention }, blocks))
            }
            Self::Performer { .. } => {
                let given = match &overrides.attention {
                    Some(attention) => attention.per_stage()?.len(),
                    None => 1,
                };
                if given > 1 {
                    return Err(ModelError::NoScores(given));
                }
                let blocks = overrides.attentions(&[blocks], 1)?.swap_remove(0);
                Ok((self, blocks))
            }
        }
    }
}
