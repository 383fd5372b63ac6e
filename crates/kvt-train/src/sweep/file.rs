//! The file of a sweep.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::cell::{joined, label};
use super::given::Given;
use super::{Cell, SweepError};
use crate::config::{ConfigError, Document, Plan, diff};
use crate::probe::Crops;
use crate::report::named_metric;
use crate::run::Metric;
use crate::task::TaskKind;
use kvt_data::fs::parent;
use kvt_data::text::read_text;

/// Largest size of a file in bytes: far more than thousands of runs need.
const LARGEST_FILE: u64 = 1 << 20;

/// Runs that belong together.
#[derive(Clone, Debug)]
pub struct Sweep {
    /// What it shows, in one line; without a title, its plots are called by the names of its rows.
    pub title: Option<String>,
    /// The folder of its tables; the runs of a file are in `runs` below it.
    pub output: PathBuf,
    /// The metric of its tables, if it is not the metric by which its runs are judged.
    pub metric: Option<Metric>,
    /// All runs that it trains, in this order.
    pub cells: Vec<Cell>,
    /// Pairs of rows that are tested against each other: a baseline, and a possible improvement on it.
    pub pairs: Vec<[String; 2]>,
    /// What was named on a command line, in its order; nothing, if the sweep is a file.
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
    /// The sweep in a file, which is then the only input, or one of configurations and folders of runs. `seeds`
    /// is the number of seeds of each configuration, `output` the folder of the tables.
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
            return Err(SweepError::NotAlone { path: path.clone() });
        }
        let sweep = Self::load(path, overrides, output)?;
        Ok(match seeds {
            Some(count) => sweep.with_seeds(count),
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
        let wrong = |reason: String| SweepError::File {
            path: path.to_owned(),
            reason,
        };
        let text = read_text(path, LARGEST_FILE)?;
        let file: File = toml::from_str(&text).map_err(|error| wrong(error.to_string()))?;
        let stem = path.file_stem().unwrap_or_default();
        let own = || {
            file.output
                .clone()
                .unwrap_or_else(|| Path::new("runs").join(stem))
        };
        let output = output.map_or_else(own, Path::to_owned);
        let mut cells: Vec<Cell> = Vec::new();
        let mut folders = BTreeSet::new();
        for entry in &file.run {
            let config = joined(parent(path), &entry.config);
            let name = match &entry.name {
                Some(name) => name.clone(),
                None => config
                    .file_stem()
                    .unwrap_or_default()
                    .to_string_lossy()
                    .into_owned(),
            };
            let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
            if name.is_empty() || name.starts_with('.') || !name.chars().all(is_plain) {
                return Err(wrong(format!(
                    "`{name}` cannot be the name of a run, which also names its folder: use only letters, digits, `-`, `_` and `.`"
                )));
            }
            let all = file.set.iter().chain(&entry.set).chain(overrides);
            let all: Vec<String> = all.cloned().collect();
            let of_run = |problem: ConfigError| SweepError::Config {
                path: path.to_owned(),
                run: name.clone(),
                problem: Box::new(problem),
            };
            let plan = Document::load(&config, &all)
                .and_then(|found| found.shared().plan())
                .map_err(of_run)?;
            if let Some(key) = without_effect(&entry.set, &plan) {
                return Err(wrong(format!(
                    "run `{name}` sets `{key}`, which its kind of attention does not have: set `model.attention.kind`, too"
                )));
            }
            if entry.linear.is_some() && plan.task != TaskKind::Dino {
                return Err(wrong(format!(
                    "run `{name}` is supervised, but `linear` is only for `task = \"dino\"`"
                )));
            }
            if let Some(first) = cells.iter().find(|cell| cell.name == name) {
                let unlike = unlike(first, &plan, entry.linear).map_err(of_run)?;
                if !unlike.is_empty() {
                    return Err(wrong(format!(
                        "two runs are called `{name}` and differ in more than their seeds ({}): give one of them another `name`",
                        unlike.join(", ")
                    )));
                }
            }
            let seeds = [&entry.seeds, &file.seeds]
                .into_iter()
                .find(|seeds| !seeds.is_empty());
            for seed in seeds.cloned().unwrap_or_else(|| vec![plan.seed]) {
                let mut plan = plan.clone();
                plan.seed = seed;
                plan.run.dir = output.join("runs").join(label(&name, seed));
                if !folders.insert(label(&name, seed)) {
                    return Err(wrong(format!(
                        "two runs are called `{name}` and have the seed {seed}: give one of them another `name`"
                    )));
                }
                cells.push(Cell {
                    name: name.clone(),
                    config: config.clone(),
                    overrides: all.clone(),
                    plan,
                    linear: entry.linear,
                });
            }
        }
        let names: BTreeSet<&str> = cells.iter().map(|cell| cell.name.as_str()).collect();
        if let Some(name) = file
            .pairs
            .iter()
            .flatten()
            .find(|name| !names.contains(name.as_str()))
        {
            let names: Vec<&str> = names.into_iter().collect();
            return Err(wrong(format!(
                "no run is called `{name}`, which `pairs` names: the runs are `{}`",
                names.join("`, `")
            )));
        }
        if cells.is_empty() {
            return Err(wrong("it has no `[[run]]`".to_owned()));
        }
        let metric = file.metric.map(|name| {
            named_metric(&name).map_err(|reason| wrong(format!("`metric` is `{name}`: {reason}")))
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

    /// The same sweep with `count` seeds for each row, counted up from its first one.
    #[must_use]
    pub fn with_seeds(self, count: u64) -> Self {
        let firsts = self.rows().filter_map(|row| {
            let mut cells = self.cells.iter();
            cells.find(|cell| cell.name == row)
        });
        let cells = firsts
            .flat_map(|first| {
                (0..count).map(|offset| {
                    let mut cell = first.clone();
                    cell.plan.seed = first.plan.seed.saturating_add(offset);
                    cell.plan.run.dir = self.output.join("runs").join(cell.label());
                    cell
                })
            })
            .collect();
        Self { cells, ..self }
    }

    /// The names of its rows, in order.
    pub fn rows(&self) -> impl Iterator<Item = &str> {
        let mut seen = BTreeSet::new();
        let names = self.cells.iter().map(|cell| cell.name.as_str());
        names.filter(move |name| seen.insert(*name))
    }
}

/// How an entry differs from the first cell of the same name, apart from the seed and the folder.
fn unlike(first: &Cell, plan: &Plan, linear: Option<Crops>) -> Result<Vec<String>, ConfigError> {
    let mut all = diff(&first.plan, plan)?;
    all.retain(|one| !matches!(one.key.as_str(), "seed" | "run.dir"));
    let mut all: Vec<String> = all.iter().map(ToString::to_string).collect();
    if first.linear != linear {
        all.push("`linear`".to_owned());
    }
    Ok(all)
}

/// A key of `[model.attention]` that a run sets although its kind of attention does not have it. Overrides of several
/// configurations are not refused for that, but in those of a single run it is a mistake.
fn without_effect(set: &[String], plan: &Plan) -> Option<String> {
    let plan = toml::Table::try_from(plan).ok()?;
    let attention = plan.get("model")?.get("attention")?;
    set.iter().find_map(|text| {
        let (key, _) = text.split_once('=')?;
        let own = key.trim().strip_prefix("model.attention.")?;
        attention.get(own).is_none().then(|| key.trim().to_owned())
    })
}
