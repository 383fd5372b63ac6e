//! The results of a sweep: its tables and plots, and what there is to say about them.

use super::{
    Cell, End, Found, PairRow, State, Sweep, SweepError, cells_csv, commands_markdown, conditions,
    pairs, pairs_csv, pairs_markdown,
};
use crate::report::{Comparison, Curve, best_metric, save_plots, title};
use crate::run::Metric;
use crate::task::{Classify, Dino, Task as _, TaskKind};
use kvt_data::escape::markdown;
use kvt_data::fs::{remove_leftovers, write_text};

/// The results of a sweep, which are also in its folder.
#[derive(Debug)]
pub struct Outcome {
    /// The table; `None` if no run has one to be in.
    pub comparison: Option<Comparison>,
    /// The tests of its pairs.
    pub pairs: Vec<PairRow>,
    /// The metric of both.
    pub metric: Metric,
    /// What a reader must know about the numbers.
    pub warnings: Vec<String>,
    /// A line for each run that could not be trained.
    pub failures: Vec<String>,
}

impl Sweep {
    /// Writes the tables and the plots of the runs that are finished. `ends` has the outcomes of the cells, if they were carried out
    /// now; `metric` replaces the sweep's own.
    ///
    /// # Errors
    /// [`SweepError::Nothing`] if there is no result, neither a table nor a crash nor a failure; if a run cannot be read, or a file
    /// not be written.
    pub fn finish(&self, ends: &[End], metric: Option<Metric>) -> Result<Outcome, SweepError> {
        let found = self.found()?;
        let (curves, mut warnings) = if self.given.is_empty() {
            (finished(&found), Vec::new())
        } else {
            self.side_by_side(&found)?
        };
        let crashes = self.crashes(&found);
        let failures = self.failures(ends);
        let has_table = curves.iter().any(|curve| !curve.epochs.is_empty());
        if !has_table && crashes.is_empty() && failures.is_empty() {
            return Err(SweepError::Nothing);
        }
        let metric = metric.or(self.metric).unwrap_or_else(|| {
            if has_table {
                best_metric(&curves)
            } else {
                self.best_metric()
            }
        });
        if !self.cells.is_empty() && (has_table || !crashes.is_empty()) {
            fs_err::create_dir_all(&self.output)?;
            let cells = cells_csv(&self.cells, &found, metric);
            write_text(&self.output.join("cells.csv"), &cells)?;
        }
        warnings.extend(crashes);
        let mut outcome = Outcome {
            comparison: None,
            pairs: Vec::new(),
            metric,
            warnings,
            failures,
        };
        if has_table {
            outcome.pairs = pairs(self, &found, metric);
            let comparison = Comparison::new(&curves, metric);
            self.save(&comparison, &curves, &outcome.pairs, &found)?;
            outcome.comparison = Some(comparison);
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

    /// A line for each cell that could not be trained.
    #[must_use]
    pub fn failures(&self, ends: &[End]) -> Vec<String> {
        let failed = |(cell, end): (&Cell, &End)| match end {
            End::Failed(reason) => Some(format!("run `{}` failed: {reason}", cell.label())),
            End::Finished | End::Crashed | End::Busy | End::Stopped => None,
        };
        self.cells.iter().zip(ends).filter_map(failed).collect()
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
    fn best_metric(&self) -> Metric {
        let mut cells = self.cells.iter();
        if cells.all(|cell| cell.plan.task == TaskKind::Dino) {
            Dino::BEST
        } else {
            Classify::BEST
        }
    }

    fn save(
        &self,
        comparison: &Comparison,
        curves: &[Curve],
        pairs: &[PairRow],
        found: &[Found],
    ) -> Result<(), SweepError> {
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
        for (name, text) in [
            ("table.md", page),
            ("table.csv", comparison.to_csv()),
            (
                "table.json",
                comparison.to_json().map_err(std::io::Error::from)?,
            ),
        ] {
            write_text(&folder.join(name), &text)?;
        }
        save_plots(curves, comparison.metric, &title, folder)?;
        if !self.cells.is_empty() {
            write_text(&folder.join("pairs.csv"), &pairs_csv(pairs))?;
        }
        Ok(())
    }
}

/// The curves of the finished runs. A run may end within its first epoch.
fn finished(found: &[Found]) -> Vec<Curve> {
    let mut finished: Vec<Curve> = found
        .iter()
        .filter(|found| found.is_finished())
        .map(|found| found.curve.clone())
        .collect();
    finished.retain(|curve| !curve.epochs.is_empty());
    finished
}
