//! Figure 5: which patches speak for the class, by Transformer Attribution.

use super::inside::{Inside, each_row};
use super::pictures::{Sample, generated, outcome, validation};
use crate::attribution::{Attribution, NOTE, attribute, said};
use crate::{Item, Make, Order, Outcome, ReproduceError, Runs, Scale, Version, Watch, table};
use kvt_tools::probe::Labelled;
use kvt_train::error::TrainError;
use kvt_train::run::Metric;
use kvt_train::table::{Table, cells};

/// Images of each kind.
const GENERATED: usize = 4;
const VALIDATION: usize = 10;

/// What the models of a figure say of one image.
struct Explained {
    sample: Sample,
    /// By row.
    found: Vec<(&'static str, Attribution)>,
}

/// Figure 5 of KVT.
pub(crate) const ITEM: Item = Item {
    name: "fig5",
    title: "KVT, figure 5: patches that speak for the class, by Transformer Attribution",
    stated: "[KVT](https://arxiv.org/abs/2106.00515), section 4.7 and Figure 5 (Figure 4 of version 1): heat maps of DeiT-Tiny, dense and k-NN, by \
     [Transformer Attribution](https://arxiv.org/abs/2012.09838), of a dog, a wheel, a ferret, a monitor, a hornbill, a chain and a crib. k-NN \
     attention \"gives more accurate attention regions\". No number is printed.\n\n\
     Not stated: for which class, that of the label or the one that the model takes the image for. Here it is the label of a validation image, and \
     the largest logit for a generated one, which is of no class of the model.",
    scales: &[Scale::Paper, Scale::CifarShort],
    versions: &[Version::Eccv, Version::V1],
    make: Make::OfRuns(compute),
    ..Item::PLAIN
};

fn compute(runs: &Runs, _: &Order, watch: &dyn Watch) -> Result<Outcome, ReproduceError> {
    let (mut drawn, mut seen): (Vec<Explained>, Vec<Explained>) = (Vec::new(), Vec::new());
    let mut classes = Vec::new();
    let seeds = each_row(runs, watch, |(_, title), cell, inside| {
        let side = inside.side()?;
        classes = inside.splits.classes().to_vec();
        let samples = generated(&cell.plan, side, GENERATED)?;
        explain(inside, title, samples, &mut drawn)?;
        let samples = validation(&cell.plan, inside, side, VALIDATION)?;
        explain(inside, title, samples, &mut seen)
    })?;
    let pictures = [&drawn, &seen].map(|all| rows(all, &classes));
    let csv = csv(&drawn, &classes);
    let found = found([&drawn, &seen], &seeds, &classes, runs);
    outcome(ITEM.name, &pictures, NOTE, csv, found)
}

/// Adds what a model says of images, which are the same for each model.
fn explain(
    inside: &Inside,
    title: &'static str,
    samples: Vec<Sample>,
    all: &mut Vec<Explained>,
) -> Result<(), ReproduceError> {
    for (place, sample) in samples.into_iter().enumerate() {
        let images = sample.view.clone().upload(&inside.device);
        let found = attribute(&inside.model, images, sample.label)
            .map_err(|error| TrainError::Verb(error.to_string()))?;
        match all.get_mut(place) {
            Some(explained) => explained.found.push((title, found)),
            None => all.push(Explained {
                sample,
                found: vec![(title, found)],
            }),
        }
    }
    Ok(())
}

/// A row for each image: the image, then what speaks for its class in each model.
fn rows(all: &[Explained], classes: &[String]) -> Vec<Vec<Labelled>> {
    let row = |explained: &Explained| {
        let found = explained.found.iter().map(|(title, found)| {
            let title = format!("{title}: for {}", class(classes, found.class));
            (title, found)
        });
        let Sample { seen, name, .. } = &explained.sample;
        said(seen, vec![name.clone()], &found.collect::<Vec<_>>())
    };
    all.iter().map(row).collect()
}

fn csv(all: &[Explained], classes: &[String]) -> String {
    let mut rows = Vec::new();
    for explained in all {
        for (title, found) in &explained.found {
            let columns = found.grid[1].max(1);
            let class = class(classes, found.class);
            let patches = found.patches.iter().enumerate();
            rows.extend(patches.map(|(place, relevance)| {
                let (row, column) = (place / columns, place % columns);
                let name = &explained.sample.name;
                cells([title, name, &class, &row, &column, relevance])
            }));
        }
    }
    let header = ["attention", "image", "class", "row", "column", "relevance"];
    Table::new(header, rows).csv()
}

fn class(classes: &[String], number: usize) -> String {
    let name = classes.get(number).cloned();
    name.unwrap_or_else(|| number.to_string())
}

fn found([drawn, seen]: [&[Explained]; 2], seeds: &str, classes: &[String], runs: &Runs) -> String {
    let mut text = format!(
        "The models are those after their last epoch. {}From left to right: the image, dense attention, k-NN attention; from black, the \
         smallest relevance of a picture, through red and yellow to white, the largest. {} generated images; `fig5-val.png` shows {} \
         validation images. *Half* is the smallest share of the patches that have half of the relevance: small where it is concentrated.\n\n",
        seeds,
        drawn.len(),
        seen.len()
    );
    let mut lines = Vec::new();
    for explained in drawn.iter().chain(seen) {
        for (title, found) in &explained.found {
            let kind = match explained.sample.label {
                Some(_) => "validation",
                None => "generated",
            };
            lines.push(vec![
                format!("{} ({kind})", explained.sample.name),
                (*title).to_owned(),
                class(classes, found.class),
                format!("{:.1} %", 100.0 * found.probability()),
                format!("{:.0} %", 100.0 * found.half()),
            ]);
        }
    }
    let header = ["image", "attention", "class", "probability", "half"];
    text += &table(header, lines);
    text + &runs.notes(Metric::TOP1)
}
