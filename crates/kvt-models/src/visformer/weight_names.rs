//! Names of weights: of the modules here, in timm, and in the original repository, which has every batch norm in a module
//! `bn`.

use crate::family::Renaming;
use crate::weights::StateDict;

/// Paths through the modules and timm's names, in which `patch_embed1`, `pos_embed1` and `stage1` are modules of one stage here.
pub(super) const PATHS: Renaming = Renaming::Beginnings(&[
    ("stages.#.blocks.", "stage#.", 1),
    ("stages.#.norm.", "patch_embed#.norm.", 1),
    ("stages.#.patch_embed.", "patch_embed#.", 1),
    ("stages.#.pos_embed", "pos_embed#", 1),
    ("stem.conv.", "stem.0.", 0),
    ("stem.bn.", "stem.1.", 0),
]);

/// The original's names and timm's.
pub(super) const OFFICIAL: Renaming = Renaming::Functions([timm_name, official_name]);

/// Whether weights carry the original's names.
pub(super) fn is_official(weights: &StateDict) -> bool {
    weights.get("norm.bn.weight").is_some()
}

/// timm's name of a weight of the original.
fn timm_name(official: &str) -> String {
    official.replacen(".bn.", ".", 1)
}

/// The original's name of a weight of timm's.
fn official_name(timm: &str) -> String {
    let norm = timm.rsplit_once('.').filter(|(layer, _)| {
        let last = layer.rsplit('.').next().unwrap_or(layer);
        last.starts_with("norm") || *layer == "stem.1"
    });
    match norm {
        Some((layer, weight)) => format!("{layer}.bn.{weight}"),
        None => timm.to_owned(),
    }
}
