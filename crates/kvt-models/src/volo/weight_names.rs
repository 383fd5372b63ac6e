//! Paths through the modules and the original's names, which number the entries of its lists.

use crate::family::Renaming;

/// In the original's `patch_embed.conv`, a convolution, its norm and an activation follow each other.
pub(super) const PATHS: Renaming = Renaming::Beginnings(&[
    ("outlookers.", "network.0.", 0),
    ("downsample.", "network.1.", 0),
    ("stages.#.", "network.#.", 2),
    ("stem.0.conv.", "patch_embed.conv.0.", 0),
    ("stem.0.bn.", "patch_embed.conv.1.", 0),
    ("stem.1.conv.", "patch_embed.conv.3.", 0),
    ("stem.1.bn.", "patch_embed.conv.4.", 0),
    ("stem.2.conv.", "patch_embed.conv.6.", 0),
    ("stem.2.bn.", "patch_embed.conv.7.", 0),
]);

#[cfg(test)]
mod tests {
    use crate::volo::FAMILY;

    #[test]
    fn names_are_the_originals() {
        for (path, name) in [
            ("stem.0.conv.weight", "patch_embed.conv.0.weight"),
            ("stem.0.bn.running_var", "patch_embed.conv.1.running_var"),
            ("stem.2.conv.weight", "patch_embed.conv.6.weight"),
            ("stem.2.bn.bias", "patch_embed.conv.7.bias"),
            ("patch_embed.proj.bias", "patch_embed.proj.bias"),
            ("outlookers.3.attn.v.weight", "network.0.3.attn.v.weight"),
            ("downsample.proj.weight", "network.1.proj.weight"),
            ("stages.0.1.norm1.bias", "network.2.1.norm1.bias"),
            ("stages.2.0.mlp.fc1.bias", "network.4.0.mlp.fc1.bias"),
            (
                "post_network.1.attn.kv.weight",
                "post_network.1.attn.kv.weight",
            ),
            ("pos_embed", "pos_embed"),
            ("norm.weight", "norm.weight"),
        ] {
            assert_eq!(FAMILY.paths.own(path), name);
            assert_eq!(FAMILY.paths.other(name), path);
        }
        // No parameter has these names, but a file may.
        for name in ["patch_embed.conv.2.weight", "network.x.weight", "network"] {
            assert_eq!(FAMILY.paths.other(name), name);
        }
    }
}
