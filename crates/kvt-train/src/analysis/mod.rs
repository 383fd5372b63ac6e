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

pub use config::AnalysisConfig;
pub use cosine::cosine_similarity;
pub use deviation::deviations;
pub use figure::figure;
pub use layers::{Layer, analyze};
pub use measure::Measure;
pub use moments::{Estimate, Moments};
pub use nonlocality::{between_patches, distances, nonlocality, renormalized};
pub use observe::Analyzer;
pub use residual::ratios;
pub use table::{csv, json, markdown, rows};

#[cfg(test)]
mod tests;

/// Rows and columns of the map behind the first `prefix` of `tokens`, which has the proportions of its image (height, width); `None`
/// if the tokens form no such map.
pub fn map_grid(tokens: usize, prefix: usize, [height, width]: [usize; 2]) -> Option<[usize; 2]> {
    let patches = tokens.checked_sub(prefix)?;
    let rows = (patches * height).checked_div(width)?.isqrt();
    let columns = patches.checked_div(rows)?;
    (rows * columns == patches && rows * width == columns * height).then_some([rows, columns])
}
