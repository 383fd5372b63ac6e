//! Errors between a folder and a batch.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use unicode_normalization::UnicodeNormalization;

use crate::DecodeError;
use crate::augment::AugmentError;
use crate::listing::{OtherFormats, Unlisted};
use crate::schema::Refusal;
use crate::source::{Unpaired, VAL, is_usual};
use crate::text::{counted, quoted};

/// An error while reading a data set.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// The folder of a split does not exist.
    #[error("no folder `{}`: expected an image folder `{}/<class>/*.jpg`", .0.display(), .0.display())]
    MissingFolder(PathBuf),
    /// The folder of a split does not exist, but there are class folders in its parent.
    #[error(
        "no folder `{}`, but there are class folders in `{}` itself: set `data.val_fraction`, such as 0.2, to validate on a \
         share of each class, or move them into `{train}` and `{val}`",
        path.join(train).display(), path.display()
    )]
    NotSplit {
        /// The folder of the data.
        path: PathBuf,
        /// The name of the training images' folder.
        train: String,
        /// The name of the validation images' folder.
        val: String,
    },
    /// The folder of a split contains no class folder.
    #[error("`{}` has no class folders: expected `<class>/*.jpg` in it", .0.display())]
    NoClasses(PathBuf),
    /// The images are directly in the split's folder.
    #[error(
        "`{}` holds images but no class folders: move each image into a folder named by its class, `{}/<class>/*.jpg`, \
         or name a table with their paths and labels in `data.labels`{}",
        path.display(), path.display(), such_as(tables)
    )]
    FlatFolder {
        /// The folder.
        path: PathBuf,
        /// The tables of labels in it.
        tables: Vec<String>,
    },
    /// A class folder without a supported image.
    #[error("class folder `{}` has no image{}", path.display(), instead(others))]
    EmptyClass {
        /// The folder.
        path: PathBuf,
        /// The unsupported images in it.
        others: OtherFormats,
    },
    /// A class folder whose name is not valid UTF-8.
    #[error("the name of class folder `{}` is not valid UTF-8: rename it", .0.display())]
    ClassName(PathBuf),
    /// The classes of the folder are not the expected ones.
    #[error(
        "the classes of `{}` are not those expected: {}{}",
        path.display(), differences(missing, extra), forms(missing, extra)
    )]
    ClassesDiffer {
        /// The folder.
        path: PathBuf,
        /// Expected classes that are missing.
        missing: Vec<String>,
        /// Class folders that were not expected.
        extra: Vec<String>,
    },
    /// More images are requested than exist.
    #[error("`data.subset` is {asked}, but `{}` has {found} training images: ask for fewer, or for all with 0", root.display())]
    Subset {
        /// Their folder.
        root: PathBuf,
        /// Number of images requested.
        asked: usize,
        /// Number of images found.
        found: usize,
    },
    /// A folder that is already divided into splits.
    #[error(
        "`{}` is divided into splits already, {}: leave `data.val_fraction` out, or set `data.path` to the folder that holds \
         the classes",
        path.display(), quoted(splits)
    )]
    AlreadySplit {
        /// The folder.
        path: PathBuf,
        /// The names of its splits.
        splits: Vec<String>,
    },
    /// Splits that are named, beside a share that makes them.
    #[error(
        "the splits {} are named, but a `val_fraction` makes splits of its own: leave out either the names or the share",
        quoted(.0)
    )]
    NamedAndDivided(Vec<String>),
    /// Shards of several splits in one folder.
    #[error(
        "`{}` holds the shards of several splits, {}: move those for training into a folder `{}`, and those for validation into one \
         called `val`",
        path.display(), quoted(splits), path.join("train").display()
    )]
    SideBySide {
        /// The folder.
        path: PathBuf,
        /// The names of its splits.
        splits: Vec<String>,
    },
    /// Shards or Parquet files where class folders are expected.
    #[error(
        "`{}` holds {files}, not class folders: `data.kind = \"{kind}\"` reads them, where `data.path` is the folder that holds `train` \
         and `val`",
        path.display()
    )]
    NotFolders {
        /// The folder.
        path: PathBuf,
        /// What is there, in words.
        files: &'static str,
        /// The value of `data.kind` for it.
        kind: &'static str,
    },
    /// Splits where class folders are expected.
    #[error(
        "`{}` holds splits, not classes: {}; the images of one are in `{}`; if these are classes after all, rename it",
        path.display(), quoted(splits), path.join(one_of(splits)).display()
    )]
    SplitsAsClasses {
        /// The folder.
        path: PathBuf,
        /// The names of its splits.
        splits: Vec<String>,
    },
    /// Images and what belongs to them where class folders are expected.
    #[error(
        "`{}` holds images and what is known of them, not classes: {}; in a configuration, `task = \"segment\"` with `data.kind = \"masks\"` \
         learns masks, and `task = \"detect\"` with `data.kind = \"coco\"` annotations; if these are classes after all, rename one",
        path.display(), quoted(folders)
    )]
    PairsAsClasses {
        /// The folder.
        path: PathBuf,
        /// The names of the folders in it.
        folders: Vec<String>,
    },
    /// There are test images, but no validation images.
    #[error(
        "`{}` has no validation images ({}): to choose the best checkpoint by its test images, set `data.val` to `{test}`",
        path.display(), quoted(&VAL.map(str::to_owned))
    )]
    OnlyTest {
        /// The folder.
        path: PathBuf,
        /// The name of the test images' split.
        test: &'static str,
    },
    /// A class whose name cannot be written to a line.
    #[error("`{}` has a class named {class:?}: a name has one line, and is not empty", path.display())]
    ClassLine {
        /// The folder.
        path: PathBuf,
        /// The name.
        class: String,
    },
    /// A folder without tar shards.
    #[error("`{}` has no shards: expected `*.tar` files as WebDataset and `kvt data pack` write them", .0.display())]
    NoShards(PathBuf),
    /// An unusable shard.
    #[error("shard `{}`{}: {fault}", shard.display(), around(", `", member, "`"))]
    Shard {
        /// The shard.
        shard: PathBuf,
        /// The invalid file in it.
        member: Option<String>,
        /// What is wrong.
        fault: ShardFault,
    },
    /// A folder without Parquet files.
    #[error(
        "`{}` has no Parquet files{}: expected files as Hugging Face writes them",
        path.display(), expected(split)
    )]
    NoParquet {
        /// The folder.
        path: PathBuf,
        /// The requested split.
        split: Option<String>,
    },
    /// An unusable Parquet file.
    #[error("`{}`: {fault}", path.display())]
    Parquet {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        fault: ParquetFault,
    },
    /// Shards or Parquet files without an image.
    #[error("the files in `{}`{} hold no image", path.display(), around(" of the split `", split, "`"))]
    NoImages {
        /// The folder.
        path: PathBuf,
        /// The requested split.
        split: Option<String>,
    },
    /// Two classes with the same name.
    #[error(
        "two of the classes of `{}` are called `{class}`, and labels are matched by name: give each a name of its own",
        path.display()
    )]
    TwoClasses {
        /// The folder.
        path: PathBuf,
        /// Their name.
        class: String,
    },
    /// No class has enough images to give one to validation.
    #[error(
        "no class of `{}` has two images, so `data.val_fraction` leaves none for validation: add images, or name a folder \
         of images for validation in `data.val`",
        .0.display()
    )]
    NoneValidates(PathBuf),
    /// A folder without CIFAR's files.
    #[error(
        "`{}` holds neither CIFAR-10 (`data_batch_1.bin`, ...) nor CIFAR-100 (`train.bin`) in their binary version: unpack \
         the archive there",
        .0.display()
    )]
    NoCifar(PathBuf),
    /// A folder of images or masks that does not exist.
    #[error(
        "no folder `{}`: expected images in `{}`, and their masks in `{}`; `data.images` and `data.masks` name these folders",
        path.display(), images.display(), masks.display()
    )]
    NoPairs {
        /// The folder.
        path: PathBuf,
        /// The folder of the images.
        images: PathBuf,
        /// The folder of the masks.
        masks: PathBuf,
    },
    /// Images without a mask, or masks without an image.
    #[error("`{}`: {}; `kvt data check` lists all", path.display(), alone(unpaired))]
    Unpaired {
        /// The folder of the images.
        path: PathBuf,
        /// The files.
        unpaired: Unpaired,
    },
    /// An invalid file of records.
    #[error("`{}`: {reason}", path.display())]
    Records {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// An invalid row of a table.
    #[error("`{}`, line {line}: {reason}", path.display())]
    Row {
        /// The table.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// What is wrong with it.
        reason: String,
    },
    /// A file of annotations that cannot be opened.
    #[error(
        "could not open the annotations `{}`: {reason}; `data.train_annotations` and `data.val_annotations` name these files",
        path.display()
    )]
    NoAnnotations {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// A file that is none of COCO's.
    #[error("`{}` is not a file of {what}: {reason}", path.display())]
    NotCoco {
        /// The file.
        path: PathBuf,
        /// What it should be.
        what: &'static str,
        /// What is wrong with it, with line and column if it is no such JSON.
        reason: String,
    },
    /// Two entries of a file of annotations with one id.
    #[error("`{}` has two {what} with the id {id}: write the file again with ids of their own", path.display())]
    TwoIds {
        /// The file.
        path: PathBuf,
        /// Of what there are two: `images`, `annotations` or `categories`.
        what: &'static str,
        /// Their id.
        id: u64,
    },
    /// A file of annotations without categories.
    #[error("`{}` has no categories: they are the classes", .0.display())]
    NoCategories(PathBuf),
    /// Image files of annotations that are not in the folder.
    #[error(
        "{} of the images of `{}` are not in `{}`: {}; `data.path` and the split name this folder, `data.on_error = \"skip\"` passes over \
         what is missing",
        missing.len(), path.display(), folder.display(), quoted(missing)
    )]
    MissingImages {
        /// The annotation file.
        path: PathBuf,
        /// The folder of the images.
        folder: PathBuf,
        /// The names of the missing files.
        missing: Vec<String>,
    },
    /// No image with annotations to train on.
    #[error(
        "`{}` has no image to train on: of {images}, {without} have no object that is trained on, and {small} have a side below \
         {least} px; `kvt data check` tells why",
        path.display()
    )]
    NothingTrains {
        /// The annotation file.
        path: PathBuf,
        /// Number of its images.
        images: usize,
        /// Those without an object.
        without: usize,
        /// Those that are too small.
        small: usize,
        /// The least side in pixels.
        least: u32,
    },
    /// No object to evaluate by.
    #[error(
        "`{}` has no object that counts in any of its {images} images: an evaluation needs one that is no crowd; `kvt data check` tells more",
        path.display()
    )]
    NothingEvaluates {
        /// The annotation file.
        path: PathBuf,
        /// Number of its images.
        images: usize,
    },
    /// The destination for packed data already exists.
    #[error("`{}` already exists: choose another folder, or remove it", .0.display())]
    Exists(PathBuf),
    /// More images than a sample index can count.
    #[error("`{}` has more than {} images", .0.display(), u32::MAX)]
    TooManyImages(PathBuf),
    /// A folder or file that cannot be read.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// A dead or circular link, or a folder that cannot be listed: it may contain images.
    #[error("could not list `{}`: {}; repair or remove it", .0.path.display(), .0.reason)]
    Unlisted(Unlisted),
    /// An image that cannot be decoded.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// An invalid augmentation.
    #[error(transparent)]
    Transform(#[from] AugmentError),
    /// An image that cannot be augmented.
    #[error("could not augment `{}`", path.display())]
    Augment {
        /// The image.
        path: PathBuf,
        /// The reason.
        source: AugmentError,
    },
    /// `on_error = "skip"`, and the number of bad files exceeds the limit.
    #[error(
        "{count} unreadable images, more than the allowed {max}; the last one: `{}`: {}; repair the data or raise `data.max_skipped`",
        last.path.display(), last.reason
    )]
    TooManySkipped {
        /// Bad files so far in this epoch.
        count: usize,
        /// The limit.
        max: usize,
        /// The last bad file.
        last: DecodeError,
    },
    /// `on_error = "skip"`, but no image can be read.
    #[error(
        "none of the {images} images in `{}` can be read: run `kvt data check` to see why",
        path.display()
    )]
    NothingReadable {
        /// The folder.
        path: PathBuf,
        /// Number of its images.
        images: usize,
    },
    /// The order of the epoch contains a sample that the source does not have.
    #[error("the order names sample {index}, but `{}` has {len} images", path.display())]
    NoSuchSample {
        /// The sample index.
        index: u32,
        /// Samples in the source.
        len: usize,
        /// The source's folder.
        path: PathBuf,
    },
    /// A batch size of zero.
    #[error("a batch of 0 images: the batch size must be at least 1")]
    EmptyBatch,
    /// A worker thread could not be started.
    #[error("could not start a data worker: {0}")]
    Spawn(std::io::Error),
    /// A worker thread panicked: a bug, reported instead of a truncated epoch.
    #[error("a data worker panicked: {0}")]
    Panicked(String),
    /// An invalid setting of the generated data set.
    #[error("`data.shapes.{key}` is {}: expected {}", .refusal.value, .refusal.expected)]
    ShapesConfig {
        /// The key.
        key: String,
        /// Its value, and what is allowed.
        refusal: Refusal,
    },
    /// The folder for the generated data set contains another one.
    #[error(
        "`{}` holds a data set generated with other settings ({differences}): remove the folder, or choose another `data.path`",
        path.display()
    )]
    OtherShapes {
        /// The folder.
        path: PathBuf,
        /// The settings that differ.
        differences: String,
    },
    /// The folder for the generated data set contains something else.
    #[error("`{}` is not empty and does not contain a generated data set: choose another `data.path`", .0.display())]
    NotShapes(PathBuf),
    /// An image that could not be written.
    #[error("could not write `{}`: {reason}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The encoder's message.
        reason: String,
    },
}

