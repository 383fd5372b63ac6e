//! Figure 3: how far each layer attends, epoch by epoch.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::fig2;
use super::inside::{ROWS, over_seeds};
use crate::error::quoted;
use crate::{
    Item, Make, Order, Outcome, ReproduceError, Runs, Scale, Version, Watch, planned, table,
};
use kvt_tools::report::Statistic;
use kvt_train::analysis::Measure;
use kvt_train::error::TrainError;
use kvt_train::plot::{Axis, ErrorLine, LinePanel, line_panels};
use kvt_train::run::{Event, LayerRecord, Metric, RunDir, read_log};
use kvt_train::table::{Table, cells, or_empty};

/// The measure that is drawn; the CSV file also has [`Measure::NonlocalityRaw`].
const DRAWN: Measure = Measure::Nonlocality;

/// By layer and epoch, for each seed: the mean and its error.
type ByLayer = BTreeMap<(usize, u32), Vec<(f64, Option<f64>)>>;

/// Figure 3 of KVT, from the runs of Figure 2.
pub(crate) const ITEM: Item = Item {
    name: "fig3",
    title: "KVT, figure 3: nonlocality of each layer, epoch by epoch",
    stated: "[KVT](https://arxiv.org/abs/2106.00515), section 4.5 and Figure 3: nonlocality of DeiT-Tiny, k-NN and dense, over all training images of \
     ImageNet-1k. \"Lower layers tend to focus more on the local areas (with more lines being pushed toward the bottom area)\", and \"the \
     non-locality of different layers is spreading more evenly\". No number is printed.\n\n\
     Not stated: the horizontal axis, which is taken from [ConViT](https://arxiv.org/abs/2103.10697), whose metric it is (a line for each layer \
     over the epochs), and what becomes of the class token, which ConViT's layers do not have. Here it is left out, and the weights of each \
     patch on the others are divided by their sum. The images of an epoch are `analysis.images` ones, at equal distances, without augmentation.",
    scales: &[Scale::Paper, Scale::Cifar, Scale::CifarShort],
    versions: &[Version::Eccv],
    metrics: &[Metric::TOP1],
    sweep: |_, order| planned::sweep(&fig2::ITEM, order),
    make: Make::OfRuns(compute),
    ..Item::PLAIN
};

fn compute(runs: &Runs, _: &Order, watch: &dyn Watch) -> Result<Outcome, ReproduceError> {
    let mut numbers = Vec::new();
    let (mut rows, mut without) = (Vec::new(), Vec::new());
    for (row, title) in ROWS {
        rows.push((title, of_row(runs, row, &mut numbers, &mut without)?));
    }
    let without = lacking(&without);
    if !without.is_empty() {
        watch.warn(&without);
    }
    let means = |row: &ByLayer| -> Vec<f64> {
        let values = row.values().filter_map(|seeds| over_seeds(seeds));
        values.map(|(mean, _)| mean).collect()
    };
    let all: Vec<f64> = rows.iter().flat_map(|(_, row)| means(row)).collect();
    let panels: Vec<_> = rows
        .iter()
        .map(|(title, row)| LinePanel {
            title: (*title).to_owned(),
            x: Axis::linear("epoch"),
            y: Axis::linear("patches"),
            lines: lines(row),
            y_holds: all.clone(),
        })
        .collect();
    let header = "run,seed,epoch,layer,split,images,nonlocality,nonlocality_se,nonlocality_raw,nonlocality_raw_se";
    Outcome::of(
        Table::new(header.split(','), numbers).csv(),
        line_panels(ITEM.title, &panels, 2),
        found(&rows, &without, runs),
    )
}

