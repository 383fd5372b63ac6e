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
    let line = Line {
        name: "training loss".to_owned(),
        color: 0,
        dash: None,
        points: losses.collect(),
    };
    Chart {
        title: "Linear evaluation",
        x: Axis::whole("epoch", done.len()),
        y: Axis::linear("training loss"),
        lines: vec![line],
        names: Names::Beside,
    }
    .svg()
}
