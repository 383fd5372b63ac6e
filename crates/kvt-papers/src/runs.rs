//! The training runs of an item.

use std::path::Path;

use super::configs::Configs;
use super::error::quoted;
use super::verdict::verdict;
use super::{Item, Order, ReproduceError, Version, Watch, no_part};
use kvt_data::regular;
use kvt_models::Precision;
use kvt_tools::report::Statistic;
use kvt_tools::sweep::{
    Cell, End, Found, PairRow, State, Sweep, SweepError, carry_out, commands_markdown, conditions,
    pairs, pairs_markdown,
};
use kvt_train::config::load_plan;
use kvt_train::device;
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

/// The sweep of an item: `reproduce/<name>/<scale>.toml` in the folder of configurations, or `<scale>-v1.toml` for
/// version 1 of the paper if that file exists; for each part but the first, the runs of `<scale>-<part>.toml` are added. Data of the
/// order are for the sweeps to train, seeds for the rows.
///
/// # Errors
/// If a file or one of its configurations is missing or wrong.
pub(crate) fn sweep(item: &Item, order: &Order) -> Result<Sweep, ReproduceError> {
    let configs = Configs::find(order.configs.as_deref())?;
    let folder = configs.path.join("reproduce").join(item.name);
    let of_version = folder.join(format!("{}-{}.toml", order.scale, order.version.name()));
    let first = match order.version {
        Version::V1 if of_version.exists() => of_version,
        _ => folder.join(format!("{}.toml", order.scale)),
    };
    let is_chosen = |part: &&str| order.only.as_ref().is_none_or(|only| only == part);
    let mut sweep = load(
        &configs,
        &first,
        order,
        item.parts.first().is_none_or(is_chosen),
    )?;
    for part in item.parts.iter().skip(1) {
        let path = folder.join(format!("{}-{part}.toml", order.scale));
        let more = load(&configs, &path, order, is_chosen(part))?;
        sweep.cells.extend(more.cells);
        sweep.pairs.extend(more.pairs);
    }
    let Some(count) = order.seeds else {
        return Ok(sweep);
    };
    let is_trained = |row: &str| {
        let only = order.only.as_ref();
        only.is_none_or(|part| item.is_in(row, part))
    };
    Ok(sweep.with_seeds(count, is_trained))
}

fn load(
    configs: &Configs,
    path: &Path,
    order: &Order,
    is_chosen: bool,
) -> Result<Sweep, ReproduceError> {
    if !path.exists() {
        return Err(ReproduceError::NoSweep(configs.shown(path)));
    }
    let mut overrides = order.overrides.clone();
    let data = order.data.as_ref().filter(|_| is_chosen);
    if let Some(data) = data {
        let data = toml::Value::String(data.display().to_string());
        overrides.push(format!("data.path={data}"));
    }
    let mut sweep = Sweep::load(path, &overrides, order.runs.as_deref())?;
    if let Some(precision) = precision_instead(&sweep, order) {
        // Ahead of the data set, whose place is the last.
        overrides.insert(0, format!("{PRECISION}={}", precision.name()));
        sweep = Sweep::load(path, &overrides, order.runs.as_deref())?;
    }
    for cell in &mut sweep.cells {
        cell.config = configs.shown(&cell.config);
        // Pages are read by others, whose data has another path.
        if let Some(last) = cell.overrides.last_mut().filter(|_| data.is_some()) {
            "data.path=DATA".clone_into(last);
        }
    }
    Ok(sweep)
}

/// The precision that the runs of a sweep take in place of a half one, if they do. A table has one precision: that of a run that is
/// begun, or else of an earlier table, or else f32 if a device is slower in the half one or does not have it. One that was asked
/// for stays.
fn precision_instead(sweep: &Sweep, order: &Order) -> Option<Precision> {
    let train = &sweep.cells.first()?.plan.train;
    let half = train.precision;
    let mut asked = order.overrides.iter();
    if half == Precision::F32 || asked.any(|text| text.trim().starts_with(PRECISION)) {
        return None;
    }
    let begun = |cell: &Cell| load_plan(&RunDir::open(cell.dir()).ok()?.config(), &[]).ok();
    if let Some(begun) = sweep.cells.iter().find_map(begun) {
        return Some(begun.train.precision).filter(|own| *own != half);
    }
    if let Some(table) = order.known.first() {
        // What is wrong with it is said when its runs are taken.
        let known = regular::read_to_string(table).ok()?;
        let is_f32 = known.contains(&format!("{PRECISION}={}", Precision::F32.name()));
        return is_f32.then_some(Precision::F32);
    }
    if order.as_is {
        return None;
    }
    let own = std::slice::from_ref(&train.device);
    let devices = if order.devices.is_empty() {
        own
    } else {
        &order.devices
    };
    // A device that is not there is an error of the training.
    let mut found = devices.iter().filter_map(|name| device::resolve(name).ok());
    let suits = found.all(|device| matches!(device.check_precision(half), Ok(None)));
    (!suits).then_some(Precision::F32)
}

/// The key of the precision.
const PRECISION: &str = "train.precision";

/// The runs of an item, with what is known of them, and those that are to be trained.
///
/// # Errors
/// [`ReproduceError::Refused`] if it is not made of runs. Other errors if a file is missing or wrong, or the data set of a run that is to be trained is missing, unless the order is `as_is`.
pub fn planned(item: &Item, order: &Order) -> Result<[Sweep; 2], ReproduceError> {
    if !item.takes_runs() {
        let reason = "is not made of training runs, so there is nothing to plan: without `--dry-run` it is computed at once";
        return Err(ReproduceError::Refused {
            name: item.name,
            reason: reason.to_owned(),
        });
    }
    let mut all = (item.sweep)(item, order)?;
    if !order.known.is_empty() {
        all = all.with_known(&order.known, item.metrics)?;
    }
    let mut chosen = all.clone();
    if let Some(part) = &order.only {
        chosen.cells.retain(|cell| item.is_in(&cell.name, part));
        if chosen.cells.is_empty() {
            let rows = format!("the first words of {}", quoted(all.rows()));
            return Err(ReproduceError::Refused {
                name: item.name,
                reason: no_part(part, &rows),
            });
        }
    }
    if !order.as_is {
        check_data(&chosen)?;
    }
    Ok([all, chosen])
}

/// Refuses a data set that is not there and that a run needs to be trained: else every run would find out.
fn check_data(sweep: &Sweep) -> Result<(), ReproduceError> {
    let lacking = sweep.cells.iter().find(|cell| {
        let data = &cell.plan.data;
        let is_made = data.shapes.is_some();
        !is_made && !data.path.exists() && !State::of(cell).is_finished()
    });
    match lacking {
        Some(cell) => Err(ReproduceError::NoData(cell.plan.data.path.clone())),
        None => Ok(()),
    }
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
