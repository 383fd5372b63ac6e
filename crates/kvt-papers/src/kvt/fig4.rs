//! Figure 4: where the class token of the last layer looks, head by head.

use super::inside::{Inside, each_row};
use super::pictures::{Sample, generated, outcome, validation};
use crate::{Item, Make, Order, Outcome, ReproduceError, Runs, Scale, Version, Watch, table};
use kvt_tools::probe::{Drawn, HeadMap, Labelled, NOTE, class_attention, parts};
use kvt_train::error::TrainError;
use kvt_train::run::Metric;
use kvt_train::table::{Table, cells};
use kvt_train::task::TaskKind;

/// Images of each kind.
const GENERATED: usize = 3;
const VALIDATION: usize = 6;
/// Image sizes of DINO's own program and of training: figures at the larger size have the same ratio, in whole patches.
const SIZES: [usize; 2] = [480, 224];
/// How k-NN attention chooses its number of keys, in the table and in the CSV.
const KEYS: [&str; 2] = ["k of the configuration", "k of training"];

/// Figure 4 of KVT.
pub(crate) const ITEM: Item = Item {
    name: "fig4",
    title: "KVT, figure 4: attention of the class token in the last layer, head by head",
    stated: "[KVT](https://arxiv.org/abs/2106.00515), section 4.7 and Figure 4 (Figure 3 of version 1): heads 0 to 5 of the last layer of DINO-Small, dense \
     and k-NN. \"Different heads attend to different semantic regions\"; k-NN attention \"filters out most irrelevant information from background \
     regions\".\n\n\
     Not stated: the images, their size, and k. DINO's own program shows images of 480 pixels; with patches of 16 these have 901 tokens, of which \
     k = 100 is a much smaller share than of the 197 in training. Here the images have the size of training and 480/224 times that size. At the \
     larger size k-NN attention is shown twice: with the k of the configuration, where a share of the keys stays a share, and with as many keys \
     as it kept in training.",
    scales: &[Scale::Paper, Scale::CifarShort],
    versions: &[Version::Eccv, Version::V1],
    make: Make::OfRuns(compute),
    ..Item::PLAIN
};

fn compute(runs: &Runs, _: &Order, watch: &dyn Watch) -> Result<Outcome, ReproduceError> {
    let mut csv = Vec::new();
    let mut table = Vec::new();
    // By attention; only generated images are in the picture that may be published.
    let (mut drawn, mut seen) = (Vec::new(), Vec::new());
    let seeds = each_row(runs, watch, |(row, title), cell, inside| {
        let side = inside.side()?;
        let counted = inside.with_counts(cell)?;
        let larger = larger(side, inside, &generated(&cell.plan, side, 1)?)?;
        let (mut own, mut others) = (Vec::new(), Vec::new());
        let as_configured = [side, larger].map(|side| (inside, KEYS[0], side));
        let counted = counted.as_ref().map(|counted| (counted, KEYS[1], larger));
        for (inside, keys, side) in as_configured.into_iter().chain(counted) {
            let samples = generated(&cell.plan, side, GENERATED)?;
            let maps = maps(inside, &samples)?;
            for (sample, maps) in samples.iter().zip(&maps) {
                add(&mut csv, [row, keys], sample, side, maps);
            }
            table.push(line([title, keys], side, &maps));
            rows(&mut own, [title, keys], &samples, &maps);
            let samples = validation(&cell.plan, inside, side, VALIDATION)?;
            let of_others = self::maps(inside, &samples)?;
            rows(&mut others, [title, keys], &samples, &of_others);
        }
        drawn.push(own);
        seen.push(others);
        Ok(())
    })?;
    let header = "run,image,side,keys,head,row,column,weight";
    let csv = Table::new(header.split(','), csv).csv();
    let found = found(&table, &seeds, runs);
    let pictures = [drawn, seen].map(in_turns);
    outcome(ITEM.name, &pictures, NOTE, csv, found)
}

