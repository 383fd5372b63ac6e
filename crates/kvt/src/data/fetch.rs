//! `kvt data fetch`

use std::path::{Path, PathBuf};

use crate::common::counting;
use crate::output;
use crate::table::{grouped, table};
use kvt_data::text::shell;
use kvt_train::fetch::{Dataset, Fetched};

/// `kvt data fetch [NAME]`
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  kvt data fetch\n  kvt data fetch imagenette-160\n  kvt finetune data/imagenette-160 --weights deit_tiny_patch16_224"
)]
pub(super) struct Args {
    /// The data set; without it, all are listed with their licences.
    name: Option<String>,
    /// The folder to write; by default `data/` and the name.
    #[arg(long, alias = "out", value_name = "DIR", requires = "name")]
    output: Option<PathBuf>,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let Some(name) = &args.name else {
        return output::print(&list());
    };
    let set = Dataset::find(name)?;
    let default = || Path::new("data").join(set.name);
    let out = args.output.clone().unwrap_or_else(default);
    let fetched = set.fetch(&out, &mut counting("unpacking images"))?;
    let done = match fetched {
        Fetched::Now => "wrote",
        Fetched::Before => "there is already",
    };
    output::print(&format!(
        "{done} {}, {}, in `{}`",
        set.name,
        images(set),
        out.display()
    ))?;
    let folder = out.display().to_string();
    output::status(&format!(
        "licence: {}\nnext: kvt finetune {} --weights deit_tiny_patch16_224",
        set.licence,
        shell(&folder)
    ));
    Ok(())
}

/// All data sets, and what is said of their licences.
fn list() -> String {
    let rows = Dataset::all().iter().map(|set| {
        vec![
            set.name.to_owned(),
            format!("{} MB", set.bytes() / 1_000_000),
            images(set),
        ]
    });
    let mut text = table(["name", "download", "images"], rows);
    for set in Dataset::all() {
        text.push_str(&format!(
            "\n\n{}: {}\n  {}\n  licence: {}",
            set.name, set.about, set.page, set.licence
        ));
    }
    text
}

/// The number of images of each split.
fn images(set: &Dataset) -> String {
    let splits = ["training", "validation", "test"].into_iter();
    let counts = splits.zip(set.images).filter(|(_, count)| *count > 0);
    let words = counts.map(|(split, count)| format!("{} {split}", grouped(count)));
    words.collect::<Vec<_>>().join(" + ")
}