impl DataError {
    /// An invalid file of records.
    pub(crate) fn records(path: impl Into<PathBuf>, reason: impl Into<String>) -> Self {
        let (path, reason) = (path.into(), reason.into());
        Self::Records { path, reason }
    }

    /// A file that could not be written.
    pub(crate) fn write(path: &Path, reason: &impl ToString) -> Self {
        let (path, reason) = (path.to_owned(), reason.to_string());
        Self::Write { path, reason }
    }
}

fn such_as(tables: &[String]) -> String {
    match tables {
        [] => String::new(),
        tables => format!(", such as {}", quoted(tables)),
    }
}

/// A split with a usual name, or the last one.
fn one_of(splits: &[String]) -> &str {
    let usual = splits.iter().rfind(|name| is_usual(name));
    usual.or(splits.last()).map_or("", String::as_str)
}

/// What is wrong with a tar shard.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ShardFault {
    /// Its headers cannot be read.
    #[error("not a whole tar archive: {0}; write it again")]
    Damaged(String),
    /// It ends within a member.
    #[error("the shard ends before it: truncated; write it again")]
    Truncated,
    /// The two blocks of zeros at its end are missing.
    #[error("the end of the archive is missing: truncated; write it again")]
    NoEnd,
    /// Something other than zeros follows its end.
    #[error(
        "the archive ends before byte {0}, where something else begins that would not be read: write the shard again; \
         `tar --concatenate` joins archives"
    )]
    Behind(u64),
    /// An image or a label that is no regular file.
    #[error(
        "{0}, which is not read: write the shard again, with `tar --dereference --hard-dereference`"
    )]
    NotAFile(String),
    /// An image without a label.
    #[error("there is no `.cls` file with its label beside it")]
    NoLabel,
    /// A label without an image.
    #[error(
        "a label without an image beside it (.jpg, .jpeg, .png, .webp, .bmp, .tif, .tiff or .gif)"
    )]
    NoImage,
    /// Two images under one name.
    #[error("a second image of the same sample")]
    TwoImages,
    /// Two labels under one name.
    #[error("a second label of the same sample")]
    TwoLabels,
    /// A label that is too long to be a number.
    #[error("a label of {0} bytes: expected a whole number, in at most 32")]
    LongLabel(u64),
    /// A label that is not a number, or is too large.
    #[error(
        "label `{label}` is not a whole number{}",
        around(" below ", classes, ", the number of classes")
    )]
    Label {
        /// The label.
        label: String,
        /// The number of classes, if it is known.
        classes: Option<usize>,
    },
}

