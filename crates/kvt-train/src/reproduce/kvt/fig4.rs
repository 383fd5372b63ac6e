//! Figure 4: where the class token of the last layer looks, head by head.

use std::fmt::Write as _;

use image::RgbImage;

use super::super::{Item, Order, Outcome, ReproduceError, Runs, Scale, Version, Watch, table};
use super::inside::{Inside, seeds};
use super::pictures::{Sample, beside, encoded, generated, stacked, validation};
use crate::error::TrainError;
use crate::probe::{Drawn, HeadMap, class_attention, draw};
use crate::run::Metric;
use crate::task::TaskKind;

/// Figure 4 of KVT.
pub(in crate::reproduce) struct Fig4;

const ROWS: [(&str, &str); 2] = [("dense", "dense"), ("knn", "k-NN")];
/// Images of each kind.
const GENERATED: usize = 3;
const VALIDATION: usize = 6;
/// As many times the size of training as the paper's 480 of 224 pixels, in whole patches.
const LARGER: usize = 2;

impl Item for Fig4 {
    fn name(&self) -> &'static str {
        "fig4"
    }

    fn title(&self) -> &'static str {
        "KVT, figure 4: attention of the class token in the last layer, head by head"
    }

    fn stated(&self) -> &'static str {
        "[KVT](https://arxiv.org/abs/2106.00515), section 4.7 and Figure 4 (Figure 3 of version 1): heads 0 to 5 of the last layer of DINO-Small, dense \
         and k-NN. \"Different heads attend to different semantic regions\"; k-NN attention \"filters out most irrelevant information from background \
         regions\".\n\n\
         Not stated: the images, their size, and k. DINO's own program shows images of 480 pixels; with patches of 16 these have 901 tokens, of which \
         k = 100 are a much smaller share than of the 197 in training. Here two sizes are drawn: that of training, and twice that, with the k of the \
         configuration: a share of the keys stays a share, a count a count."
    }

    fn scales(&self) -> &'static [Scale] {
        &[Scale::Paper, Scale::CifarShort]
    }

    fn versions(&self) -> &'static [Version] {
        &[Version::Eccv, Version::V1]
    }

    fn compute(&self, order: &Order, watch: &dyn Watch) -> Result<Outcome, ReproduceError> {
        let runs = Runs::of(self, order, watch)?;
        let mut csv = "run,image,side,head,row,column,weight\n".to_owned();
        let mut table = Vec::new();
        // By attention: what is committed shows generated images alone.
        let (mut drawn, mut seen) = (Vec::new(), Vec::new());
        // One model of each row is looked at.
        let chosen = runs.of_one_seed(&ROWS.map(|(row, _)| row));
        let mut shown = Vec::new();
        for (done, ((row, title), cell)) in ROWS.into_iter().zip(chosen).enumerate() {
            if let Some(cell) = cell {
                shown.push((title, cell.plan.seed));
                let inside = Inside::of(cell)?;
                let side = inside.model.config().img_size();
                let (mut own, mut others) = (Vec::new(), Vec::new());
                for side in [side, LARGER * side] {
                    let samples = generated(&cell.plan, side, GENERATED)?;
                    let maps = maps(&inside, &samples)?;
                    for (sample, maps) in samples.iter().zip(&maps) {
                        add(&mut csv, row, sample, side, maps);
                    }
                    table.push(line(title, side, &maps));
                    rows(&mut own, &samples, &maps);
                    let samples = validation(&cell.plan, &inside, side, VALIDATION)?;
                    let found = self::maps(&inside, &samples)?;
                    rows(&mut others, &samples, &found);
                }
                drawn.push(own);
                seen.push(others);
            }
            watch.progress(done + 1, ROWS.len());
        }
        let (png, svg) = encoded(&stacked(&beside(&drawn)))?;
        let (others, _) = encoded(&stacked(&beside(&seen)))?;
        Ok(Outcome {
            csv,
            svg,
            found: found(&table, &shown, &runs),
            files: vec![
                ("fig4.png".to_owned(), png),
                ("fig4-val.png".to_owned(), others),
            ],
            failures: runs.failures,
        })
    }
}

/// The maps of the heads, image by image.
fn maps(inside: &Inside, samples: &[Sample]) -> Result<Vec<Vec<HeadMap>>, ReproduceError> {
    let mut all = Vec::new();
    for sample in samples {
        let images = sample.view.clone().upload(&inside.device);
        let maps = class_attention(&inside.model, images)?;
        let maps = maps.map_err(|reason| TrainError::Verb(reason.to_string()))?;
        all.extend(maps.into_iter().next());
    }
    Ok(all)
}

fn add(csv: &mut String, row: &str, sample: &Sample, side: usize, maps: &[HeadMap]) {
    for (head, map) in maps.iter().enumerate() {
        let columns = map.grid[1].max(1);
        for (place, weight) in map.weights.iter().enumerate() {
            let (down, across) = (place / columns, place % columns);
            let name = &sample.name;
            let _ = writeln!(
                csv,
                "{row},{name},{side},{head},{down},{across},{weight:.6}"
            );
        }
    }
}

fn rows(all: &mut Vec<RgbImage>, samples: &[Sample], maps: &[Vec<HeadMap>]) {
    let pairs = samples.iter().zip(maps);
    all.extend(
        pairs.map(|(sample, maps)| draw(&sample.seen, std::slice::from_ref(maps), Drawn::Beside)),
    );
}

/// A line of the table: means over images and heads.
fn line(title: &str, side: usize, maps: &[Vec<HeadMap>]) -> Vec<String> {
    let heads: Vec<&HeadMap> = maps.iter().flatten().collect();
    let mean = |of: &dyn Fn(&HeadMap) -> f64| {
        heads.iter().map(|map| of(map)).sum::<f64>() / heads.len().max(1) as f64
    };
    let patches = heads.first().map_or(0, |map| map.weights.len());
    let largest = |map: &HeadMap| map.weights.iter().copied().fold(0.0, f64::max);
    vec![
        format!("{title}, {side} px"),
        patches.to_string(),
        format!("{:.1}", mean(&|map| map.kept as f64)),
        format!("{:.3}", mean(&|map| map.weights.iter().sum())),
        format!("{:.3}", mean(&largest)),
    ]
}

fn found(lines: &[Vec<String>], shown: &[(&str, u64)], runs: &Runs) -> String {
    let task = runs.sweep.cells.first().map(|cell| cell.plan.task);
    let (model, metric) = match task {
        Some(TaskKind::Dino) => (
            "The models are teachers of DINO, after their last epoch.",
            Metric::KNN,
        ),
        _ => (
            "The models are supervised ones, after their last epoch, and not DINO's as in the paper.",
            Metric::TOP1,
        ),
    };
    let header = [
        "attention",
        "patches",
        "patches looked at",
        "weight on patches",
        "largest weight",
    ];
    format!(
        "{model} {}From left to right: the image and each head of dense attention, then the same for k-NN attention. From top to bottom: \
         {GENERATED} generated images at the size of training, and at twice that size. The brightest patch has the largest weight of its \
         map; a patch that is not kept is dark blue. `fig4-val.png` shows {VALIDATION} validation images in the same order. Means over the generated images and the heads:\n\n{}{}",
        seeds(shown),
        table(&header, lines),
        runs.notes(metric)
    )
}
