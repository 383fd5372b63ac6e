//! `kvt data`

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Subcommand;
use clap::builder::NonEmptyStringValueParser;

use super::common::generating;
use super::output;
use super::table::{grouped, table};
use crate::data::shapes::{ShapesConfig, ensure};
use crate::data::{Check, ClassOrder, ImageLimits, SplitCheck, check};

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
        #[arg(long, value_delimiter = ',', default_value = "train,val", value_parser = NonEmptyStringValueParser::new())]
        splits: Vec<String>,
        /// Most pixels of an image, as `data.max_pixels`.
        #[arg(long, value_name = "N", default_value_t = ImageLimits::default().max_pixels, value_parser = clap::value_parser!(u64).range(1..))]
        max_pixels: u64,
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
        What::Check {
            dir,
            splits,
            max_pixels,
        } => check_folder(dir, splits, *max_pixels),
    }
}

fn check_folder(dir: &Path, splits: &[String], max_pixels: u64) -> anyhow::Result<ExitCode> {
    let splits: Vec<&str> = splits.iter().map(String::as_str).collect();
    let limits = ImageLimits { max_pixels };
    let found = check(dir, &splits, ClassOrder::Byte, limits)?;
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
            (split.dead_links.len() + split.unlisted.len()).to_string(),
            split.others.count().to_string(),
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
        "bad links",
        "other formats",
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
        tell_files(split, &mut say);
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

/// What is wrong with the files of a split.
fn tell_files(split: &SplitCheck, say: &mut impl FnMut(String)) {
    let name = &split.name;
    for (class, _) in split.classes.iter().filter(|(_, images)| *images == 0) {
        say(format!("class `{class}` of `{name}` has no image"));
    }
    for bad in split.unreadable.iter().take(SHOWN) {
        say(format!(
            "unreadable `{}`: {}",
            bad.path.display(),
            bad.reason
        ));
    }
    for bad in split.dead_links.iter().take(SHOWN) {
        say(format!("image `{}`: {}", bad.path.display(), bad.reason));
    }
    for bad in split.unlisted.iter().take(SHOWN) {
        say(format!(
            "could not list `{}`: {}",
            bad.path.display(),
            bad.reason
        ));
    }
    if let Some(others) = split.others.describe() {
        say(format!(
            "not read in `{name}`: {others}; convert them to JPEG or PNG"
        ));
    }
}
