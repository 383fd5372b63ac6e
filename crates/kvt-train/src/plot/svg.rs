//! What all pictures in SVG have in common.

use std::error::Error;

use kvt_data::escape::lines;
use plotters::coord::Shift;
use plotters::prelude::*;

use super::font::register_fonts;

/// A picture that is being drawn.
pub(super) type Canvas<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Whether something was drawn.
pub(super) type Drawn = Result<(), Box<dyn Error>>;

/// What `draw` draws on white, in a picture of this width and height, as SVG.
///
/// # Errors
/// What the drawing library says.
pub(super) fn svg(
    size: (u32, u32),
    draw: impl FnOnce(&Canvas<'_>) -> Drawn,
) -> Result<String, String> {
    let mut text = String::new();
    on_white(&mut text, size, draw).map_err(|error| error.to_string())?;
    // Names may have what XML forbids.
    Ok(lines(&text).into_owned())
}

fn on_white(text: &mut String, size: (u32, u32), draw: impl FnOnce(&Canvas<'_>) -> Drawn) -> Drawn {
    register_fonts()?;
    let root = SVGBackend::with_string(text, size).into_drawing_area();
    root.fill(&WHITE)?;
    draw(&root)?;
    Ok(root.present()?)
}