/// What is wrong with a Parquet file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParquetFault {
    /// A part of it cannot be read.
    #[error("not a whole Parquet file: {0}; download or write it again")]
    Damaged(String),
    /// An unsupported kind of content.
    #[error("column `{column}` is {what}, which is not read: write the file again with {instead}")]
    Unread {
        /// The column.
        column: String,
        /// The encoding of its values.
        what: String,
        /// What is supported.
        instead: &'static str,
    },
    /// No column contains images.
    #[error("no column of images, `image.bytes`: write it as Hugging Face's `datasets` does; there are {}", quoted(.0))]
    NoImages(Vec<String>),
    /// Several columns contain images, and none has the usual name.
    #[error("several columns of images, {}: rename the one to be used to `image`", quoted(.0))]
    SeveralImages(Vec<String>),
    /// The column of labels is missing.
    #[error(
        "no column `{column}`: name that of the labels in `data.label_column`; there are {}",
        quoted(columns)
    )]
    NoLabels {
        /// The requested column.
        column: String,
        /// The existing columns.
        columns: Vec<String>,
    },
    /// A row that does not say of which class its image is.
    #[error("column `{column}`, row {row}: {reason}")]
    Row {
        /// The column.
        column: String,
        /// The row, from 0.
        row: u64,
        /// What is wrong with it.
        reason: String,
    },
    /// Of the files that are numbered in their names, some are missing.
    #[error(
        "of its {of} parts, {} are missing: download or write them again",
        quoted(missing)
    )]
    MissingParts {
        /// Number of the parts.
        of: u32,
        /// Numbers of the missing ones.
        missing: Vec<String>,
    },
    /// Of the files that are numbered in their names, there are more than there can be.
    #[error("there are more files than its {0} parts: remove those of another download")]
    OtherParts(u32),
    /// The files of a split do not match.
    #[error("the names of its classes are not those of `{}` in their order: write the files of a split together", .0.display())]
    OtherClasses(PathBuf),
}

