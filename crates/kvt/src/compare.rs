//! `kvt compare`: several runs side by side, as in the paper's Table 2, or many as one job.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;

use super::table::table;
use super::watch::{Terminal, Training, dry_run};
use super::{interrupt, output};
use kvt_data::text::shell;
use kvt_tools::report::named_metric;
use kvt_tools::sweep::{Outcome, PairRow, Sweep, carry_out};
use kvt_train::run::Metric;

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
    after_help = "Examples:\n  kvt compare runs/dense runs/knn\n  kvt compare dense.toml knn.toml --seeds 3\n  kvt compare sweep.toml --dry-run\n  kvt compare sweep.toml --devices cuda:0,cuda:1"
)]
pub(super) struct Args {
    /// Configuration files and folders of runs, or one sweep.
    #[arg(value_name = "CONFIG|RUN|SWEEP", required = true)]
    inputs: Vec<PathBuf>,
    #[command(flatten)]
    training: Training,
    /// Where the table and the plots go, and the runs of a sweep: by default `runs/compare`, or where the sweep says.
    #[arg(long, alias = "out", value_name = "DIR")]
    output: Option<PathBuf>,
    /// What is compared: by default `top1`; `knn` where all runs are of DINO, `map` where images have several labels, `miou` where all label pixels, or `box_ap` where all find objects.
    #[arg(long, value_name = "NAME", value_parser = named_metric)]
    metric: Option<Metric>,
    /// Title of the plots, by default the names of what is compared; a sweep has its own.
    #[arg(long)]
    title: Option<String>,
    /// A table `cells.csv` of an earlier sweep: the runs that are finished in it are not trained. May be given several times.
    #[arg(long, value_name = "FILE")]
    known: Vec<PathBuf>,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let (sweep, training) = (args.sweep()?, &args.training);
    if training.dry_run {
        return dry_run(&sweep, training);
    }
    let mut ends = Vec::new();
    if !training.as_is {
        interrupt::listen();
        let watch = Terminal::new("images");
        ends = carry_out(&sweep, &training.devices, &watch)?;
        drop(watch);
    }
    let outcome = sweep.finish(&ends)?;
    show(&sweep, &outcome)
}

impl Args {
    fn sweep(&self) -> anyhow::Result<Sweep> {
        let training = &self.training;
        let (overrides, seeds) = (training.overrides.all(), training.seeds);
        let mut sweep = Sweep::of(&self.inputs, &overrides, seeds, self.output.as_deref())?;
        if self.title.is_some() && sweep.title.is_some() {
            bail!("`--title` is not for a sweep: write `title` into its file");
        }
        if sweep.cells.is_empty() {
            for (option, is_given) in [
                ("--set", !training.overrides.set.is_empty()),
                ("--device", training.overrides.device.is_some()),
                ("--seeds", seeds.is_some()),
                ("--devices", !training.devices.is_empty()),
                ("--dry-run", training.dry_run),
                ("--as-is", training.as_is),
            ] {
                if is_given {
                    bail!(
                        "`{option}` is for configurations and sweeps: a run's folder is only read"
                    );
                }
            }
        }
        sweep.title = sweep.title.or_else(|| self.title.clone());
        Ok(sweep
            .with_metric(self.metric)?
            .with_known(&self.known, &[])?)
    }
}

/// Prints the results of a sweep.
fn show(sweep: &Sweep, outcome: &Outcome) -> anyhow::Result<ExitCode> {
    output::warnings(&outcome.warnings);
    if let Some(comparison) = &outcome.comparison {
        let width = comfy_table::Table::new().width();
        output::print(&comparison.to_text(width))?;
        show_pairs(outcome)?;
        output::status(&format!(
            "tables and plots are in `{}`",
            sweep.output.display()
        ));
        let folders = outcome.folders.iter();
        let folders: Vec<String> = folders
            .map(|folder| shell(&folder.display().to_string()))
            .collect();
        if !folders.is_empty() {
            output::status(&format!("next: kvt report {}", folders.join(" ")));
        }
    }
    outcome
        .failures
        .iter()
        .for_each(|failure| output::error(failure));
    if let Some(late) = &outcome.out_of_time {
        output::status(late);
    }
    if !outcome.failures.is_empty() {
        return Ok(ExitCode::FAILURE);
    }
    if outcome.out_of_time.is_some() {
        return Ok(interrupt::exit_code());
    }
    if outcome.comparison.is_none() {
        output::status(&format!(
            "no run is finished, because runs crashed: there is no table but `{}`",
            sweep.output.join("cells.csv").display()
        ));
    }
    Ok(ExitCode::SUCCESS)
}

fn show_pairs(outcome: &Outcome) -> anyhow::Result<()> {
    if outcome.pairs.is_empty() {
        return Ok(());
    }
    let rows = outcome.pairs.iter().map(|pair| {
        let [first, second] = &pair.names;
        vec![
            format!("{second} minus {first}"),
            PairRow::text(pair.last.as_ref(), outcome.metric),
            pair.images_text(),
        ]
    });
    let header = [
        "pair",
        "last epoch, paired t test",
        "alone right, McNemar's test",
    ];
    output::print(&table(header, rows))
}
