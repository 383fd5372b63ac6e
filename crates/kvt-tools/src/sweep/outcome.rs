//! The results of a sweep: tables, plots, warnings and failures.

use std::path::{Path, PathBuf};

use super::given::Beside;
use super::{
    Cell, End, Found, PairRow, State, Sweep, SweepError, cells_csv, commands_markdown, conditions,
    known::known_lines, pairs, pairs_csv, pairs_markdown,
};
use crate::groups::grouped;
use crate::report::{
    Comparison, Curve, PLOTS, best_metric, best_of_tasks, check_metric, metrics, save_plots, title,
};
use kvt_data::escape::markdown;
use kvt_data::fs::{remove_leftovers, write_text};
use kvt_train::run::Metric;

/// The files of the results: the table as a page and for programs, the state of each cell, the tests of the pairs.
const TABLES: [&str; 3] = ["table.md", "table.csv", "table.json"];
const CELLS: &str = "cells.csv";
const PAIRS: &str = "pairs.csv";

/// Cells that are not in the tables.
#[derive(Debug, Default)]
pub struct LeftOut {
    /// Those that could not be trained, a line for each reason.
    pub failures: Vec<String>,
    /// Those that other processes train, a line for each.
    pub busy: Vec<String>,
    /// Those whose `train.max_hours` were over, in a line.
    pub out_of_time: Option<String>,
}

/// The results of a sweep, which are also in its folder.
#[derive(Debug)]
pub struct Outcome {
    /// The table; `None` if no run has one to be in.
    pub comparison: Option<Comparison>,
    /// The tests of its pairs.
    pub pairs: Vec<PairRow>,
    /// The metric of both.
    pub metric: Metric,
    /// The folders of the runs in the table that a command line names.
    pub folders: Vec<PathBuf>,
    /// What a reader must know about the numbers.
    pub warnings: Vec<String>,
    /// A line for each reason that runs could not be trained.
    pub failures: Vec<String>,
    /// A line for the runs whose `train.max_hours` were over.
    pub out_of_time: Option<String>,
}

impl Sweep {
    /// Writes the tables and the plots of the runs that are finished, in place of those of an earlier comparison in the same folder.
    /// `ends` has the outcomes of the cells, if they were carried out now.
    ///
    /// # Errors
    /// [`SweepError::Nothing`] without any result, that is, no table, crash or failure, or [`SweepError::Stopped`] if runs were out of
    /// time. Other errors if no run has the metric, a run cannot be read or a file cannot be written.
    pub fn finish(&self, ends: &[End]) -> Result<Outcome, SweepError> {
        let found = self.found()?;
        let Beside {
            curves,
            folders,
            mut warnings,
        } = if self.given.is_empty() {
            Beside {
                curves: finished(&found),
                ..Beside::default()
            }
        } else {
            self.side_by_side(&found)?
        };
        let crashes = self.crashes(&found);
        let LeftOut {
            failures,
            busy,
            out_of_time,
        } = self.left_out(ends);
        let has_table = curves.iter().any(|curve| !curve.epochs.is_empty());
        if !has_table && crashes.is_empty() && failures.is_empty() {
            return Err(match out_of_time {
                Some(_) => SweepError::Stopped,
                None => SweepError::Nothing,
            });
        }
        let metric = match self.metric {
            Some(metric) => {
                check_metric(metric, &curves)?;
                metric
            }
            None if has_table => best_metric(&curves),
            None => self.best_metric(),
        };
        let has_result = has_table || !crashes.is_empty();
        let mut written = Vec::new();
        if !self.cells.is_empty() && has_result {
            fs_err::create_dir_all(&self.output)?;
            let cells = cells_csv(&self.cells, &found, &[metric]);
            written.push(self.output.join(CELLS));
            write_text(&self.output.join(CELLS), &cells)?;
        }
        // A single run that crashed now has just said so.
        if self.cells.len() > 1 || ends.is_empty() {
            warnings.extend(crashes);
        }
        warnings.extend(found.iter().flat_map(|found| found.unread.clone()));
        warnings.extend(busy);
        warnings.extend(known_lines(&self.cells, &found));
        let mut outcome = Outcome {
            comparison: None,
            pairs: Vec::new(),
            metric,
            folders,
            warnings,
            failures,
            out_of_time,
        };
        if has_table {
            outcome.pairs = pairs(self, &found, metric);
            let comparison = Comparison::new(&curves, metric);
            written.extend(self.save(&comparison, &curves, &outcome.pairs, &found)?);
            outcome.comparison = Some(comparison);
        }
        if has_result {
            remove_earlier(&self.output, &written)?;
        }
        Ok(outcome)
    }

