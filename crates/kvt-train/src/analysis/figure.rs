//! A figure of the metrics over the layers.

use super::{Layer, Measure};
use crate::plot::{Axis, ErrorLine, LinePanel, line_panels};

/// Draws a panel for each of [`Measure::SHOWN`] over the layers, with a line for each name and the standard error over the images.
///
/// # Errors
/// The message of the drawing library.
pub fn figure(title: &str, models: &[(String, &[Layer])]) -> Result<String, String> {
    let layers = models.iter().flat_map(|(_, layers)| *layers);
    let last = layers.map(|layer| layer.number).max().unwrap_or(1);
    let of_measure = |measure: Measure| {
        let lines = models.iter().enumerate().map(|(color, (name, layers))| {
            let point = |layer: &Layer| {
                let found = layer.get(measure)?;
                Some((layer.number as f64, found.mean, found.error))
            };
            ErrorLine::new(name, color, layers.iter().filter_map(point))
        });
        LinePanel {
            title: measure.title().to_owned(),
            x: Axis::whole("layer", last),
            y: Axis::linear(""),
            lines: lines.collect(),
            y_holds: Vec::new(),
        }
    };
    let measured = |panel: &LinePanel<'_>| panel.lines.iter().any(|line| !line.points.is_empty());
    let panels = Measure::SHOWN.into_iter().map(of_measure).filter(measured);
    line_panels(title, &panels.collect::<Vec<_>>(), 2)
}
