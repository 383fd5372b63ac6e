//! `kvt data`

mod fetch;
mod masks;
mod objects;
mod score;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;

use anyhow::bail;
use clap::builder::NonEmptyStringValueParser;
use clap::{Subcommand, ValueEnum};

use super::common::{Overrides, bar, generating, warn_of_others};
use super::output;
use super::table::{grouped, table};
use kvt_data::text::{counted, quoted};
use kvt_train::data::shapes::{Layout, ShapesConfig, ensure};
use kvt_train::data::{
    Check, ClassOrder, DataConfig, DataKind, Duplicate, ImageLimits, Imbalance, Source, SplitCheck,
    check, is_whole, open, open_split, pack, split_name, test_split, unused_splits,
};

/// The default column of the labels.
const LABEL: &str = "label";
/// Maximum number of bad files or duplicates that are listed.
const SHOWN: usize = 20;

/// `kvt data fetch NAME`, `generate DIR`, `check DIR`, `split DIR` and `pack DIR OUT`
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  kvt data fetch imagenette-160\n  kvt data check photos\n  kvt data split photos --val-fraction 0.2\n  kvt data pack photos shards\n  kvt data generate shapes"
)]
pub(super) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Download a small data set of photos as an image folder, or list those that there are.
    Fetch(fetch::Args),
    /// Write the generated data set of geometric shapes: an image folder, or scenes with masks.
    Generate(Generate),
    /// Score a file of detections by COCO's average precision, of boxes and of masks.
    Score(score::Args),
    /// List which images of a folder without splits train and which validate, as `data.val_fraction` has it.
    #[command(after_help = "Examples:\n  kvt data split photos --val-fraction 0.2 > split.txt")]
    Split {
        /// The folder that holds the classes.
        dir: PathBuf,
        /// Share of each class that validates.
        #[arg(long, value_name = "SHARE", value_parser = share)]
        val_fraction: f64,
    },
    /// Write an image folder or Parquet files as tar shards (WebDataset), of which each image is read by itself.
    #[command(
        after_help = "Examples:\n  kvt data pack photos shards\n  kvt data pack photos shards --val-fraction 0.2"
    )]
    Pack {
        /// The folder that holds the splits.
        dir: PathBuf,
        /// The folder to write; it must not exist.
        out: PathBuf,
        /// Names of the splits.
        #[arg(long, value_delimiter = ',', default_value = "train,val", value_parser = NonEmptyStringValueParser::new())]
        splits: Vec<String>,
        /// Divide a folder without splits, `DIR/<class>/*`: share of each class that validates.
        #[arg(long, value_name = "SHARE", value_parser = share, conflicts_with = "splits")]
        val_fraction: Option<f64>,
        /// Order of the classes, as `data.class_order`: by bytes, or by the value of digits.
        #[arg(long)]
        natural_order: bool,
        /// Column of the labels in Parquet files, as `data.label_column`.
        #[arg(long, value_name = "NAME", default_value = LABEL)]
        label_column: String,
        /// MiB of images in a shard.
        #[arg(long, value_name = "MIB", default_value_t = 256, value_parser = clap::value_parser!(u64).range(1..=1_048_576))]
        shard_size: u64,
    },
    /// Read every image of a data set and report what is wrong with it.
    #[command(
        after_help = "Examples:\n  kvt data check photos\n  kvt data check photos --splits train,test\n  kvt data check masks.toml"
    )]
    Check {
        /// The folder that holds the splits, or COCO's images and `annotations`; or a configuration, whose `[data]` says where images and their masks,
        /// or their table of labels, are.
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
    },
}

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  kvt data generate shapes --image-size 64 --classes 5\n  kvt data generate scenes --layout dense --image-size 64 --objects 2,5"
)]
struct Generate {
    /// The folder to write.
    dir: PathBuf,
    /// One shape in an image, or scenes of several with masks and annotations.
    #[arg(long, default_value = "folder")]
    layout: Kind,
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
    /// Fewest and most shapes of a scene.
    #[arg(long, value_name = "FEWEST,MOST", value_parser = pair::<usize>)]
    objects: Option<[usize; 2]>,
    /// Smallest and largest radius of a shape of a scene, in sides of the image.
    #[arg(long, value_name = "SMALLEST,LARGEST", value_parser = pair::<f64>)]
    radius: Option<[f64; 2]>,
    /// Seed.
    #[arg(long, default_value_t = ShapesConfig::default().seed)]
    seed: u64,
}

