//! A sweep without a file: configurations and runs that a command line names.

use std::path::{Path, PathBuf};

use super::{Cell, Found, Sweep, SweepError};
use crate::report::{Curve, RunFacts, canonical, labels, names_of, read_curve, unlike};
use kvt_train::config::{Document, Plan, load_run_plan};
use kvt_train::run::RunDir;

/// What is compared, as it was named.
#[derive(Clone, Debug)]
pub(super) enum Given {
    /// A run to train, by its number among the cells.
    Cell(usize),
    /// A run that is only read: its plan, with the folder as it was named.
    Run(Box<Plan>),
}

/// What there is to compare.
#[derive(Default)]
pub(super) struct Beside {
    pub(super) curves: Vec<Curve>,
    /// The folders of the runs with an epoch, if a command line names them.
    pub(super) folders: Vec<PathBuf>,
    pub(super) warnings: Vec<String>,
}

impl Sweep {
    /// A sweep of configurations and folders of runs. A configuration is trained into its `run.dir`; with `seeds` it is trained that many
    /// times into `<run.dir>-seed<seed>`, with seeds counted up from its own. A folder is only read, whether its run is finished or not.
    /// `overrides` apply to all configurations. Each row is paired with the first.
    ///
    /// # Errors
    /// If an input is missing or wrong, or two inputs are the same run: all are checked before the first one trains for hours.
    pub(super) fn given(
        inputs: &[PathBuf],
        overrides: &[String],
        seeds: Option<u64>,
        output: &Path,
    ) -> Result<Self, SweepError> {
        let (mut cells, mut given) = (Vec::new(), Vec::new());
        for input in inputs {
            if input.is_dir() {
                let run = RunDir::open(input)?;
                let (mut plan, _) = load_run_plan(&run, &[])?;
                input.clone_into(&mut plan.run.dir);
                given.push(Given::Run(Box::new(plan)));
                continue;
            }
            if !input.exists() {
                return Err(SweepError::NoInput(input.clone()));
            }
            let plan = Document::load(input, overrides)
                .and_then(|document| document.shared().plan())
                .map_err(Box::new)?;
            for plan in with_seeds(plan, seeds) {
                given.push(Given::Cell(cells.len()));
                cells.push(Cell {
                    name: name(input, inputs),
                    config: input.clone(),
                    overrides: overrides.to_vec(),
                    plan,
                    linear: None,
                    known: None,
                });
            }
        }
        let mut sweep = Self {
            title: None,
            output: output.to_owned(),
            metric: None,
            cells,
            pairs: Vec::new(),
            given,
        };
        sweep.refuse_one_run_twice()?;
        let rows: Vec<String> = sweep.rows().map(str::to_owned).collect();
        if let Some((first, others)) = rows.split_first() {
            let pairs = others.iter().map(|other| [first.clone(), other.clone()]);
            sweep.pairs = pairs.collect();
        }
        Ok(sweep)
    }

    fn refuse_one_run_twice(&self) -> Result<(), SweepError> {
        let mut folders: Vec<(PathBuf, &Path)> = Vec::new();
        for given in &self.given {
            let (dir, named) = match given {
                Given::Cell(number) => {
                    let cell = &self.cells[*number];
                    (cell.dir(), cell.config.as_path())
                }
                Given::Run(plan) => (plan.run.dir.as_path(), plan.run.dir.as_path()),
            };
            // By any path to it.
            let folder = canonical(dir);
            if let Some((_, other)) = folders.iter().find(|(known, _)| *known == folder) {
                return Err(SweepError::Twice {
                    inputs: [*other, named].map(Path::to_owned),
                    run: dir.to_owned(),
                });
            }
            folders.push((folder, named));
        }
        Ok(())
    }

    /// The curves of what a command line names. Configurations whose runs are not finished are left out.
    pub(super) fn side_by_side(&self, found: &[Found]) -> Result<Beside, SweepError> {
        let (mut named, mut facts) = (Vec::new(), Vec::new());
        let mut beside = Beside::default();
        for given in &self.given {
            let (plan, called, names) = match given {
                Given::Cell(number) if !found[*number].is_finished() => continue,
                Given::Cell(number) => {
                    let Cell {
                        name, config, plan, ..
                    } = &self.cells[*number];
                    let folder = plan.run.dir.display().to_string();
                    let names = [name.clone(), config.display().to_string(), folder];
                    (plan, name.clone(), names)
                }
                Given::Run(plan) => {
                    let path = &plan.run.dir;
                    let name = path.file_name().unwrap_or(path.as_os_str());
                    // Runs in different folders may have the same name.
                    let names = names_of(&name.to_string_lossy(), path, plan.seed);
                    (&**plan, path.display().to_string(), names)
                }
            };
            let run = RunDir::open(&plan.run.dir)?;
            let (curve, warning) = read_curve(&run, plan)?;
            beside.warnings.extend(warning);
            if curve.epochs.is_empty() {
                if let Given::Run(_) = given {
                    let warning = format!("run `{called}` has no finished epoch");
                    beside.warnings.push(warning);
                }
            } else {
                beside.folders.push(plan.run.dir.clone());
            }
            // The classes only serve a warning: a run without them can still be compared.
            let classes = run.read_classes().unwrap_or_default();
            facts.push(RunFacts::new(called, plan, classes));
            beside.curves.push(curve);
            named.push((names, plan));
        }
        let (labels, notes) = labels(&named)?;
        for (curve, label) in beside.curves.iter_mut().zip(labels) {
            curve.label = label;
        }
        beside.warnings.extend(notes);
        beside.warnings.extend(unlike(&facts));
        Ok(beside)
    }
}

/// A plan, or one for each seed.
fn with_seeds(plan: Plan, seeds: Option<u64>) -> Vec<Plan> {
    let Some(seeds) = seeds else {
        return vec![plan];
    };
    let of_seed = |offset: u64| {
        let mut plan = plan.clone();
        plan.seed = plan.seed.saturating_add(offset);
        let mut dir = plan.run.dir.into_os_string();
        dir.push(format!("-seed{}", plan.seed));
        plan.run.dir = dir.into();
        plan
    };
    (0..seeds).map(of_seed).collect()
}

/// The name of a configuration's row: its file name, or its path if another input has the same file name.
fn name(config: &Path, inputs: &[PathBuf]) -> String {
    let same = |other: &&PathBuf| other.file_stem() == config.file_stem();
    match config.file_stem() {
        Some(stem) if inputs.iter().filter(same).count() == 1 => {
            stem.to_string_lossy().into_owned()
        }
        _ => config.display().to_string(),
    }
}
