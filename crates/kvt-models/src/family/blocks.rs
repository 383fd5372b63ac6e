//! Blocks of a model, as layer-wise learning rates count them.

/// Consecutive blocks. Each block is a layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BlockGroup {
    /// The module of the blocks: their parameters are below `name.0`, `name.1`, ... or `name.blocks.0`, ...
    /// Parameters without a number belong to the first block.
    pub name: String,
    /// Other modules and parameters that lead to the resolution of the blocks.
    pub leading: Vec<String>,
    /// Blocks.
    pub depth: usize,
}

impl BlockGroup {
    /// So many blocks in a module, and what leads to them, all below its name.
    pub(crate) fn new(name: impl Into<String>, depth: usize) -> Self {
        Self {
            name: name.into(),
            leading: Vec::new(),
            depth,
        }
    }
}
