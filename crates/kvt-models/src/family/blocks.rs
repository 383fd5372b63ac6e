//! Blocks of a model, as layer-wise learning rates count them.

use super::cost::StageSummary;

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
    /// So many blocks in the module `blocks`. All other modules belong to the embedding or the head.
    pub(crate) fn of_depth(depth: usize) -> Vec<Self> {
        vec![Self {
            name: "blocks".to_owned(),
            leading: Vec::new(),
            depth,
        }]
    }

    /// The blocks of a stage, and the modules that lead to them, all below its name.
    pub(crate) fn of_stage(stage: StageSummary) -> Self {
        Self {
            name: stage.name,
            leading: Vec::new(),
            depth: stage.depth,
        }
    }
}
