//! `kvt config`

use std::path::{Path, PathBuf};

use anyhow::bail;
use clap::Subcommand;

use super::common::{ConfigArgs, generating};
use super::output;
use super::table::{grouped, table};
use kvt_data::fs::{check_writable, write_text};
use kvt_tools::finetune::{Request, propose};
use kvt_tools::preview::Preview;
use kvt_tools::sweep::{Sweep, is_sweep};
use kvt_train::config::{reference, resolved_toml, schema, warnings};

/// `kvt config init|print|check|preview|schema|reference`
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  kvt config init photos > photos.toml\n  kvt config check photos.toml\n  kvt config print photos.toml --set train.epochs=10"
)]
pub(super) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Look at a folder of images, their sizes and their number, and write a configuration for them, with comments.
    Init(Init),
    #[command(
        after_help = "Examples:\n  kvt config print photos.toml\n  kvt config print configs/deit/tiny_knn.toml --set data.path=photos > mine.toml"
    )]
    /// Print a configuration with all bases, overrides and defaults filled in.
    Print(ConfigArgs),
    #[command(after_help = "Examples:\n  kvt config check photos.toml")]
    /// Check a configuration, or those of a sweep; the exit code tells.
    Check(ConfigArgs),
    #[command(after_help = "Examples:\n  kvt config preview photos.toml --out preview")]
    /// Draw the learning rate over the run, and training images as the model will see them.
    Preview {
        #[command(flatten)]
        config: ConfigArgs,
        /// The folder of the pictures; by default `runs/preview/` and the configuration's name.
        #[arg(long, alias = "output", value_name = "DIR")]
        out: Option<PathBuf>,
    },
    #[command(after_help = "Examples:\n  kvt config schema > kvt.schema.json")]
    /// Print the JSON schema of configuration files, for editors.
    Schema,
    #[command(after_help = "Examples:\n  kvt config reference > reference.md")]
    /// Print the reference of all keys as Markdown.
    Reference,
}

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  kvt config init photos > photos.toml\n  kvt config init photos --weights deit_small_patch16_224 --output photos.toml"
)]
struct Init {
    /// The images, `FOLDER/<class>/*`, or the same in `FOLDER/train` and `FOLDER/val`; or tar shards, Parquet files, CIFAR.
    folder: PathBuf,
    /// Weights to start from, or the folder of a run; without them the weights are random, and small images get a small model.
    #[arg(long, value_name = "FILE")]
    weights: Option<PathBuf>,
    /// The model, a name of `kvt models list`; with weights it is needed only if these do not tell.
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// Write this file, which must not exist, instead of printing the configuration.
    #[arg(long, alias = "out", value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    match &args.what {
        What::Init(args) => init(args),
        What::Print(config) => output::print(&resolved_toml(&config.plan()?)?),
        What::Check(config) => check(config),
        What::Preview { config, out } => preview(config, out.as_deref()),
        What::Schema => output::print(&schema()),
        What::Reference => output::print(&reference()),
    }
}

/// Checks a configuration, or all configurations of a sweep.
fn check(config: &ConfigArgs) -> anyhow::Result<()> {
    let path = config.path()?;
    // Errors of reading the file are reported when it is loaded as a configuration.
    let plans = if is_sweep(&path).unwrap_or(false) {
        let sweep = Sweep::load(&path, &config.overrides.all(), None)?.with_metric(None)?;
        sweep.cells.into_iter().map(|cell| cell.plan).collect()
    } else {
        vec![config.plan()?]
    };
    for plan in &plans {
        // Also checks that need the model: sizes that do not divide, lists of the wrong length.
        let model = plan.model.config(None)?;
        plan.lora.check(&model)?;
        output::warnings(warnings(plan, &model, None));
    }
    output::print(&format!("`{}` is fine", path.display()))
}

/// Writes a configuration for a folder.
fn init(args: &Init) -> anyhow::Result<()> {
    if let Some(file) = &args.output {
        if file.is_file() {
            bail!("`{}` exists: choose another name", file.display());
        }
        check_writable(file)?;
    }
    let proposal = propose(&Request {
        folder: args.folder.clone(),
        weights: args.weights.clone(),
        model: args.model.clone(),
        ..Request::default()
    })?;
    let Some(file) = &args.output else {
        return output::print(&proposal.text);
    };
    proposal.notes.iter().for_each(|note| output::status(note));
    write_text(file, &proposal.text)?;
    let file = file.display();
    output::status(&format!("wrote `{file}`: train with `kvt train {file}`"));
    Ok(())
}

/// Draws the pictures of a configuration, and prints their paths and the learning rates of some epochs.
fn preview(config: &ConfigArgs, out: Option<&Path>) -> anyhow::Result<()> {
    let plan = config.plan()?;
    let path = config.path()?;
    let name = path.file_stem().unwrap_or(path.as_os_str());
    let default = || Path::new("runs").join("preview").join(name);
    let folder = out.map_or_else(default, Path::to_owned);
    let warn = &mut output::warning;
    let preview = Preview::draw(&plan, &folder, &mut generating(), warn)?;
    let files = preview.files.iter();
    let files = files.map(|file| format!("wrote `{}`\n", file.display()));
    let rates = preview
        .rates
        .iter()
        .map(|(epoch, rate)| vec![epoch.to_string(), format!("{rate:.3e}")]);
    output::print(&format!(
        "{}{} images, {} updates of {} in an epoch, {}\n\n{}",
        files.collect::<String>(),
        grouped(preview.images),
        preview.steps_per_epoch,
        preview.images_per_step,
        plan.length(),
        table(["epoch", "learning rate"], rates)
    ))
}
