//! `kvt reproduce`

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::common::{one_of, success_if};
use super::watch::{Terminal, Training, dry_run};
use super::{interrupt, output};
use kvt_papers::{ITEMS, Item, Order, Reproduced, Scale, Version, check, find, planned, reproduce};

/// `kvt reproduce list`, `kvt reproduce NAME [--data PATH --scale SCALE] [--out DIR]`
///
/// An item that is made of training runs trains those that are missing, continues those that were stopped, and takes the
/// finished ones as they are; so the same command continues after Ctrl-C.
#[derive(Debug, clap::Args)]
#[command(
    // `--version` is the version of the paper here.
    disable_version_flag = true,
    after_help = "Examples:\n  kvt reproduce list\n  kvt reproduce scram-fig2 --out figures\n  kvt reproduce table2 --data data/cifar10 --scale cifar-short --dry-run\n  kvt reproduce table2 --data data/cifar10 --scale cifar-short\n  kvt reproduce table2 --data data/cifar10 --scale cifar-short --only cvt\n  kvt reproduce table4 --scale shapes --only mask_rcnn"
)]
pub(super) struct Args {
    /// What is computed, by its name; `list` prints the names.
    #[arg(value_name = "NAME|list")]
    name: String,
    /// The data set; short for `--set data.path=PATH`.
    #[arg(long, value_name = "PATH")]
    data: Option<PathBuf>,
    /// How much is computed: the paper's models and epochs, small models on CIFAR-10, or less of these; must be said where models are trained.
    #[arg(long, value_parser = one_of(SCALES.map(|(scale, help)| (scale, scale.name(), help))))]
    scale: Option<Scale>,
    /// Which version of the paper the numbers are set beside, by default the last one.
    #[arg(long, value_parser = one_of(VERSIONS.map(|(version, help)| (version, version.name(), help))))]
    version: Option<Version>,
    /// The folder of the results; by default `runs/reproduce/` and the name, and below it the scale and version that were chosen.
    #[arg(long, alias = "output", value_name = "DIR")]
    out: Option<PathBuf>,
    /// The folder of the runs; by default the one that their sweep names, in `runs/reproduce`.
    #[arg(long, value_name = "DIR")]
    runs: Option<PathBuf>,
    #[command(flatten)]
    training: Training,
    /// Train one part: the rows of an item whose names begin with these words, as `cvt` of `table2`, or one of several sweeps, as
    /// `mask_rcnn` of `table4`. The page has the others as far as they are finished.
    #[arg(long, value_name = "PART")]
    only: Option<String>,
    /// A table `<item>-runs.csv` of an earlier result: the runs that are finished in it are not trained, and the page says which they
    /// are. May be given several times.
    #[arg(long, value_name = "FILE")]
    known: Vec<PathBuf>,
    /// A folder of configurations and sweeps; by default `configs` in this folder, or those that kvt was built with.
    #[arg(long, value_name = "DIR")]
    configs: Option<PathBuf>,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if args.name == "list" {
        let names = ITEMS.iter().map(|item| item.name.len());
        let width = names.max().unwrap_or(0);
        for Item { name, title, .. } in &ITEMS {
            output::print(&format!("{name:width$}  {title}"))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let item = find(&args.name)?;
    let order = args.order(item);
    check(item, args.scale, args.version, &order)?;
    if args.training.dry_run {
        let [_, chosen] = planned(item, &order)?;
        return dry_run(&chosen, &args.training);
    }
    if !item.scales.is_empty() {
        interrupt::listen();
    }
    output::status(item.title);
    let watch = Terminal::new("computing");
    let Reproduced { paths, failures } = reproduce(item, &order, &watch)?;
    drop(watch);
    for path in paths {
        output::print(&format!("wrote `{}`", path.display()))?;
    }
    failures.iter().for_each(|failure| output::error(failure));
    Ok(success_if(failures.is_empty()))
}

/// What help says of each.
const SCALES: [(Scale, &str); 5] = [
    (
        Scale::Paper,
        "The models and epochs of the paper, on ImageNet",
    ),
    (
        Scale::Cifar,
        "Small models on CIFAR-10, with the epochs and seeds that a comparison needs",
    ),
    (
        Scale::CifarShort,
        "The same in an hour or less on two cores: fewer epochs, seeds or images",
    ),
    (
        Scale::Shapes,
        "Small models on generated scenes, with one seed",
    ),
    (Scale::ShapesShort, "The same with fewer epochs"),
];

const VERSIONS: [(Version, &str); 2] = [
    (Version::Eccv, "ECCV 2022, the last one on arXiv"),
    (Version::V1, "The first one on arXiv"),
];

impl Args {
    fn order(&self, item: &Item) -> Order {
        let (scale, training) = (self.scale, &self.training);
        // By default the last version that has the item.
        let version = self
            .version
            .or(item.versions.first().copied())
            .unwrap_or_default();
        let out = self.out.clone().unwrap_or_else(|| {
            let mut out = Path::new("runs").join("reproduce").join(&self.name);
            out.extend(scale.map(Scale::name));
            out.extend(self.version.map(Version::name));
            out
        });
        Order {
            scale: scale.unwrap_or_default(),
            version,
            data: self.data.clone(),
            overrides: training.overrides.all(),
            seeds: training.seeds,
            devices: training.devices.clone(),
            out,
            runs: self.runs.clone(),
            only: self.only.clone(),
            known: self.known.clone(),
            configs: self.configs.clone(),
            as_is: training.as_is,
        }
    }
}
