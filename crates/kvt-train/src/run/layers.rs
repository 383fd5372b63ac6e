//! `layers.csv`: one row for each layer of each analysis.

use super::LayerRecord;
use crate::analysis::Measure;
use crate::table::{Table, cells, or_empty};

/// The table. Epochs count from 0, as in the log, layers from 1; cells of metrics that a layer lacks are empty.
pub(super) fn csv(rows: &[LayerRecord]) -> String {
    let names = Measure::ALL.map(|measure| {
        let error = format!("{}{}", measure.name(), LayerRecord::ERROR);
        [measure.name().to_owned(), error]
    });
    let names = names.as_flattened();
    let header = ["epoch", "layer", "stage", "block", "split", "images"].map(str::to_owned);
    let rows = rows.iter().map(|row| {
        let place = cells([
            &row.epoch,
            &row.layer,
            &row.stage,
            &row.block,
            &row.split,
            &row.images,
        ]);
        let numbers = names.iter().map(|name| or_empty(row.metrics.get(name)));
        place.into_iter().chain(numbers).collect::<Vec<_>>()
    });
    Table::new(header.iter().chain(names), rows).csv()
}
