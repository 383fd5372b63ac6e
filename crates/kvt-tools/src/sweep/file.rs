//! The file of a sweep.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::error::wrong;
use super::given::Given;
use super::{Cell, SweepError};
use crate::groups::{grouped, unique};
use crate::probe::Crops;
use crate::report::{check_tasks, named_metric};
use kvt_data::fs::{parent, plain};
use kvt_data::text::read_text;
use kvt_train::config::{ConfigError, Document, Plan, diff};
use kvt_train::run::Metric;
use kvt_train::task::TaskKind;

/// Largest size of a file in bytes: far more than thousands of runs need.
const LARGEST_FILE: u64 = 1 << 20;

/// Runs that belong together.
#[derive(Clone, Debug)]
pub struct Sweep {
    /// What it shows, in one line. Without a title, the plots have the names of the rows as theirs.
    pub title: Option<String>,
    /// The folder of its tables; the runs of a file are in `runs` below it.
    pub output: PathBuf,
    /// The metric of its tables, if it is not the metric by which its runs are judged.
    pub metric: Option<Metric>,
    /// All runs that it trains, in this order.
    pub cells: Vec<Cell>,
    /// Pairs of rows that are tested against each other: a baseline, and a possible improvement on it.
    pub pairs: Vec<[String; 2]>,
    /// The inputs of a command line, in their order; empty if the sweep is a file.
    pub(super) given: Vec<Given>,
}

/// The contents of the file. Keys are explained in `docs/guide/compare.md`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    title: Option<String>,
    output: Option<PathBuf>,
    metric: Option<String>,
    #[serde(default)]
    seeds: Vec<u64>,
    #[serde(default)]
    set: Vec<String>,
    #[serde(default)]
    pairs: Vec<[String; 2]>,
    run: Vec<Entry>,
}

/// A row: a configuration, whose cells differ only in their seed.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    config: PathBuf,
    name: Option<String>,
    #[serde(default)]
    seeds: Vec<u64>,
    #[serde(default)]
    set: Vec<String>,
    linear: Option<Crops>,
}

/// Whether a file is a sweep rather than a configuration: `run` is a list, `[[run]]`, where a configuration has a section.
///
/// # Errors
/// If it cannot be read.
pub fn is_sweep(path: &Path) -> std::io::Result<bool> {
    // A pipe can be read only once, so it is treated as a configuration.
    if !path.is_file() {
        return Ok(false);
    }
    let text = read_text(path, LARGEST_FILE)?;
    let table = toml::from_str::<toml::Table>(&text);
    Ok(table.is_ok_and(|table| table.get("run").is_some_and(toml::Value::is_array)))
}

impl Sweep {
    /// The sweep of a file, if a sweep's file is the only input, or else of configurations and folders of runs. `seeds` is the number of
    /// seeds of each configuration, `output` the folder of the tables.
    ///
    /// # Errors
    /// If an input is missing or wrong.
    pub fn of(
        inputs: &[PathBuf],
        overrides: &[String],
        seeds: Option<u64>,
        output: Option<&Path>,
    ) -> Result<Self, SweepError> {
        // Errors of reading a file are reported when it is loaded as a configuration.
        let mut files = inputs.iter();
        let Some(path) = files.find(|input| is_sweep(input).unwrap_or(false)) else {
            let output = output.unwrap_or(Path::new("runs/compare"));
            return Self::given(inputs, overrides, seeds, output);
        };
        if inputs.len() > 1 {
            return Err(SweepError::NotAlone(path.clone()));
        }
        let sweep = Self::load(path, overrides, output)?;
        Ok(match seeds {
            Some(count) => sweep.with_seeds(count, |_| true),
            None => sweep,
        })
    }

