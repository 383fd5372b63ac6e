//! The curve of linear evaluation.

use super::LinearEpoch;
use crate::plot::{Axis, Chart, Line, Names};

/// Draws the training loss of linear evaluation over its epochs, as an SVG.
///
/// # Errors
/// If it cannot be drawn.
pub fn draw_loss(done: &[LinearEpoch]) -> Result<String, String> {
    let line = |name: &str, color, value: &dyn Fn(&LinearEpoch) -> f64| Line {
        name: name.to_owned(),
        color,
        dash: None,
        points: done
            .iter()
            .map(|epoch| (f64::from(epoch.epoch + 1), value(epoch)))
            .collect(),
    };
    Chart {
        title: "Linear evaluation",
        x: Axis::whole("epoch", done.len()),
        y: Axis {
            label: "training loss",
            logarithmic: false,
            ticks: Vec::new(),
        },
        lines: vec![line("training loss", 0, &|epoch| epoch.loss)],
        names: Names::Beside,
    }
    .svg()
}
