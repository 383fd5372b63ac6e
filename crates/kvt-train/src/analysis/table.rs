//! The metrics of layers as CSV, JSON and Markdown.

use serde_json::{Map, Value, json};

use super::{Estimate, Layer, Measure, tiles};
use crate::table::{Table, cells, or_empty};

/// A row for each layer, with mean and standard error of every measure; empty cells where nothing was measured.
pub fn csv(layers: &[Layer]) -> String {
    let names = Measure::ALL.iter().flat_map(|measure| {
        let name = measure.name();
        [name.to_owned(), format!("{name}_se")]
    });
    let header = ["layer", "stage", "block", "images"].map(str::to_owned);
    let rows = layers.iter().map(|layer| {
        let (block, images) = (layer.block, layer.images());
        let place = cells([&layer.number, &block.stage, &block.block, &images]);
        let numbers = Measure::ALL.iter().flat_map(|measure| {
            let found = layer.get(*measure);
            let error = found.and_then(|found| found.error);
            [found.map(|found| found.mean), error].map(or_empty)
        });
        place.into_iter().chain(numbers).collect::<Vec<_>>()
    });
    Table::new(header.into_iter().chain(names), rows).csv()
}

/// A list of the layers, each with `mean` and `standard_error` of every measure by its name, and its tiles.
pub fn json(layers: &[Layer]) -> Value {
    let layer = |layer: &Layer| {
        let measures = layer.measures.iter().map(|(measure, found)| {
            let value = json!({ "mean": found.mean, "standard_error": found.error });
            (measure.name().to_owned(), value)
        });
        json!({
            "layer": layer.number,
            "stage": layer.block.stage,
            "block": layer.block.block,
            "images": layer.images(),
            "measures": measures.collect::<Map<_, _>>(),
            "tiles": tiles::json(layer),
        })
    };
    layers.iter().map(layer).collect()
}

/// A table of [`Measure::SHOWN`], with mean and standard error; then one of the tiles, if a layer drops keys.
pub fn markdown(layers: &[Layer]) -> String {
    let titles = Measure::SHOWN.map(Measure::title);
    let header = std::iter::once("layer").chain(titles);
    let shown = Table::new(header, rows(layers)).markdown(&[]);
    let tiles = tiles::rows(layers);
    if tiles.is_empty() {
        shown
    } else {
        shown + "\n" + &Table::new(tiles::HEADER, tiles).markdown(&[])
    }
}

/// The cells of the same table.
pub fn rows(layers: &[Layer]) -> impl Iterator<Item = Vec<String>> {
    layers.iter().map(|layer| {
        let shown = Measure::SHOWN.into_iter();
        let cells = shown.map(|measure| cell(layer.get(measure)));
        std::iter::once(layer.number.to_string())
            .chain(cells)
            .collect()
    })
}

/// `mean ± standard error` with enough decimals to show both.
pub(crate) fn cell(found: Option<Estimate>) -> String {
    let Some(Estimate { mean, error, .. }) = found else {
        return "-".to_owned();
    };
    let decimals = if mean.abs() < 0.1 { 5 } else { 4 };
    match error {
        Some(error) => format!("{mean:.decimals$} ± {error:.decimals$}"),
        None => format!("{mean:.decimals$}"),
    }
}
