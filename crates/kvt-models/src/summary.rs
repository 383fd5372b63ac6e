//! What a configuration costs, computed without building the model.

use std::iter::Sum;
use std::ops::{Add, Mul};

/// Size and cost of a model, for one image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// timm's name of the architecture; channels x depth stand in for a size timm has no name for.
    pub name: String,
    /// Trainable parameters.
    pub params: usize,
    /// Multiply-accumulate operations of the whole model.
    pub macs: Macs,
    /// The stages, first to last.
    pub stages: Vec<StageSummary>,
}

/// Size and cost of one stage: blocks that share a resolution and an attention.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageSummary {
    /// The stage's name among the parameters.
    pub name: String,
    /// Blocks.
    pub depth: usize,
    /// Tokens, that is queries.
    pub tokens: usize,
    /// Keys each query chooses from.
    pub keys: usize,
    /// Keys each query keeps.
    pub k: usize,
    /// Trainable parameters under this name: of the blocks, and of what leads to their resolution.
    pub params: usize,
    /// Multiply-accumulate operations of the same.
    pub macs: Macs,
}

/// Multiply-accumulate operations for one image.
///
/// Attention counts both products in full whatever the number of neighbours: k-NN attention needs
/// every score to choose from, and the papers count its second product as dense too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Macs {
    /// Linear layers and convolutions.
    pub linear: u64,
    /// The products of queries with keys and of weights with values.
    pub attention: u64,
}

impl Macs {
    /// Operations of linear layers and convolutions.
    pub(crate) fn linear(operations: usize) -> Self {
        Self {
            linear: operations as u64,
            attention: 0,
        }
    }

    /// All operations.
    pub fn total(self) -> u64 {
        self.linear.saturating_add(self.attention)
    }
}

impl Add for Macs {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            linear: self.linear.saturating_add(other.linear),
            attention: self.attention.saturating_add(other.attention),
        }
    }
}

impl Sum for Macs {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), Add::add)
    }
}

impl Mul<usize> for Macs {
    type Output = Self;

    fn mul(self, times: usize) -> Self {
        Self {
            linear: self.linear.saturating_mul(times as u64),
            attention: self.attention.saturating_mul(times as u64),
        }
    }
}

/// What decides the size of a pre-norm transformer block: self-attention from one projection and an
/// MLP, each behind a layer norm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockSize {
    /// Channels of a token.
    pub dim: usize,
    /// Hidden channels of the MLP.
    pub hidden: usize,
    /// Whether queries, keys and values have a bias.
    pub qkv_bias: bool,
}

impl BlockSize {
    /// Trainable parameters of one block.
    pub(crate) fn params(self) -> usize {
        let qkv_bias = if self.qkv_bias { 3 * self.dim } else { 0 };
        let biases = qkv_bias + self.dim + self.hidden + self.dim;
        let norms = 4 * self.dim;
        self.weights() + biases + norms
    }

    /// Operations of one block for `tokens` tokens, each of which attends to `keys` keys.
    pub(crate) fn macs(self, tokens: usize, keys: usize) -> Macs {
        Macs {
            linear: (tokens * self.weights()) as u64,
            attention: 2 * (tokens * keys * self.dim) as u64,
        }
    }

    fn weights(self) -> usize {
        4 * self.dim * self.dim + 2 * self.dim * self.hidden
    }
}
