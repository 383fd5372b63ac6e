//! What a configuration costs, computed without building the model.

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
    /// Trainable parameters of the blocks.
    pub params: usize,
    /// Multiply-accumulate operations of the blocks.
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
    /// All operations.
    pub fn total(self) -> u64 {
        self.linear + self.attention
    }
}
