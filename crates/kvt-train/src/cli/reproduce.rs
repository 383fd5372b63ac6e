//! `kvt reproduce`

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::common::bar;
use super::output;
use crate::reproduce::{ITEMS, find, reproduce};

/// `kvt reproduce list`, `kvt reproduce NAME [--out DIR]`
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  kvt reproduce list\n  kvt reproduce scram-fig2 --out figures")]
pub(super) struct Args {
    /// What is computed, by its name; `list` prints the names.
    #[arg(value_name = "NAME|list")]
    name: String,
    /// The folder of the results; by default `runs/reproduce/` and the name.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if args.name == "list" {
        let width = ITEMS.iter().map(|item| item.name().len()).max();
        let width = width.unwrap_or(0);
        for item in ITEMS {
            output::print(&format!("{:width$}  {}", item.name(), item.title()))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let item = find(&args.name)?;
    let folder = match &args.out {
        Some(out) => out.clone(),
        None => Path::new("runs").join("reproduce").join(item.name()),
    };
    output::status(item.title());
    let shown = bar("computing", 0);
    let paths = reproduce(item, &folder, &mut |done, steps| {
        shown.set_length(steps as u64);
        shown.set_position(done as u64);
    });
    shown.finish_and_clear();
    for path in paths? {
        output::print(&format!("wrote `{}`", path.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}
