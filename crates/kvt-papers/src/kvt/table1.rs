//! Table 1: top-1 of every system with dense and with k-NN attention.

use kvt_models::Summary;

use super::paper::{CONV_NETS, System, TABLE1};
use super::{bars, cited, fields, keys, ours, percent, short};
use crate::{
    Item, Make, Order, Outcome, ReproduceError, Runs, Scale, Version, Watch, planned, table,
};
use kvt_tools::report::Statistic;
use kvt_tools::sweep::{Cell, Found, Sweep};
use kvt_train::run::{Metric, RunDir};
use kvt_train::table::{Table, cells, or_empty};

/// A row: a system with one kind of attention.
struct Row<'a> {
    system: &'a System,
    attention: &'static str,
    /// The same in words, with the mark of a row that is known.
    words: String,
    paper: Option<f64>,
    summary: Option<Summary>,
    last: Option<Statistic>,
    best: Option<Statistic>,
}

/// Table 1 of both versions.
pub(crate) const ITEM: Item = Item {
    name: "table1",
    title: "KVT, table 1: top-1 of every system with dense and with k-NN attention",
    stated: "[KVT](https://arxiv.org/abs/2106.00515), Table 1: top-1 on ImageNet-1k after the training of each system's own paper, \
     once with dense attention and once with k-NN attention; DeiT-Tiny also with the slow version, which chooses keys by \
     distance; Dino-Small by linear evaluation. One number for each, without a spread.\n\n\
     Not stated: seeds, whether the last or the best epoch counts (the released code logs the best), and k for So-ViT, TNT, \
     Swin, T2T-ViT, Dino, Twins and VOLO. The column GFLOPs mixes conventions: So-ViT's 1.3 and Twins' 8.3 leave out the products \
     of queries, keys and values, the others include them; VOLO-D3's 67.9 matches neither of our counts (96.1 with the products). Version 1 has no VOLO, \
     other numbers for CvT and TNT, and 17 convolutional networks.",
    scales: &[Scale::Paper, Scale::Cifar, Scale::CifarShort],
    versions: &[Version::Eccv, Version::V1],
    metrics: &[Metric::TOP1],
    takes_known: true,
    sweep,
    make: Make::OfRuns(compute),
    ..Item::PLAIN
};

/// Without the systems that the version lacks.
fn sweep(item: &Item, order: &Order) -> Result<Sweep, ReproduceError> {
    let mut sweep = planned::sweep(item, order)?;
    let is_in = |row: &str| !is_lacking(row, order.version);
    sweep.cells.retain(|cell| is_in(&cell.name));
    sweep.pairs.retain(|pair| pair.iter().all(|row| is_in(row)));
    Ok(sweep)
}

fn compute(runs: &Runs, order: &Order, _: &dyn Watch) -> Result<Outcome, ReproduceError> {
    let rows = rows(runs, order.version)?;
    let outcome = Outcome::of(
        csv(&rows, order.version),
        svg(&rows),
        found(&rows, runs, order),
    )?;
    Ok(outcome.that_says(runs.verdict(Metric::TOP1)))
}

/// Whether a row of a sweep belongs to a system that a version lacks.
fn is_lacking(row: &str, version: Version) -> bool {
    let mut lacking = TABLE1.iter().filter(|one| one.top1(version).is_none());
    lacking.any(|one| {
        let kind = row.strip_prefix(one.key);
        kind.is_some_and(|kind| kind.starts_with('-'))
    })
}

/// Top-1 after the last and after the best epoch of a finished cell, or for a run without labels, of its linear evaluation.
fn ends(found: &Found) -> [Option<f64>; 2] {
    match found.linear {
        Some(ends) => ends.map(Some),
        None => [found.last(Metric::TOP1), found.best(Metric::TOP1)],
    }
}

fn rows(runs: &Runs, version: Version) -> Result<Vec<Row<'static>>, ReproduceError> {
    let mut rows = Vec::new();
    for system in TABLE1 {
        let Some([dense, knn]) = system.top1(version) else {
            continue;
        };
        let kinds = [
            ("dense", "dense", Some(dense)),
            ("knn", "k-NN", Some(knn)),
            ("slow", "k-NN, slow", system.slow),
        ];
        for (attention, words, paper) in kinds {
            let name = format!("{}-{attention}", system.key);
            let cell = runs.cell(&name);
            if attention == "slow" && paper.is_none() && cell.is_none() {
                continue;
            }
            rows.push(Row {
                system,
                attention,
                words: words.to_owned() + runs.mark(&name),
                paper,
                summary: cell.map(summary).transpose()?,
                last: runs.statistic(&name, |found| ends(found)[0]),
                best: runs.statistic(&name, |found| ends(found)[1]),
            });
        }
    }
    Ok(rows)
}

