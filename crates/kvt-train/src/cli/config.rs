//! `kvt config`

use std::process::ExitCode;

use clap::Subcommand;

use super::common::ConfigArgs;
use super::output;
use crate::config::{reference, resolved_toml, schema, warnings};
use crate::task::model_config;

/// `kvt config print|check|schema|reference`
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
        What::Schema => output::print(&schema())?,
        What::Reference => output::print(&reference())?,
    }
    Ok(ExitCode::SUCCESS)
}
