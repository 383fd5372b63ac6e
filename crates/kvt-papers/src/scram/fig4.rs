//! Figure 4: time of a forward pass by the size of the map.

use burn::tensor::{Device, Tensor, TensorData};
use kvt_attention::{AttentionConfig, BurnInit, Mechanism, Mixer, Phase, Place, ScramConfig};
use kvt_ops::Key;
use plotters::prelude::SeriesLabelPosition;

use super::input;
use crate::fit::slope;
use crate::{Item, Make, Outcome, ReproduceError, Watch, table};
use kvt_tools::bench::{Rounds, Timing, time};
use kvt_train::plot::{Axis, Chart, Line, Names};
use kvt_train::table::Table;

/// Channels, as stated in the paper.
const DIM: usize = 3;
/// Values of κ; not stated in the paper.
const KEPT: [usize; 3] = [1, 4, 8];
/// The fit of the exponent leaves out smaller maps, where the cost of starting threads matters.
const FITTED: usize = 1024;

/// The sizes are ours, the number of runs is stated.
const SIDES: [usize; 7] = [16, 24, 32, 48, 64, 96, 128];
const RUNS: usize = 5;

/// Times of one kind of attention: tokens and milliseconds.
struct Times {
    name: String,
    config: AttentionConfig,
    by_tokens: Vec<(usize, Timing)>,
}

/// Figure 4 of SCRAM.
pub(crate) const ITEM: Item = Item {
    name: "scram-fig4",
    title: "SCRAM, figure 4: forward time by the number of tokens",
    stated: "[SCRAM](https://arxiv.org/abs/1905.10308), section 5: time of a forward pass through one attention layer \
     for several image sizes, `d_k = 3`, batch 1, mean of 5 runs, on one RTX 2080: full attention, the Sparse \
     Transformer's, and PatchMatch for several κ(max). PatchMatch \"scales log-linear with respect to the image \
     size\".\n\n\
     Not stated: the sizes, the values of κ, what is attended to, the radius b. Memory and the backward pass were planned.",
    make: Make::Alone(|_, watch| compute(&SIDES, RUNS, watch)),
    ..Item::PLAIN
};

fn compute(sides: &[usize], runs: usize, watch: &dyn Watch) -> Result<Outcome, ReproduceError> {
    let device = Device::flex();
    let mut all = kinds();
    let rounds = Rounds {
        warmup: 1,
        timed: runs,
    };
    let (steps, mut done) = (sides.len() * (runs + 1), 0);
    for &side in sides {
        let place = Place {
            grid: Some([side, side]),
            ..Place::new(side * side, DIM, 1)
        };
        let mixers = all.iter().map(|Times { config, .. }| {
            config.validate_at(&place)?;
            Ok(config.init(&place, &BurnInit::new(&device)))
        });
        let mut mixers = mixers.collect::<Result<Vec<Mixer>, ReproduceError>>()?;
        let [q, k] = input::shifted(Key::new(0).named("scram-fig4"), side, 9, DIM);
        let v = input::noise(Key::new(0).named("values"), q.len());
        let tensor = |x: &[f32]| {
            let data = TensorData::new(x.to_vec(), [1, 1, side * side, DIM]);
            Tensor::<4>::from_data(data, &device)
        };
        let inputs = [&q, &k, &v].map(|x| tensor(x));
        let told = |_| {
            done += 1;
            watch.progress(done, steps);
        };
        let found = rounds.in_turn(&mut mixers, told, |mixer| {
            let [q, k, v] = inputs.clone();
            let attend = || Ok(mixer.attend(q, k, v, place.context(Phase::Eval)));
            Ok([time(&device, attend)?])
        })?;
        for (times, [timing]) in all.iter_mut().zip(found) {
            times.by_tokens.push((side * side, timing));
        }
    }
    Outcome::of(csv(&all), svg(&all, sides), found(&all, sides, runs))
}

