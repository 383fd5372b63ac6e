//! Table 4: mIoU of UPerNet and box AP of Mask R-CNN, with dense and with k-NN attention.

use super::paper::{Dense, TABLE4};
use super::{bars, cited, fields, keys, ours, percent, short};
use crate::verdict::verdict;
use crate::{Item, Make, Order, Outcome, ReproduceError, Runs, Scale, Version, Watch, table};
use kvt_tools::report::Statistic;
use kvt_tools::sweep::{Cell, PairRow, pairs_markdown};
use kvt_train::run::{Metric, RunDir};
use kvt_train::table::{Table, cells, or_empty};
use kvt_train::task::{DenseSize, TaskKind};

/// The kinds of attention, by the ends of rows' names, and which of the paper's numbers stands beside them. The first of a number has a row
/// without runs, too.
const KINDS: [(&str, &str, usize); 3] = [
    ("dense", "dense", 0),
    ("knn", "k-NN, a share", 1),
    ("knn39", "k-NN, 39 keys", 1),
];

/// A half of the table.
struct Half {
    part: &'static str,
    /// What stands in its rows' names before the kind of attention.
    mark: &'static str,
    method: &'static str,
    data: &'static str,
    /// The first one is the paper's.
    metrics: &'static [Metric],
    paper: fn(&Dense) -> [f64; 2],
}

/// The metrics of all halves, in their order.
static METRICS: [Metric; 9] = [
    Metric::MIOU,
    Metric::MACC,
    Metric::AACC,
    Metric::BOX_AP,
    Metric::BOX_AP50,
    Metric::BOX_AP75,
    Metric::MASK_AP,
    Metric::MASK_AP50,
    Metric::MASK_AP75,
];

const UPERNET: &str = "upernet";
const MASK_RCNN: &str = "mask_rcnn";

static HALVES: [Half; 2] = [
    Half {
        part: UPERNET,
        mark: "",
        method: "UPerNet",
        data: "ADE20K",
        metrics: METRICS.split_at(3).0,
        paper: |backbone| backbone.miou,
    },
    Half {
        part: MASK_RCNN,
        mark: "mask_rcnn-",
        method: "Mask R-CNN",
        data: "COCO",
        metrics: METRICS.split_at(3).1,
        paper: |backbone| backbone.box_ap,
    },
];

/// A row: a backbone with one kind of attention.
struct Row {
    name: String,
    half: &'static Half,
    backbone: &'static Dense,
    method: String,
    attention: &'static str,
    /// The paper's number. It does not say whether k is a share or a count.
    paper: f64,
    size: Option<DenseSize>,
    padding: Option<&'static str>,
    /// The half's metrics in the last evaluation.
    last: Vec<Option<Statistic>>,
    /// The first of them in the best one.
    best: Option<Statistic>,
    /// Of the finished runs.
    seeds: Vec<u64>,
}

/// Table 4.
pub(crate) const ITEM: Item = Item {
    name: "table4",
    title: "KVT, table 4: mIoU of UPerNet and box AP of Mask R-CNN with dense and with k-NN attention",
    stated: "[KVT](https://arxiv.org/abs/2106.00515), Table 4: box mAP of Mask R-CNN on COCO and mIoU of UPerNet on ADE20K, with Swin-T and \
     Twins-SVT-B as backbones, pre-trained on ImageNet-1k, once with dense and once with k-NN attention. One number for each, \
     without a spread. Mask R-CNN is trained for 36 epochs with Swin-T (3x) and for 12 with Twins-SVT-B (1x), so only the rows of one \
     backbone can be compared.\n\n\
     Not stated: k; whether the k-NN networks start from k-NN classifiers; seeds, spread, number of runs; mask AP; single- or \
     multi-scale testing. The released code has neither detection nor segmentation. \
     The dense numbers equal the published ones of the backbones' authors to the digit (UPerNet with Swin-T 44.51 with one scale, with \
     Twins-SVT-B 47.4; Mask R-CNN with Swin-T 46.0, with Twins-SVT-B 45.2), so they are most likely quoted.\n\n\
     Published checkpoints of one run differ by 0.5 and more: the authors' log of UPerNet with Twins-SVT-B evaluates 47.36, 47.07, \
     **48.13**, 47.31 and **47.69** in the second half of one run. The gains of the table are 0.2 to 0.5. A comparison needs several seeds \
     and the same rule (the last checkpoint) for both.\n\n\
     So the table cannot be reproduced literally. It can be re-run with the recipes of the backbones' authors and our choice of k, four \
     fifths of the keys, and that is what this page is.",
    scales: &[Scale::Paper, Scale::Shapes, Scale::ShapesShort],
    versions: &[Version::Eccv],
    parts: &[UPERNET, MASK_RCNN],
    metrics: &METRICS,
    takes_known: true,
    make: Make::OfRuns(compute),
    ..Item::PLAIN
};

