//! Cells that an earlier sweep has trained, from the table that it wrote.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use csv::StringRecord;

use super::error::wrong;
use super::table::cells_header;
use super::{Cell, Found, State, Sweep, SweepError};
use crate::groups::grouped;
use crate::report::{Curve, EpochPoint};
use kvt_data::escape::{code, markdown};
use kvt_data::regular;
use kvt_data::text::quoted;
use kvt_train::run::{Metric, Metrics};
use kvt_train::table::or_empty;

/// The result of a cell in the table of an earlier sweep: it need not be trained again.
#[derive(Clone, Debug, PartialEq)]
pub struct Known {
    /// The table.
    pub path: PathBuf,
    /// Its state and its numbers. Of its epochs only the last one is known.
    pub(super) found: Found,
}

impl Sweep {
    /// The same sweep, with the results of the cells that are finished or crashed in tables of earlier ones, `cells.csv` or
    /// `<item>-runs.csv`: they are not trained, unless their own folder has a finished run. A table must have the columns of `metrics`,
    /// by default of the metric of this sweep. Of a cell that is judged by linear evaluation, a table says too little: it is trained.
    ///
    /// # Errors
    /// If a table cannot be read, has other columns or cells, or a cell of it was trained with other settings.
    pub fn with_known(
        mut self,
        tables: &[PathBuf],
        metrics: &[Metric],
    ) -> Result<Self, SweepError> {
        if let (false, Some(path)) = (self.given.is_empty(), tables.first()) {
            let reason = "only the file of a sweep takes such tables, not configurations and runs";
            return Err(wrong(path, reason));
        }
        let own = [self.metric.unwrap_or_else(|| self.best_metric())];
        let metrics = if metrics.is_empty() {
            &own[..]
        } else {
            metrics
        };
        for path in tables {
            self.add(path, metrics)?;
        }
        Ok(self)
    }

    /// Adds the results in a table to their cells.
    fn add(&mut self, path: &Path, metrics: &[Metric]) -> Result<(), SweepError> {
        let text = regular::read_to_string(path)?;
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let header = cells_header(metrics);
        if !matches!(reader.headers(), Ok(names) if names.iter().eq(header.split(','))) {
            let reason = format!("it is not a table of `{header}`, as this sweep writes it");
            return Err(wrong(path, reason));
        }
        let mut strange = Vec::new();
        for (fields, number) in reader.records().zip(2..) {
            let line = Line {
                path,
                number,
                fields: fields.map_err(|error| wrong(path, error.to_string()))?,
            };
            let label = line.label()?;
            match self.cells.iter_mut().find(|cell| cell.label() == label) {
                Some(cell) => {
                    if line.has_result(cell)? {
                        cell.known = Some(line.known(cell, metrics)?);
                    }
                }
                None => strange.push(label),
            }
        }
        if strange.is_empty() {
            return Ok(());
        }
        let reason = format!(
            "it has cells that this sweep does not have: {} (`--seeds` chooses how many seeds there are)",
            quoted(&strange)
        );
        Err(wrong(path, reason))
    }
}

/// A line of a table of cells, with the columns of [`cells_header`].
struct Line<'a> {
    path: &'a Path,
    number: usize,
    fields: StringRecord,
}

