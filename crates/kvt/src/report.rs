//! `kvt report`

use std::path::{Path, PathBuf};

use super::common::{Overrides, counting, generating};
use super::output;
use super::trained::Checkpoint;
use kvt_data::fs::{check_writable, parent};
use kvt_tools::report::html::{Asked, Record, Report};
use kvt_tools::report::named_metric;
use kvt_train::run::Metric;

/// `kvt report RUN... [--eval] [--samples N]`
///
/// Without `--eval`, `--data` and `--samples` the logs alone are read, also those of runs that are still in training.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  kvt report runs/photos\n  kvt report runs/photos --eval --samples 12\n  kvt report runs/dense runs/knn --out dense-and-knn.html"
)]
pub(super) struct Args {
    /// Folders of runs.
    #[arg(value_name = "RUN", required = true)]
    runs: Vec<PathBuf>,
    /// The file: by default `report.html` in the run's folder, and of several runs `runs/report.html`.
    #[arg(long, alias = "output", value_name = "FILE")]
    out: Option<PathBuf>,
    /// Evaluate each run on its validation split: confusion matrix, most confused pairs, each class.
    #[arg(long)]
    eval: bool,
    /// Show so many images, with what each run says of them and where its class token looks, or the classes of their pixels, or the objects in them; with `--eval` also as many of each
    /// run's surest mistakes.
    #[arg(long, value_name = "N", default_value_t = 0)]
    samples: usize,
    /// Evaluate the images of another folder, `DIR/<class>/*`, with the runs' classes, in place of the validation split.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    #[command(flatten)]
    checkpoint: Checkpoint,
    #[command(flatten)]
    overrides: Overrides,
    /// What runs are judged by: by default `top1`; `knn` where all runs are of DINO, `map` where images have several labels, `miou` where all label pixels, or `box_ap` where all find objects.
    #[arg(long, value_name = "NAME", value_parser = named_metric)]
    metric: Option<Metric>,
    /// Heading of the report: by default the names of the runs.
    #[arg(long)]
    title: Option<String>,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let records = args.runs.iter().map(|run| Record::read(run));
    let records = records.collect::<Result<Vec<_>, _>>()?;
    let mut report = Report::new(records, args.metric, args.title.clone())?;
    output::warnings(report.warnings());
    let out = args.out();
    fs_err::create_dir_all(parent(&out))?;
    // Check the file before evaluating the images.
    check_writable(&out)?;
    let asked = args.asked();
    if asked.is_judged || asked.samples > 0 {
        // Find errors in the last run before the first is evaluated.
        report.check(&asked, &mut generating(), &mut output::warning)?;
        let names = report.records.iter().map(|record| record.name.clone());
        let names: Vec<String> = names.collect();
        for (run, name) in names.iter().enumerate() {
            if names.len() > 1 {
                output::status(&format!("evaluating `{name}`"));
            }
            let progress = &mut counting("evaluating");
            report.ask(run, &asked, progress, &mut output::warning)?;
        }
    }
    report.save(&out)?;
    let runs = match args.runs.len() {
        1 => "the run".to_owned(),
        count => format!("{count} runs"),
    };
    output::status(&format!("the report of {runs} is in `{}`", out.display()));
    Ok(())
}

impl Args {
    fn out(&self) -> PathBuf {
        match (&self.out, &*self.runs) {
            (Some(out), _) => out.clone(),
            (None, [run]) => run.join("report.html"),
            (None, _) => Path::new("runs").join("report.html"),
        }
    }

    fn asked(&self) -> Asked {
        Asked {
            is_judged: self.eval || self.data.is_some(),
            samples: self.samples,
            data: self.data.clone(),
            checkpoint: self.checkpoint.checkpoint.clone(),
            weights: self.checkpoint.weights(),
            overrides: self.overrides.all(),
        }
    }
}