    /// Reads a file and the configurations of all its runs, so that a mistake in the last one is found before the first is trained.
    /// `overrides` apply to all runs and come last; `output` replaces the folder that the file names for tables and runs.
    ///
    /// # Errors
    /// If the file or a configuration is wrong.
    pub fn load(
        path: &Path,
        overrides: &[String],
        output: Option<&Path>,
    ) -> Result<Self, SweepError> {
        let text = read_text(path, LARGEST_FILE)?;
        let file: File = toml::from_str(&text).map_err(|error| wrong(path, error.to_string()))?;
        let stem = path.file_stem().unwrap_or_default();
        let output = match (output, &file.output) {
            (Some(asked), _) => asked.to_owned(),
            (None, Some(own)) => own.clone(),
            (None, None) => Path::new("runs").join(stem),
        };
        let mut cells: Vec<Cell> = Vec::new();
        let mut folders: BTreeSet<String> = BTreeSet::new();
        for entry in &file.run {
            let row = entry.row(path, &file.set, overrides)?;
            if let Some(first) = cells.iter().find(|cell| cell.name == row.name) {
                let unlike = unlike(first, &row)
                    .map_err(|problem| wrong_configuration(path, &row.name, problem))?;
                if !unlike.is_empty() {
                    let reason = format!(
                        "two runs are called `{}` and differ in more than their seeds ({}): give one of them another `name`",
                        row.name,
                        unlike.join(", ")
                    );
                    return Err(wrong(path, reason));
                }
            }
            let seeds: Vec<u64> = match (entry.seeds.as_slice(), file.seeds.as_slice()) {
                ([], []) => vec![row.plan.seed],
                ([], of_all) => of_all.to_vec(),
                (own, _) => own.to_vec(),
            };
            for seed in seeds {
                let mut cell = row.clone();
                cell.plan.seed = seed;
                cell.plan.run.dir = output.join("runs").join(cell.label());
                if !folders.insert(cell.label()) {
                    let reason = format!(
                        "two runs are called `{}` and have the seed {seed}: give one of them another `name`",
                        cell.name
                    );
                    return Err(wrong(path, reason));
                }
                cells.push(cell);
            }
        }
        if let Some(reason) = stray_pair(&file.pairs, &cells) {
            return Err(wrong(path, reason));
        }
        if cells.is_empty() {
            return Err(wrong(path, "it has no `[[run]]`"));
        }
        let metric = file.metric.map(|name| {
            named_metric(&name)
                .map_err(|reason| wrong(path, format!("`metric` is `{name}`: {reason}")))
        });
        Ok(Self {
            title: file
                .title
                .or_else(|| Some(stem.to_string_lossy().into_owned())),
            output,
            metric: metric.transpose()?,
            cells,
            pairs: file.pairs,
            given: Vec::new(),
        })
    }

    /// The same sweep with another metric of its tables, if one is given.
    ///
    /// # Errors
    /// If no run can have the metric, which else would come out only after all are trained. Runs that are only read are not asked here:
    /// their logs say what they have.
    pub fn with_metric(mut self, metric: Option<Metric>) -> Result<Self, SweepError> {
        self.metric = metric.or(self.metric);
        if let (Some(metric), false) = (self.metric, self.cells.is_empty()) {
            let read = self.given.iter().filter_map(|given| match given {
                Given::Run(plan) => Some(plan.task),
                Given::Cell(_) => None,
            });
            check_tasks(
                metric,
                self.cells.iter().map(|cell| cell.plan.task).chain(read),
            )?;
        }
        Ok(self)
    }

    /// The same sweep with `count` seeds, counted up from its first one, for each row of which `is_meant` says so by its name.
    #[must_use]
    pub fn with_seeds(self, count: u64, is_meant: impl Fn(&str) -> bool) -> Self {
        let rows = grouped(self.cells.iter().map(|cell| (&cell.name, cell)));
        let of_row = |(name, own): &(&String, Vec<&Cell>)| -> Vec<Cell> {
            let Some(first) = own.first().filter(|_| is_meant(name)) else {
                return own.iter().copied().cloned().collect();
            };
            let seeds = (0..count).map(|offset| {
                let mut cell = (*first).clone();
                cell.plan.seed = first.plan.seed.saturating_add(offset);
                // The folder of the sweep that it came from.
                cell.plan.run.dir.set_file_name(cell.label());
                cell
            });
            seeds.collect()
        };
        let cells = rows.iter().flat_map(of_row).collect();
        Self { cells, ..self }
    }

