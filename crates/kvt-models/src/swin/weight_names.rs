//! Names of weights in the original repository and in timm.
//!
//! The original merges patches at the end of a stage, timm at the beginning of the next; timm's classifier is one
//! level deeper.

use crate::family::Renaming;
use crate::weights::StateDict;

/// Whether weights carry the original's names.
pub(super) fn is_official(weights: &StateDict) -> bool {
    let theirs = ["layers.0.downsample.reduction.weight", "head.weight"];
    weights.get("head.fc.weight").is_none() && theirs.iter().any(|name| weights.get(name).is_some())
}

/// The original's names, and timm's.
pub(super) const NAMES: Renaming = Renaming::Beginnings(&[
    ("layers.#.downsample.", "layers.#.downsample.", 1),
    ("head.", "head.fc.", 0),
]);

/// Whether an entry is optional in a file because the model computes it: the original saves its tables.
pub(super) fn is_computed(name: &str) -> bool {
    name.ends_with(".relative_position_index") || name.ends_with(".attn_mask")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_original_and_of_timm_translate_into_each_other() {
        for (official, timm) in [
            ("patch_embed.norm.weight", "patch_embed.norm.weight"),
            (
                "layers.0.downsample.reduction.weight",
                "layers.1.downsample.reduction.weight",
            ),
            (
                "layers.9.downsample.norm.bias",
                "layers.10.downsample.norm.bias",
            ),
            (
                "layers.2.blocks.5.attn.qkv.bias",
                "layers.2.blocks.5.attn.qkv.bias",
            ),
            ("norm.weight", "norm.weight"),
            ("head.weight", "head.fc.weight"),
            ("head.bias", "head.fc.bias"),
        ] {
            assert_eq!(NAMES.own(official), timm);
            assert_eq!(NAMES.other(timm), official);
        }
    }

    #[test]
    fn tables_that_the_original_saves_are_known() {
        assert!(is_computed(
            "layers.0.blocks.0.attn.relative_position_index"
        ));
        assert!(is_computed("layers.0.blocks.1.attn_mask"));
        assert!(!is_computed(
            "layers.0.blocks.0.attn.relative_position_bias_table"
        ));
    }
}
