//! The lines and axes of a plot, before anything is drawn.

use std::ops::Range;

use plotters::style::RGBColor;

use super::curves::{by_label, ema, mean_curve, val};
use super::looks::joined;
use super::plot::Plot;
use super::{Curve, EpochPoint};
use kvt_train::plot::color;
use kvt_train::run::Metric;

/// One line of a plot.
pub(super) struct Series {
    pub(super) name: String,
    /// The number of its label, which gives the colour.
    pub(super) number: usize,
    pub(super) color: RGBColor,
    pub(super) dashed: bool,
    /// Mean by finished epoch.
    pub(super) line: Vec<(i32, f64)>,
    /// Outline of the band: along the top, back along the bottom.
    pub(super) band: Vec<(i32, f64)>,
    /// The standard deviation at each point, if there are several runs; `None` where only one of them has the epoch.
    pub(super) spreads: Vec<Option<f64>>,
}

impl Series {
    fn new(
        name: String,
        number: usize,
        dashed: bool,
        runs: &[&Curve],
        field: impl Fn(&EpochPoint) -> Option<f64>,
    ) -> Self {
        let mut line = Vec::new();
        let (mut top, mut bottom) = (Vec::new(), Vec::new());
        let mut spreads = Vec::new();
        for (epoch, value) in mean_curve(runs, field) {
            let epoch = i32::try_from(epoch).unwrap_or(i32::MAX);
            line.push((epoch, value.mean));
            if runs.len() > 1 {
                spreads.push(value.spread);
                let spread = value.spread.unwrap_or(0.0);
                top.push((epoch, value.mean + spread));
                bottom.push((epoch, value.mean - spread));
            }
        }
        let band = top.into_iter().chain(bottom.into_iter().rev()).collect();
        Self {
            name,
            number,
            color: color(number),
            dashed,
            line,
            band,
            spreads,
        }
    }
}

/// The lines of a plot.
pub(super) fn series(plot: Plot, curves: &[Curve]) -> Vec<Series> {
    let mut series = Vec::new();
    for (number, (label, runs)) in by_label(curves).iter().enumerate() {
        let mut add = |name: String, dashed, field: &dyn Fn(&EpochPoint) -> Option<f64>| {
            series.push(Series::new(name, number, dashed, runs, field));
        };
        match plot {
            Plot::Metric(metric) => {
                add((*label).to_owned(), false, &val(metric));
                add(format!("{label}, EMA"), true, &ema(metric));
            }
            Plot::Loss => {
                add(format!("{label}, validation"), false, &val(Metric::LOSS));
                add(format!("{label}, training"), true, &|point| {
                    point.train_loss
                });
            }
            Plot::LearningRate => add((*label).to_owned(), false, &|point| point.lr),
            Plot::Throughput => add((*label).to_owned(), false, &|point| point.images_per_second),
        }
    }
    series.retain(|series| !series.line.is_empty());
    joined(series)
}

/// The finished epochs from the first to the last, with some length where there is only one.
pub(super) fn epoch_range(series: &[Series]) -> Range<i32> {
    let epochs = || series.iter().flat_map(|series| &series.line);
    let first = epochs().map(|(epoch, _)| *epoch).min().unwrap_or(0);
    let last = epochs().map(|(epoch, _)| *epoch).max().unwrap_or(1);
    if first < last {
        first..last
    } else {
        first - 1..first.saturating_add(1)
    }
}

/// The range of values and bands, with some space above and below. A speed is shown from 0.
pub(super) fn value_range(plot: Plot, series: &[Series]) -> Range<f64> {
    let values = || {
        series
            .iter()
            .flat_map(|series| series.line.iter().chain(&series.band))
            .map(|(_, value)| *value)
    };
    let low = values().fold(f64::INFINITY, f64::min);
    let high = values().fold(f64::NEG_INFINITY, f64::max);
    if low > high {
        return 0.0..1.0;
    }
    let span = high - low;
    let air = if span > 1e-3 * high.abs() {
        0.06 * span
    } else {
        // A flat curve still needs an axis with some length.
        (0.05 * high.abs()).max(1e-6)
    };
    if plot == Plot::Throughput {
        return 0.0..high + air;
    }
    low - air..high + air
}

/// Decimals that distinguish the labels of about eight ticks.
pub(super) fn decimals(values: &Range<f64>) -> usize {
    let tick = (values.end - values.start) / 8.0;
    (-tick.log10().floor()).clamp(0.0, 9.0) as usize
}

#[cfg(test)]
mod tests {
    use super::super::comparison::tests::top1;
    use super::*;
    use kvt_train::plot::PALETTE;

