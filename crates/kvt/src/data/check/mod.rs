//! `kvt data check`: of a folder here.

mod masks;
mod objects;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use clap::builder::NonEmptyStringValueParser;

use super::LABEL;
use crate::common::{Overrides, success_if};
use crate::output;
use crate::table::{grouped, table};
use kvt_data::text::{counted, quoted};
use kvt_train::data::{
    Check, DataConfig, DecodeError, Duplicate, ImageLimits, Imbalance, OtherFormats, SplitCheck,
    Unlisted, check_folder, unused_splits_of,
};

/// Maximum number of bad files or duplicates that are listed.
const SHOWN: usize = 20;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  kvt data check photos\n  kvt data check photos --splits train,test\n  kvt data check masks.toml"
)]
pub(super) struct Args {
    /// The folder that holds the splits, or COCO's images and `annotations`; or a configuration, whose `[data]` says where images and their masks,
    /// annotations or table of labels are.
    dir: PathBuf,
    #[command(flatten)]
    overrides: Overrides,
    /// Names of the splits; without them `test` too, where there is one.
    #[arg(long, value_delimiter = ',', default_value = "train,val", value_parser = NonEmptyStringValueParser::new())]
    splits: Vec<String>,
    /// Most pixels of an image, as `data.max_pixels`.
    #[arg(long, value_name = "N", default_value_t = ImageLimits::default().max_pixels, value_parser = clap::value_parser!(u64).range(1..))]
    max_pixels: u64,
    /// Column of the labels in Parquet files, as `data.label_column`.
    #[arg(long, value_name = "NAME", default_value = LABEL)]
    label_column: String,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let Args { dir, splits, .. } = args;
    if dir.is_file() {
        return masks::run(dir, &args.overrides);
    }
    if !args.overrides.all().is_empty() {
        bail!("`--set` changes a configuration, but a folder is checked")
    }
    let limits = ImageLimits::of(args.max_pixels);
    // Annotations as COCO has them are of two splits.
    if let [train, val] = splits.as_slice()
        && let Some(data) = DataConfig::of_coco(dir, [train, val])
    {
        return objects::run(&data, limits);
    }
    output::warnings(unused_splits_of(dir));
    tell(&check_folder(dir, splits, limits, &args.label_column)?)
}

fn tell(found: &Check) -> anyhow::Result<ExitCode> {
    judged(&describe(found), found.is_sound())
}

/// Prints the findings; the exit code says whether training can work.
fn judged(findings: &str, is_sound: bool) -> anyhow::Result<ExitCode> {
    output::print(findings)?;
    Ok(success_if(is_sound))
}

fn describe(found: &Check) -> String {
    let rows = found.splits.iter().map(|split| {
        let counts = split.classes.iter().map(|(_, count)| *count);
        let least = counts.clone().min().unwrap_or_default();
        let most = counts.max().unwrap_or_default();
        vec![
            split.name.clone(),
            split.classes.len().to_string(),
            grouped(split.images),
            format!("{least} to {most}"),
            sizes(split.sizes),
            split.grey.to_string(),
            split.cmyk.to_string(),
            split.unreadable.len().to_string(),
            (split.dead_links.len() + split.unlisted.len()).to_string(),
            split.others.count().to_string(),
        ]
    });
    let header =
        "split,classes,images,per class,sizes,grey,CMYK,unreadable,bad links,other formats";
    let mut lines = vec![table(header.split(','), rows) + &label_counts(found)];
    // The training images come first.
    let first = found.splits.first();
    if let Some(Imbalance { most, least, ratio }) = first.and_then(SplitCheck::imbalance) {
        // What helps with one label is refused with several.
        let advice = if first.is_some_and(|split| split.label_sets.is_some()) {
            "judge by mAP and macro F1"
        } else {
            "`data.balance = \"sqrt\"` shows small classes more often, `loss.class_weights = \"inverse\"` makes their images count more; judge by \
             macro recall and F1"
        };
        lines.push(format!(
            "unbalanced: {} of class `{}`, {} of class `{}`, {ratio:.0} times fewer; {advice}",
            counted(most.1, "image"),
            most.0,
            least.1,
            least.0
        ));
    }
    told(found, lines, |split, lines| {
        if split.classes.len() < 2 && split.label_sets.is_none() {
            lines.push(format!(
                "`{}` has one class only: there is nothing to tell apart",
                split.name
            ));
        }
        tell_files(split, lines);
    })
}

