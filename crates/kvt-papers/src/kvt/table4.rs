//! Table 4, the half of segmentation: mIoU of UPerNet with dense and with k-NN attention.

use super::super::{Item, Order, Outcome, ReproduceError, Runs, Scale, Version, Watch, table};
use super::paper::{Dense, TABLE4};
use super::{cited, fields, kept, ours, percent, short};
use kvt_train::plot::{Axis, Chart, Line, Names};
use kvt_train::report::Statistic;
use kvt_train::run::{Metric, RunDir};
use kvt_train::sweep::Cell;
use kvt_train::table::{Table, cells, or_empty};
use kvt_train::task::SegmentSize;

/// Table 4.
pub(crate) struct Table4;

/// The kinds of attention, by the ends of rows' names.
const KINDS: [(&str, &str); 3] = [
    ("dense", "dense"),
    ("knn", "k-NN, a share"),
    ("knn39", "k-NN, 39 keys"),
];

/// A row: a backbone with one kind of attention.
struct Row {
    name: String,
    backbone: &'static Dense,
    attention: &'static str,
    /// The paper's number. It does not say whether k is a share or a count.
    paper: Option<f64>,
    size: Option<SegmentSize>,
    padding: Option<&'static str>,
    /// Mean IoU, mean accuracy and accuracy of pixels of the last evaluation, and the best mean IoU.
    last: [Option<Statistic>; 3],
    best: Option<Statistic>,
}

impl Item for Table4 {
    fn name(&self) -> &'static str {
        "table4"
    }

    fn title(&self) -> &'static str {
        "KVT, table 4, segmentation alone: mIoU of UPerNet with dense and with k-NN attention"
    }

    fn stated(&self) -> &'static str {
        "[KVT](https://arxiv.org/abs/2106.00515), Table 4: box mAP of Mask R-CNN on COCO and mIoU of UPerNet on ADE20K, with Swin-T and \
         Twins-SVT-B as backbones, pre-trained on ImageNet-1k, once with dense and once with k-NN attention. One number for each, \
         without a spread. **Only the half of segmentation is here**; the half of detection is 46.0 and 46.2 (Swin-T, 3x schedule), 45.2 and 45.6 \
         (Twins-SVT-B, 1x).\n\n\
         Not stated: k; whether the k-NN networks start from k-NN classifiers; seeds, spread, number of runs; mask AP; single- or \
         multi-scale testing. The released code has neither detection nor segmentation. \
         The dense numbers equal the published ones of the backbones' authors to the digit (Swin-T 44.51 with one scale, Twins-SVT-B 47.4), \
         so they are most likely quoted.\n\n\
         Published checkpoints of one run differ by 0.5 and more: the authors' log of Twins-SVT-B evaluates 47.36, 47.07, **48.13**, 47.31 and \
         **47.69** in the second half of one run. The gains of the table are 0.2 and 0.5. A comparison needs several seeds and the same rule (the last \
         checkpoint) for both.\n\n\
         So the table cannot be reproduced literally. It can be re-run with the recipes of the backbones' authors and our choice of k, four \
         fifths of the keys, and that is what this page is."
    }

    fn scales(&self) -> &'static [Scale] {
        &[Scale::Paper, Scale::Shapes, Scale::ShapesShort]
    }

    fn versions(&self) -> &'static [Version] {
        &[Version::Eccv]
    }

    fn compute(&self, order: &Order, watch: &dyn Watch) -> Result<Outcome, ReproduceError> {
        let runs = Runs::of(self, order, watch)?;
        let rows = rows(&runs)?;
        Ok(Outcome {
            csv: csv(&rows),
            svg: svg(&rows).map_err(ReproduceError::Draw)?,
            found: found(&rows, &runs, order),
            files: vec![runs.file(self.name(), Metric::MIOU)],
            failures: runs.failures,
        })
    }
}

fn rows(runs: &Runs) -> Result<Vec<Row>, ReproduceError> {
    let mut rows = Vec::new();
    for backbone in TABLE4 {
        let [dense, knn] = backbone.miou;
        for ((kind, attention), paper) in KINDS.into_iter().zip([dense, knn, knn]) {
            let name = format!("{}-{kind}", backbone.key);
            let cell = runs.cell(&name);
            if kind == "knn39" && cell.is_none() {
                continue;
            }
            let last = |metric| runs.statistic(&name, |found| found.last(metric));
            rows.push(Row {
                backbone,
                attention,
                paper: Some(paper),
                size: cell.map(size).transpose()?,
                padding: cell.map(|cell| cell.plan.segment.window_padding.name()),
                last: [Metric::MIOU, Metric::MACC, Metric::AACC].map(last),
                best: runs.statistic(&name, |found| found.best(Metric::MIOU)),
                name,
            });
        }
    }
    Ok(rows)
}

