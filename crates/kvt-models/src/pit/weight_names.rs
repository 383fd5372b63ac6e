//! Names of weights in the original repository and in timm: the original's `pools.0` is the beginning of
//! `transformers.1` in timm.

use crate::family::naming::numbered;
use crate::weights::StateDict;

/// Whether weights carry the original's names.
pub(super) fn is_official(weights: &StateDict) -> bool {
    weights.iter().any(|(name, _)| name.starts_with("pools."))
}

/// timm's name of a weight of the original.
pub(super) fn timm_name(official: &str) -> String {
    let pool = official.strip_prefix("pools.").and_then(numbered);
    let next = pool.and_then(|(stage, rest)| Some((stage.checked_add(1)?, rest)));
    match next {
        Some((stage, rest)) => format!("transformers.{stage}.pool.{rest}"),
        None => official.to_owned(),
    }
}

/// The original's name of a weight of timm's.
pub(super) fn official_name(timm: &str) -> String {
    let stage = timm.strip_prefix("transformers.").and_then(numbered);
    let pool = stage.and_then(|(stage, rest)| {
        let rest = rest.strip_prefix("pool.")?;
        Some(format!("pools.{}.{rest}", stage.checked_sub(1)?))
    });
    pool.unwrap_or_else(|| timm.to_owned())
}
