//! `kvt data split`

use std::path::PathBuf;

use crate::output;
use kvt_train::data::{DataConfig, Source, open, whole_kind};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  kvt data split photos --val-fraction 0.2 > split.txt")]
pub(super) struct Args {
    /// The folder that holds the classes.
    dir: PathBuf,
    /// Share of each class that validates.
    #[arg(long, value_name = "SHARE", value_parser = super::share)]
    val_fraction: f64,
}

pub(super) fn run(Args { dir, val_fraction }: &Args) -> anyhow::Result<()> {
    let data = DataConfig {
        kind: whole_kind(dir),
        path: dir.clone(),
        val_fraction: *val_fraction,
        ..DataConfig::default()
    };
    let sources = open(&data, None)?;
    output::warnings(sources.iter().flat_map(Source::warnings));
    let mut lines = Vec::new();
    for (name, source) in ["train", "val"].into_iter().zip(&sources) {
        for sample in &source.samples {
            let path = sample.path.strip_prefix(dir).unwrap_or(&sample.path);
            lines.push(format!("{name}\t{}", path.display()));
        }
    }
    output::print(&lines.join("\n"))
}