impl Line<'_> {
    fn malformed(&self) -> SweepError {
        wrong(self.path, format!("line {} cannot be read", self.number))
    }

    /// A field, unless it is empty.
    fn field(&self, place: usize) -> Option<&str> {
        self.fields.get(place).filter(|text| !text.is_empty())
    }

    fn number<T: FromStr>(&self, place: usize) -> Option<T> {
        self.field(place)?.parse().ok()
    }

    /// The label of its cell.
    fn label(&self) -> Result<String, SweepError> {
        let (Some(name), Some(seed)) = (self.field(0), self.number(1)) else {
            return Err(self.malformed());
        };
        Ok(super::cell::label(name, seed))
    }

    /// The state of its cell.
    fn state(&self) -> Result<&str, SweepError> {
        self.field(2).ok_or_else(|| self.malformed())
    }

    /// Whether it has a result that its cell can take.
    fn has_result(&self, cell: &Cell) -> Result<bool, SweepError> {
        let has = ["finished", "known", "crashed"].contains(&self.state()?);
        Ok(has && cell.linear.is_none())
    }

    /// The result, if its cell was trained with the settings that it has here.
    fn known(&self, cell: &Cell, metrics: &[Metric]) -> Result<Known, SweepError> {
        let label = cell.label();
        let refused = |reason: String| Err(wrong(self.path, format!("`{label}` {reason}")));
        let last = self.fields.len() - 1;
        let command = self.field(last).ok_or_else(|| self.malformed())?;
        let [was, is] = [command, &cell.command()].map(settings);
        if was != is {
            return refused(format!("was trained by `{was}`, and is `{is}` here"));
        }
        let epochs = [self.number(3), cell.plan.epochs()];
        if epochs[0] != epochs[1] {
            let [was, is] = epochs.map(or_empty);
            return refused(format!(
                "was trained for {was} epochs, and is for {is} here"
            ));
        }
        if let Some(known) = &cell.known {
            return refused(format!("is in `{}`, too", known.path.display()));
        }
        let images: Option<u64> = self.number(4);
        let batch = cell.plan.train.batch_size * cell.plan.train.accumulate;
        let updates = images.unwrap_or(0).div_ceil(batch.max(1) as u64);
        let point = EpochPoint {
            epoch: cell.plan.epochs_of(updates).saturating_sub(1),
            val: self.values(metrics, 6)?,
            best: self.values(metrics, 7)?,
            ..EpochPoint::default()
        };
        let (state, epochs) = if self.state()? == "crashed" {
            let message = format!("in `{}`", self.path.display());
            (State::Crashed(message), Vec::new())
        } else if point.val.iter().next().is_some() {
            (State::Known, vec![point])
        } else {
            return Err(self.malformed());
        };
        Ok(Known {
            path: self.path.to_owned(),
            found: Found {
                state,
                curve: Curve {
                    label: cell.name.clone(),
                    seed: cell.plan.seed,
                    epochs,
                },
                images,
                eval_images: self.number(5),
                seconds: self.number(last - 1).unwrap_or(0.0),
                ..Found::default()
            },
        })
    }

    /// The values of the metrics, which stand in every second field from `first` on.
    fn values(&self, metrics: &[Metric], first: usize) -> Result<Metrics, SweepError> {
        let places = metrics.iter().zip((first..).step_by(2));
        let named = places.filter_map(|(metric, place)| {
            let value = self.field(place)?.parse::<f64>();
            let value = value.map_err(|_| self.malformed());
            Some(value.map(|value| (metric.name.to_owned(), value)))
        });
        named.collect()
    }
}

/// A cell's command without what changes no number: the folders of its images and of its run, and the device.
fn settings(command: &str) -> String {
    let whole = command.split(" --run-dir ").next().unwrap_or_default();
    let is_free = |text: &&str| {
        let key = text.trim_start_matches('\'');
        key.starts_with("data.path=") || key.starts_with("train.device=")
    };
    let parts = whole.split(" --set ").filter(|text| !is_free(text));
    parts.collect::<Vec<_>>().join(" --set ")
}

/// A line for each table from which cells are known.
pub(super) fn known_lines(cells: &[Cell], found: &[Found]) -> Vec<String> {
    let all = cells.iter().zip(found);
    let tables = grouped(all.filter_map(|(cell, found)| {
        let known = cell.known.as_ref().filter(|_| found.is_known(cell))?;
        Some((&known.path, markdown(&cell.label())))
    }));
    let line = |(path, labels): &(&PathBuf, Vec<String>)| {
        let path = code(&path.display().to_string());
        format!(
            "not trained now, but taken from {path}: {}",
            labels.join(", ")
        )
    };
    tables.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_and_devices_are_no_settings() {
        let here = "kvt train configs/a.toml --set train.epochs=2 --set data.path=DATA --set seed=3 --run-dir runs/a-seed3";
        let there = "kvt train configs/a.toml --set train.epochs=2 --set 'data.path=my data' --set 'train.device=\"cpu\"' --set seed=3 \
                     --run-dir 'other runs/a-seed3'";
        assert_eq!(settings(here), settings(there));
        assert_eq!(
            settings(here),
            "kvt train configs/a.toml --set train.epochs=2 --set seed=3"
        );
        assert_ne!(
            settings(here),
            settings(&here.replace("epochs=2", "epochs=3"))
        );
    }
}
