//! Analysis of the layers of a model: the four metrics of the paper's Figures 2 and 3 ([`analyze`]).
//!
//! Each metric is a function of tensors, in its own file: it maps the tensors of a block to one number per image. Batches are
//! reduced on the device; only a mean and a sum of squares per metric and block reach the host. `docs/concepts/analysis.md` has the
//! formulas and the choices that the paper leaves open.

mod config;
mod cosine;
mod deviation;
mod figure;
mod layers;
mod measure;
mod moments;
mod nonlocality;
mod observe;
mod residual;
mod table;
pub mod tiles;

pub use config::{AnalysisConfig, AnalysisSplit};
pub use cosine::cosine_similarity;
pub use deviation::{Deviations, deviations};
pub use figure::axis;
pub use figure::figure;
pub use layers::{Layer, analyze};
pub use measure::Measure;
pub use moments::{Estimate, Moments};
pub use nonlocality::{between_patches, distances, nonlocality, renormalized};
pub use observe::Analyzer;
pub use residual::{Ratios, ratios};
pub use table::rows;
pub use table::{csv, json, markdown};

#[cfg(test)]
mod tests;

/// How many tokens there may be before a map: none, a class token, another one for distillation or four registers.
const PREFIXES: [usize; 4] = [0, 1, 2, 5];

/// Splits the tokens of a square image into [prefix tokens](PREFIXES) and a square map of patches: the number of prefix tokens, and
/// the side of the map; `None` if no prefix leaves a square.
pub(crate) fn layout(tokens: usize) -> Option<(usize, usize)> {
    PREFIXES.into_iter().find_map(|prefix| {
        let patches = tokens.checked_sub(prefix)?;
        let side = patches.isqrt();
        (side > 0 && side * side == patches).then_some((prefix, side))
    })
}
