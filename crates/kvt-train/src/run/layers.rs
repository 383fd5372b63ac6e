//! `layers.csv`: one row for each layer of each analysis.

use std::path::{Path, PathBuf};

use super::{Event, LayerRecord, Listener, RunError};
use crate::analysis::Measure;
use crate::table::{Table, cells, or_empty};
use kvt_data::fs::write_text;

/// Rewrites `layers.csv` at the end of each epoch with an analysis. Epochs count from 0, as in the log, layers from 1; cells of
/// metrics that a layer lacks are empty. A run without an analysis has no such file.
#[derive(Debug)]
pub struct LayersCsv {
    path: PathBuf,
    rows: Vec<LayerRecord>,
}

impl LayersCsv {
    /// Starts with the events that are already in the log.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn new(path: &Path, logged: &[Event]) -> Result<Self, RunError> {
        let rows = logged.iter().filter_map(|event| match event {
            Event::Layer(layer) => Some(layer.clone()),
            _ => None,
        });
        let csv = Self {
            path: path.to_owned(),
            rows: rows.collect(),
        };
        // Also if the rows of an earlier start were cut off the log.
        if !csv.rows.is_empty() || path.exists() {
            csv.write()?;
        }
        Ok(csv)
    }

    fn write(&self) -> Result<(), RunError> {
        let names = Measure::ALL.map(|measure| {
            let error = format!("{}{}", measure.name(), LayerRecord::ERROR);
            [measure.name().to_owned(), error]
        });
        let names = names.as_flattened();
        let header = ["epoch", "layer", "stage", "block", "split", "images"].map(str::to_owned);
        let rows = self.rows.iter().map(|row| {
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
        let table = Table::new(header.iter().chain(names), rows);
        write_text(&self.path, &table.csv())?;
        Ok(())
    }
}

impl Listener for LayersCsv {
    fn event(&mut self, event: &Event) -> Result<(), RunError> {
        match event {
            Event::Layer(layer) => {
                self.rows.push(layer.clone());
                Ok(())
            }
            // All layers of an analysis precede the end of their epoch.
            Event::Epoch(ended) if self.rows.last().is_some_and(|row| row.epoch == ended.epoch) => {
                self.write()
            }
            _ => Ok(()),
        }
    }
}
