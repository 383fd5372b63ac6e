//! `kvt data`

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Subcommand;

use super::common::generating;
use super::output;
use super::table::{grouped, table};
use crate::data::shapes::{ShapesConfig, ensure};
use crate::data::{Check, ClassOrder, check};

/// How many bad files or duplicates are listed.
const SHOWN: usize = 20;

/// `kvt data generate DIR` and `kvt data check DIR`
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Write the generated data set of geometric shapes as an image folder.
    Generate(Generate),
    /// Read every image of a data set and report what is wrong with it.
    Check {
        /// The folder that holds the splits.
        dir: PathBuf,
        /// Names of the splits.
        #[arg(long, value_delimiter = ',', default_value = "train,val")]
        splits: Vec<String>,
    },
}

#[derive(Debug, clap::Args)]
struct Generate {
    /// The folder to write.
    dir: PathBuf,
    /// Side of an image in pixels.
    #[arg(long, default_value_t = ShapesConfig::default().image_size)]
    image_size: u32,
    /// Number of classes.
    #[arg(long, default_value_t = ShapesConfig::default().classes)]
    classes: usize,
    /// Training images of each class.
    #[arg(long, default_value_t = ShapesConfig::default().train_per_class)]
    train_per_class: usize,
    /// Validation images of each class.
    #[arg(long, default_value_t = ShapesConfig::default().val_per_class)]
    val_per_class: usize,
    /// How much clutter there is behind the shape, from 0 to 1.
    #[arg(long, default_value_t = ShapesConfig::default().clutter)]
    clutter: f64,
    /// How much of it is hidden, from 0 to 1.
    #[arg(long, default_value_t = ShapesConfig::default().occlusion)]
    occlusion: f64,
    /// Seed.
    #[arg(long, default_value_t = ShapesConfig::default().seed)]
    seed: u64,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    match &args.what {
        What::Generate(args) => {
            let config = ShapesConfig {
                image_size: args.image_size,
                classes: args.classes,
                train_per_class: args.train_per_class,
                val_per_class: args.val_per_class,
                clutter: args.clutter,
                occlusion: args.occlusion,
                seed: args.seed,
            };
            let made = ensure(&config, &args.dir, &mut generating())?;
            let done = if made.generated {
                "wrote"
            } else {
                "there are already"
            };
            output::print(&format!(
                "{done} {} training and {} validation images of {} classes in `{}`",
                made.train,
                made.val,
                made.classes.len(),
                made.dir.display()
            ))?;
            Ok(ExitCode::SUCCESS)
        }
        What::Check { dir, splits } => check_folder(dir, splits),
    }
}

fn check_folder(dir: &Path, splits: &[String]) -> anyhow::Result<ExitCode> {
    let splits: Vec<&str> = splits.iter().map(String::as_str).collect();
    let found = check(dir, &splits, ClassOrder::Byte)?;
    output::print(&describe(&found))?;
    Ok(match found.is_sound() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

fn describe(found: &Check) -> String {
    let size = |(width, height): (u32, u32)| format!("{width}x{height}");
    let rows = found.splits.iter().map(|split| {
        let counts = split.classes.iter().map(|(_, count)| *count);
        vec![
            split.name.clone(),
            split.classes.len().to_string(),
            grouped(split.images()),
            format!(
                "{} to {}",
                counts.clone().min().unwrap_or_default(),
                counts.max().unwrap_or_default()
            ),
            split.sizes.map_or_else(String::new, |(small, large)| {
                format!("{} to {}", size(small), size(large))
            }),
            split.grey.to_string(),
            split.cmyk.to_string(),
            split.unreadable.len().to_string(),
        ]
    });
    let header = [
        "split",
        "classes",
        "images",
        "per class",
        "sizes",
        "grey",
        "CMYK",
        "unreadable",
    ];
    let mut text = table(&header, rows);
    let mut say = |line: String| {
        text.push('\n');
        text.push_str(&line);
    };
    if !found.same_classes {
        say("the splits have different classes".to_owned());
    }
    for split in &found.splits {
        if split.classes.len() < 2 {
            say(format!(
                "`{}` has one class only: there is nothing to tell apart",
                split.name
            ));
        }
        for bad in split.unreadable.iter().take(SHOWN) {
            say(format!(
                "unreadable `{}`: {}",
                bad.path.display(),
                bad.reason
            ));
        }
    }
    if !found.duplicates.is_empty() {
        say(format!(
            "images in more than one split: {}; validation on them measures memory",
            found.duplicates.len()
        ));
        for duplicate in found.duplicates.iter().take(SHOWN) {
            let paths: Vec<String> = duplicate
                .paths
                .iter()
                .map(|p| format!("`{}`", p.display()))
                .collect();
            say(format!("  {}", paths.join(" = ")));
        }
    }
    text
}