/// The size of a cell's network with the classes that it was trained on; before that, with ADE20K's 150.
fn size(cell: &Cell) -> Result<SegmentSize, ReproduceError> {
    let known = RunDir::open(cell.dir()).ok();
    let classes = known.and_then(|run| run.read_classes().ok());
    let classes = classes.map_or(150, |classes| classes.len());
    Ok(SegmentSize::of(&cell.plan, classes)?)
}

fn found(rows: &[Row], runs: &Runs, order: &Order) -> String {
    let header = [
        "backbone",
        "method",
        "attention",
        "parameters",
        "keys kept",
        "padding of windows",
        "*paper*, mIoU",
        "*ours*, last",
        "*spread*",
        "*ours*, best",
        "*spread*",
        "mAcc, last",
        "aAcc, last",
    ];
    let mut text = format!(
        "{}, beside our runs at scale `{}`: mIoU in percent, of whole images at one scale. Keys kept are those of the four stages with images \
         of the training's size: of a window, and with Twins of the whole map in its other blocks. Where windows are padded, *seen* \
         means that padding is among the keys that a query chooses from, and *hidden* that it is not. Parameters are those of the trained \
         network with both heads; before a run is begun, with 150 classes. The paper has no mAcc and aAcc.\n\n",
        cited(order.version, "Table 4, ADE20K"),
        order.scale
    );
    if order.scale != Scale::Paper {
        text += "Models, images and classes are others here, and no network was pre-trained: the paper's numbers stand beside ours only \
                 to show which row is which.\n\n";
    }
    text += &table(header, rows.iter().map(line));
    text += "\nA difference within the spread of the seeds says neither that k-NN attention is better nor that it is worse.\n";
    text + &runs.notes(Metric::MIOU)
}

fn line(row: &Row) -> Vec<String> {
    let mut cells = ["", "UPerNet", row.attention].map(str::to_owned).to_vec();
    row.backbone.name.clone_into(&mut cells[0]);
    let size = row.size.as_ref();
    cells.push(size.map_or_else(String::new, |size| short(size.params as f64)));
    cells.push(size.map_or_else(String::new, keys));
    cells.push(row.padding.unwrap_or_default().to_owned());
    cells.push(percent(row.paper));
    cells.extend(ours(row.last[0].as_ref()));
    cells.extend(ours(row.best.as_ref()));
    let means = row.last[1..].iter();
    cells.extend(means.map(|of| ours(of.as_ref())[0].clone()));
    cells
}

/// How many keys queries keep, stage by stage.
fn keys(size: &SegmentSize) -> String {
    let kept: Vec<String> = size.backbone.attending().map(kept).collect();
    kept.join(", ")
}

fn csv(rows: &[Row]) -> String {
    let header = "row,backbone,method,attention,parameters,keys kept,padding,paper,mIoU last,mIoU last spread,mIoU last seeds,\
                  mIoU best,mIoU best spread,mIoU best seeds,mAcc last,mAcc last spread,mAcc last seeds,aAcc last,aAcc last spread,\
                  aAcc last seeds";
    let rows = rows.iter().map(|row| {
        let size = row.size.as_ref();
        let first = cells([
            &row.name,
            &row.backbone.name,
            &"UPerNet",
            &row.attention,
            &or_empty(size.map(|size| size.params)),
            &size.map_or_else(String::new, keys),
            &row.padding.unwrap_or_default(),
            &or_empty(row.paper),
        ]);
        let [miou, macc, aacc] = row.last.each_ref().map(|last| fields(last.as_ref()));
        [&first[..], &miou, &fields(row.best.as_ref()), &macc, &aacc].concat()
    });
    Table::new(header.split(','), rows).csv()
}

/// mIoU of each row after the last epoch: a bar, with the paper's beside it.
fn svg(rows: &[Row]) -> Result<String, String> {
    let bars =
        |name: &'static str, color: usize, offset: f64, value: &dyn Fn(&Row) -> Option<f64>| {
            let places = (1..).zip(rows);
            let bars =
                places.filter_map(|(place, row): (u8, _)| Some((f64::from(place), value(row)?)));
            let bars: Vec<(f64, f64)> = bars.collect();
            let lines = bars.into_iter().enumerate();
            lines
                .map(|(number, (place, value))| Line {
                    name: (if number == 0 { name } else { "" }).to_owned(),
                    color,
                    dash: None,
                    points: vec![(place + offset, 0.0), (place + offset, value)],
                })
                .collect::<Vec<_>>()
        };
    let paper = bars("paper", 0, -0.15, &|row| row.paper);
    let mean = |row: &Row| row.last[0].map(|statistic| statistic.mean);
    let ours = bars("ours, last epoch", 1, 0.15, &mean);
    Chart {
        title: "mIoU by row of Table 4",
        x: Axis {
            label: "row of the table",
            logarithmic: false,
            ticks: (1..=rows.len()).map(|number| number as f64).collect(),
        },
        y: Axis {
            label: "mIoU, %",
            logarithmic: false,
            ticks: Vec::new(),
        },
        lines: [paper, ours].concat(),
        names: Names::Beside,
    }
    .svg()
}