/// The maps of the heads, image by image.
fn maps(inside: &Inside, samples: &[Sample]) -> Result<Vec<Vec<HeadMap>>, ReproduceError> {
    let mut all = Vec::new();
    for sample in samples {
        let images = sample.view.clone().upload(&inside.device);
        let maps = class_attention(&inside.model, images)?
            .map_err(|reason| TrainError::Verb(reason.to_string()))?;
        all.extend(maps.into_iter().next());
    }
    Ok(all)
}

/// The larger image size: 480/224 times that of training, rounded to whole patches.
fn larger(side: usize, inside: &Inside, samples: &[Sample]) -> Result<usize, ReproduceError> {
    let maps = maps(inside, samples)?;
    let columns = maps.iter().flatten().next().map_or(1, |map| map.grid[1]);
    let patch = (side / columns.max(1)).max(1);
    let [shown, trained] = SIZES;
    let step = trained * patch;
    Ok((side * shown + step / 2) / step * patch)
}

fn add(
    csv: &mut Vec<[String; 8]>,
    [row, keys]: [&str; 2],
    sample: &Sample,
    side: usize,
    maps: &[HeadMap],
) {
    for (head, map) in maps.iter().enumerate() {
        let columns = map.grid[1].max(1);
        for (place, weight) in map.weights.iter().enumerate() {
            let (down, across) = (place / columns, place % columns);
            let weight = format!("{weight:.6}");
            let name = &sample.name;
            csv.push(cells([
                &row, name, &side, &keys, &head, &down, &across, &weight,
            ]));
        }
    }
}

/// Adds a row for each image.
fn rows(
    all: &mut Vec<Vec<Labelled>>,
    [title, keys]: [&str; 2],
    samples: &[Sample],
    maps: &[Vec<HeadMap>],
) {
    all.extend(samples.iter().zip(maps).map(|(sample, maps)| {
        let side = sample.seen.width();
        let words = vec![
            format!("{title}, {side} px: {}", sample.name),
            keys.to_owned(),
        ];
        parts(&sample.seen, words, maps, Drawn::Beside)
    }));
}

/// The rows of several attentions by turns, so that those of an image are below each other: side by side their words would be too
/// small to read in a page.
fn in_turns(attentions: Vec<Vec<Vec<Labelled>>>) -> Vec<Vec<Labelled>> {
    let longest = attentions.iter().map(Vec::len).max().unwrap_or(0);
    let mut left: Vec<_> = attentions.into_iter().map(Vec::into_iter).collect();
    let turn = |_| {
        left.iter_mut()
            .filter_map(Iterator::next)
            .collect::<Vec<_>>()
    };
    (0..longest).flat_map(turn).collect()
}

/// A line of the table: means over images and heads.
fn line([title, keys]: [&str; 2], side: usize, maps: &[Vec<HeadMap>]) -> Vec<String> {
    let heads: Vec<&HeadMap> = maps.iter().flatten().collect();
    let mean = |of: &dyn Fn(&HeadMap) -> f64| {
        heads.iter().map(|map| of(map)).sum::<f64>() / heads.len().max(1) as f64
    };
    let patches = heads.first().map_or(0, |map| map.weights.len());
    let largest = |map: &HeadMap| map.weights.iter().copied().fold(0.0, f64::max);
    vec![
        format!("{title}, {side} px, {keys}"),
        patches.to_string(),
        format!("{:.1}", mean(&|map| map.kept as f64)),
        format!("{:.3}", mean(&|map| map.weights.iter().sum())),
        format!("{:.3}", mean(&largest)),
    ]
}

fn found(lines: &[Vec<String>], seeds: &str, runs: &Runs) -> String {
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
    let header = "attention | patches | patches looked at | weight on patches | largest weight";
    format!(
        "{model} {}From left to right: the image and each head. Dense and k-NN attention take turns, row by row. From top to bottom: \
         {GENERATED} generated images at the size of training, at the larger size with the k of the configuration, and, of attention that \
         keeps a share of the keys, at the larger size with the k of training. The words above a map say how many \
         patches are kept, and which weight is white; a patch that is not kept is dark blue. `fig4-val.png` shows {VALIDATION} validation images in the same order. Means over the generated images and the heads:\n\n{}{}",
        seeds,
        table(header.split(" | "), lines),
        runs.notes(metric)
    )
}
