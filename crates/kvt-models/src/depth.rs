//! The depth of a parameter in a model: the layers of layer-wise learning rates, as timm's `group_matcher` and
//! `param_groups_layer_decay` count them.

use crate::families::ModelConfig;
use crate::model::{Model, Parameter};
use crate::summary::StageSummary;

/// Blocks that follow one another, each of which is a layer.
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
    /// The blocks of a stage, and the modules that lead to them, all below its name.
    pub(crate) fn of_stage(stage: StageSummary) -> Self {
        Self {
            name: stage.name,
            leading: Vec::new(),
            depth: stage.depth,
        }
    }
}

impl Model {
    /// The layer of a parameter, from 0 to [`layers`](Self::layers) `- 1`: 0 is the embedding (patches, positions, class
    /// tokens), then every block is a layer, and the classifier is the last.
    ///
    /// Modules that lead to the resolution of a stage belong to its first block, and the final norm to the last
    /// block, as in timm; timm has no such rule for PiT, and does not have CvT, T2T-ViT and So-ViT. In VOLO, as in
    /// timm's, the coarser map has its own layer.
    pub fn layer(&self, parameter: &Parameter) -> usize {
        self.config.layer(&parameter.name)
    }

    /// How many layers there are: one for each block, the embedding and the classifier.
    pub fn layers(&self) -> usize {
        self.config.layers()
    }
}

impl ModelConfig {
    fn layers(&self) -> usize {
        let groups = self.of_family().blocks();
        groups.iter().map(|group| group.depth).sum::<usize>() + 2
    }

    fn layer(&self, name: &str) -> usize {
        let last = self.layers() - 1;
        let within = |module: &str| {
            let rest = name.strip_prefix(module)?;
            rest.strip_prefix('.').or(rest.is_empty().then_some(rest))
        };
        let mut outputs = self.family().outputs.iter();
        if outputs.any(|output| within(output).is_some()) {
            return last;
        }
        if within("norm").is_some() {
            return last - 1;
        }
        let mut below = 0;
        for (number, group) in self.of_family().blocks().iter().enumerate() {
            let leading = group.leading.iter().find_map(|module| within(module));
            if let Some(rest) = within(&group.name).or(leading.map(|_| "")) {
                // A model of one stage may name it after its blocks.
                let block = rest.strip_prefix("blocks.").unwrap_or(rest);
                let block = block
                    .split('.')
                    .next()
                    .and_then(|index| index.parse::<usize>().ok());
                return match block {
                    Some(index) => below + 1 + index,
                    // The first stage embeds the image itself.
                    None if number == 0 => 0,
                    None => below + 1,
                };
            }
            below += group.depth;
        }
        0
    }
}