    /// The state and the results of each cell.
    ///
    /// # Errors
    /// As [`Found::of`].
    pub fn found(&self) -> Result<Vec<Found>, SweepError> {
        self.cells.iter().map(Found::of).collect()
    }

    /// The cells that these outcomes leave out of the tables. Cells that another process trains are a failure if nothing was trained here.
    #[must_use]
    pub fn left_out(&self, ends: &[End]) -> LeftOut {
        let mut left_out = LeftOut::default();
        // What stops one run often stops all: a reason is told once, with the runs.
        let (mut failed, mut late) = (Vec::new(), Vec::new());
        for (cell, end) in self.cells.iter().zip(ends) {
            let run = cell.label();
            match end {
                End::Failed(reason) => failed.push((reason, format!("`{run}`"))),
                End::Busy(holder) => left_out.busy.push(format!(
                    "run `{run}` is trained by {holder}: the same command adds it when it is done"
                )),
                End::Stopped => late.push(format!("`{run}`")),
                End::Finished | End::Crashed | End::Before => {}
            }
        }
        for (reason, runs) in grouped(failed) {
            let word = if runs.len() == 1 { "run" } else { "runs" };
            let line = format!("{word} {} failed: {reason}", runs.join(", "));
            left_out.failures.push(line);
        }
        if !late.is_empty() {
            let (word, verb) = match late.len() {
                1 => ("run", "is"),
                _ => ("runs", "are"),
            };
            left_out.out_of_time = Some(format!(
                "{word} {} {verb} not finished, because `train.max_hours` is over: the same command continues from here",
                late.join(", ")
            ));
        }
        let is_ours = |end: &End| matches!(end, End::Finished | End::Crashed);
        if !ends.iter().any(is_ours) {
            left_out.failures.append(&mut left_out.busy);
        }
        left_out
    }

    /// A line for each cell that crashed.
    fn crashes(&self, found: &[Found]) -> Vec<String> {
        let crashed = |(cell, found): (&Cell, &Found)| match &found.state {
            State::Crashed(message) => Some(format!("{} crashed: {message}", cell.label())),
            _ => None,
        };
        self.cells.iter().zip(found).filter_map(crashed).collect()
    }

    /// The metric where no run is finished.
    pub(super) fn best_metric(&self) -> Metric {
        best_of_tasks(self.cells.iter().map(|cell| cell.plan.task))
    }

    fn save(
        &self,
        comparison: &Comparison,
        curves: &[Curve],
        pairs: &[PairRow],
        found: &[Found],
    ) -> Result<Vec<PathBuf>, SweepError> {
        let title = self.title.clone().unwrap_or_else(|| title(curves));
        let mut page = comparison.to_markdown();
        if self.given.is_empty() {
            page = format!("# {}\n\n{page}\n", markdown(&title));
            if !pairs.is_empty() {
                let tests = pairs_markdown(pairs, comparison.metric);
                page += &format!("## Pairs\n\n{tests}\n");
            }
            page += &format!(
                "## Images, epochs, seeds\n\n{}\n## Commands\n\n{}",
                conditions(&self.cells, found),
                commands_markdown(&self.cells, found)
            );
        }
        let folder = &self.output;
        fs_err::create_dir_all(folder)?;
        remove_leftovers(folder);
        let json = comparison.to_json().map_err(std::io::Error::from)?;
        let texts = TABLES.into_iter().zip([page, comparison.to_csv(), json]);
        let mut files: Vec<_> = texts.collect();
        if !self.cells.is_empty() {
            files.push((PAIRS, pairs_csv(pairs)));
        }
        let mut written = save_plots(curves, comparison.metric, &title, folder)?;
        for (name, text) in files {
            let path = folder.join(name);
            write_text(&path, &text)?;
            written.push(path);
        }
        Ok(written)
    }
}

/// Removes files of an earlier comparison that were not written now: they show other runs, or another metric.
fn remove_earlier(folder: &Path, written: &[PathBuf]) -> Result<(), SweepError> {
    let plots =
        metrics().flat_map(|metric| PLOTS.map(|ending| format!("{}.{ending}", metric.name)));
    let tables = TABLES.into_iter().chain([CELLS, PAIRS]).map(str::to_owned);
    for path in plots.chain(tables).map(|name| folder.join(name)) {
        if path.is_file() && !written.contains(&path) {
            fs_err::remove_file(path)?;
        }
    }
    Ok(())
}

/// The curves of the finished runs. A run may end within its first epoch.
fn finished(found: &[Found]) -> Vec<Curve> {
    let finished = found.iter().filter(|found| found.is_finished());
    let curves = finished.map(|found| &found.curve);
    let curves = curves.filter(|curve| !curve.epochs.is_empty());
    curves.cloned().collect()
}
