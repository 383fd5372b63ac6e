//! Cells that an earlier sweep has trained, from the table that it wrote.

use std::path::{Path, PathBuf};

use csv::StringRecord;

use super::error::wrong;
use super::table::cells_header;
use super::{Cell, Found, State, Sweep, SweepError};
use crate::groups::grouped;
use crate::report::EpochPoint;
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
    crashed: bool,
    images: Option<u64>,
    eval_images: Option<u64>,
    seconds: f64,
    last: Metrics,
    best: Metrics,
}

impl Known {
    /// The state of the cell.
    pub(super) fn state(&self) -> State {
        if self.crashed {
            State::Crashed(format!("in `{}`", self.path.display()))
        } else {
            State::Known
        }
    }

    /// Adds the results to those of a cell, which has none yet. Of its epochs only the last one is known.
    pub(super) fn tell(&self, cell: &Cell, found: &mut Found) {
        found.images = self.images;
        found.eval_images = self.eval_images;
        found.seconds = self.seconds;
        let images = cell.plan.train.batch_size * cell.plan.train.accumulate;
        let updates = self.images.unwrap_or(0).div_ceil(images.max(1) as u64);
        if !self.crashed {
            found.curve.epochs.push(EpochPoint {
                epoch: cell.plan.epochs_of(updates).saturating_sub(1),
                val: self.last.clone(),
                best: self.best.clone(),
                ..EpochPoint::default()
            });
        }
    }
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

    fn add(&mut self, path: &Path, metrics: &[Metric]) -> Result<(), SweepError> {
        let text = regular::read_to_string(path)?;
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let header = cells_header(metrics);
        if !matches!(reader.headers(), Ok(names) if names.iter().eq(header.split(','))) {
            let reason = format!("it is not a table of `{header}`, as this sweep writes it");
            return Err(wrong(path, reason));
        }
        let mut strange = Vec::new();
        for (row, number) in reader.records().zip(2..) {
            let row = row.map_err(|error| wrong(path, error.to_string()))?;
            let malformed = || wrong(path, format!("line {number} cannot be read"));
            let label = super::cell::label(
                field(&row, 0).ok_or_else(malformed)?,
                number_of(&row, 1).ok_or_else(malformed)?,
            );
            let Some(cell) = self.cells.iter_mut().find(|cell| cell.label() == label) else {
                strange.push(label);
                continue;
            };
            let state = field(&row, 2).ok_or_else(malformed)?;
            let is_done = ["finished", "known"].contains(&state);
            if cell.linear.is_some() || !(is_done || state == "crashed") {
                continue;
            }
            let last = row.len() - 1;
            let command = field(&row, last).ok_or_else(malformed)?;
            let [was, is] = [command, &cell.command()].map(settings);
            if was != is {
                let reason = format!("`{label}` was trained by `{was}`, and is `{is}` here");
                return Err(wrong(path, reason));
            }
            let epochs = number_of(&row, 3);
            if epochs != cell.plan.epochs() {
                let [was, is] = [epochs, cell.plan.epochs()].map(or_empty);
                let reason =
                    format!("`{label}` was trained for {was} epochs, and is for {is} here");
                return Err(wrong(path, reason));
            }
            if let Some(known) = &cell.known {
                let other = known.path.display();
                return Err(wrong(path, format!("`{label}` is in `{other}`, too")));
            }
            let values = |offset: usize| -> Result<Metrics, SweepError> {
                let named = metrics.iter().enumerate().filter_map(|(place, metric)| {
                    let text = field(&row, 6 + 2 * place + offset)?;
                    let value = text.parse::<f64>().map_err(|_| malformed());
                    Some(value.map(|value| (metric.name.to_owned(), value)))
                });
                named.collect()
            };
            let (of_last, of_best) = (values(0)?, values(1)?);
            let has_values = of_last.iter().next().is_some();
            if is_done && !has_values {
                return Err(malformed());
            }
            cell.known = Some(Known {
                path: path.to_owned(),
                crashed: !is_done,
                images: number_of(&row, 4),
                eval_images: number_of(&row, 5),
                seconds: number_of(&row, last - 1).unwrap_or(0.0),
                last: of_last,
                best: of_best,
            });
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

/// A cell of a row, unless it is empty.
fn field(row: &StringRecord, place: usize) -> Option<&str> {
    row.get(place).filter(|text| !text.is_empty())
}

fn number_of<T: std::str::FromStr>(row: &StringRecord, place: usize) -> Option<T> {
    field(row, place)?.parse().ok()
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