fn svg(all: &[Times], sides: &[usize]) -> Result<String, String> {
    let line = |(color, times): (usize, &Times)| {
        let points = times.by_tokens.iter();
        let points = points.map(|(tokens, timing)| (*tokens as f64, timing.median));
        Line::new(times.name.as_str(), color, points)
    };
    let ticks = sides.iter().map(|side| (side * side) as f64).collect();
    let chart = Chart {
        title: "Forward pass of one attention layer on this CPU",
        x: Axis::logarithmic("tokens").at(ticks),
        y: Axis::logarithmic("milliseconds"),
        lines: all.iter().enumerate().map(line).collect(),
        names: Names::Within(SeriesLabelPosition::UpperLeft),
    };
    chart.svg()
}

fn found(all: &[Times], sides: &[usize], runs: usize) -> String {
    let mut header = vec!["attention".to_owned()];
    header.extend(sides.iter().map(|side| format!("n = {}", side * side)));
    header.push("exponent".to_owned());
    let row = |times: &Times| {
        let mut cells = vec![times.name.clone()];
        cells.extend(
            times
                .by_tokens
                .iter()
                .map(|(_, timing)| format!("{:.2}", timing.median)),
        );
        cells.push(format!("{:.2}", times.exponent()));
        cells
    };
    format!(
        "Milliseconds on this machine's CPU with {} threads, f32: the median of {runs} runs after one that does not \
         count. One head, b = 0, 8 iterations, queries and keys as in `scram-recall` (smooth, the same picture \
         at every size). Full attention is kvt's, which stores no scores. The Sparse Transformer's is left out. \
         \"Exponent\" is the power of n with which the time grows, fitted from n = {FITTED} on: n^2 for full \
         attention, and a little more than n for n log n.\n\n{}",
        rayon::current_num_threads(),
        table(header, all.iter().map(row))
    )
}

/// Full attention, and PatchMatch for each κ.
fn kinds() -> Vec<Times> {
    let of = |name, config| Times {
        name,
        config,
        by_tokens: Vec::new(),
    };
    let mut all = vec![of("full".to_owned(), AttentionConfig::dense())];
    all.extend(KEPT.map(|kept| {
        let config = ScramConfig {
            kept,
            ..ScramConfig::default()
        };
        of(
            format!("PatchMatch, κ = {kept}"),
            AttentionConfig::Scram(config),
        )
    }));
    all
}

fn csv(all: &[Times]) -> String {
    let rows = all.iter().flat_map(|times| {
        let by_tokens = times.by_tokens.iter();
        by_tokens.map(|(tokens, Timing { median, low, high })| {
            let [median, low, high] = [median, low, high].map(|ms| format!("{ms:.4}"));
            [times.name.clone(), tokens.to_string(), median, low, high]
        })
    });
    let header = "attention,tokens,median_ms,first_quartile_ms,third_quartile_ms";
    Table::new(header.split(','), rows).csv()
}

impl Times {
    /// The exponent with which the time grows in the number of tokens, by least squares of the logarithms over the larger maps.
    fn exponent(&self) -> f64 {
        let larger = self.by_tokens.iter();
        let larger = larger.filter(|(tokens, _)| *tokens >= FITTED);
        let points = larger.map(|(tokens, timing)| ((*tokens as f64).ln(), timing.median.ln()));
        slope(&points.collect::<Vec<_>>())
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::super::super::tests::Heard;
    use super::*;

    #[test]
    fn every_attention_is_timed_at_every_size() {
        let heard = Heard::default();
        let outcome = compute(&[4, 6], 1, &heard).unwrap();
        assert_eq!(heard.steps(), [(1, 4), (2, 4), (3, 4), (4, 4)]);
        let lines: Vec<&str> = outcome.csv.lines().collect();
        assert_eq!(lines.len(), 1 + 4 * 2);
        assert!(
            lines[1].starts_with("full,16,") && lines[8].starts_with("\"PatchMatch, κ = 8\",36,")
        );
        assert!(outcome.svg.contains("PatchMatch, κ = 4"));
        assert!(
            outcome
                .found
                .contains("| attention | n = 16 | n = 36 | exponent |"),
            "{}",
            outcome.found
        );
    }

    #[test]
    fn an_exponent_is_found_again() {
        let points: Vec<(f64, f64)> = [2.0_f64, 8.0, 32.0]
            .map(|n| (n.ln(), (0.3 * n.powf(1.7)).ln()))
            .into();
        assert!((slope(&points) - 1.7).abs() < 1e-12);
    }
}
