//! The measurements of many kinds of attention beside each other: as a table for programs, and as lines over the number of tokens.

use std::path::{Path, PathBuf};

use kvt_attention::AttentionConfig;
use serde::Serialize;

use super::{AttentionCase, AttentionShape, AttentionTimes, Timing};
use crate::report::{ReportError, draw_scaling};
use kvt_train::plot::Line;
use kvt_train::table::{Table, cells, or_empty};

/// The files of the pictures.
const PLOTS: [&str; 3] = ["forward.svg", "forward_backward.svg", "memory.svg"];

/// The line of a case in a report.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KindMeasurement {
    /// The kind, as in a configuration.
    pub kind: &'static str,
    /// The sizes.
    #[serde(flatten)]
    pub shape: AttentionShape,
    /// Parameters of the mechanism; `None` if it cannot be used at this size.
    pub params: Option<usize>,
    /// Multiply-accumulate operations per image in the forward pass; `None` if it cannot be used at this size.
    pub macs: Option<u64>,
    /// The times; `None` if it cannot be used at this size, or its process failed.
    pub times: Option<AttentionTimes>,
    /// Memory that forward and backward used in addition to the inputs, in a fresh process that ran only a small problem before.
    pub peak_bytes: Option<u64>,
    /// Why something was not measured.
    pub note: Option<String>,
}

impl AttentionCase {
    /// The line of a case before it is measured, or with the reason why it cannot be used.
    pub fn record(&self) -> KindMeasurement {
        let refused = self.check().err();
        let cost = || self.attention.cost(&self.place());
        let cost = refused.is_none().then(cost);
        KindMeasurement {
            kind: self.attention.kind(),
            shape: self.shape,
            params: cost.as_ref().map(|cost| cost.params),
            macs: cost.as_ref().map(|cost| cost.macs.total()),
            times: None,
            peak_bytes: None,
            note: refused.map(|error| error.to_string()),
        }
    }
}

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

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use burn::tensor::Device;

    use super::super::{AttentionInput, Rounds, attention};
    use super::*;

    fn case(tokens: usize, attention: AttentionConfig) -> AttentionCase {
        AttentionCase {
            shape: AttentionShape {
                batch: 1,
                heads: 2,
                tokens,
                head_dim: 8,
            },
            input: AttentionInput::Normal,
            attention,
        }
    }

    #[test]
    fn tokens_form_a_square_with_or_without_a_class_token() {
        let place = |tokens| {
            let place = case(tokens, AttentionConfig::dense()).place();
            assert_eq!((place.queries, place.heads, place.head_dim), (tokens, 2, 8));
            (place.prefix, place.grid)
        };
        assert_eq!(place(197), (1, Some([14; 2])));
        assert_eq!(place(1024), (0, Some([32; 2])));
        assert_eq!(place(1), (0, Some([1; 2])));
        assert_eq!(place(12), (0, None));
    }

    /// A kind that cannot be used at a size says so; all others have times and the costs of their settings.
    #[test]
    fn every_kind_is_measured_or_says_why_not() {
        let device = Device::flex();
        let rounds = Rounds {
            warmup: 0,
            timed: 2,
        };
        for kind in AttentionConfig::defaults() {
            let case = case(65, kind);
            let record = case.record();
            match attention(std::slice::from_ref(&case), &device, rounds, |_| ()) {
                Ok(times) => {
                    let times = times[0];
                    assert!(times.forward.median > 0.0 && times.forward_backward.median > 0.0);
                    assert!(
                        record.note.is_none() && record.macs > Some(0),
                        "{}",
                        record.kind
                    );
                    assert!(case.peak_bytes(&device).is_ok());
                }
                Err(error) => {
                    assert_eq!(record.note.unwrap(), error.to_string());
                    assert_eq!((record.params, record.macs), (None, None));
                }
            }
        }
        // Two products of 2 * 65 * 65 * 8 operations.
        let dense = self::case(65, AttentionConfig::dense()).record();
        let macs = 2 * 2 * 65 * 65 * 8;
        assert_eq!((dense.params, dense.macs), (Some(0), Some(macs)));
    }
}
