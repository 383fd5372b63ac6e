//! Several charts in one picture, with one list of names for all, as SVG.

use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::FontStyle;

use super::axis::{Axis, Scale, mesh};
use super::chart::Line;
use super::colors::{INK, color};
use super::font::FONT;
use super::svg::{Canvas, Drawn, svg};

/// Size of a chart, in SVG units.
const PANEL: (u32, u32) = (480, 330);
/// Height of the title, and of a row of names.
const TITLE: u32 = 44;
const ROW: u32 = 24;
/// Length of the piece of a line before its name, and width of a name with it.
const SAMPLE: i32 = 26;
const NAME: u32 = 160;

/// A chart among others.
pub struct LinePanel<'a> {
    /// Its title.
    pub title: String,
    /// The horizontal axis.
    pub x: Axis<'a>,
    /// The vertical axis.
    pub y: Axis<'a>,
    /// The lines.
    pub lines: Vec<ErrorLine>,
    /// Values that the vertical axis reaches besides those of the lines: charts that are compared have one scale.
    pub y_holds: Vec<f64>,
}

/// A line with errors: each point is a place, a value, and its error if there is one.
pub type ErrorLine = Line<(f64, f64, Option<f64>)>;

/// Charts in so many columns. The names are those of the first chart.
///
/// # Errors
/// What the drawing library says.
pub fn line_panels(
    title: &str,
    panels: &[LinePanel<'_>],
    columns: usize,
) -> Result<String, String> {
    let columns = columns.max(1);
    let width = columns as u32 * PANEL.0;
    let named = panels.first().map_or(&[][..], |panel| &panel.lines[..]);
    let in_row = (width / NAME).max(1) as usize;
    let names = named.len().div_ceil(in_row) as u32 * ROW;
    let rows = panels.len().div_ceil(columns) as u32;
    let size = (width, TITLE + names + rows * PANEL.1);
    svg(size, |root| {
        let bold = (FONT, 20, FontStyle::Bold).into_font().color(&INK);
        root.draw(&Text::new(title.to_owned(), (14, 12), bold))?;
        for (place, line) in named.iter().enumerate() {
            let x = 14 + ((place % in_row) as u32 * NAME) as i32;
            let y = (TITLE + (place / in_row) as u32 * ROW) as i32 + 8;
            let piece = vec![(x, y), (x + SAMPLE, y)];
            let style = color(line.color).stroke_width(2);
            if line.dashed {
                root.draw(&DashedPathElement::new(piece, 5u32, 4u32, style))?;
            } else {
                root.draw(&PathElement::new(piece, style))?;
            }
            let text = (FONT, 14).into_font().color(&INK);
            root.draw(&Text::new(line.name.clone(), (x + SAMPLE + 6, y - 8), text))?;
        }
        let (_, below) = root.split_vertically(TITLE + names);
        for (area, panel) in below
            .split_evenly((rows.max(1) as usize, columns))
            .iter()
            .zip(panels)
        {
            chart(area, panel)?;
        }
        Ok(())
    })
}

fn chart(area: &Canvas<'_>, panel: &LinePanel<'_>) -> Drawn {
    let points = || panel.lines.iter().flat_map(|line| &line.points);
    let ends = |&(_, y, error): &(f64, f64, Option<f64>)| {
        let error = error.unwrap_or(0.0);
        [y - error, y + error]
    };
    let x = Scale::new(&panel.x, points().map(|point| point.0));
    let held = panel.y_holds.iter().copied();
    let y = Scale::new(&panel.y, points().flat_map(ends).chain(held));
    let title = (FONT, 16, FontStyle::Bold).into_font().color(&INK);
    let mut chart = ChartBuilder::on(area)
        .caption(&panel.title, title)
        .margin(10)
        .margin_right(18)
        .x_label_area_size(40)
        .y_label_area_size(64)
        .build_cartesian_2d(x, y)?;
    mesh(&mut chart, &panel.x, &panel.y, [14, 13])?;
    for line in &panel.lines {
        let color = color(line.color);
        let style = color.stroke_width(2);
        let finite = line.points.iter().filter(|point| point.1.is_finite());
        let points: Vec<(f64, f64)> = finite.clone().map(|point| (point.0, point.1)).collect();
        if line.dashed {
            let line = DashedLineSeries::new(points.clone(), 5u32, 4u32, style);
            chart.draw_series(line)?;
        } else {
            chart.draw_series(LineSeries::new(points.clone(), style))?;
        }
        let dots = points.into_iter();
        chart.draw_series(dots.map(|dot| Circle::new(dot, 2, color.filled())))?;
        for &(x, y, error) in finite {
            let Some(error) = error.filter(|error| error.is_finite()) else {
                continue;
            };
            let bar = [(x, y - error), (x, y + error)];
            let bar = PathElement::new(bar, color.stroke_width(1));
            chart.draw_series(std::iter::once(bar))?;
        }
    }
    Ok(())
}