/// The tables, and line by line what `tell` says of each split and what there is to say of several.
fn told<S>(
    found: &Check<S>,
    mut lines: Vec<String>,
    tell: impl Fn(&S, &mut Vec<String>),
) -> String {
    if !found.same_classes {
        lines.push("the splits have different classes".to_owned());
    }
    for split in &found.splits {
        tell(split, &mut lines);
    }
    tell_duplicates(&found.duplicates, &mut lines);
    lines.join("\n")
}

/// Where images can have any number of labels: how many they have, and the images of each class.
fn label_counts(found: &Check) -> String {
    let header = ["split", "labels", "per image", "without label"];
    let rows = found.splits.iter().filter_map(|split| {
        let labels = split.label_sets?;
        let (least, most) = (labels.least, labels.most);
        Some(vec![
            split.name.clone(),
            grouped(labels.all),
            format!("{least} to {most}, mean {:.2}", labels.mean(split.images)),
            grouped(labels.unlabelled),
        ])
    });
    let rows: Vec<_> = rows.collect();
    if rows.is_empty() {
        return String::new();
    }
    let classes = class_table(
        &found.splits,
        |split| (split.name.as_str(), &split.classes[..]),
        |_, images| grouped(images),
    );
    format!("\n\n{}\n\n{classes}", table(header, rows))
}

/// A cell for each class and split, from the split and what it has of the class. `of` says the split's name and classes; all have the
/// classes of the first.
fn class_table<S, N: Copy + Default>(
    splits: &[S],
    of: impl Fn(&S) -> (&str, &[(String, N)]),
    cell: impl Fn(&S, N) -> String,
) -> String {
    let header = std::iter::once("class").chain(splits.iter().map(|split| of(split).0));
    let first = splits.first().map_or(&[][..], |split| of(split).1);
    let rows = first.iter().enumerate().map(|(class, (name, _))| {
        let own = splits.iter().map(|split| {
            let own = of(split).1.get(class);
            cell(split, own.map_or_else(N::default, |(_, own)| *own))
        });
        std::iter::once(name.clone()).chain(own).collect()
    });
    table(header, rows)
}

/// The smallest and the largest image.
fn sizes(sizes: Option<((u32, u32), (u32, u32))>) -> String {
    sizes.map_or_else(String::new, |((w, h), (wide, high))| {
        format!("{w}x{h} to {wide}x{high}")
    })
}

/// Reports images that are in several splits.
fn tell_duplicates(duplicates: &[Duplicate], lines: &mut Vec<String>) {
    if duplicates.is_empty() {
        return;
    }
    lines.push(format!(
        "images in more than one split: {}; validation numbers are inflated by memorisation",
        duplicates.len()
    ));
    for duplicate in duplicates.iter().take(SHOWN) {
        let paths = duplicate.paths.iter();
        let paths: Vec<String> = paths.map(|p| format!("`{}`", p.display())).collect();
        lines.push(format!("  {}", paths.join(" = ")));
    }
}

/// Reports files, each with what is wrong with it.
fn tell_bad(what: &str, files: &[DecodeError], lines: &mut Vec<String>) {
    for bad in files.iter().take(SHOWN) {
        lines.push(format!("{what} `{}`: {}", bad.path.display(), bad.reason));
    }
}

/// Reports what a split's folders have that is not read.
fn tell_unread(split: &str, unlisted: &[Unlisted], others: &OtherFormats, lines: &mut Vec<String>) {
    for bad in unlisted.iter().take(SHOWN) {
        let (path, reason) = (bad.path.display(), &bad.reason);
        lines.push(format!("could not list `{path}`: {reason}"));
    }
    if let Some(others) = others.describe() {
        lines.push(format!(
            "not read in `{split}`: {others}; convert them to JPEG or PNG"
        ));
    }
}

/// Reports the problems of the files of a split.
fn tell_files(split: &SplitCheck, lines: &mut Vec<String>) {
    let name = &split.name;
    for (class, _) in split.classes.iter().filter(|(_, images)| *images == 0) {
        lines.push(format!("class `{class}` of `{name}` has no image"));
    }
    tell_bad("unreadable", &split.unreadable, lines);
    tell_bad("image", &split.dead_links, lines);
    tell_unread(name, &split.unlisted, &split.others, lines);
    if let Some(beside) = split.beside.describe() {
        lines.push(format!("of no image, and not read, in `{name}`: {beside}"));
    }
    lines.extend(split.notes.iter().cloned());
    if !split.gaps.is_empty() {
        let missing = quoted(&split.gaps);
        lines.push(format!(
            "missing between other numbered files of `{name}`: {missing}"
        ));
    }
}
