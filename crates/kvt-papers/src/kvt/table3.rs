//! Table 3: dense attention with a temperature.

use super::paper::{TABLE3, TABLE3_KNN};
use super::{cited, fields, ours, percent};
use crate::{Item, Make, Order, Outcome, ReproduceError, Runs, Scale, Version, Watch, table};
use kvt_tools::report::Statistic;
use kvt_train::plot::{Axis, Chart, Line, Names};
use kvt_train::run::Metric;
use kvt_train::table::{Table, cells, or_empty};

/// A row: its name in the sweep, its label, its temperature, and the paper's number; none if training crashed there.
struct Row {
    name: String,
    words: String,
    temperature: Option<f64>,
    paper: Option<f64>,
}

/// Table 3 of ECCV; in version 1, Table 3 is a different one, `speed`.
pub(crate) const ITEM: Item = Item {
    name: "table3",
    title: "KVT, table 3: top-1 of dense attention by the temperature of its softmax",
    stated: "[KVT](https://arxiv.org/abs/2106.00515), ECCV 2022, Table 3: top-1 of DeiT-Tiny on ImageNet-1k with \
     `softmax(attn / t)`, where `attn` are the scores after their usual scale. \"Small t makes the training crash due to large \
     value of attention values\": at 0.05 and 0.1. Dense attention (t = 1) has 72.2 %, the best temperature 72.5 %, k-NN \
     attention 73.0 %.\n\n\
     Not stated: seeds, and how a crash shows itself. Here it is a loss, a gradient or an evaluation that is not finite; such a \
     run ends, and is reported as a crash. Version 1 does not have this table.",
    scales: &[Scale::Paper, Scale::Cifar, Scale::CifarShort],
    versions: &[Version::Eccv],
    metrics: &[Metric::TOP1],
    takes_known: true,
    make: Make::OfRuns(compute),
    ..Item::PLAIN
};

fn compute(runs: &Runs, order: &Order, _: &dyn Watch) -> Result<Outcome, ReproduceError> {
    let rows = rows();
    let outcome = Outcome::of(
        csv(&rows, runs),
        svg(&rows, runs),
        found(&rows, runs, order),
    )?;
    Ok(outcome.that_says(runs.verdict(Metric::TOP1)))
}

fn rows() -> Vec<Row> {
    let dense = TABLE3.into_iter().map(|(t, paper)| Row {
        name: if t == 1.0 {
            "dense".to_owned()
        } else {
            format!("t{t}")
        },
        words: format!("dense, t = {t}"),
        temperature: Some(t),
        paper,
    });
    let knn = Row {
        name: "knn".to_owned(),
        words: "k-NN".to_owned(),
        temperature: None,
        paper: Some(TABLE3_KNN),
    };
    dense.chain([knn]).collect()
}

fn found(rows: &[Row], runs: &Runs, order: &Order) -> String {
    let lines = rows.iter().map(|row| {
        let paper = row.paper.map_or_else(crash, |paper| percent(Some(paper)));
        let [mean, spread] = own(row, runs);
        let words = row.words.clone() + runs.mark(&row.name);
        [words, paper, mean, spread]
    });
    let mut text = format!(
        "{}, beside our runs at scale `{}`: top-1 in percent after the last epoch.\n\n{}",
        cited(order.version, "Table 3"),
        order.scale,
        table(["attention", "*paper*", "*ours*", "*spread*"], lines)
    );
    if order.scale != Scale::Paper {
        text += "\nThe paper's numbers are of DeiT-Tiny on ImageNet, ours of a small DeiT on CIFAR-10.\n";
    }
    text + &runs.notes(Metric::TOP1)
}

/// Our top-1 after the last epoch.
fn last(row: &Row, runs: &Runs) -> Option<Statistic> {
    runs.statistic(&row.name, |found| found.last(Metric::TOP1))
}

/// In place of a number.
fn crash() -> String {
    "crash".to_owned()
}

/// Our mean and its spread. A crash is a result: it is shown even if other seeds did not crash.
fn own(row: &Row, runs: &Runs) -> [String; 2] {
    let [mean, spread] = ours(last(row, runs).as_ref());
    match runs.crashed(&row.name) {
        (0, _) => [mean, spread],
        (crashed, all) if crashed == all => [crash(), format!("(n = {all})")],
        (crashed, all) => [mean, format!("{spread}, {crashed} of {all} crashed")],
    }
}

fn csv(rows: &[Row], runs: &Runs) -> String {
    let rows = rows.iter().map(|row| {
        let attention = match row.temperature {
            Some(_) => "dense",
            None => "knn",
        };
        let paper = row.paper.map_or_else(crash, |paper| paper.to_string());
        let first = cells([&attention, &or_empty(row.temperature), &paper]);
        let crashed = runs.crashed(&row.name).0.to_string();
        [&first[..], &fields(last(row, runs).as_ref()), &[crashed]].concat()
    });
    let header = "attention,temperature,paper,ours,spread,seeds,crashed";
    Table::new(header.split(','), rows).csv()
}

fn svg(rows: &[Row], runs: &Runs) -> Result<String, String> {
    let temperatures: Vec<f64> = rows.iter().filter_map(|row| row.temperature).collect();
    let mean = |row: &Row| last(row, runs).map(|last| last.mean);
    let dense = rows
        .iter()
        .filter_map(|row| Some((row.temperature?, mean(row)?)));
    let mut lines = vec![Line::new("dense", 1, dense)];
    let knn = rows
        .iter()
        .find(|row| row.temperature.is_none())
        .and_then(mean);
    if let (Some(knn), Some(first), Some(last)) = (knn, temperatures.first(), temperatures.last()) {
        let ends = [(*first, knn), (*last, knn)];
        lines.push(Line::new("k-NN, t = 1", 0, ends).dashed());
    }
    Chart {
        title: "Top-1 by the temperature of the softmax",
        x: Axis::logarithmic("temperature").at(temperatures),
        y: Axis::linear("top-1, %"),
        lines,
        names: Names::Beside,
    }
    .svg()
}
