//! Version 1's Table 3: the time of an iteration.

use super::paper::SPEED_V1;
use super::{cited, ratio, steps};
use crate::{Item, Make, Order, Outcome, ReproduceError, Version, Watch, table};
use kvt_tools::bench::{ModelCase, Rounds, StepMeasurement};
use kvt_train::config::{Document, Plan};
use kvt_train::error::TrainError;
use kvt_train::plot::{Axis, Chart, Line, Names};
use kvt_train::table::{Table, cells, or_empty};

/// The model that is timed, and the images of a step.
const MODEL: &str = "deit_tiny_patch16_224";
const BATCH: usize = 16;
const ROUNDS: Rounds = Rounds {
    warmup: 1,
    timed: 5,
};

/// A row of the table: its label, the settings with which it is timed here, and the paper's seconds, if it has it.
struct Way {
    name: &'static str,
    settings: &'static [&'static str],
    paper: Option<f64>,
}

/// The paper's CUDA kernel selects keys for each query, as `gathered` does.
static WAYS: [Way; 5] = [
    Way {
        name: "dense",
        settings: &["model.attention.kind=dense"],
        paper: None,
    },
    Way {
        name: "slow: keys by distance, gathered for each query",
        settings: &[
            "model.attention.kind=knn",
            "model.attention.neighbors=100",
            "model.attention.selection=euclidean",
            "model.attention.implementation=gathered",
        ],
        paper: Some(SPEED_V1[0]),
    },
    Way {
        name: "slow, by the paper's CUDA kernel",
        settings: &[],
        paper: Some(SPEED_V1[1]),
    },
    Way {
        name: "fast: scores masked by the k-th best (Algorithm 1)",
        settings: &[
            "model.attention.kind=knn",
            "model.attention.neighbors=100",
            "model.attention.implementation=masked",
        ],
        paper: Some(SPEED_V1[2]),
    },
    Way {
        name: "ours: the kernel that `auto` takes",
        settings: &["model.attention.kind=knn", "model.attention.neighbors=100"],
        paper: None,
    },
];

/// The rows with times of ours, and their numbers from 1 on.
fn timed() -> impl Iterator<Item = (f64, &'static Way)> {
    let all = (1u32..).map(f64::from).zip(&WAYS);
    all.filter(|(_, way)| !way.settings.is_empty())
}

/// The speed table of version 1.
pub(crate) const ITEM: Item = Item {
    name: "speed",
    title: "KVT version 1, table 3: time of an iteration, slow and fast",
    stated: "[KVT, version 1](https://arxiv.org/abs/2106.00515v1), appendix A.2, Table 3: seconds of an iteration of DeiT-Tiny on 8 V100 \
     GPUs: the slow version, which chooses keys by distance and gathers them for each query, in PyTorch 8192 and with a CUDA \
     kernel 1.55; the fast version (Algorithm 1) 0.45. The last version of the paper has no such table.\n\n\
     Not stated: the batch, dense attention's time, and whether 8192 was measured. So only ratios can be compared with ours.",
    versions: &[Version::V1],
    takes_overrides: true,
    make: Make::Alone(|order, watch| compute(ROUNDS, order, watch)),
    ..Item::PLAIN
};

fn compute(rounds: Rounds, order: &Order, watch: &dyn Watch) -> Result<Outcome, ReproduceError> {
    let cases = timed().map(|(_, way)| case(way, order));
    let cases = cases.collect::<Result<Vec<_>, _>>()?;
    let device = plan(&WAYS[0], order)?.train.device;
    let (all, device) = steps(&cases, &device, rounds, watch)?;
    Outcome::of(csv(&all), svg(&all), found(&all, rounds, &device))
}

/// The settings of a row; the user's overrides come last.
fn plan(way: &Way, order: &Order) -> Result<Plan, ReproduceError> {
    let text = format!("[model]\nname = \"{MODEL}\"\n[train]\nbatch_size = {BATCH}\n");
    let own = way.settings.iter().map(|text| (*text).to_owned());
    let all: Vec<String> = own.chain(order.overrides.iter().cloned()).collect();
    let document = Document::of_words("the settings of the table", text, &all);
    let plan = document.and_then(|document| document.shared().plan_without_data());
    Ok(plan.map_err(|error| TrainError::from(Box::new(error)))?)
}

fn case(way: &Way, order: &Order) -> Result<ModelCase, ReproduceError> {
    let plan = plan(way, order)?;
    Ok(ModelCase::of(way.name, &plan, plan.train.batch_size)?)
}