    /// The names of its rows, in order.
    pub fn rows(&self) -> impl Iterator<Item = &str> {
        unique(self.cells.iter().map(|cell| cell.name.as_str())).into_iter()
    }
}

impl Entry {
    /// The cell of this row, without the seed and the folder, which the sweep gives it. `set` holds the overrides that the file at `path`
    /// has for all runs.
    fn row(&self, path: &Path, set: &[String], overrides: &[String]) -> Result<Cell, SweepError> {
        let config = plain(&parent(path).join(&self.config));
        let stem = config.file_stem().unwrap_or_default().to_string_lossy();
        let name = self.name.clone().unwrap_or_else(|| stem.into_owned());
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        if name.is_empty() || name.starts_with('.') || !name.chars().all(is_plain) {
            let reason = format!(
                "`{name}` cannot be the name of a run, which also names its folder: use only letters, digits, `-`, `_` and `.`"
            );
            return Err(wrong(path, reason));
        }
        let overrides: Vec<String> = [set, self.set.as_slice(), overrides].concat();
        let plan = Document::load(&config, &overrides)
            .and_then(|found| found.shared().plan())
            .map_err(|problem| wrong_configuration(path, &name, problem))?;
        if let Some(key) = without_effect(&self.set, &plan) {
            let reason = format!(
                "run `{name}` sets `{key}`, which its kind of attention does not have: set `model.attention.kind`, too"
            );
            return Err(wrong(path, reason));
        }
        if self.linear.is_some() && plan.task != TaskKind::Dino {
            let reason =
                format!("run `{name}` is supervised, but `linear` is only for `task = \"dino\"`");
            return Err(wrong(path, reason));
        }
        Ok(Cell {
            name,
            config,
            overrides,
            plan,
            linear: self.linear,
            known: None,
        })
    }
}

fn wrong_configuration(path: &Path, run: &str, problem: ConfigError) -> SweepError {
    SweepError::Config {
        path: path.to_owned(),
        run: run.to_owned(),
        problem: Box::new(problem),
    }
}

/// What is wrong with pairs, if one names no row.
fn stray_pair(pairs: &[[String; 2]], cells: &[Cell]) -> Option<String> {
    let rows: BTreeSet<&str> = cells.iter().map(|cell| cell.name.as_str()).collect();
    let mut named = pairs.iter().flatten();
    let stray = named.find(|name| !rows.contains(name.as_str()))?;
    let rows: Vec<&str> = rows.into_iter().collect();
    Some(format!(
        "no run is called `{stray}`, which `pairs` names: the runs are `{}`",
        rows.join("`, `")
    ))
}

/// How a row differs from the first cell of the same name, apart from the seed and the folder.
fn unlike(first: &Cell, row: &Cell) -> Result<Vec<String>, ConfigError> {
    let mut all = diff(&first.plan, &row.plan)?;
    all.retain(|one| !matches!(one.key.as_str(), "seed" | "run.dir"));
    let mut all: Vec<String> = all.iter().map(ToString::to_string).collect();
    if first.linear != row.linear {
        all.push("`linear`".to_owned());
    }
    Ok(all)
}

/// A key of `[model.attention]` that a run sets, but that its kind of attention does not have. An override for several configurations
/// may have no effect in some of them; in a single run it is a mistake.
fn without_effect(set: &[String], plan: &Plan) -> Option<String> {
    let plan = toml::Table::try_from(plan).ok()?;
    let attention = plan.get("model")?.get("attention")?;
    set.iter().find_map(|text| {
        let (key, _) = text.split_once('=')?;
        let own = key.trim().strip_prefix("model.attention.")?;
        attention.get(own).is_none().then(|| key.trim().to_owned())
    })
}
