//! [KVT](https://arxiv.org/abs/2106.00515): k-NN attention for boosting vision transformers (Wang et al., ECCV 2022).

pub(super) mod fig1;
pub(super) mod fig2;
pub(super) mod fig3;
pub(super) mod fig4;
pub(super) mod fig5;
mod inside;
pub(super) mod lemmas;
mod paper;
mod pictures;
pub(super) mod small_k;
pub(super) mod speed;
pub(super) mod table1;
pub(super) mod table2;
pub(super) mod table3;
pub(super) mod table4;

use kvt_models::{StageSummary, Summary};

use super::{ReproduceError, Version, Watch};
use kvt_tools::bench::{self, BenchError, ModelCase, Rounds, StepMeasurement};
use kvt_tools::report::{PairedT, Statistic, difference_text};
use kvt_tools::sweep::SweepError;
use kvt_train::device;
use kvt_train::error::TrainError;
use kvt_train::plot::{Axis, Chart, Line, Names};
use kvt_train::run::Metric;
use kvt_train::table::or_empty;

/// The citation of the ECCV version.
const ECCV: &str = "[KVT](https://arxiv.org/abs/2106.00515), ECCV 2022";

/// Cites a place in a version of the paper.
fn cited(version: Version, place: &str) -> String {
    match version {
        Version::Eccv => format!("{ECCV}, {place}"),
        Version::V1 => format!("[KVT, version 1](https://arxiv.org/abs/2106.00515v1), {place}"),
    }
}

/// A percentage as the paper prints it, or an empty cell.
fn percent(number: Option<f64>) -> String {
    let Some(number) = number else {
        return String::new();
    };
    if (10.0 * number).fract().abs() < 1e-6 {
        format!("{number:.1}")
    } else {
        format!("{number:.2}")
    }
}

/// The mean of a statistic and its spread with the number of seeds, in percent; empty cells if there is none.
fn ours(statistic: Option<&Statistic>) -> [String; 2] {
    let Some(statistic) = statistic else {
        return [String::new(), String::new()];
    };
    let runs = statistic.runs;
    let spread = match statistic.spread {
        Some(spread) => format!("{spread:.2} (n = {runs})"),
        None => format!("(n = {runs})"),
    };
    [format!("{:.2}", statistic.mean), spread]
}

/// A statistic in three cells of CSV: mean, spread, runs.
fn fields(statistic: Option<&Statistic>) -> [String; 3] {
    let spread = statistic.and_then(|statistic| statistic.spread);
    let mean = or_empty(statistic.map(|statistic| statistic.mean));
    let runs = or_empty(statistic.map(|statistic| statistic.runs));
    [mean, or_empty(spread), runs]
}

/// Two bars for each row, one below the other: the paper's value and ours. `unit` is that of the values.
fn bars(
    title: &str,
    unit: &str,
    rows: Vec<String>,
    paper: &[Option<f64>],
    ours: &[Option<f64>],
) -> Result<String, String> {
    let of = |(color, (name, offset, values)): (usize, (&str, f64, &[Option<f64>]))| {
        let bars = values.iter().enumerate();
        let bars = bars.filter_map(|(row, value)| Some((offset - row as f64, (*value)?)));
        // The first bar of a colour is in the legend.
        let line = |(number, (y, value)): (usize, (f64, f64))| {
            let name = if number == 0 { name } else { "" };
            Line::new(name, color, [(0.0, y), (value, y)])
        };
        bars.enumerate().map(line).collect::<Vec<_>>()
    };
    let both = [("paper", 0.15, paper), ("ours, last epoch", -0.15, ours)];
    Chart {
        title,
        x: Axis::linear(unit),
        y: Axis::rows(rows),
        lines: both.into_iter().enumerate().flat_map(of).collect(),
        names: Names::Beside,
    }
    .svg()
}