fn found(all: &[StepMeasurement], rounds: Rounds, device: &str) -> String {
    let ours = |way: usize| all.get(way).map_or(f64::NAN, |one| one.step_ms);
    let (dense, fast) = (ours(0), ours(2));
    let mut measured = all.iter();
    let rows = WAYS.iter().map(|way| {
        let of_fast = way.paper.map(|paper| ratio(paper / SPEED_V1[2]));
        let mut row = vec![way.name.to_owned(), or_empty(way.paper), or_empty(of_fast)];
        if !way.settings.is_empty()
            && let Some(one) = measured.next()
        {
            row.extend([
                format!("{:.1}", one.step_ms),
                format!("{:.1} to {:.1}", one.step.low, one.step.high),
                ratio(one.step_ms / fast),
                ratio(one.step_ms / dense),
            ]);
        }
        row.resize(7, String::new());
        row
    });
    let (batch, model) = all
        .first()
        .map_or((0, ""), |one| (one.batch, one.model.as_str()));
    let header = "attention | *paper*, s | *paper*, of fast | *ours*, ms | *spread*, ms | *ours*, of fast | *ours*, of dense";
    format!(
        "{}, beside forward, backward and update of `{model}` on {device}: batch {batch}, generated images, median and quartiles of {} \
         steps after {}, the four in turn. The paper's CUDA kernel of the slow version has no counterpart \
         here. Seconds of one machine say nothing beside seconds of another one: compare the ratios.\n\n{}",
        cited(Version::V1, "Table 3"),
        rounds.timed,
        rounds.warmup,
        table(header.split(" | "), rows)
    )
}

fn csv(found: &[StepMeasurement]) -> String {
    let rows = timed().zip(found).map(|((_, way), one)| {
        let k: Vec<String> = one.k.iter().map(usize::to_string).collect();
        cells([
            &way.name,
            &or_empty(way.paper),
            &one.step_ms,
            &one.step.low,
            &one.step.high,
            &one.forward_ms,
            &one.batch,
            &k.join("/"),
        ])
    });
    let header = "attention,paper s,step ms,low ms,high ms,forward ms,batch,k";
    Table::new(header.split(','), rows).csv()
}

fn svg(found: &[StepMeasurement]) -> Result<String, String> {
    // A line of one point is a dot: rows have no order that a line could follow.
    let dots = |name: &'static str, color, value: fn(&StepMeasurement) -> f64| {
        let places = timed().zip(found).enumerate();
        places.map(move |(number, ((row, _), one))| {
            let name = if number == 0 { name } else { "" };
            Line::new(name, color, [(row, value(one))])
        })
    };
    let steps = dots("a training step", 0, |one| one.step_ms);
    let forwards = dots("a forward pass", 1, |one| one.forward_ms);
    Chart {
        title: "Milliseconds by row of the table",
        x: Axis::linear("row of the table").at(timed().map(|(row, _)| row).collect()),
        y: Axis::logarithmic("ms"),
        lines: steps.chain(forwards).collect(),
        names: Names::Beside,
    }
    .svg()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use std::sync::atomic::Ordering;

    use super::super::super::tests::Heard;
    use super::*;
    use kvt_tools::sweep::SweepError;

    const ONCE: Rounds = Rounds {
        warmup: 0,
        timed: 1,
    };

    /// On a small model.
    fn order() -> Order {
        let overrides = [
            "train.device=cpu",
            "model.img_size=32",
            "model.depth=1",
            "model.embed_dim=24",
            "model.num_heads=2",
            "train.batch_size=2",
            "model.attention.neighbors=3",
        ];
        Order {
            overrides: overrides.map(str::to_owned).into(),
            ..Order::default()
        }
    }

    /// As a sweep does: with the sentence that the command continues.
    #[test]
    fn a_stop_ends_the_measurement_before_the_next_step() {
        let heard = Heard::default();
        heard.stop().store(true, Ordering::Relaxed);
        let error = compute(ONCE, &order(), &heard).unwrap_err();
        assert!(
            matches!(error, ReproduceError::Sweep(SweepError::Stopped)),
            "{error}"
        );
        assert!(heard.steps().is_empty());
    }

    #[test]
    fn four_ways_are_timed_on_a_small_model() {
        let heard = Heard::default();
        let outcome = compute(ONCE, &order(), &heard).unwrap();
        assert_eq!(heard.steps(), [(1, 1)]);
        let lines: Vec<&str> = outcome.csv.lines().collect();
        assert_eq!(lines.len(), 5);
        // Dense attention keeps all five keys of a 32 px image; the batch size is the user's.
        assert!(
            lines[1].starts_with("dense,,") && lines[1].ends_with(",2,5"),
            "{}",
            lines[1]
        );
        assert!(
            lines[2].contains(",8192,") && lines[2].ends_with(",2,3"),
            "{}",
            lines[2]
        );
        assert!(
            outcome.found.contains("| *ours*, of dense |"),
            "{}",
            outcome.found
        );
        // Dots at rows 1, 2, 4 and 5 of the table.
        let circles = outcome.svg.split("<circle cx=\"").skip(1);
        let places = circles.map(|text| text.split('"').next().unwrap().parse().unwrap());
        let places: Vec<f64> = places.collect();
        assert_eq!(places.len(), 8);
        let step = places[1] - places[0];
        assert!(
            (places[2] - places[1] - 2.0 * step).abs() <= 2.0
                && (places[3] - places[2] - step).abs() <= 2.0,
            "{places:?}"
        );
    }
}