/// The size of a cell's model with the number of classes that it was trained on. For a run without labels: its backbone with a
/// single class.
fn summary(cell: &Cell) -> Result<Summary, ReproduceError> {
    let classes = || RunDir::open(cell.dir()).ok()?.read_classes().ok();
    let section = &cell.plan.model;
    if cell.linear.is_some() {
        return Ok(section.backbone()?.summary());
    }
    let classes = classes().map(|classes| classes.len());
    Ok(section.config(classes)?.summary())
}

fn found(rows: &[Row<'_>], runs: &Runs, order: &Order) -> String {
    let header = "system | attention | parameters | MACs | without attention's | keys kept | *paper* | *ours*, last | \
                  *spread* | *ours*, best | *spread*";
    let mut text = format!(
        "{}, beside our runs at scale `{}`. Parameters and multiply-accumulate operations of one image are those of the \
         model here: with the products of queries, keys and values, and without. Where no run of a row has a folder here, they are \
         counted with the classes of its configuration, or 1,000.\n\n",
        cited(order.version, "Table 1, ImageNet-1k"),
        order.scale
    );
    if order.scale != Scale::Paper {
        text += "The models here are small ones on CIFAR-10: the paper's numbers are of other models on other images, and are beside \
                 them only to show which row is which.\n\n";
    }
    text += &table(header.split(" | "), rows.iter().map(line));
    if order.version == Version::V1 {
        text += "\nThe convolutional networks of version 1, which are not trained here:\n\n";
        let nets = CONV_NETS
            .iter()
            .map(|(name, params, gflops, top1)| cells([name, params, gflops, top1]));
        text += &table(["network", "parameters", "GFLOPs", "*paper*"], nets);
    }
    text + &runs.notes(Metric::TOP1)
}

fn line(row: &Row<'_>) -> Vec<String> {
    let of = |text: fn(&Summary) -> String| or_empty(row.summary.as_ref().map(text));
    let mut cells = vec![
        row.system.name.to_owned(),
        row.words.clone(),
        of(|summary| short(summary.params as f64)),
        of(|summary| short(summary.macs.total() as f64)),
        of(|summary| short(summary.macs.linear as f64)),
        of(keys),
        percent(row.paper),
    ];
    cells.extend(ours(row.last.as_ref()));
    cells.extend(ours(row.best.as_ref()));
    cells
}

fn csv(rows: &[Row<'_>], version: Version) -> String {
    let header = "system,attention,version,input of the paper,parameters of the paper,GFLOPs of the paper,parameters,MACs,\
                  MACs without attention,paper,last,last spread,last seeds,best,best spread,best seeds";
    let rows = rows.iter().map(|row| {
        let system = row.system;
        let summary = row.summary.as_ref();
        let first = cells([
            &system.name,
            &row.attention,
            &version.name(),
            &system.input,
            &system.params,
            &system.gflops,
            &or_empty(summary.map(|summary| summary.params)),
            &or_empty(summary.map(|summary| summary.macs.total())),
            &or_empty(summary.map(|summary| summary.macs.linear)),
            &or_empty(row.paper),
        ]);
        let (last, best) = (fields(row.last.as_ref()), fields(row.best.as_ref()));
        [&first[..], &last, &best].concat()
    });
    Table::new(header.split(','), rows).csv()
}

/// The gain of k-NN attention over dense attention, in the paper and in our runs, system by system.
fn svg(rows: &[Row<'_>]) -> Result<String, String> {
    let gains = |value: &dyn Fn(&Row<'_>) -> Option<f64>| -> Vec<Option<f64>> {
        let gain = |system: &System| {
            let of = |attention: &str| {
                let mut own = rows.iter();
                value(own.find(|row| row.system.key == system.key && row.attention == attention)?)
            };
            Some(of("knn")? - of("dense")?)
        };
        TABLE1.iter().map(gain).collect()
    };
    let systems = TABLE1.iter().map(|system| system.name.to_owned());
    bars(
        "k-NN minus dense, top-1, by system of Table 1",
        "points",
        systems.collect(),
        &gains(&|row| row.paper),
        &gains(&|row| row.last.map(|statistic| statistic.mean)),
    )
}
