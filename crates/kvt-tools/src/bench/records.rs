//! The measurements of many kinds of attention beside each other: as a table for programs, and as lines over the number of tokens.

use std::path::{Path, PathBuf};

use kvt_attention::AttentionConfig;

use super::{AttentionTimes, KindMeasurement, Timing};
use crate::report::{ReportError, draw_scaling};
use kvt_train::plot::Line;
use kvt_train::table::{Table, cells, or_empty};

/// The files of the pictures.
const PLOTS: [&str; 3] = ["forward.svg", "forward_backward.svg", "memory.svg"];

impl KindMeasurement {
    /// The file of the table.
    pub const CSV: &str = "attention.csv";

    /// The files in a folder of results: the table, then the pictures.
    pub fn files(folder: &Path) -> Vec<PathBuf> {
        let names = [Self::CSV].into_iter().chain(PLOTS);
        names.map(|name| folder.join(name)).collect()
    }

    /// Measurements as CSV.
    #[must_use]
    pub fn csv(records: &[Self]) -> String {
        let header = "kind,batch,heads,tokens,head_dim,params,macs,forward_ms,forward_low,forward_high,\
                      forward_backward_ms,forward_backward_low,forward_backward_high,peak_bytes,note";
        let rows = records.iter().map(|record| {
            let shape = record.shape;
            let times = |of: fn(&AttentionTimes) -> Timing| match record.times.as_ref().map(of) {
                Some(Timing { median, low, high }) => [median, low, high].map(|ms| ms.to_string()),
                None => Default::default(),
            };
            [
                &cells([
                    &record.kind,
                    &shape.batch,
                    &shape.heads,
                    &shape.tokens,
                    &shape.head_dim,
                    &or_empty(record.params),
                    &or_empty(record.macs),
                ])[..],
                &times(|times| times.forward),
                &times(|times| times.forward_backward),
                &[or_empty(record.peak_bytes), or_empty(record.note.as_ref())],
            ]
            .concat()
        });
        Table::new(header.split(','), rows).csv()
    }

    /// A time of this measurement divided by that of dense attention at the same size, where `all` has both.
    #[must_use]
    pub fn of_dense(&self, all: &[Self], of: fn(&AttentionTimes) -> f64) -> Option<f64> {
        let time = |record: &Self| record.times.as_ref().map(of);
        let is_dense = |other: &&Self| other.kind == "dense" && other.shape == self.shape;
        let dense = all.iter().find(is_dense)?;
        Some(time(self)? / time(dense)?)
    }

    /// Draws time and memory over the number of tokens.
    ///
    /// # Errors
    /// Failures of drawing and of the file system.
    pub fn draw(records: &[Self], folder: &Path) -> Result<(), ReportError> {
        let lines = |value: &dyn Fn(&Self) -> Option<f64>| -> Vec<Line> {
            let kinds = AttentionConfig::KINDS.iter().map(|kind| {
                let own = records.iter().filter(|record| record.kind == *kind);
                let points = own.filter_map(|record| {
                    let value = value(record).filter(|value| *value > 0.0)?;
                    Some((record.shape.tokens as f64, value))
                });
                Line::new(*kind, 0, points)
            });
            kinds.collect()
        };
        let forward = lines(&|record| Some(record.times.as_ref()?.forward.median));
        let both = lines(&|record| Some(record.times.as_ref()?.forward_backward.median));
        let memory = lines(&|record| Some(record.peak_bytes? as f64 / 1_048_576.0));
        let pictures = [
            (forward, "ms", "Forward"),
            (both, "ms", "Forward and backward"),
            (memory, "MiB", "Peak memory, forward and backward"),
        ];
        for (file, (lines, unit, title)) in PLOTS.into_iter().zip(pictures) {
            draw_scaling(&lines, ["tokens", unit], title, &folder.join(file))?;
        }
        Ok(())
    }
}
