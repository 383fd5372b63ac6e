//! Names of weights: of the modules here, in timm, and in the original repository, which has every batch norm in a module
//! `bn`.

use crate::family::naming::numbered;
use crate::weights::StateDict;

/// timm's name of the parameter at a path: `patch_embed1`, `pos_embed1` and `stage1` are modules of one stage here.
pub(super) fn name(path: &str) -> String {
    let in_stage = path.strip_prefix("stages.").and_then(|rest| {
        let (number, rest) = numbered(rest)?;
        let number = number.checked_add(1)?;
        Some(match rest.split_once('.') {
            None => format!("{rest}{number}"),
            Some(("blocks", rest)) => format!("stage{number}.{rest}"),
            Some(("norm", rest)) => format!("patch_embed{number}.norm.{rest}"),
            Some((module, rest)) => format!("{module}{number}.{rest}"),
        })
    });
    let in_stem = || {
        let rest = path.strip_prefix("stem.")?;
        let (layer, rest) = rest.split_once('.')?;
        let layer = if layer == "conv" { 0 } else { 1 };
        Some(format!("stem.{layer}.{rest}"))
    };
    in_stage.or_else(in_stem).unwrap_or_else(|| path.to_owned())
}

/// The path to a parameter of timm's name.
pub(super) fn path(name: &str) -> String {
    let numbered = |module: &str| {
        let rest = name.strip_prefix(module)?;
        let end = rest.find('.').unwrap_or(rest.len());
        let stage = rest[..end].parse::<u32>().ok()?.checked_sub(1)?;
        Some((stage, &rest[end..]))
    };
    let in_stage = |module: &str, field: &str| {
        let (stage, rest) = numbered(module)?;
        Some(match rest.strip_prefix(".norm.") {
            Some(rest) if module == "patch_embed" => format!("stages.{stage}.norm.{rest}"),
            _ => format!("stages.{stage}.{field}{rest}"),
        })
    };
    let in_stem = || {
        let rest = name.strip_prefix("stem.")?;
        let (layer, rest) = rest.split_once('.')?;
        let layer = if layer == "0" { "conv" } else { "bn" };
        Some(format!("stem.{layer}.{rest}"))
    };
    in_stage("stage", "blocks")
        .or_else(|| in_stage("patch_embed", "patch_embed"))
        .or_else(|| in_stage("pos_embed", "pos_embed"))
        .or_else(in_stem)
        .unwrap_or_else(|| name.to_owned())
}

/// Whether weights carry the original's names.
pub(super) fn is_official(weights: &StateDict) -> bool {
    weights.get("norm.bn.weight").is_some()
}

/// timm's name of a weight of the original.
pub(super) fn timm_name(official: &str) -> String {
    official.replacen(".bn.", ".", 1)
}

/// The original's name of a weight of timm's.
pub(super) fn official_name(timm: &str) -> String {
    let norm = timm.rsplit_once('.').filter(|(layer, _)| {
        let last = layer.rsplit('.').next().unwrap_or(layer);
        last.starts_with("norm") || *layer == "stem.1"
    });
    match norm {
        Some((layer, weight)) => format!("{layer}.bn.{weight}"),
        None => timm.to_owned(),
    }
}
