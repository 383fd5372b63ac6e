//! How deep in a model a parameter stands: the layers of layer-wise learning rates, as timm's `group_matcher` and
//! `param_groups_layer_decay` count them.

use crate::families::ModelConfig;
use crate::head::SecondOrder;
use crate::model::{Model, Parameter};

impl Model {
    /// The layer of a parameter, from 0 to [`layers`](Self::layers) `- 1`: 0 is the embedding (patches, positions, class
    /// tokens), then every block is a layer, and the classifier is the last.
    ///
    /// What leads to the resolution of a stage belongs to the first block of it, and the final norm to the last block. So
    /// it is in timm for ViT, DeiT and Swin; timm has no such rule for PiT, and no CvT.
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
        let stages = self.summary().stages;
        stages.iter().map(|stage| stage.depth).sum::<usize>() + 2
    }

    fn layer(&self, name: &str) -> usize {
        let last = self.layers() - 1;
        let within = |module: &str| {
            let rest = name.strip_prefix(module)?;
            rest.strip_prefix('.')
        };
        if self
            .family()
            .outputs
            .iter()
            .chain([&SecondOrder::MODULE.1])
            .any(|output| within(output).is_some())
        {
            return last;
        }
        if within("norm").is_some() {
            return last - 1;
        }
        let mut below = 0;
        for (number, stage) in self.summary().stages.iter().enumerate() {
            if let Some(rest) = within(&stage.name) {
                // A model of one stage may call it by its blocks.
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
            below += stage.depth;
        }
        0
    }
}
