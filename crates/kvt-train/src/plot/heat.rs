//! Matrices as panels of grey cells, as SVG.

use std::fmt::Write as _;

use plotters::prelude::*;
use plotters::style::FontStyle;

use super::colors::{GRID, INK};
use super::font::FONT;
use super::svg::svg;

/// Shades between white and black: few, so that neighbouring cells often merge into one shape.
const SHADES: usize = 16;
/// Side of a panel.
const SIDE: u32 = 260;
/// Space around panels, and the height of a line of text.
const GAP: u32 = 16;
const LINE: u32 = 28;

/// A matrix with its name. Values are not negative; the largest is black, and darkness grows with the square root of a value, so
/// that small values are visible.
pub struct Panel<'a> {
    /// Its name.
    pub name: &'a str,
    /// Columns of the matrix.
    pub columns: usize,
    /// Row by row.
    pub values: &'a [f64],
}

/// The panels side by side.
///
/// # Errors
/// The drawing library's message.
pub fn heat_maps(title: &str, panels: &[Panel<'_>]) -> Result<String, String> {
    let count = panels.len() as u32;
    let size = (GAP + count * (SIDE + GAP), 2 * LINE + SIDE + 2 * GAP);
    let (left, top) = (|number: u32| GAP + number * (SIDE + GAP), GAP + 2 * LINE);
    let mut text = svg(size, |root| {
        let bold = (FONT, 18, FontStyle::Bold).into_font().color(&INK);
        root.draw(&Text::new(title, (GAP as i32, 8), bold))?;
        for (number, panel) in (0..).zip(panels) {
            let x = left(number) as i32;
            let style = (FONT, 15).into_font().color(&INK);
            root.draw(&Text::new(panel.name, (x, (top - LINE) as i32), style))?;
            let corners = [
                (x - 1, top as i32 - 1),
                (x + SIDE as i32, (top + SIDE) as i32),
            ];
            root.draw(&Rectangle::new(corners, GRID.stroke_width(1)))?;
        }
        Ok(())
    })?;
    let end = text.rfind("</svg>").unwrap_or(text.len());
    let mut cells = String::new();
    for (number, panel) in (0..).zip(panels) {
        cells += &shapes(panel, [left(number), top]);
    }
    text.insert_str(end, &cells);
    Ok(text)
}

/// The cells of a panel: one path per shade, made of runs of cells.
fn shapes(panel: &Panel<'_>, [left, top]: [u32; 2]) -> String {
    let columns = panel.columns.max(1);
    let rows = panel.values.len() / columns;
    let largest = panel.values.iter().copied().fold(0.0, f64::max);
    let shade = |value: f64| {
        let share = (value / largest.max(f64::MIN_POSITIVE)).clamp(0.0, 1.0);
        (share.sqrt() * (SHADES - 1) as f64).round() as usize
    };
    let mut paths = vec![String::new(); SHADES];
    for (row, values) in panel.values.chunks_exact(columns).enumerate() {
        let mut column = 0;
        for same in values.chunk_by(|one, other| shade(*one) == shade(*other)) {
            let (dark, run) = (shade(same[0]), same.len());
            if dark > 0 {
                let _ = write!(paths[dark], "M{column} {row}h{run}v1h-{run}z");
            }
            column += run;
        }
    }
    let scale = [columns, rows.max(1)].map(|cells| f64::from(SIDE) / cells as f64);
    let mut text = format!(
        "<g shape-rendering=\"crispEdges\" transform=\"translate({left} {top}) scale({} {})\">\n",
        scale[0], scale[1]
    );
    for (dark, path) in paths
        .iter()
        .enumerate()
        .filter(|(_, path)| !path.is_empty())
    {
        let level = 255 - dark * 255 / (SHADES - 1);
        let _ = writeln!(
            text,
            "<path fill=\"rgb({level},{level},{level})\" d=\"{path}\"/>"
        );
    }
    text += "</g>\n";
    text
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn cells_become_runs_of_shades() {
        let panel = Panel {
            name: "a",
            columns: 4,
            values: &[0.0, 4.0, 4.0, 1.0, 0.0, 0.0, 0.0, 4.0],
        };
        let text = shapes(&panel, [10, 20]);
        assert!(text.contains("translate(10 20) scale(65 130)"), "{text}");
        assert!(
            text.contains("<path fill=\"rgb(0,0,0)\" d=\"M1 0h2v1h-2zM3 1h1v1h-1z\"/>"),
            "{text}"
        );
        // Half as dark: the square root of a quarter.
        assert!(
            text.contains("<path fill=\"rgb(119,119,119)\" d=\"M3 0h1v1h-1z\"/>"),
            "{text}"
        );
        assert_eq!(text.matches("<path").count(), 2);
        let nothing = Panel {
            values: &[0.0; 8],
            ..panel
        };
        assert!(!shapes(&nothing, [0, 0]).contains("<path"));
    }

    #[test]
    fn panels_stand_side_by_side() {
        let panel = |name| Panel {
            name,
            columns: 1,
            values: &[1.0],
        };
        let svg = heat_maps("both", &[panel("first"), panel("second & last")]).unwrap();
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
        for text in ["both", "first", "second &amp; last"] {
            assert!(svg.contains(text), "{text}");
        }
        assert_eq!(svg.matches("<path").count(), 2);
    }
}
