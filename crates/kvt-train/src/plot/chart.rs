//! Lines over numbers on axes that may be logarithmic, as SVG.

use std::ops::Range;

use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint};
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::FontStyle;

use super::colors::PALETTE;
use super::colors::{GRID, INK};
use super::font::{FONT, register_fonts};
use kvt_data::escape::lines;

/// Width of the part for the lines where the names are beside.
const LINES_WIDTH: u32 = 800;
/// Units from one name beside to the next.
const ROW: i32 = 24;
/// Length of the piece of a line before its name.
const SAMPLE: i32 = 26;

/// Number of the colour of lines that are only there for comparison: pale and thin, without dots.
pub(crate) const PALE: usize = usize::MAX;
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
    /// Size of a picture in SVG units: with the names within, and with the names beside.
    pub const WITHIN: (u32, u32) = (800, 500);
    pub(crate) const BESIDE: (u32, u32) = (1000, 600);
}

/// A horizontal or vertical axis.
pub struct Axis<'a> {
    /// What the axis shows, and its unit.
    pub label: &'a str,
    /// Whether its scale is logarithmic.
    pub logarithmic: bool,
    /// The numbers that are written at the axis; if empty, some that fit its range.
    pub ticks: Vec<f64>,
}

impl<'a> Axis<'a> {
    /// An axis of whole numbers up to `last`, such as epochs: about eight of them have a tick.
    #[must_use]
    pub fn whole(label: &'a str, last: usize) -> Self {
        let step = steps(&(0.0..last.max(8) as f64));
        let step = step.get(1).map_or(1, |step| *step as usize).max(1);
        Self {
            label,
            logarithmic: false,
            ticks: (0..=last).step_by(step).map(|tick| tick as f64).collect(),
        }
    }
}

/// One line.
pub struct Line {
    /// Its name in the legend; empty for a line that belongs to an earlier one of its colour and is not listed.
    pub name: String,
    /// Number of its colour; lines of one colour belong together.
    pub color: usize,
    /// Length of a dash and of a gap; solid without.
    pub dash: Option<(u32, u32)>,
    /// Places and values.
    pub points: Vec<(f64, f64)>,
}

