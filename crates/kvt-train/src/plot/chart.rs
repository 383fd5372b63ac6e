//! Lines over numbers, as SVG.

use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::FontStyle;

use super::axis::{Axis, Scale, mesh};
use super::colors::{GRID, INK, PALETTE};
use super::font::FONT;
use super::svg::{Canvas, Drawn, svg};

/// Width of the part for the lines where the names are beside.
const LINES_WIDTH: u32 = 800;
/// Units from one name beside to the next.
const ROW: i32 = 24;
/// Length of the piece of a line before its name.
const SAMPLE: i32 = 26;
/// Length of a dash and of the gap after it.
const DASH: u32 = 6;
const GAP: u32 = 4;

/// Number of the colour of lines that are only there for comparison: pale and thin, without dots.
pub const PALE: usize = usize::MAX;
const PALE_COLOR: RGBColor = RGBColor(0xcf, 0xcf, 0xcf);

/// Lines and what they mean.
pub struct Chart<'a> {
    /// Its title.
    pub title: &'a str,
    /// The horizontal axis.
    pub x: Axis<'a>,
    /// The vertical axis.
    pub y: Axis<'a>,
    /// The lines, in the order of the legend.
    pub lines: Vec<Line>,
    /// Where their names are.
    pub names: Names,
}

/// Where the names of the lines are.
pub enum Names {
    /// In a box among the lines.
    Within(SeriesLabelPosition),
    /// To the right, in a wider picture: for many lines.
    Beside,
}

impl Names {
    /// Size of a picture in SVG units, with the names within.
    pub const WITHIN: (u32, u32) = (800, 500);
    /// Size of a picture in SVG units, with the names beside.
    pub const BESIDE: (u32, u32) = (1000, 600);
}

/// One line. Its points are places and values; in a panel also the [errors](super::ErrorLine) of the values.
pub struct Line<Point = (f64, f64)> {
    /// Its name in the legend; empty for a line that belongs to an earlier one of its colour and is not listed.
    pub name: String,
    /// Number of its colour; lines of one colour belong together.
    pub color: usize,
    /// Whether it is dashed.
    pub dashed: bool,
    /// What it goes through.
    pub points: Vec<Point>,
}

impl<Point> Line<Point> {
    /// A solid line.
    #[must_use]
    pub fn new(
        name: impl Into<String>,
        color: usize,
        points: impl IntoIterator<Item = Point>,
    ) -> Self {
        Self {
            name: name.into(),
            color,
            dashed: false,
            points: points.into_iter().collect(),
        }
    }

    /// The same with dashes.
    #[must_use]
    pub fn dashed(self) -> Self {
        Self {
            dashed: true,
            ..self
        }
    }
}

impl Chart<'_> {
    /// The picture as SVG.
    ///
    /// # Errors
    /// What the drawing library says.
    pub fn svg(&self) -> Result<String, String> {
        let size = match self.names {
            Names::Within(_) => Names::WITHIN,
            Names::Beside => Names::BESIDE,
        };
        svg(size, |root| self.draw(root))
    }

    fn draw(&self, root: &Canvas<'_>) -> Drawn {
        let (area, beside) = match self.names {
            Names::Within(_) => (root.clone(), None),
            Names::Beside => {
                let (area, beside) = root.split_horizontally(LINES_WIDTH);
                (area, Some(beside))
            }
        };
        let text = |size: u32| (FONT, size).into_font().color(&INK);
        let title = (FONT, 20, FontStyle::Bold).into_font().color(&INK);
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let x = Scale::new(&self.x, points().map(|point| point.0));
        let y = Scale::new(&self.y, points().map(|point| point.1));
        let mut chart = ChartBuilder::on(&area)
            .caption(self.title, title)
            .margin(14)
            .margin_right(24)
            .x_label_area_size(46)
            .y_label_area_size(self.y.width())
            .build_cartesian_2d(x, y)?;
        mesh(&mut chart, &self.x, &self.y, [16, 14])?;
        let mut listed = 0;
        for line in &self.lines {
            let (color, width) = match line.color {
                PALE => (PALE_COLOR, 1),
                number => (PALETTE[number % PALETTE.len()], 2),
            };
            let style = color.stroke_width(width);
            let points = line.points.iter().copied();
            let solid = move |at: (i32, i32)| PathElement::new(sample(at), style);
            let dashed = move |at: (i32, i32)| DashedPathElement::new(sample(at), DASH, GAP, style);
            let series = if line.dashed {
                chart.draw_series(DashedLineSeries::new(points.clone(), DASH, GAP, style))?
            } else {
                chart.draw_series(LineSeries::new(points.clone(), style))?
            };
            if !line.name.is_empty() {
                series.label(&line.name);
                if line.dashed {
                    series.legend(dashed);
                } else {
                    series.legend(solid);
                }
            }
            if let (Some(beside), false) = (&beside, line.name.is_empty()) {
                let (x, y) = (4, 60 + ROW * listed);
                if line.dashed {
                    beside.draw(&dashed((x, y)))?;
                } else {
                    beside.draw(&solid((x, y)))?;
                }
                let at = (x + SAMPLE + 8, y - 8);
                beside.draw(&Text::new(line.name.clone(), at, text(15)))?;
                listed += 1;
            }
            if line.color != PALE {
                chart.draw_series(points.map(|point| Circle::new(point, 3, color.filled())))?;
            }
        }
        if let Names::Within(position) = &self.names {
            chart
                .configure_series_labels()
                .position(position.clone())
                .legend_area_size(SAMPLE + 8)
                .margin(12)
                .label_font(text(15))
                .background_style(WHITE.mix(0.85))
                .border_style(GRID.stroke_width(1))
                .draw()?;
        }
        Ok(())
    }
}

/// The piece of a line before its name.
fn sample((x, y): (i32, i32)) -> Vec<(i32, i32)> {
    vec![(x, y), (x + SAMPLE, y)]
}

#[cfg(test)]
mod tests;
