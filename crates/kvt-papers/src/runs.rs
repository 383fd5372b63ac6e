//! The training runs of an item.

use super::verdict::verdict;
use super::{Item, Order, ReproduceError, Watch, planned};
use kvt_tools::report::Statistic;
use kvt_tools::sweep::{
    Cell, End, Found, PairRow, State, Sweep, SweepError, carry_out, commands_markdown, conditions,
    pairs, pairs_markdown,
};
use kvt_train::run::{Metric, RunDir};

/// The runs of an item, with the state and results of each.
#[derive(Clone, Debug)]
pub(crate) struct Runs {
    /// The sweep that defines them.
    pub(crate) sweep: Sweep,
    /// State and results, in the order of the cells.
    pub(crate) found: Vec<Found>,
    /// One line for each reason that runs could not be trained.
    pub(crate) failures: Vec<String>,
}

impl Runs {
    /// Trains the unfinished runs of an item, unless the order is `as_is`, and reads the results of all.
    ///
    /// # Errors
    /// As [`carry_out`], which may be stopped; other errors if the sweep is wrong. A run that fails
    /// does not cause an error: it is one of the [`failures`](Self::failures).
    pub(crate) fn of(
        item: &Item,
        order: &Order,
        watch: &dyn Watch,
    ) -> Result<Self, ReproduceError> {
        let [sweep, chosen] = planned(item, order)?;
        let mut failures = Vec::new();
        if !order.as_is {
            let ends = carry_out(&chosen, &order.devices, watch)?;
            if ends.contains(&End::Stopped) {
                return Err(SweepError::Stopped.into());
            }
            let left_out = chosen.left_out(&ends);
            failures = left_out.failures;
            left_out.busy.iter().for_each(|line| watch.say(line));
        }
        let found = sweep.found()?;
        for line in found.iter().flat_map(|found| &found.unread) {
            watch.warn(line);
        }
        Ok(Self {
            found,
            sweep,
            failures,
        })
    }

    /// The finished cells of a row.
    pub(crate) fn finished<'a>(
        &'a self,
        row: &'a str,
    ) -> impl Iterator<Item = (&'a Cell, &'a Found)> {
        let all = self.sweep.cells.iter().zip(&self.found);
        all.filter(move |(cell, found)| cell.name == row && found.is_finished())
    }

    /// One finished cell for each row, or `None` if it has none. All have the same seed: the first one that all rows with finished
    /// cells share. Without such a seed, each is the first finished cell of its row.
    pub(crate) fn of_one_seed<'a>(&'a self, rows: &[&'a str]) -> Vec<Option<&'a Cell>> {
        let finished =
            |row: &'a str| -> Vec<&'a Cell> { self.finished(row).map(|(cell, _)| cell).collect() };
        let rows: Vec<Vec<&Cell>> = rows.iter().copied().map(finished).collect();
        let of_seed = |cells: &[&'a Cell], seed: u64| -> Option<&'a Cell> {
            let mut cells = cells.iter().copied();
            cells.find(|cell| cell.plan.seed == seed)
        };
        let mut seeds = rows.iter().flatten().map(|cell| cell.plan.seed);
        let shared = seeds.find(|seed| {
            let mut rows = rows.iter().filter(|cells| !cells.is_empty());
            rows.all(|cells| of_seed(cells, *seed).is_some())
        });
        let chosen = rows.iter().map(|cells| {
            let own = shared.and_then(|seed| of_seed(cells, seed));
            own.or_else(|| cells.first().copied())
        });
        chosen.collect()
    }

    /// The first cell of a row whose run has a folder, which knows the classes; without one, the first cell. Finished or not.
    pub(crate) fn cell(&self, row: &str) -> Option<&Cell> {
        let own = self.sweep.cells.iter().filter(|cell| cell.name == row);
        own.min_by_key(|cell| RunDir::open(cell.dir()).is_err())
    }

    /// The statistic of a value over the finished cells of a row.
    pub(crate) fn statistic(
        &self,
        row: &str,
        value: impl Fn(&Found) -> Option<f64>,
    ) -> Option<Statistic> {
        let values = self.by_seed(row, value);
        Statistic::of(&values.iter().map(|(_, value)| *value).collect::<Vec<_>>())
    }

    /// A value of the finished cells of a row, with the seed of each.
    pub(crate) fn by_seed(
        &self,
        row: &str,
        value: impl Fn(&Found) -> Option<f64>,
    ) -> Vec<(u64, f64)> {
        let values = self.finished(row);
        let values = values.filter_map(|(cell, found)| Some((cell.plan.seed, value(found)?)));
        values.collect()
    }

    /// How many cells of a row crashed, and how many it has.
    pub(crate) fn crashed(&self, row: &str) -> (usize, usize) {
        let all = self.sweep.cells.iter().zip(&self.found);
        let own: Vec<_> = all.filter(|(cell, _)| cell.name == row).collect();
        let crashed = own
            .iter()
            .filter(|(_, found)| matches!(found.state, State::Crashed(_)));
        (crashed.count(), own.len())
    }

    /// The tests of the declared pairs.
    pub(crate) fn pairs(&self, metric: Metric) -> Vec<PairRow> {
        pairs(&self.sweep, &self.found, metric)
    }

    /// What the tests of the declared pairs say together.
    pub(crate) fn verdict(&self, metric: Metric) -> String {
        verdict(&self.pairs(metric), metric)
    }

    /// What follows a table on its page: tests, then images, epochs and seeds, then the exact command of each cell.
    pub(crate) fn notes(&self, metric: Metric) -> String {
        let mut tests = pairs_markdown(&self.pairs(metric), metric);
        if !tests.is_empty() {
            tests = format!("\n### Is it chance?\n\n{tests}");
            let mut paired = self.sweep.pairs.iter().flatten();
            if paired.any(|row| !self.mark(row).is_empty()) {
                tests += "\nA seed has no counts where the numbers of one of its two runs are those of an earlier table: that has accuracies, \
                          but not what the run says of each image, which McNemar's test needs.\n";
            }
        }
        tests + &self.conditions()
    }

    /// What follows the tests: images, epochs and seeds, then the exact command of each cell.
    pub(crate) fn conditions(&self) -> String {
        let conditions = conditions(&self.sweep.cells, &self.found);
        let conditions = match conditions.as_str() {
            "" => "No run is finished.\n",
            all => all,
        };
        let mut text = format!("\n### Images, epochs, seeds\n\n{conditions}");
        text += "\nAn empty cell was not run, or is not finished. *ours* and *spread* are the mean and the sample standard deviation \
                 over the seeds; best and last are epochs.\n";
        if self.sweep.rows().any(|row| !self.mark(row).is_empty()) {
            text += "\nA row with † has runs that were not trained now, but whose numbers are those of an earlier table; which ones, is above.\n";
        }
        text + &format!(
            "\n### The command of each run\n\n`DATA` is the folder of the data set.\n\n{}",
            commands_markdown(&self.sweep.cells, &self.found)
        )
    }

    /// A mark of a row, if cells of it are known from an earlier table.
    pub(crate) fn mark(&self, row: &str) -> &'static str {
        let mut all = self.sweep.cells.iter().zip(&self.found);
        let is_known = all.any(|(cell, found)| cell.name == row && found.is_known(cell));
        if is_known { " †" } else { "" }
    }
}
