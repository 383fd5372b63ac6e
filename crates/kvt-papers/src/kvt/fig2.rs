//! Figure 2: metrics of each layer.

use super::inside::LayersOfRow;
use crate::{Item, Make, Order, Outcome, ReproduceError, Runs, Scale, Version, Watch, table};
use kvt_data::text::counted;
use kvt_train::analysis::Measure;
use kvt_train::plot::{Axis, ErrorLine, LinePanel, line_panels};
use kvt_train::run::Metric;
use kvt_train::table::{Table, cells, or_empty};

/// The rows of the sweep and the names of their lines: k-NN first, as in the paper.
const ROWS: [(&str, &str); 2] = [("knn", "k-NN"), ("dense", "dense")];

/// The panels: the measure, its letter, and what the paper shows.
const PANELS: [(Measure, &str, &str); 4] = [
    (Measure::Cosine, "(a)", "0.25 to 0.40, k-NN above dense"),
    (Measure::Std, "(b)", "0.015 to 0.030, k-NN smoother"),
    (
        Measure::AttentionRatio,
        "(c)",
        "0.2 to 0.5, nearly the same",
    ),
    (Measure::MlpRatio, "(d)", "0.2 to 1.0, nearly the same"),
];

/// Figure 2 of KVT.
pub(crate) const ITEM: Item = Item {
    name: "fig2",
    title: "KVT, figure 2: similarity of tokens, spread of attention weights and residual ratios, layer by layer",
    stated: "[KVT](https://arxiv.org/abs/2106.00515), section 4.5 and Figure 2: DeiT-Tiny, 12 layers, k-NN and dense, on ImageNet-1k. (a) The cosine \
     similarity of the tokens is larger with k-NN attention; (b) the standard deviation of the attention weights is smoother; (c), (d) the \
     ratios of the norms of both branches to that of the stream are nearly the same. Numbers are drawn and nowhere printed: those below are \
     the ticks of the axes.\n\n\
     Not stated: the images; which tensor is the token, and whether the class token counts; whether dropped keys count as zeros in the \
     standard deviation, and by what it is divided; whether a norm is a token's. The conventions here are explained in \
     `docs/concepts/analysis.md`; the table of all numbers has the others too.",
    scales: &[Scale::Paper, Scale::Cifar, Scale::CifarShort],
    versions: &[Version::Eccv, Version::V1],
    metrics: &[Metric::TOP1],
    make: Make::OfRuns(compute),
    ..Item::PLAIN
};

fn compute(runs: &Runs, _: &Order, watch: &dyn Watch) -> Result<Outcome, ReproduceError> {
    let row = |place: usize| -> Result<LayersOfRow, ReproduceError> {
        let row = LayersOfRow::of(runs, ROWS[place].0)?;
        watch.progress(place + 1, ROWS.len());
        Ok(row)
    };
    let rows = [row(0)?, row(1)?];
    let panels = PANELS.map(|(measure, panel, _)| LinePanel {
        title: format!("{panel} {}", measure.title()),
        x: Axis::linear("layer"),
        y: Axis::linear(""),
        lines: lines(&rows, measure),
        y_holds: Vec::new(),
    });
    Outcome::of(
        csv(&rows),
        line_panels("KVT, figure 2: layer by layer", &panels, 2),
        found(&rows, runs),
    )
}

fn lines(rows: &[LayersOfRow], measure: Measure) -> Vec<ErrorLine> {
    let line = |(color, (row, name)): (usize, (&LayersOfRow, &str))| ErrorLine {
        dashed: color == 1,
        ..ErrorLine::new(name, color, row.points(measure))
    };
    let names = ROWS.into_iter().map(|(_, name)| name);
    rows.iter().zip(names).enumerate().map(line).collect()
}

fn csv(rows: &[LayersOfRow]) -> String {
    let mut lines = Vec::new();
    for row in rows {
        for (seed, layers) in &row.seeds {
            for layer in layers {
                lines.extend(layer.measures.iter().map(|(measure, found)| {
                    cells([
                        &row.row,
                        seed,
                        &layer.number,
                        &layer.block.stage,
                        &layer.block.block,
                        &found.images,
                        &measure.name(),
                        &found.mean,
                        &or_empty(found.error),
                    ])
                }));
            }
        }
    }
    let header = "run,seed,layer,stage,block,images,measure,mean,standard_error";
    Table::new(header.split(','), lines).csv()
}

fn found(rows: &[LayersOfRow; 2], runs: &Runs) -> String {
    let [knn, dense] = rows;
    let count = |number: usize| counted(number, "seed");
    let count = match (dense.seeds.len(), knn.seeds.len()) {
        (dense, knn) if dense == knn => format!("{} of each row", count(dense)),
        (dense, knn) => format!(
            "{} with dense and {} with k-NN attention",
            count(dense),
            count(knn)
        ),
    };
    let all = knn.seeds.iter().chain(&dense.seeds);
    let images = all
        .flat_map(|(_, layers)| layers.first())
        .map(|layer| layer.images())
        .max()
        .unwrap_or(0);
    let mut text = format!(
        "The last checkpoints of {count}, on {images} validation images. Bars are the spread over the seeds, or of one seed the \
         standard error over the images. *Roughness* is the mean absolute difference of neighbouring layers.\n\n"
    );
    let lines = PANELS.iter().map(|(measure, panel, paper)| {
        let [of_knn, of_dense] = [knn, dense].map(|row| values(row, *measure));
        let pairs = of_knn.iter().zip(&of_dense);
        let above = pairs.filter(|(knn, dense)| knn > dense).count();
        let number = |value: f64| match value.is_finite() {
            true if value.abs() < 0.1 => format!("{value:.5}"),
            true => format!("{value:.4}"),
            false => String::new(),
        };
        vec![
            format!("{panel} {}", measure.title()),
            (*paper).to_owned(),
            number(mean(&of_dense)),
            number(mean(&of_knn)),
            or_empty((!of_knn.is_empty()).then(|| format!("{above} of {}", of_knn.len()))),
            number(roughness(&of_dense)),
            number(roughness(&of_knn)),
        ]
    });
    let header = "panel | *paper*: axis and claim | dense, mean of the layers | k-NN | layers with k-NN above | \
                  roughness, dense | k-NN";
    text += &table(header.split(" | "), lines);
    text + &runs.notes(Metric::TOP1)
}

fn values(row: &LayersOfRow, measure: Measure) -> Vec<f64> {
    row.points(measure).iter().map(|point| point.1).collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn roughness(values: &[f64]) -> f64 {
    let steps = values.windows(2).map(|pair| match pair {
        [a, b] => (b - a).abs(),
        _ => 0.0,
    });
    steps.sum::<f64>() / values.len().saturating_sub(1) as f64
}