impl ParquetFault {
    /// A label that is none of so many classes, if their number is known.
    pub(crate) fn label(column: &str, row: u64, label: i64, classes: Option<usize>) -> Self {
        let last = classes.and_then(|count| count.checked_sub(1));
        let to = around(" to ", &last, "");
        let reason = format!(
            "label {label} is not a number from 0{to}; -1 in all rows is a split without labels"
        );
        let column = column.to_owned();
        Self::Row {
            column,
            row,
            reason,
        }
    }
}

/// What is there, in words around it; nothing if it is not.
fn around<T: Display>(before: &str, value: &Option<T>, behind: &str) -> String {
    let value = value.as_ref();
    value.map_or_else(String::new, |value| format!("{before}{value}{behind}"))
}

fn expected(split: &Option<String>) -> String {
    split.as_ref().map_or(String::new(), |split| {
        format!(
            " of a split `{split}` (`{split}-00000-of-00001.parquet`, ... or `{split}/*.parquet`)"
        )
    })
}

/// The first five images, masks and names without a partner.
fn alone(unpaired: &Unpaired) -> String {
    let paths = |paths: &[PathBuf]| {
        let paths = paths.iter().map(|path| path.display().to_string());
        paths.collect::<Vec<_>>()
    };
    let parts = [
        ("image", "without a mask", paths(&unpaired.images)),
        ("mask", "without an image", paths(&unpaired.masks)),
        (
            "name",
            "of the list without an image",
            unpaired.listed.clone(),
        ),
    ];
    let mut left = 5;
    let words = parts
        .into_iter()
        .filter(|(.., names)| !names.is_empty())
        .map(|(thing, what, names)| {
            let shown = names.get(..left.min(names.len())).unwrap_or_default();
            left -= shown.len();
            let count = counted(names.len(), thing);
            match shown {
                [] => format!("{count} {what}"),
                shown => format!("{count} {what}: {}", quoted(shown)),
            }
        });
    words.collect::<Vec<_>>().join("; ")
}

