//! `kvt compare`: several runs side by side, as in the paper's Table 2.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};

use super::common::{Overrides, generating};
use super::{interrupt, output, progress, sweep};
use kvt_data::fs::{remove_leftovers, write_text};
use kvt_data::text::shell;
use kvt_train::config::{Document, Plan, load_run_plan};
use kvt_train::engine::{End, Session, Start};
use kvt_train::report::{
    Comparison, Curve, RunFacts, RunNames, label_of, labels, read_curve, save_plots, title, unlike,
};
use kvt_train::report::{best_metric, named_metric};
use kvt_train::run::{Metric, RunDir};
use kvt_train::task::{Classify, Dino, Task, TaskKind};

/// `kvt compare CONFIG|RUN... [--seeds N]`, `kvt compare SWEEP.toml`
///
/// A configuration is trained (a run that is there already is finished, not repeated); a run's folder
/// is read. With `--seeds N` each configuration is trained with N seeds, in `<run.dir>-seed<seed>`.
///
/// A sweep is a file with a list of runs, `[[run]]`: configurations, seeds and overrides. Runs that are finished are left as they
/// are, stopped ones continue, and one that fails does not keep the others from being trained. The same command in several
/// terminals shares the runs among them.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  kvt compare runs/dense runs/knn\n  kvt compare configs/quickstart/dense.toml configs/quickstart/knn.toml --seeds 3\n  kvt compare sweep.toml --dry-run\n  kvt compare sweep.toml --devices cuda:0,cuda:1"
)]
pub(super) struct Args {
    /// Configuration files and folders of runs, or one sweep.
    #[arg(value_name = "CONFIG|RUN|SWEEP", required = true)]
    pub(super) inputs: Vec<PathBuf>,
    #[command(flatten)]
    pub(super) overrides: Overrides,
    /// Train each configuration with this many seeds, counted up from its own, or from the first one that a sweep gives it.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub(super) seeds: Option<u64>,
    /// Where the table and the plots go, and the runs of a sweep: by default `runs/compare`, or where the sweep says.
    #[arg(long, alias = "out", value_name = "DIR")]
    pub(super) output: Option<PathBuf>,
    /// What is compared: by default `top1`, or `knn` where all runs are of DINO.
    #[arg(long, value_name = "NAME", value_parser = named_metric)]
    pub(super) metric: Option<Metric>,
    /// Title of the plots, by default the names of what is compared; a sweep has its own.
    #[arg(long)]
    title: Option<String>,
    /// Sweep: train on several devices at the same time, a run on each, as in `cpu,cuda:0`.
    #[arg(
        long,
        value_name = "DEVICES",
        value_delimiter = ',',
        conflicts_with = "device"
    )]
    pub(super) devices: Vec<String>,
    /// Sweep: print how far each run is and what it costs, and train nothing.
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Sweep: train nothing, make the tables of the runs that are finished.
    #[arg(long)]
    pub(super) as_is: bool,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if let Some(path) = sweep::among(args)? {
        return sweep::run(path, args);
    }
    check(args)?;
    interrupt::listen();
    let mut runs = Vec::new();
    for input in &args.inputs {
        if input.is_dir() {
            let run = Run::read(input)?;
            if run.curve.epochs.is_empty() {
                output::warning(&format!("run `{}` has no finished epoch", input.display()));
            }
            runs.push(run);
            continue;
        }
        for plan in plans(input, args)? {
            match train(input, args, plan)? {
                Some(run) => runs.push(run),
                None => {
                    output::status("stopped; the same command continues from here");
                    return Ok(interrupt::exit_code());
                }
            }
        }
    }
    let named = runs.iter().map(|run| (run.names.clone(), &run.plan));
    let (labels, notes) = labels(&named.collect::<Vec<_>>())?;
    notes.iter().for_each(|note| output::warning(note));
    let curves = runs.iter().zip(labels).map(|(run, label)| Curve {
        label,
        ..run.curve.clone()
    });
    let curves: Vec<Curve> = curves.collect();
    if curves.iter().all(|curve| curve.epochs.is_empty()) {
        bail!("none of the runs has finished an epoch: there is nothing to compare");
    }
    let facts = runs.iter().map(|run| run.facts.clone());
    for difference in unlike(&facts.collect::<Vec<_>>()) {
        output::warning(&difference);
    }
    let metric = args.metric.unwrap_or_else(|| best_metric(&curves));
    let comparison = Comparison::new(&curves, metric);
    let folder = args.output.as_deref().unwrap_or(Path::new("runs/compare"));
    save(
        &comparison,
        &curves,
        &comparison.to_markdown(),
        &args.title.clone().unwrap_or_else(|| title(&curves)),
        folder,
    )?;
    let width = comfy_table::Table::new().width();
    output::print(&comparison.to_text(width))?;
    output::status(&format!("table and plots are in `{}`", folder.display()));
    let folders = runs
        .iter()
        .map(|run| shell(&run.plan.run.dir.display().to_string()));
    let folders: Vec<String> = folders.collect();
    output::status(&format!("next: kvt report {}", folders.join(" ")));
    Ok(ExitCode::SUCCESS)
}

/// A run to compare.
struct Run {
    /// Without its label.
    curve: Curve,
    facts: RunFacts,
    /// Its plan, with the folder where it is.
    plan: Plan,
    names: RunNames,
}