fn compute(runs: &Runs, order: &Order, _: &dyn Watch) -> Result<Outcome, ReproduceError> {
    let rows = rows(runs)?;
    let outcome = Outcome::of(csv(&rows), svg(&rows), found(&rows, runs, order))?;
    let verdicts = HALVES.iter();
    let verdicts = verdicts.map(|half| verdict(&half.pairs(runs), half.metrics[0]));
    Ok(outcome.that_says(verdicts.collect()))
}

impl Half {
    /// The tests of its rows by the paper's metric.
    fn pairs(&self, runs: &Runs) -> Vec<PairRow> {
        let mut pairs = runs.pairs(self.metrics[0]);
        let is_own = |row: &String| ITEM.is_in(row, self.part);
        pairs.retain(|pair| pair.names.iter().all(is_own));
        pairs
    }
}

fn rows(runs: &Runs) -> Result<Vec<Row>, ReproduceError> {
    let mut rows = Vec::new();
    for half in &HALVES {
        for backbone in TABLE4 {
            let mut last_number = None;
            for (kind, attention, number) in KINDS {
                let name = format!("{}-{}{kind}", backbone.key, half.mark);
                let cell = runs.cell(&name);
                let is_first = last_number.replace(number) != Some(number);
                if cell.is_none() && !is_first {
                    continue;
                }
                let last = |metric: &Metric| runs.statistic(&name, |found| found.last(*metric));
                let method = match half.part {
                    MASK_RCNN => format!("{} {}", half.method, backbone.schedule),
                    _ => half.method.to_owned(),
                };
                rows.push(Row {
                    half,
                    backbone,
                    method,
                    attention,
                    paper: (half.paper)(backbone)[number],
                    size: cell.map(size).transpose()?,
                    padding: cell.map(padding),
                    last: half.metrics.iter().map(last).collect(),
                    best: runs.statistic(&name, |found| found.best(half.metrics[0])),
                    seeds: runs
                        .finished(&name)
                        .map(|(cell, _)| cell.plan.seed)
                        .collect(),
                    name,
                });
            }
        }
    }
    Ok(rows)
}

/// The size of a cell's network with the classes that it was trained on; before that, with those of generated scenes, of ADE20K or of COCO.
fn size(cell: &Cell) -> Result<DenseSize, ReproduceError> {
    let plan = &cell.plan;
    let is_detection = plan.task == TaskKind::Detect;
    let known = RunDir::open(cell.dir()).ok();
    let classes = known.and_then(|run| run.read_classes().ok());
    let classes = match (classes, &plan.data.shapes) {
        (Some(classes), _) => classes.len(),
        // The background is a class of pixels.
        (None, Some(shapes)) => shapes.classes + usize::from(!is_detection),
        (None, None) if is_detection => 80,
        (None, None) => 150,
    };
    Ok(DenseSize::of(plan, classes)?)
}

fn padding(cell: &Cell) -> &'static str {
    let padding = match cell.plan.task {
        TaskKind::Detect => cell.plan.detect.window_padding,
        _ => cell.plan.segment.window_padding,
    };
    padding.name()
}

fn found(rows: &[Row], runs: &Runs, order: &Order) -> String {
    let mut text = format!(
        "{}, beside our runs at scale `{}`, in percent. Keys kept are those of the four stages with images of the training's size: of a \
         window, and with Twins of the whole map in its other blocks. Where windows are padded, *seen* \
         means that padding is among the keys that a query chooses from, and *hidden* that it is not. Parameters are those of the trained \
         network with all heads.\n\n",
        cited(order.version, "Table 4"),
        order.scale
    );
    if order.scale != Scale::Paper {
        text += "Models, images and classes are others here, and no network was pre-trained: the paper's numbers stand beside ours only \
                 to show which row is which. That a network learns generated scenes shows that training and evaluation work, not that k-NN \
                 attention is better or worse than dense attention on photographs.\n\n";
    }
    for half in &HALVES {
        text += &part(half, rows, runs);
    }
    text += "\nA difference within the spread of the seeds says neither that k-NN attention is better nor that it is worse.\n";
    text + &runs.conditions()
}