/// Reads the nonlocality from the logs of the finished runs of a row, and adds them as rows to `numbers`. Runs whose logs have none
/// are named in `without`.
fn of_row(
    runs: &Runs,
    row: &str,
    numbers: &mut Vec<[String; 10]>,
    without: &mut Vec<String>,
) -> Result<ByLayer, ReproduceError> {
    let mut by_layer = ByLayer::new();
    for (cell, _) in runs.finished(row) {
        let run = RunDir::open(cell.dir()).map_err(TrainError::from)?;
        let log = read_log(&run.log()).map_err(TrainError::from)?;
        let mut is_measured = false;
        for event in log.events {
            let Event::Layer(layer) = event else {
                continue;
            };
            let number = |measure: Measure, ending: &str| {
                layer.metrics.get(&format!("{}{ending}", measure.name()))
            };
            let Some(mean) = number(DRAWN, "") else {
                continue;
            };
            is_measured = true;
            let error = number(DRAWN, LayerRecord::ERROR);
            let key = (layer.layer, layer.epoch + 1);
            by_layer.entry(key).or_default().push((mean, error));
            numbers.push(cells([
                &row,
                &cell.plan.seed,
                &(layer.epoch + 1),
                &layer.layer,
                &layer.split,
                &layer.images,
                &mean,
                &or_empty(error),
                &or_empty(number(Measure::NonlocalityRaw, "")),
                &or_empty(number(Measure::NonlocalityRaw, LayerRecord::ERROR)),
            ]));
        }
        if !is_measured {
            without.push(cell.label());
        }
    }
    Ok(by_layer)
}

/// The message about finished runs whose logs have no nonlocality; empty if there are none.
fn lacking(without: &[String]) -> String {
    if without.is_empty() {
        return String::new();
    }
    format!(
        "cannot draw {}: the logs have no nonlocality, because layers are measured only during training; train again with \
         `--set analysis.every=1 --runs DIR`, `DIR` a new folder",
        quoted(without.iter().map(String::as_str))
    )
}

fn lines(row: &ByLayer) -> Vec<ErrorLine> {
    let mut lines: BTreeMap<usize, ErrorLine> = BTreeMap::new();
    for ((layer, epoch), seeds) in row {
        let Some((mean, error)) = over_seeds(seeds) else {
            continue;
        };
        let new = || ErrorLine::new(format!("layer {layer}"), layer - 1, []);
        let line = lines.entry(*layer).or_insert_with(new);
        line.points.push((f64::from(*epoch), mean, error));
    }
    lines.into_values().collect()
}

fn found(rows: &[(&'static str, ByLayer)], without: &str, runs: &Runs) -> String {
    let mut text = "A line for each layer; bars are the spread over the seeds, or of one seed the standard error over the images. Both panels have one \
                    scale. After the last epoch, in patches:\n\n"
        .to_owned();
    let last: Vec<(&str, Vec<f64>)> = rows
        .iter()
        .map(|(title, row)| (*title, last(row)))
        .collect();
    let layers = last.iter().map(|(_, values)| values.len()).max();
    let lines = (0..layers.unwrap_or(0)).map(|layer| {
        let values = last.iter().map(|(_, values)| values.get(layer));
        let values = values.map(|value| or_empty(value.map(|x| format!("{x:.3}"))));
        let cells = std::iter::once((layer + 1).to_string()).chain(values);
        cells.collect::<Vec<_>>()
    });
    let titles = last.iter().map(|(title, _)| *title);
    text += &table(std::iter::once("layer").chain(titles), lines);
    text.push('\n');
    if !without.is_empty() {
        let _ = writeln!(text, "- Missing: {without}.");
    }
    for (title, values) in &last {
        let Some(mean) = Statistic::of(values) else {
            continue;
        };
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let middle = f64::midpoint(low, high);
        let below = values.iter().filter(|value| **value < middle).count();
        let _ = writeln!(
            text,
            "- {title}: {low:.3} to {high:.3}, mean {:.3}, spread over the layers {:.3}; {below} of {} layers are in the lower half of that range.",
            mean.mean,
            mean.spread.unwrap_or(0.0),
            values.len()
        );
    }
    text + &runs.notes(Metric::TOP1)
}

/// The mean of each layer after the last epoch.
fn last(row: &ByLayer) -> Vec<f64> {
    let epoch = row.keys().map(|(_, epoch)| *epoch).max();
    let own = row.iter().filter(|((_, of), _)| Some(*of) == epoch);
    own.filter_map(|(_, seeds)| Some(over_seeds(seeds)?.0))
        .collect()
}
