//! Axes of charts, which may be logarithmic: range, ticks, grid.

use std::ops::Range;

use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint};
use plotters::prelude::*;

use super::colors::{GRID, INK};
use super::font::FONT;

/// Width of a letter at an axis.
const LETTER: u32 = 7;

/// A horizontal or vertical axis.
pub struct Axis<'a> {
    /// What the axis shows, and its unit.
    label: &'a str,
    logarithmic: bool,
    /// The numbers that are written at the axis; if empty, some that fit its range.
    pub ticks: Vec<f64>,
    /// What is written in place of these numbers, if it is not empty.
    names: Vec<String>,
}

impl<'a> Axis<'a> {
    /// A linear axis.
    #[must_use]
    pub fn linear(label: &'a str) -> Self {
        Self {
            label,
            logarithmic: false,
            ticks: Vec::new(),
            names: Vec::new(),
        }
    }

    /// A logarithmic axis.
    #[must_use]
    pub fn logarithmic(label: &'a str) -> Self {
        Self {
            logarithmic: true,
            ..Self::linear(label)
        }
    }

    /// The same with these numbers at it.
    #[must_use]
    pub fn at(self, ticks: Vec<f64>) -> Self {
        Self { ticks, ..self }
    }

    /// An axis of rows: their names, from the top at 0, -1, -2 and so on.
    #[must_use]
    pub fn rows(names: Vec<String>) -> Self {
        let ticks = (0..names.len()).map(|row| -(row as f64)).collect();
        Self {
            names,
            ..Self::linear("").at(ticks)
        }
    }

    /// What is written at a tick.
    fn text(&self, tick: f64) -> String {
        let place = self.ticks.iter().position(|other| *other == tick);
        let name = place.and_then(|place| self.names.get(place));
        name.cloned().unwrap_or_else(|| number(tick))
    }

    /// The room for what is written at the ticks of a vertical axis.
    pub(super) fn width(&self) -> u32 {
        let names = self.names.iter().map(|name| name.chars().count() as u32);
        names.max().map_or(70, |letters| LETTER * letters + 20)
    }

    /// An axis of whole numbers up to `last`, such as epochs: about eight of them have a tick.
    #[must_use]
    pub fn whole(label: &'a str, last: usize) -> Self {
        let step = steps(&(0.0..last.max(8) as f64));
        let step = step.get(1).map_or(1, |step| *step as usize).max(1);
        Self::linear(label).at((0..=last).step_by(step).map(|tick| tick as f64).collect())
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
    let x_text = |tick: &f64| x.text(*tick);
    let y_text = |tick: &f64| y.text(*tick);
    chart
        .configure_mesh()
        .x_desc(x.label)
        .y_desc(y.label)
        .axis_desc_style(axis)
        .label_style(label)
        .axis_style(INK.stroke_width(1))
        .bold_line_style(GRID.stroke_width(1))
        .light_line_style(TRANSPARENT)
        .x_label_formatter(&x_text)
        .y_label_formatter(&y_text)
        .draw()
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
pub fn steps(range: &Range<f64>) -> Vec<f64> {
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
pub fn number(value: f64) -> String {
    rounded(value, 4, 9)
}

/// A number of so many digits, at most so many of them decimals, without zeros at its end.
pub fn rounded(value: f64, digits: u8, decimals: u8) -> String {
    let power = value.abs().max(1e-9).log10().floor();
    let decimals = (f64::from(digits) - 1.0 - power).clamp(0.0, decimals.into()) as usize;
    let text = format!("{value:.decimals$}");
    if !text.contains('.') {
        return text;
    }
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_on_a_scale() {
        let values = || [10.0, 1000.0].into_iter();
        let scale = Scale::new(&Axis::logarithmic(""), values());
        assert_eq!(scale.map(&100.0, (0, 200)), 100);
        assert!(scale.range.start < 10.0 && scale.range.end > 1000.0);
        assert_eq!(scale.ticks, [10.0, 100.0, 1000.0]);
        let scale = Scale::new(&Axis::linear(""), values());
        assert_eq!(scale.map(&505.0, (300, 100)), 200);
        assert_eq!(scale.ticks, [0.0, 200.0, 400.0, 600.0, 800.0, 1000.0]);
        // Neither nothing nor one value is a range of no length.
        for values in [&[][..], &[0.5], &[f64::NAN]] {
            for axis in [Axis::linear(""), Axis::logarithmic("")] {
                let scale = Scale::new(&axis, values.iter().copied());
                assert!(scale.range.start < scale.range.end);
            }
        }
        assert_eq!(
            decades(&(3.0..700.0)),
            [
                1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1e3, 2e3, 5e3
            ]
        );
    }

    #[test]
    fn whole_numbers_have_whole_ticks() {
        assert_eq!(Axis::whole("layer", 4).ticks, [0.0, 1.0, 2.0, 3.0, 4.0]);
        assert_eq!(
            Axis::whole("layer", 12).ticks,
            [0.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0]
        );
        // Those outside of the lines are not drawn.
        let scale = Scale::new(&Axis::whole("layer", 2), [1.0, 2.0].into_iter());
        assert_eq!(scale.ticks, [1.0, 2.0]);
    }

    #[test]
    fn numbers_are_short() {
        for (value, text) in [
            (16_384.0, "16384"),
            (0.1 + 0.2, "0.3"),
            (0.05, "0.05"),
            (20.0, "20"),
            (0.0, "0"),
        ] {
            assert_eq!(number(value), text);
        }
    }
}