    #[test]
    fn the_axis_fits_the_values_and_has_a_length() {
        let of = |plot, values: &[f64]| {
            value_range(
                plot,
                &[Series {
                    name: String::new(),
                    number: 0,
                    color: PALETTE[0],
                    dashed: false,
                    line: (1..).zip(values.iter().copied()).collect(),
                    band: Vec::new(),
                    spreads: Vec::new(),
                }],
            )
        };
        let range = |values: &[f64]| of(Plot::Loss, values);
        assert_eq!(of(Plot::Throughput, &[70.0, 72.0]), 0.0..72.0 + 0.12);
        assert_eq!(of(Plot::Throughput, &[80.0]), 0.0..84.0);
        assert_eq!(range(&[70.0, 72.0]), 70.0 - 0.12..72.0 + 0.12);
        assert_eq!(range(&[80.0, 80.0]), 76.0..84.0);
        assert!(!range(&[0.0]).is_empty());
        assert_eq!(range(&[]), 0.0..1.0);
    }

    /// Epochs count from 1, as in `kvt compare`. An axis from 0 would leave a gap before the first epoch.
    #[test]
    fn the_axis_of_epochs_begins_with_the_first() {
        let range = |epochs: &[i32]| {
            epoch_range(&[Series {
                name: String::new(),
                number: 0,
                color: PALETTE[0],
                dashed: false,
                line: epochs.iter().map(|epoch| (*epoch, 1.0)).collect(),
                band: Vec::new(),
                spreads: Vec::new(),
            }])
        };
        assert_eq!(range(&[1, 2, 20]), 1..20);
        assert_eq!(range(&[10, 20]), 10..20);
        assert_eq!(range(&[1]), 0..2);
        assert!(!epoch_range(&[]).is_empty());
    }

    #[test]
    fn twenty_one_labels_have_colours_of_their_own() {
        let colors = |count: usize| {
            let all = (0..count)
                .map(color)
                .map(|RGBColor(red, green, blue)| (red, green, blue));
            all.collect::<std::collections::BTreeSet<_>>().len()
        };
        assert_eq!(color(1), PALETTE[1]);
        assert_eq!((colors(21), colors(22)), (21, 21));
    }

    #[test]
    fn an_ema_has_a_line_of_its_own_and_its_absence_none() {
        let points = |more, of_ema| {
            let point = |epoch, value: f64| EpochPoint {
                epoch,
                val: top1(Some(value + more)),
                ema: top1(of_ema),
                ..EpochPoint::default()
            };
            vec![point(0, 50.0), point(1, 60.0)]
        };
        let curve = |label: &str, more, of_ema| Curve {
            label: label.to_owned(),
            seed: 0,
            epochs: points(more, of_ema),
        };
        let curves = [curve("dense", 0.0, Some(40.0)), curve("knn", 1.0, None)];
        let lines = series(Plot::Metric(Metric::TOP1), &curves);
        let names: Vec<&str> = lines.iter().map(|line| line.name.as_str()).collect();
        assert_eq!(names, ["dense", "dense, EMA", "knn"]);
        assert_eq!(lines[0].line, [(1, 50.0), (2, 60.0)]);
        assert_eq!(lines[1].line, [(1, 40.0), (2, 40.0)]);
        assert_eq!(lines[0].color, lines[1].color);
        assert_eq!(
            [lines[0].dashed, lines[1].dashed, lines[2].dashed],
            [false, true, false]
        );
    }

    /// Three runs have one learning rate, a fourth has another.
    #[test]
    fn equal_lines_are_one_with_all_names() {
        let curve = |label: &str, rate| Curve {
            label: label.to_owned(),
            seed: 0,
            epochs: vec![EpochPoint {
                lr: Some(rate),
                ..EpochPoint::default()
            }],
        };
        let curves = [("dense", 0.1), ("slow", 0.2), ("knn", 0.1), ("late", 0.1)];
        let curves = curves.map(|(label, rate)| curve(label, rate));
        let lines = series(Plot::LearningRate, &curves);
        let found: Vec<_> = lines
            .iter()
            .map(|line| (&*line.name, line.number))
            .collect();
        assert_eq!(found, [("dense, knn and late", 0), ("slow", 1)]);
    }

    /// One of two runs has come further than the other: a single value has no spread.
    #[test]
    fn a_single_value_among_several_runs_has_no_spread() {
        let curve = |seed, values: &[f64]| {
            let epochs = (0..).zip(values).map(|(epoch, value)| EpochPoint {
                epoch,
                val: top1(Some(*value)),
                ..EpochPoint::default()
            });
            Curve {
                label: "knn".to_owned(),
                seed,
                epochs: epochs.collect(),
            }
        };
        let curves = [curve(0, &[50.0, 60.0]), curve(1, &[52.0])];
        let lines = series(Plot::Metric(Metric::TOP1), &curves);
        assert_eq!(lines[0].spreads, [Some(2.0_f64.sqrt()), None]);
        let lines = series(Plot::Metric(Metric::TOP1), &curves[..1]);
        assert_eq!(lines[0].spreads, []);
    }

    #[test]
    fn tick_labels_differ() {
        for (range, expected) in [(0.0..100.0, 0), (70.0..72.0, 1), (0.5..0.52, 3)] {
            assert_eq!(decimals(&range), expected, "{range:?}");
        }
    }
}
