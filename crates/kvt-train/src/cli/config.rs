//! `kvt config`

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Subcommand;

use super::common::{ConfigArgs, generating};
use super::output;
use super::table::{grouped, table};
use crate::config::{reference, resolved_toml, schema, warnings};
use crate::preview::Preview;
use crate::task::model_config;

/// `kvt config print|check|preview|schema|reference`
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Print a configuration with all bases, overrides and defaults filled in.
    Print(ConfigArgs),
    /// Check a configuration; the exit code tells.
    Check(ConfigArgs),
    /// Draw the learning rate over the run, and training images as the model will see them.
    Preview {
        #[command(flatten)]
        config: ConfigArgs,
        /// The folder of the pictures; by default `runs/preview/` and the configuration's name.
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
    },
    /// Print the JSON schema of configuration files, for editors.
    Schema,
    /// Print the reference of all keys as Markdown.
    Reference,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    match &args.what {
        What::Print(config) => output::print(&resolved_toml(&config.plan()?)?)?,
        What::Check(config) => {
            let plan = config.plan()?;
            // Also what only the model can tell: sizes that do not divide, lists of the wrong length.
            let model = model_config(&plan.model, None)?;
            for warning in warnings(&plan, &model, None) {
                output::warning(&warning);
            }
            output::print(&format!("`{}` is fine", config.path()?.display()))?;
        }
        What::Preview { config, out } => preview(config, out.as_deref())?,
        What::Schema => output::print(&schema())?,
        What::Reference => output::print(&reference())?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Draws the pictures of a configuration, and prints their paths and the rates of some epochs.
fn preview(config: &ConfigArgs, out: Option<&Path>) -> anyhow::Result<()> {
    let plan = config.plan()?;
    let preview = Preview::new(&plan, &mut generating())?;
    let path = config.path()?;
    let name = path.file_stem().unwrap_or(path.as_os_str());
    let folder = match out {
        Some(out) => out.to_owned(),
        None => Path::new("runs").join("preview").join(name),
    };
    let paths = preview.save(&folder)?;
    let paths = paths
        .iter()
        .map(|path| format!("wrote `{}`\n", path.display()));
    let rates = preview
        .rates
        .iter()
        .map(|(epoch, rate)| vec![epoch.to_string(), format!("{rate:.3e}")]);
    output::print(&format!(
        "{}{} images, {} updates of {} in an epoch, {} epochs\n\n{}",
        paths.collect::<String>(),
        grouped(preview.images),
        preview.steps_per_epoch,
        preview.images_per_step,
        plan.epochs(),
        table(&["epoch", "learning rate"], rates)
    ))
}