/// The paired test of `second` minus `first`, over the seeds that both have.
fn paired(first: &[(u64, f64)], second: &[(u64, f64)]) -> Option<PairedT> {
    let difference = |(seed, first): &(u64, f64)| {
        let (_, second) = second.iter().find(|(other, _)| other == seed)?;
        Some(second - first)
    };
    PairedT::of(&first.iter().filter_map(difference).collect::<Vec<_>>())
}

/// A difference of top-1 with the half width of its 95 % interval, where other tables have the spread.
fn with_interval(test: &PairedT) -> String {
    let difference = Statistic {
        spread: test.half_width,
        ..test.difference
    };
    difference_text(Some(&difference), Metric::TOP1)
}

/// A bar of one standard deviation to each side of a mean at `x`; `None` of one seed.
fn bar(color: usize, x: f64, top: &Statistic) -> Option<Line> {
    let spread = top.spread?;
    let ends = [top.mean - spread, top.mean + spread];
    Some(Line::new("", color, ends.map(|end| (x, end))))
}

/// Times training steps of all cases in turn on the device with a name, and says in words which one that is. A stop is one of the command,
/// as while a sweep trains.
fn steps(
    cases: &[ModelCase],
    device: &str,
    rounds: Rounds,
    watch: &dyn Watch,
) -> Result<(Vec<StepMeasurement>, String), ReproduceError> {
    let device = device::resolve(device).map_err(TrainError::from)?;
    let all = rounds.warmup + rounds.timed;
    let told = |done| watch.progress(done, all);
    let found = bench::step(cases, &device.device, rounds, watch.stop(), told);
    let found = found.map_err(|error| match error {
        BenchError::Stopped => ReproduceError::Sweep(SweepError::Stopped),
        other => ReproduceError::Bench(other),
    })?;
    Ok((found, format!("{} ({})", device.name, device.description)))
}

/// How many keys of a stage a query keeps, in words.
fn kept(stage: &StageSummary) -> String {
    if stage.k >= stage.keys {
        format!("all {}", stage.keys)
    } else {
        format!("{} of {}", stage.k, stage.keys)
    }
}

/// The same of all stages.
fn keys(summary: &Summary) -> String {
    summary.attending().map(kept).collect::<Vec<_>>().join(", ")
}

/// A large number with three significant digits.
fn short(number: f64) -> String {
    let (scaled, unit) = match number {
        n if n >= 1e9 => (n / 1e9, " G"),
        n if n >= 1e6 => (n / 1e6, " M"),
        n => (n / 1e3, " k"),
    };
    let digits = (2.0 - scaled.max(1.0).log10().floor()).max(0.0) as usize;
    format!("{scaled:.digits$}{unit}")
}

/// A ratio with three digits.
fn ratio(value: f64) -> String {
    match value {
        value if value >= 100.0 => format!("{value:.0}"),
        value => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits() {
        for (number, text) in [
            (5_717_416.0, "5.72 M"),
            (22_050_664.0, "22.1 M"),
            (1.254e9, "1.25 G"),
            (96.13e9, "96.1 G"),
            (227_088.0, "227 k"),
        ] {
            assert_eq!(short(number), text);
        }
    }

    /// Seed 2 has no partner, and the order of the seeds is another: the differences are 1 and 2.
    #[test]
    fn pairs_are_of_the_same_seed() {
        let (first, second) = ([(0, 1.0), (1, 5.0), (2, 9.0)], [(1, 7.0), (0, 2.0)]);
        let found = paired(&first, &second);
        assert_eq!(found, PairedT::of(&[1.0, 2.0]));
        assert_eq!(paired(&first, &[(3, 1.0)]), None);
    }

    #[test]
    fn percentages_are_printed_as_in_the_paper() {
        for (number, text) in [
            (73.0, "73.0"),
            (0.52, "0.52"),
            (72.2, "72.2"),
            (82.45, "82.45"),
        ] {
            assert_eq!(percent(Some(number)), text);
        }
        assert_eq!(percent(None), "");
    }
}
