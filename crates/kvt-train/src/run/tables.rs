//! The tables of a run, which are made of its log.

use kvt_data::fs::write_text;

use super::{EpochRows, Event, LayerRecord, Listener, Metric, RunDir, RunError, epochs, layers};

/// Rewrites `epochs.csv` at the end of each epoch, and `layers.csv` at the end of each with an analysis. A run without an analysis
/// has no such file.
#[derive(Debug)]
pub struct Tables {
    run: RunDir,
    /// The columns of `epochs.csv`.
    metrics: &'static [Metric],
    epochs: EpochRows,
    layers: Vec<LayerRecord>,
}

impl Tables {
    /// Starts with the events that are already in the log: none for a new run, those up to the checkpoint for a resumed one (so
    /// that only the log must be cut).
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn new(
        run: &RunDir,
        metrics: &'static [Metric],
        logged: &[Event],
    ) -> Result<Self, RunError> {
        let mut tables = Self {
            run: run.clone(),
            metrics,
            epochs: EpochRows::default(),
            layers: Vec::new(),
        };
        for event in logged {
            tables.push(event);
        }
        // Also if the rows of an earlier start were cut off the log.
        let has_layers = !tables.layers.is_empty() || run.layers_csv().exists();
        tables.write(has_layers)?;
        Ok(tables)
    }

    /// Adds an event; returns whether an epoch ended.
    fn push(&mut self, event: &Event) -> bool {
        if let Event::Layer(layer) = event {
            self.layers.push(layer.clone());
        }
        self.epochs.push(event)
    }

    fn write(&self, with_layers: bool) -> Result<(), RunError> {
        let table = epochs::csv(&self.epochs, self.metrics);
        write_text(&self.run.epochs_csv(), &table)?;
        if with_layers {
            write_text(&self.run.layers_csv(), &layers::csv(&self.layers))?;
        }
        Ok(())
    }
}

impl Listener for Tables {
    fn event(&mut self, event: &Event) -> Result<(), RunError> {
        if self.push(event) {
            // All layers of an analysis precede the end of their epoch.
            let last = self.epochs.rows.last().map(|row| row.train.epoch);
            let analysed = self.layers.last().map(|layer| layer.epoch);
            self.write(analysed.is_some() && analysed == last)?;
        }
        Ok(())
    }
}