/// A half's table, its seeds and its tests.
fn part(half: &Half, rows: &[Row], runs: &Runs) -> String {
    let first = half.metrics[0];
    let header = format!(
        "backbone | method | attention | parameters | keys kept | padding of windows | *paper*, {} | *ours*, last | *spread* | \
         *ours*, best | *spread*",
        first.title
    );
    let others = half.metrics.iter().skip(1);
    let others = others.map(|metric| format!("{}, last", metric.title));
    let header = header.split(" | ").map(str::to_owned).chain(others);
    let own = || rows.iter().filter(|row| row.half.part == half.part);
    let seeds = own().filter(|row| !row.seeds.is_empty()).map(|row| {
        let seeds: Vec<String> = row.seeds.iter().map(u64::to_string).collect();
        format!("{} {}", row.name, seeds.join(", "))
    });
    let seeds = match seeds.collect::<Vec<_>>() {
        none if none.is_empty() => "No run of this half is finished.".to_owned(),
        all => format!("Seeds of this half: {}.", all.join("; ")),
    };
    let tests = match pairs_markdown(&half.pairs(runs), first) {
        none if none.is_empty() => none,
        all => format!("\n#### Is it chance?\n\n{all}"),
    };
    format!(
        "### {} (the paper: on {})\n\n{} is the paper's metric. {seeds}\n\n{}{tests}\n",
        half.method,
        half.data,
        first.title,
        table(header, own().map(|row| line(row, runs)))
    )
}

fn line(row: &Row, runs: &Runs) -> Vec<String> {
    let size = row.size.as_ref();
    let mut cells = vec![
        row.backbone.name.to_owned(),
        row.method.clone(),
        row.attention.to_owned() + runs.mark(&row.name),
        size.map_or_else(String::new, |size| short(size.params as f64)),
        or_empty(size.map(|size| keys(&size.backbone))),
        row.padding.unwrap_or_default().to_owned(),
        percent(Some(row.paper)),
    ];
    let mut last = row.last.iter().map(|of| ours(of.as_ref()));
    cells.extend(last.next().into_iter().flatten());
    cells.extend(ours(row.best.as_ref()));
    cells.extend(last.map(|[mean, _]| mean));
    cells
}

/// One table for both halves: a row has the columns of its half's metrics.
fn csv(rows: &[Row]) -> String {
    let columns = |name: String| ["", " spread", " seeds"].map(|of| format!("{name}{of}"));
    let first = "row,backbone,method,attention,parameters,keys kept,padding,paper";
    let mut header: Vec<String> = first.split(',').map(str::to_owned).collect();
    for half in &HALVES {
        for (place, metric) in half.metrics.iter().enumerate() {
            header.extend(columns(format!("{} last", metric.title)));
            if place == 0 {
                header.extend(columns(format!("{} best", metric.title)));
            }
        }
    }
    let rows = rows.iter().map(|row| {
        let size = row.size.as_ref();
        let mut line = cells([
            &row.name,
            &row.backbone.name,
            &row.method,
            &row.attention,
            &or_empty(size.map(|size| size.params)),
            &or_empty(size.map(|size| keys(&size.backbone))),
            &row.padding.unwrap_or_default(),
            &row.paper,
        ])
        .to_vec();
        for half in &HALVES {
            let is_own = half.part == row.half.part;
            for place in 0..half.metrics.len() {
                let last = row.last.get(place).copied().flatten();
                line.extend(fields(last.as_ref().filter(|_| is_own)));
                if place == 0 {
                    line.extend(fields(row.best.as_ref().filter(|_| is_own)));
                }
            }
        }
        line
    });
    Table::new(header, rows).csv()
}

/// mIoU or box AP of each row after the last epoch: a bar, with the paper's beside it.
fn svg(rows: &[Row]) -> Result<String, String> {
    let all = |value: &dyn Fn(&Row) -> Option<f64>| rows.iter().map(value).collect::<Vec<_>>();
    let paper = all(&|row| Some(row.paper));
    let ours = all(&|row| row.last.first()?.map(|of| of.mean));
    let name = |row: &Row| format!("{}, {}, {}", row.backbone.name, row.method, row.attention);
    bars(
        "mIoU and box AP by row of Table 4",
        "mIoU or box AP, %",
        rows.iter().map(name).collect(),
        &paper,
        &ours,
    )
}
