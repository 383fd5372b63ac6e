//! Curves over epochs as inline SVG. Colours are classes of the style sheet, so that they suit a light and a dark page. The
//! numbers are attributes of the lines, for the script and for readers of the file.

use std::ops::Range;

use super::super::Curve;
use super::super::plot::Plot;
use super::super::series::{Series, epoch_range, series, value_range};
use super::markup::Markup;
use kvt_train::plot::{number, rounded, steps};

/// Size in SVG units, and the edges of the axes: left, top, right, bottom.
const SIZE: [f64; 2] = [480.0, 300.0];
const EDGES: [f64; 4] = [64.0, 10.0, 468.0, 256.0];
/// Up to this many epochs, each measurement gets a dot with its number, which also works without the script.
const MAX_DOTTED: i32 = 40;
/// Letters of a number that fit beside the axis on a phone and on paper, whose letters are larger.
const LONGEST: usize = 6;
/// Maximum number of epoch ticks.
const TICKS: i32 = 8;

/// Maps numbers to positions in the picture.
struct Place {
    epochs: Range<i32>,
    values: Range<f64>,
}

impl Place {
    fn x(&self, epoch: i32) -> f64 {
        let span = f64::from(self.epochs.end) - f64::from(self.epochs.start);
        let share = (f64::from(epoch) - f64::from(self.epochs.start)) / span;
        EDGES[0] + share * (EDGES[2] - EDGES[0])
    }

    fn y(&self, value: f64) -> f64 {
        let share = (value - self.values.start) / (self.values.end - self.values.start);
        EDGES[3] - share * (EDGES[3] - EDGES[1])
    }

    /// Points as an SVG attribute.
    fn points(&self, points: &[(i32, f64)]) -> String {
        let points = points
            .iter()
            .map(|&(epoch, value)| pair(self.x(epoch), self.y(value)));
        points.collect::<Vec<_>>().join(" ")
    }
}

/// Draws a plot of the curves, or nothing if they have no numbers for it.
pub(super) fn draw(page: &mut Markup, plot: Plot, curves: &[Curve]) {
    let lines = series(plot, curves);
    if lines.is_empty() {
        return;
    }
    let place = Place {
        epochs: epoch_range(&lines),
        values: value_range(plot, &lines),
    };
    let title = plot.y_label();
    page.within("figure", &[("class", "chart")], |page| {
        page.element("figcaption", &[], &title);
        page.within("div", &[("class", "plot")], |page| {
            let [width, height] = SIZE;
            let scale = format!(
                "{} {} {} {}",
                EDGES[0], EDGES[2], place.epochs.start, place.epochs.end
            );
            let view = format!("0 0 {width} {height}");
            let words = format!("{title} by epoch");
            let edges = format!("{} {}", EDGES[1], EDGES[3]);
            let attributes = [
                ("class", "axes"),
                ("viewBox", &*view),
                ("role", "img"),
                ("aria-label", &*words),
                ("tabindex", "0"),
                ("data-scale", &*scale),
                ("data-edges", &*edges),
            ];
            page.within("svg", &attributes, |page| {
                grid(page, &place);
                for line in &lines {
                    one(page, line, &place);
                }
            });
        });
        page.within("div", &[("class", "keys")], |page| {
            for line in &lines {
                key(page, line);
            }
        });
    });
}

/// Lines of the grid, with their numbers.
fn grid(page: &mut Markup, place: &Place) {
    let [left, _, right, bottom] = EDGES;
    page.within("g", &[("class", "grid")], |page| {
        let values = steps(&place.values);
        for (value, text) in values.iter().zip(texts(&values)) {
            let y = place.y(*value);
            rule(page, [left, y], [right, y]);
            label(page, "end", [left - 7.0, y + 4.0], &text);
        }
        for epoch in epoch_ticks(&place.epochs) {
            let x = place.x(epoch);
            rule(page, [x, bottom], [x, bottom + 4.0]);
            label(page, "middle", [x, bottom + 19.0], &epoch.to_string());
        }
        rule(page, [left, bottom], [right, bottom]);
        label(
            page,
            "middle",
            [(left + right) / 2.0, SIZE[1] - 6.0],
            "epoch",
        );
    });
}

/// The numbers of an axis: as powers of ten if one of them is too long, such as a learning rate.
fn texts(values: &[f64]) -> Vec<String> {
    let plain: Vec<String> = values.iter().map(|value| number(*value)).collect();
    if plain.iter().all(|text| text.len() <= LONGEST) {
        return plain;
    }
    // Of the text, which is without the noise of binary numbers.
    let power = |text: String| match text.parse::<f64>() {
        Ok(value) if value != 0.0 => format!("{value:e}"),
        _ => text,
    };
    plain.into_iter().map(power).collect()
}

fn rule(page: &mut Markup, from: [f64; 2], to: [f64; 2]) {
    let [x1, y1, x2, y2] = [from[0], from[1], to[0], to[1]].map(short);
    page.void(
        "line",
        &[("x1", &*x1), ("y1", &*y1), ("x2", &*x2), ("y2", &*y2)],
    );
}

fn label(page: &mut Markup, anchor: &str, [x, y]: [f64; 2], text: &str) {
    let (x, y) = (short(x), short(y));
    page.element(
        "text",
        &[("x", &*x), ("y", &*y), ("text-anchor", anchor)],
        text,
    );
}

