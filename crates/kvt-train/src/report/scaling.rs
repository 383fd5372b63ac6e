//! Lines over a size, both axes logarithmic, as SVG: how time or memory grows.

use std::io::Write;
use std::path::Path;

use plotters::coord::Shift;
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::FontStyle;

use super::ReportError;
use super::font::{FONT, register_fonts};
use super::plot::{GRID, INK};
use super::series::PALETTE;
use crate::fs::write_atomic;

/// Size in SVG units: of the picture, and of its part for the lines.
const SIZE: (u32, u32) = (1000, 600);
const CHART_WIDTH: u32 = 800;
/// Units from one name to the next.
const ROW: i32 = 24;
/// Length of a dash and of a gap for the lines that repeat a colour; the first ones are solid.
const DASHES: [(u32, u32); 3] = [(8, 4), (3, 3), (14, 6)];

/// A line of the picture.
#[derive(Clone, Debug, PartialEq)]
pub struct ScalingLine {
    /// What it is called.
    pub name: String,
    /// Sizes and values, both positive, by size.
    pub points: Vec<(f64, f64)>,
}

/// Draws lines over `x` to an SVG file, which is written whole. Lines without points are left out.
///
/// # Errors
/// Failures of drawing and of the file system.
pub fn draw_scaling(
    lines: &[ScalingLine],
    [x, y]: [&str; 2],
    title: &str,
    path: &Path,
) -> Result<(), ReportError> {
    let failed = |reason: String| ReportError::Draw {
        path: path.to_owned(),
        reason,
    };
    register_fonts().map_err(failed)?;
    let mut text = String::new();
    {
        let root = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
        picture(&root, lines, [x, y], title).map_err(|error| failed(error.to_string()))?;
    }
    write_atomic(path, |file| file.write_all(text.as_bytes()))?;
    Ok(())
}

/// How a line is drawn: colours first, then dashes.
fn style(number: usize) -> (ShapeStyle, Option<(u32, u32)>) {
    let color = PALETTE[number % PALETTE.len()];
    let round = number / PALETTE.len();
    let dash = round
        .checked_sub(1)
        .map(|round| DASHES[round % DASHES.len()]);
    (color.stroke_width(2), dash)
}

/// The range of some positive numbers with a little room, which is no point.
fn range(values: impl Iterator<Item = f64>) -> std::ops::Range<f64> {
    let (low, high) = values.fold((f64::INFINITY, 0.0_f64), |(low, high), value| {
        (low.min(value), high.max(value))
    });
    match low.is_finite() && high > 0.0 {
        true => low / 1.2..high * 1.2,
        false => 1.0..10.0,
    }
}

fn picture<B: DrawingBackend>(
    root: &DrawingArea<B, Shift>,
    lines: &[ScalingLine],
    [x, y]: [&str; 2],
    title: &str,
) -> Result<(), DrawingAreaErrorKind<B::ErrorType>> {
    root.fill(&WHITE)?;
    let text = |units: u32| (FONT, units).into_font().color(&INK);
    let (left, right) = root.split_horizontally(CHART_WIDTH);
    let points = || lines.iter().flat_map(|line| &line.points);
    let xs = range(points().map(|(x, _)| *x));
    let ys = range(points().map(|(_, y)| *y));
    let mut chart = ChartBuilder::on(&left)
        .caption(title, (FONT, 20, FontStyle::Bold).into_font().color(&INK))
        .margin(14)
        .x_label_area_size(46)
        .y_label_area_size(70)
        .build_cartesian_2d(xs.log_scale(), ys.log_scale())?;
    chart
        .configure_mesh()
        .x_desc(x)
        .y_desc(y)
        .axis_desc_style(text(16))
        .label_style(text(14))
        .axis_style(INK.stroke_width(1))
        .bold_line_style(GRID.stroke_width(1))
        .light_line_style(TRANSPARENT)
        .x_label_formatter(&|size| format!("{size}"))
        .y_label_formatter(&|value| format!("{value}"))
        .draw()?;
    let drawn = lines.iter().filter(|line| !line.points.is_empty());
    for (number, line) in drawn.enumerate() {
        let (style, dash) = style(number);
        let points = line.points.iter().copied();
        let row = 60 + ROW * number as i32;
        let sample = vec![(4, row), (34, row)];
        match dash {
            None => {
                chart.draw_series(LineSeries::new(points, style))?;
                right.draw(&PathElement::new(sample, style))?;
            }
            Some((length, gap)) => {
                chart.draw_series(DashedLineSeries::new(points, length, gap, style))?;
                right.draw(&DashedPathElement::new(sample, length, gap, style))?;
            }
        }
        let dots = line.points.iter();
        chart.draw_series(dots.map(|dot| Circle::new(*dot, 3, style.color.filled())))?;
        right.draw(&Text::new(line.name.clone(), (42, row - 8), text(15)))?;
    }
    root.present()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn every_line_with_points_has_its_name_and_its_look() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("time.svg");
        let line = |number: usize| ScalingLine {
            name: format!("kind {number}"),
            points: vec![(197.0, 1.0 + number as f64), (16384.0, 1e4)],
        };
        let mut lines: Vec<_> = (0..18).map(line).collect();
        lines.push(ScalingLine {
            name: "nowhere".to_owned(),
            points: Vec::new(),
        });
        draw_scaling(&lines, ["tokens", "ms"], "Time & space", &path).unwrap();
        let text = fs_err::read_to_string(&path).unwrap();
        for expected in ["Time &amp; space", "tokens", "kind 0", "kind 17"] {
            assert!(text.contains(expected), "{expected}");
        }
        assert!(!text.contains("nowhere"));
        let looks: std::collections::BTreeSet<_> = (0..18)
            .map(|number| {
                let (style, dash) = style(number);
                (style.color.rgb(), dash)
            })
            .collect();
        assert_eq!(looks.len(), 18);
        draw_scaling(&[], ["tokens", "ms"], "nothing", &path).unwrap();
    }
}