/// The content of a class folder without images, and what to do.
fn instead(others: &OtherFormats) -> String {
    match others.describe() {
        Some(found) => format!(" that is read, only {found}: convert them to JPEG or PNG"),
        None => {
            ": add a .jpg, .jpeg, .png, .webp, .bmp, .tif, .tiff or .gif file, or remove the folder"
                .to_owned()
        }
    }
}

/// The differences between the classes of a folder and the expected ones.
fn differences(missing: &[String], extra: &[String]) -> String {
    let parts = [("it lacks", missing), ("it also has", extra)]
        .into_iter()
        .filter(|(_, names)| !names.is_empty())
        .map(|(what, names)| format!("{what} {}", quoted(names)));
    parts.collect::<Vec<_>>().join(", ")
}

/// A hint if a class that is missing is there in another Unicode form, as macOS writes it: the two look the same.
fn forms(missing: &[String], extra: &[String]) -> String {
    let composed = |name: &String| name.nfc().collect::<String>();
    let mut pairs = missing
        .iter()
        .flat_map(|name| extra.iter().map(move |other| (name, other)));
    let found = pairs.find(|(name, other)| composed(name) == composed(other));
    found.map_or(String::new(), |(name, other)| {
        format!(
            "; `{}` is there as `{}`, which differs in its Unicode form alone: rename one of them",
            name.escape_default(),
            other.escape_default()
        )
    })
}