/// A line with its numbers, its band and its dots.
fn one(page: &mut Markup, line: &Series, place: &Place) {
    let points = line.line.iter();
    let both = points.map(|(epoch, value)| (epoch.to_string(), value.to_string()));
    let (x, y): (Vec<_>, Vec<_>) = both.unzip();
    // A single run has no spread.
    let spread = line.spreads.iter();
    let spread: Vec<String> = spread
        .map(|spread| spread.map_or_else(|| "-".to_owned(), short_number))
        .collect();
    let [x, y, spread] = [x, y, spread].map(|numbers| numbers.join(" "));
    let class = format!("series {}", class(line));
    let attributes = [
        ("class", &*class),
        ("data-name", &*line.name),
        ("data-x", &*x),
        ("data-y", &*y),
        ("data-spread", &*spread),
    ];
    page.within("g", &attributes, |page| {
        if !line.band.is_empty() {
            let points = place.points(&line.band);
            page.void("polygon", &[("class", "band"), ("points", &*points)]);
        }
        let points = place.points(&line.line);
        page.void("polyline", &[("class", "line"), ("points", &*points)]);
        if place.epochs.end > MAX_DOTTED && line.line.len() > 1 {
            return;
        }
        for &(epoch, value) in &line.line {
            let (x, y) = (short(place.x(epoch)), short(place.y(value)));
            let dot = [("class", "dot"), ("cx", &*x), ("cy", &*y), ("r", "3")];
            page.within("circle", &dot, |page| {
                let text = format!("{}, epoch {epoch}: {}", line.name, short_number(value));
                page.element("title", &[], &text);
            });
        }
    });
}

/// The name of a line below the axes; the script makes it a switch.
fn key(page: &mut Markup, line: &Series) {
    let class = format!("key {}", class(line));
    let attributes = [
        ("type", "button"),
        ("class", &*class),
        ("aria-pressed", "true"),
    ];
    page.within("button", &attributes, |page| {
        let sample = [("class", "sample-line"), ("viewBox", "0 0 26 8")];
        page.within("svg", &sample, |page| {
            page.void(
                "line",
                &[("x1", "0"), ("y1", "4"), ("x2", "26"), ("y2", "4")],
            );
        });
        page.element("span", &[], &line.name);
    });
}

fn class(line: &Series) -> String {
    let dashed = if line.dashed { " dashed" } else { "" };
    format!("{}{dashed}", color_class(line.number))
}

/// The class for the colour of a label: the style sheet has one for each colour.
pub(super) fn color_class(number: usize) -> String {
    format!("s{}", number % COLORS)
}

/// Number of label colours before they repeat.
pub(super) const COLORS: usize = 21;

/// Ticks at round steps of whole epochs.
fn epoch_ticks(epochs: &Range<i32>) -> Vec<i32> {
    let span = epochs.end.saturating_sub(epochs.start);
    let powers = (0..9).map(|power| 10_i32.pow(power));
    let all = powers.flat_map(|power| [1, 2, 5].map(|factor| power.saturating_mul(factor)));
    let step = all
        .into_iter()
        .find(|step| span / step < TICKS)
        .unwrap_or(i32::MAX);
    // The axis of a single epoch is longer than that epoch; it still has no epoch 0.
    let first = epochs.start.max(1);
    let first = first.div_euclid(step) + i32::from(first.rem_euclid(step) != 0);
    let last = epochs.end.div_euclid(step);
    (first..=last).map(|tick| tick * step).collect()
}

/// A coordinate.
fn short(value: f64) -> String {
    format!("{value:.1}")
}

fn pair(x: f64, y: f64) -> String {
    format!("{},{}", short(x), short(y))
}

/// A measured number for readers: six digits.
pub(super) fn short_number(value: f64) -> String {
    rounded(value, 6, 12)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_whole_epochs() {
        assert_eq!(epoch_ticks(&(1..4)), [1, 2, 3, 4]);
        assert_eq!(epoch_ticks(&(1..20)), [5, 10, 15, 20]);
        assert_eq!(epoch_ticks(&(1..300)), [50, 100, 150, 200, 250, 300]);
        // A single epoch, on an axis from 0 to 2.
        assert_eq!(epoch_ticks(&(0..2)), [1, 2]);
    }

    #[test]
    fn long_numbers_of_an_axis_are_powers_of_ten() {
        let short = texts(&steps(&(0.0..0.0011)));
        assert_eq!(
            short,
            ["0", "0.0002", "0.0004", "0.0006", "0.0008", "0.001"]
        );
        let long = texts(&steps(&(0.0..0.00021)));
        assert_eq!(long, ["0", "5e-5", "1e-4", "1.5e-4", "2e-4"]);
    }

    #[test]
    fn numbers_have_six_digits() {
        for (value, text) in [
            (99.2, "99.2"),
            (1.0 / 3.0, "0.333333"),
            (0.00001, "0.00001"),
            (1234567.0, "1234567"),
            (0.0, "0"),
            (f64::NAN, "NaN"),
        ] {
            assert_eq!(short_number(value), text);
        }
    }

    /// By hand: 480 by 300 units, epochs 1 to 3, values 0 to 10.
    #[test]
    fn places_of_points() {
        let place = Place {
            epochs: 1..3,
            values: 0.0..10.0,
        };
        assert_eq!(
            place.points(&[(1, 0.0), (2, 5.0), (3, 10.0)]),
            "64.0,256.0 266.0,133.0 468.0,10.0"
        );
    }
}
