//! The depth of a parameter in a model: the layers of layer-wise learning rates, as timm's `group_matcher` and
//! `param_groups_layer_decay` count them.

use super::families::ModelConfig;

impl ModelConfig {
    /// How many layers there are: one for each block, the embedding and the classifier.
    pub(crate) fn layers(&self) -> usize {
        let groups = self.of_family().groups();
        groups.iter().map(|group| group.depth).sum::<usize>() + 2
    }

    /// The layer of a parameter of this name, from 0 to [`layers`](Self::layers) `- 1`: 0 is the embedding (patches, positions, class
    /// tokens), then every block is a layer, and the classifier is the last.
    ///
    /// Modules that lead to the resolution of a stage belong to its first block, and the final norm to the last
    /// block, as in timm; timm has no such rule for PiT, and does not have CvT, T2T-ViT and So-ViT. In VOLO, as in
    /// timm's, the coarser map has its own layer.
    pub(crate) fn layer(&self, name: &str) -> usize {
        let last = self.layers() - 1;
        let within = |module: &str| {
            let rest = name.strip_prefix(module)?;
            rest.strip_prefix('.').or(rest.is_empty().then_some(rest))
        };
        let mut outputs = self.family().outputs.iter();
        if outputs.any(|output| within(output).is_some()) {
            return last;
        }
        // What pools the tokens comes with the classifier.
        if within("fc_norm").or(within("attn_pool")).is_some() {
            return last;
        }
        if within("norm").is_some() {
            return last - 1;
        }
        let mut below = 0;
        for (number, group) in self.of_family().groups().iter().enumerate() {
            let leading = group.leading.iter().find_map(|module| within(module));
            if let Some(rest) = within(&group.name).or(leading.map(|_| "")) {
                // A model of one stage may name it after its blocks.
                let block = rest
                    .strip_prefix("blocks.")
                    .unwrap_or(rest)
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