/// Finds errors in any input before the first run trains for hours.
fn check(args: &Args) -> anyhow::Result<()> {
    let mut folders: Vec<(PathBuf, &Path)> = Vec::new();
    for input in &args.inputs {
        let own = if input.is_dir() {
            RunDir::open(input)?;
            vec![input.clone()]
        } else if input.exists() {
            let plans = plans(input, args)?.into_iter();
            plans.map(|plan| plan.run.dir).collect()
        } else {
            bail!(
                "no file or folder `{}`: give configuration files and folders of runs",
                input.display()
            );
        };
        for dir in own {
            // By any path to it.
            let folder = dir.canonicalize().unwrap_or_else(|_| dir.clone());
            if let Some((_, other)) = folders.iter().find(|(known, _)| *known == folder) {
                bail!(
                    "`{}` and `{}` are both the run in `{}`: name a run once, and give each configuration its own `run.dir`",
                    other.display(),
                    input.display(),
                    dir.display()
                );
            }
            folders.push((folder, input));
        }
    }
    Ok(())
}

/// The plans of a configuration, one for each seed, with overrides that apply to all configurations.
fn plans(config: &Path, args: &Args) -> anyhow::Result<Vec<Plan>> {
    let plan = Document::load(config, &args.overrides.all())?
        .shared()
        .plan()?;
    let Some(seeds) = args.seeds else {
        return Ok(vec![plan]);
    };
    let of_seed = |offset: u64| {
        let mut plan = plan.clone();
        plan.seed += offset;
        let mut dir = plan.run.dir.into_os_string();
        dir.push(format!("-seed{}", plan.seed));
        plan.run.dir = dir.into();
        plan
    };
    Ok((0..seeds).map(of_seed).collect())
}

/// Trains a plan of a configuration, or resumes it. `None` if it was stopped.
fn train(config: &Path, args: &Args, plan: Plan) -> anyhow::Result<Option<Run>> {
    let name = label(config, args);
    output::status(&format!("{name}, seed {}:", plan.seed));
    let start = match RunDir::open(&plan.run.dir) {
        Ok(_) => Start::RESUME,
        Err(_) => Start::New,
    };
    let end = match plan.task {
        TaskKind::Classify => carry_out::<Classify>(plan.clone(), start),
        TaskKind::Dino => carry_out::<Dino>(plan.clone(), start),
    };
    match end.with_context(|| format!("`{}`", config.display()))? {
        End::Stopped => Ok(None),
        End::Finished => {
            let run = RunDir::open(&plan.run.dir)?;
            let folder = plan.run.dir.display().to_string();
            Ok(Some(Run {
                curve: curve(&run, &plan)?,
                // Not before: the folder of generated images exists only now, and paths are compared without links.
                facts: RunFacts::new(name.as_str(), &plan, run.read_classes()?),
                plan,
                names: [name, config.display().to_string(), folder],
            }))
        }
    }
}

fn carry_out<T: Task>(plan: Plan, start: Start<'_>) -> anyhow::Result<End> {
    let session = Session::<T>::prepare(plan, start, &mut generating())?;
    output::status(&progress::describe(&session));
    let mut listener = progress::listener(session.workload());
    let end = session.train(listener.as_mut(), &interrupt::STOP);
    drop(listener);
    Ok(end?)
}

impl Run {
    /// The run in a folder; `NAME-seedN` is a run of `NAME`.
    fn read(path: &Path) -> anyhow::Result<Self> {
        let run = RunDir::open(path)?;
        let (mut plan, _) = load_run_plan(&run, &[])?;
        path.clone_into(&mut plan.run.dir);
        let name = path.file_name().unwrap_or(path.as_os_str());
        let (name, path) = (name.to_string_lossy(), path.display().to_string());
        // The classes only serve a warning: a run without them can still be compared.
        let classes = run.read_classes().unwrap_or_default();
        let short = |name: &str| label_of(name, plan.seed).to_owned();
        Ok(Self {
            curve: curve(&run, &plan)?,
            // Runs in different folders may have the same name.
            facts: RunFacts::new(path.as_str(), &plan, classes),
            names: [short(&name), short(&path), path],
            plan,
        })
    }
}

fn curve(run: &RunDir, plan: &Plan) -> anyhow::Result<Curve> {
    let (curve, warning) = read_curve(run, "", plan.seed, plan.ema.report)?;
    if let Some(warning) = warning {
        output::warning(&warning.to_string());
    }
    Ok(curve)
}

/// The row label of a configuration: the name of its file, or its path if another file has the same name.
fn label(config: &Path, args: &Args) -> String {
    let same = |other: &&PathBuf| other.file_stem() == config.file_stem();
    match config.file_stem() {
        Some(stem) if args.inputs.iter().filter(same).count() == 1 => {
            stem.to_string_lossy().into_owned()
        }
        _ => config.display().to_string(),
    }
}

/// Writes the table, also as a Markdown page, and the plots.
pub(super) fn save(
    comparison: &Comparison,
    curves: &[Curve],
    page: &str,
    title: &str,
    folder: &Path,
) -> anyhow::Result<()> {
    fs_err::create_dir_all(folder)?;
    remove_leftovers(folder);
    for (name, text) in [
        ("table.md", page),
        ("table.csv", &comparison.to_csv()),
        ("table.json", &comparison.to_json()?),
    ] {
        write_text(&folder.join(name), text)?;
    }
    save_plots(curves, comparison.metric, title, folder)?;
    Ok(())
}