impl Chart<'_> {
    /// The picture as SVG.
    ///
    /// # Errors
    /// What the drawing library says.
    pub fn svg(&self) -> Result<String, String> {
        register_fonts()?;
        let mut text = String::new();
        self.draw(&mut text).map_err(|error| error.to_string())?;
        // Names may have what XML forbids.
        Ok(lines(&text).into_owned())
    }

    fn draw(&self, svg: &mut String) -> Result<(), Box<dyn std::error::Error>> {
        let size = match self.names {
            Names::Within(_) => Names::WITHIN,
            Names::Beside => Names::BESIDE,
        };
        let root = SVGBackend::with_string(svg, size).into_drawing_area();
        root.fill(&WHITE)?;
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
            .y_label_area_size(70)
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
            let dashed = move |at: (i32, i32), (length, gap): (u32, u32)| {
                DashedPathElement::new(sample(at), length, gap, style)
            };
            let series = match line.dash {
                Some((length, gap)) => {
                    chart.draw_series(DashedLineSeries::new(points.clone(), length, gap, style))?
                }
                None => chart.draw_series(LineSeries::new(points.clone(), style))?,
            };
            if !line.name.is_empty() {
                series.label(&line.name);
                match line.dash {
                    Some(dash) => series.legend(move |at| dashed(at, dash)),
                    None => series.legend(solid),
                };
            }
            if let (Some(beside), false) = (&beside, line.name.is_empty()) {
                let (x, y) = (4, 60 + ROW * listed);
                match line.dash {
                    Some(dash) => beside.draw(&dashed((x, y), dash))?,
                    None => beside.draw(&solid((x, y)))?,
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
        root.present()?;
        Ok(())
    }
}

/// Draws axes and grid of a chart; `sizes` are those of the letters at the axes and of the numbers.
pub(super) fn mesh<DB: DrawingBackend>(
    chart: &mut ChartContext<'_, DB, Cartesian2d<Scale, Scale>>,
    x: &Axis<'_>,
    y: &Axis<'_>,
    sizes: [u32; 2],
) -> Result<(), DrawingAreaErrorKind<DB::ErrorType>> {
    let [axis, label] = sizes.map(|size| (FONT, size).into_font().color(&INK));
    chart
        .configure_mesh()
        .x_desc(x.label)
        .y_desc(y.label)
        .axis_desc_style(axis)
        .label_style(label)
        .axis_style(INK.stroke_width(1))
        .bold_line_style(GRID.stroke_width(1))
        .light_line_style(TRANSPARENT)
        .x_label_formatter(&|value| number(*value))
        .y_label_formatter(&|value| number(*value))
        .draw()
}

/// The piece of a line before its name.
fn sample((x, y): (i32, i32)) -> Vec<(i32, i32)> {
    vec![(x, y), (x + SAMPLE, y)]
}

/// An axis with its range.
pub(super) struct Scale {
    range: Range<f64>,
    logarithmic: bool,
    ticks: Vec<f64>,
}

impl Scale {
    pub(super) fn new(axis: &Axis<'_>, values: impl Iterator<Item = f64>) -> Self {
        let logarithmic = axis.logarithmic;
        let shown = |value: &f64| value.is_finite() && (!logarithmic || *value > 0.0);
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.filter(shown) {
            (low, high) = (low.min(value), high.max(value));
        }
        if low > high {
            (low, high) = (1.0, 2.0);
        }
        let range = if logarithmic {
            // Some air, and some length where all is the same.
            let air = (high / low).powf(0.06).max(1.05);
            low / air..high * air
        } else {
            let air = (0.06 * (high - low)).max(0.01 * high.abs()).max(1e-9);
            low - air..high + air
        };
        let ticks = match (axis.ticks.is_empty(), logarithmic) {
            (false, _) => axis.ticks.clone(),
            (true, true) => decades(&range),
            (true, false) => steps(&range),
        };
        let inside = |tick: &f64| range.contains(tick);
        Self {
            ticks: ticks.into_iter().filter(inside).collect(),
            range,
            logarithmic,
        }
    }
}

impl Ranged for Scale {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (first, last): (i32, i32)) -> i32 {
        let place = |value: f64| if self.logarithmic { value.ln() } else { value };
        let (low, high) = (place(self.range.start), place(self.range.end));
        let share = (place(*value) - low) / (high - low);
        first + (share * f64::from(last - first)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        if hint.weight().allow_light_points() {
            Vec::new()
        } else {
            self.ticks.clone()
        }
    }

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }
}

/// 1, 2 and 5 times powers of ten, or the powers alone where that is enough.
fn decades(range: &Range<f64>) -> Vec<f64> {
    let powers = range.start.log10().floor() as i32..=range.end.log10().ceil() as i32;
    let factors: &[f64] = match powers.clone().count() {
        ..=4 => &[1.0, 2.0, 5.0],
        _ => &[1.0],
    };
    let of_power = |power| {
        factors
            .iter()
            .map(move |factor| factor * 10.0_f64.powi(power))
    };
    powers.flat_map(of_power).collect()
}

/// About eight numbers at equal distances.
pub(crate) fn steps(range: &Range<f64>) -> Vec<f64> {
    let least = (range.end - range.start) / 8.0;
    let power = 10.0_f64.powf(least.log10().floor());
    let factors = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|factor| factor * power);
    let step = factors
        .filter(|step| *step >= least)
        .fold(f64::INFINITY, f64::min);
    let (first, last) = (
        (range.start / step).ceil() as i64,
        (range.end / step).floor() as i64,
    );
    (first..=last).map(|number| number as f64 * step).collect()
}

/// A number without the noise of its binary form.
pub(crate) fn number(value: f64) -> String {
    let digits = (3.0 - value.abs().max(1e-9).log10().floor()).clamp(0.0, 9.0) as usize;
    let text = format!("{value:.digits$}");
    if !text.contains('.') {
        return text;
    }
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests;