/// `data.shapes.layout`
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    Folder,
    Dense,
}

/// Two numbers with a comma between them.
fn pair<T: FromStr>(text: &str) -> Result<[T; 2], String> {
    let numbers = text
        .split_once(',')
        .map(|(a, b)| (a.trim().parse(), b.trim().parse()));
    match numbers {
        Some((Ok(a), Ok(b))) => Ok([a, b]),
        _ => Err("expected two numbers with a comma between them".to_owned()),
    }
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    match &args.what {
        What::Fetch(args) => fetch::run(args),
        What::Generate(args) => {
            let unset = ShapesConfig::default();
            let config = ShapesConfig {
                layout: match args.layout {
                    Kind::Folder => Layout::Folder,
                    Kind::Dense => Layout::Dense,
                },
                objects: args.objects.unwrap_or(unset.objects),
                radius: args.radius.unwrap_or(unset.radius),
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
        What::Split { dir, val_fraction } => split_folder(dir, *val_fraction),
        What::Pack {
            dir,
            out,
            splits,
            val_fraction,
            natural_order,
            label_column,
            shard_size,
        } => {
            let data = DataConfig {
                path: dir.clone(),
                class_order: if *natural_order {
                    ClassOrder::Natural
                } else {
                    ClassOrder::Byte
                },
                label_column: label_column.clone(),
                ..DataConfig::default()
            };
            let sources = sources(data, splits, *val_fraction)?;
            for (_, source) in &sources {
                warn_of_others(source);
            }
            if let (None, Some(test)) = (val_fraction, test_split(dir))
                && *splits == DEFAULT_SPLITS
            {
                output::warning(&format!(
                    "`{test}` is not packed: `--splits train,val,{test}` packs it too"
                ));
            }
            pack_folder(&sources, out, shard_size << 20)
        }
        What::Score(args) => score::run(args),
        What::Check { dir, overrides, .. } if dir.is_file() => masks::run(dir, overrides),
        What::Check { overrides, .. } if !overrides.all().is_empty() => {
            bail!("`--set` changes a configuration, but a folder is checked")
        }
        What::Check {
            dir,
            splits,
            max_pixels,
            label_column,
            ..
        } => match objects_in(dir, splits) {
            Some(data) => objects::run(
                &data,
                ImageLimits {
                    max_pixels: *max_pixels,
                },
            ),
            None => check_folder(dir, splits, *max_pixels, label_column),
        },
    }
}

/// The settings of a folder with annotations as COCO has them; they are of two splits.
fn objects_in(dir: &Path, splits: &[String]) -> Option<DataConfig> {
    match splits {
        [train, val] => DataConfig::of_coco(dir, [train, val]),
        _ => None,
    }
}

/// A share of the images.
fn share(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(share) if (0.0..1.0).contains(&share) && share > 0.0 => Ok(share),
        _ => Err("expected a number above 0 and below 1".to_owned()),
    }
}

fn split_folder(dir: &Path, val_fraction: f64) -> anyhow::Result<ExitCode> {
    let mut kinds = [DataKind::Tar, DataKind::Parquet].into_iter();
    let data = DataConfig {
        kind: kinds
            .find(|&kind| is_whole(kind, dir))
            .unwrap_or(DataKind::Folder),
        path: dir.to_owned(),
        val_fraction,
        ..DataConfig::default()
    };
    let sources = open(&data, None)?;
    sources.iter().for_each(warn_of_others);
    let mut lines = Vec::new();
    for (name, source) in ["train", "val"].into_iter().zip(&sources) {
        for sample in &source.samples {
            let path = sample.path.strip_prefix(dir).unwrap_or(&sample.path);
            lines.push(format!("{name}\t{}", path.display()));
        }
    }
    output::print(&lines.join("\n"))?;
    Ok(ExitCode::SUCCESS)
}

/// The named splits of an image folder or of Parquet files, all with the classes of the first.
fn sources(
    mut data: DataConfig,
    splits: &[String],
    val_fraction: Option<f64>,
) -> anyhow::Result<Vec<(String, Source)>> {
    let is_parquet = match (val_fraction, splits.first()) {
        (None, Some(first)) => split_name(DataKind::Parquet, &data.path, first).is_some(),
        _ => is_whole(DataKind::Parquet, &data.path),
    };
    if is_parquet {
        data.kind = DataKind::Parquet;
    }
    if let Some(val_fraction) = val_fraction {
        data.val_fraction = val_fraction;
        let names = DEFAULT_SPLITS.map(str::to_owned);
        return Ok(names.into_iter().zip(open(&data, None)?).collect());
    }
    let mut sources: Vec<(String, Source)> = Vec::new();
    for name in splits {
        let classes = sources.first().map(|(_, first)| first.classes.as_slice());
        let source = open_split(&data, name, classes)?;
        sources.push((name.clone(), source));
    }
    Ok(sources)
}

fn pack_folder(
    sources: &[(String, Source)],
    out: &Path,
    shard_bytes: u64,
) -> anyhow::Result<ExitCode> {
    let splits: Vec<_> = sources
        .iter()
        .map(|(name, source)| (name.as_str(), source))
        .collect();
    let images = splits.iter().map(|(_, source)| source.samples.len()).sum();
    let progress = bar("packing", images);
    let packed = pack(&splits, out, shard_bytes, &mut |done| {
        progress.set_position(done as u64);
    });
    progress.finish_and_clear();
    let packed = packed?;
    output::print(&format!(
        "wrote {} images in {} shards to `{}`; train on them with `data.kind = \"tar\"` and `data.path`",
        packed.images,
        packed.shards,
        out.display()
    ))?;
    Ok(ExitCode::SUCCESS)
}

/// The splits to look for if none is named.
const DEFAULT_SPLITS: [&str; 2] = ["train", "val"];

fn check_folder(
    dir: &Path,
    splits: &[String],
    max_pixels: u64,
    label_column: &str,
) -> anyhow::Result<ExitCode> {
    let mut splits: Vec<&str> = splits.iter().map(String::as_str).collect();
    let is_split = |split: &&str| {
        let mut kinds = [DataKind::Folder, DataKind::Tar, DataKind::Parquet].into_iter();
        kinds.any(|kind| split_name(kind, dir, split).is_some())
    };
    if splits == DEFAULT_SPLITS {
        let is_there = |split: &&str| is_split(split) || dir.join(split).exists();
        if let Some(test) = test_split(dir) {
            splits.retain(is_there);
            splits.push(test);
        } else if !splits.iter().any(is_there) && split_name(DataKind::Cifar, dir, "").is_none() {
            // A folder that holds only classes, which `data.val_fraction` divides, is one split.
            splits = vec![""];
        }
    }
    for kind in [DataKind::Folder, DataKind::Tar, DataKind::Parquet] {
        let data = DataConfig {
            kind,
            path: dir.to_owned(),
            ..DataConfig::default()
        };
        for warning in unused_splits(&data) {
            output::warning(&warning);
        }
    }
    let limits = ImageLimits { max_pixels };
    let mut found = check(dir, &splits, ClassOrder::Byte, limits, label_column)?;
    for split in found
        .splits
        .iter_mut()
        .filter(|split| split.name.is_empty())
    {
        split.name = dir.display().to_string();
    }
    tell(&found)
}

/// Prints the findings; the exit code says whether training can work.
fn tell(found: &Check) -> anyhow::Result<ExitCode> {
    output::print(&describe(found))?;
    Ok(if found.is_sound() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn describe(found: &Check) -> String {
    let size = |(width, height): (u32, u32)| format!("{width}x{height}");
    let rows = found.splits.iter().map(|split| {
        let counts = split.classes.iter().map(|(_, count)| *count);
        let least = counts.clone().min().unwrap_or_default();
        let most = counts.max().unwrap_or_default();
        vec![
            split.name.clone(),
            split.classes.len().to_string(),
            grouped(split.images),
            format!("{least} to {most}"),
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
    let header =
        "split,classes,images,per class,sizes,grey,CMYK,unreadable,bad links,other formats";
    let header: Vec<&str> = header.split(',').collect();
    let mut text = table(&header, rows);
    text.push_str(&label_counts(found));
    let mut say = |line: String| {
        text.push('\n');
        text.push_str(&line);
    };
    if !found.same_classes {
        say("the splits have different classes".to_owned());
    }
    for split in &found.splits {
        if split.classes.len() < 2 && split.label_sets.is_none() {
            say(format!(
                "`{}` has one class only: there is nothing to tell apart",
                split.name
            ));
        }
        tell_files(split, &mut say);
    }
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
        say(format!(
            "unbalanced: {} of class `{}`, {} of class `{}`, {ratio:.0} times fewer; {advice}",
            counted(most.1, "image"),
            most.0,
            least.1,
            least.0
        ));
    }
    tell_duplicates(&found.duplicates, &mut say);
    text
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
    let splits = found.splits.iter();
    let classes = class_table(&splits.map(|split| (split.name.as_str(), &split.classes[..])));
    format!("\n\n{}\n\n{classes}", table(&header, rows))
}

/// How many there are of each class, split by split. All have the classes of the first.
fn class_table<'a>(
    splits: &(impl Iterator<Item = (&'a str, &'a [(String, usize)])> + Clone),
) -> String {
    let names = splits.clone().map(|(name, _)| name);
    let header: Vec<&str> = std::iter::once("class").chain(names).collect();
    let first = splits
        .clone()
        .next()
        .map_or(&[][..], |(_, classes)| classes);
    let rows = first.iter().enumerate().map(|(class, (name, _))| {
        let own = splits.clone().map(|(_, classes)| {
            let own = classes.get(class);
            grouped(own.map_or(0, |(_, count)| *count))
        });
        std::iter::once(name.clone()).chain(own).collect()
    });
    table(&header, rows)
}

/// Reports images that are in several splits.
fn tell_duplicates(duplicates: &[Duplicate], say: &mut impl FnMut(String)) {
    if duplicates.is_empty() {
        return;
    }
    say(format!(
        "images in more than one split: {}; validation numbers are inflated by memorisation",
        duplicates.len()
    ));
    for duplicate in duplicates.iter().take(SHOWN) {
        let paths = duplicate.paths.iter();
        let paths: Vec<String> = paths.map(|p| format!("`{}`", p.display())).collect();
        say(format!("  {}", paths.join(" = ")));
    }
}

/// Reports the problems of the files of a split.
fn tell_files(split: &SplitCheck, say: &mut impl FnMut(String)) {
    let name = &split.name;
    for (class, _) in split.classes.iter().filter(|(_, images)| *images == 0) {
        say(format!("class `{class}` of `{name}` has no image"));
    }
    for bad in split.unreadable.iter().take(SHOWN) {
        let (path, reason) = (bad.path.display(), &bad.reason);
        say(format!("unreadable `{path}`: {reason}"));
    }
    for bad in split.dead_links.iter().take(SHOWN) {
        say(format!("image `{}`: {}", bad.path.display(), bad.reason));
    }
    for bad in split.unlisted.iter().take(SHOWN) {
        let (path, reason) = (bad.path.display(), &bad.reason);
        say(format!("could not list `{path}`: {reason}"));
    }
    if let Some(others) = split.others.describe() {
        say(format!(
            "not read in `{name}`: {others}; convert them to JPEG or PNG"
        ));
    }
    if let Some(beside) = split.beside.describe() {
        say(format!("of no image, and not read, in `{name}`: {beside}"));
    }
    split.notes.iter().for_each(|note| say(note.clone()));
    if !split.gaps.is_empty() {
        let missing = quoted(&split.gaps);
        say(format!(
            "missing between other numbered files of `{name}`: {missing}"
        ));
    }
}
