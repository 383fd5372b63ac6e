//! What attention refuses.

use burn::tensor::DType;

use crate::NeighborsError;

/// Shapes, settings or places that do not fit together.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum AttentionError {
    /// Two tensors disagree.
    #[error(
        "`{name}` has shape {actual:?}, expected {expected:?} ([batch, heads, tokens, head_dim])"
    )]
    Shape {
        /// Which tensor.
        name: &'static str,
        /// Its shape.
        actual: [usize; 4],
        /// The shape that the other tensors require.
        expected: [usize; 4],
    },
    /// A bias or mask that cannot be broadcast to the scores.
    #[error(
        "`{name}` has shape {actual:?}, which does not broadcast to {scores:?} ([batch, heads, query, key]): every dimension must be 1 or equal; the second may also divide the heads"
    )]
    Broadcast {
        /// Which tensor.
        name: &'static str,
        /// Its shape.
        actual: [usize; 4],
        /// The shape of the scores.
        scores: [usize; 4],
    },
    /// A tensor of another type.
    #[error("`{name}` is {actual:?}, expected {expected:?} as `q`: cast it first")]
    Type {
        /// Which tensor.
        name: &'static str,
        /// Its type.
        actual: DType,
        /// The type of q.
        expected: DType,
    },
    /// A type of higher precision than attention computes in.
    #[error("`q` is {0:?}, but attention is computed in f32: cast `q`, `k` and `v` to f32")]
    Precision(DType),
    /// A setting that is refused, and why.
    #[error("{0}")]
    Setting(&'static str),
    /// A setting out of its range.
    #[error("`{key}` must be {range}{}", reason(.key))]
    Range {
        /// Which setting.
        key: &'static str,
        /// The range; the sentence continues after "must be".
        range: &'static str,
    },
    /// An invalid number of neighbours.
    #[error(transparent)]
    Neighbors(#[from] NeighborsError),
    /// A list that fits neither "one for all" nor "one per stage".
    #[error(
        "`{key}` has {given} entries, but the number of stages is {stages}: give one entry for all stages, or one per stage"
    )]
    PerStage {
        /// The key of the configuration.
        key: &'static str,
        /// Entries given.
        given: usize,
        /// Stages of the model.
        stages: usize,
    },
    /// A mechanism at a place where it cannot be used.
    #[error("`kind = \"{kind}\"` {reason}: {help}")]
    Misplaced {
        /// The kind of attention.
        kind: &'static str,
        /// What does not fit; the sentence continues after the kind.
        reason: String,
        /// A hint.
        help: String,
    },
    /// Channels that do not divide among the heads.
    #[error(
        "`d_model` {d_model} is not a multiple of `num_heads` {num_heads}: every head needs the same number of channels"
    )]
    Heads {
        /// Channels of a token.
        d_model: usize,
        /// Attention heads.
        num_heads: usize,
    },
    /// A number of tokens that contradicts the prefix and the map.
    #[error(
        "`tokens` is {tokens}, but `prefix` {prefix} and `grid` {grid:?} ask for {expected}: leave `tokens` out, or make them agree"
    )]
    Tokens {
        /// Tokens of a sequence, as given.
        tokens: usize,
        /// Tokens before the map.
        prefix: usize,
        /// Rows and columns of the map, if there is one.
        grid: Option<[usize; 2]>,
        /// Tokens of prefix and map together; without a map, the minimum.
        expected: usize,
    },
}

impl AttentionError {
    /// A [`Misplaced`](Self::Misplaced) mechanism.
    pub fn misplaced(
        kind: &'static str,
        reason: impl Into<String>,
        help: impl Into<String>,
    ) -> Self {
        Self::Misplaced {
            kind,
            reason: reason.into(),
            help: help.into(),
        }
    }
}

/// Why a setting has its range: the end of the message. A key means the same in all kinds.
fn reason(key: &str) -> &'static str {
    match key {
        "epsilon" => ": without it nothing keeps denominators from being zero",
        "features" => {
            ": there is no attention without features, and with more dense attention costs less"
        }
        "kernel_epsilon" => ": without it nothing keeps features from being zero",
        "order" => ": there is no attention without features",
        "tau" => ": outside of it all weights are noise, or equal",
        "temperature" => ": outside of it all scores are equal in 32 bits, or infinite",
        _ => "",
    }
}

/// Refuses rates of dropout outside of [0, 1).
pub(crate) fn check_dropout(probability: f64) -> Result<(), AttentionError> {
    if (0.0..1.0).contains(&probability) {
        return Ok(());
    }
    Err(AttentionError::Setting(
        "attention dropout must be in [0, 1)",
    ))
}
