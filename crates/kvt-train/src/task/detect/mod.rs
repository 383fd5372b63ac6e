//! Detection: boxes and masks of objects.

mod ap;
mod score;

pub use ap::{ApError, AveragePrecision};
pub use score::{ScoreError, Scores, score};
