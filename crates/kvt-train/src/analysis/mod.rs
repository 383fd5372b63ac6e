//! What happens in the layers of a model: the four metrics of the paper's Figures 2 and 3 ([`analyze`]), and which patches of an
//! image speak for a class ([`attribution`]).
//!
//! A metric is a function of tensors, one file each: from what a block hands out to one number for each image. Sums over the
//! images of a batch are made on the device; what comes back to the host is a mean and a sum of squares for each metric of each
//! block. `docs/concepts/analysis.md` has the formulas and what the paper leaves open.

pub mod attribution;
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

pub use config::{AnalysisConfig, AnalysisSplit};
pub use cosine::cosine_similarity;
pub use deviation::{Deviations, deviations};
pub(crate) use figure::axis;
pub use figure::figure;
pub use layers::{Layer, analyze};
pub use measure::Measure;
pub use moments::{Estimate, Moments};
pub use nonlocality::{between_patches, distances, nonlocality, renormalized};
pub use observe::Analyzer;
pub use residual::{Ratios, ratios};
pub(crate) use table::rows;
pub use table::{csv, json, markdown};

#[cfg(test)]
mod tests;

/// Tokens before the map of patches, and rows and columns of that map, of so many tokens of a square image; `None` where no
/// square is left behind at most two tokens (class and distillation).
pub(crate) fn layout(tokens: usize) -> Option<(usize, usize)> {
    (0..=2).find_map(|prefix| {
        let patches = tokens.checked_sub(prefix)?;
        let side = patches.isqrt();
        (side > 0 && side * side == patches).then_some((prefix, side))
    })
}
