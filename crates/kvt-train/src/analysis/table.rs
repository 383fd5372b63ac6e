//! The metrics of layers as CSV, JSON and Markdown.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use super::{Estimate, Layer, Measure};

/// A row for each layer, with mean and standard error of every measure; empty cells where nothing was measured.
pub fn csv(layers: &[Layer]) -> String {
    let mut text = "layer,stage,block,images".to_owned();
    for measure in Measure::ALL {
        let name = measure.name();
        let _ = write!(text, ",{name},{name}_se");
    }
    for layer in layers {
        let (block, images) = (layer.block, layer.images());
        let _ = write!(
            text,
            "\n{},{},{},{images}",
            layer.number, block.stage, block.block
        );
        for measure in Measure::ALL {
            let cell = |value: Option<f64>| value.map_or_else(String::new, |x| x.to_string());
            let found = layer.get(measure);
            let mean = cell(found.map(|found| found.mean));
            let error = cell(found.and_then(|found| found.error));
            let _ = write!(text, ",{mean},{error}");
        }
    }
    text + "\n"
}

/// A list of the layers, each with `mean` and `standard_error` of every measure by its name.
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
        })
    };
    layers.iter().map(layer).collect()
}

/// A table of [`Measure::SHOWN`], with mean and standard error.
pub fn markdown(layers: &[Layer]) -> String {
    let mut text = "| layer |".to_owned();
    for measure in Measure::SHOWN {
        let _ = write!(text, " {} |", measure.title());
    }
    text += "\n| ---: |";
    text += &" ---: |".repeat(Measure::SHOWN.len());
    for row in rows(layers) {
        let _ = write!(text, "\n| {} |", row.join(" | "));
    }
    text + "\n"
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
