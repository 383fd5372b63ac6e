//! The curve of linear evaluation.

use super::LinearEpoch;
use kvt_train::plot::{Axis, Chart, Line, Names};

/// Draws the training loss of linear evaluation over its epochs, as an SVG.
///
/// # Errors
/// If it cannot be drawn.
pub fn draw_loss(done: &[LinearEpoch]) -> Result<String, String> {
    let losses = done.iter();
    let losses = losses.map(|epoch| (f64::from(epoch.epoch + 1), epoch.loss));
    Chart {
        title: "Linear evaluation",
        x: Axis::whole("epoch", done.len()),
        y: Axis::linear("training loss"),
        lines: vec![Line::new("training loss", 0, losses)],
        names: Names::Beside,
    }
    .svg()
}
