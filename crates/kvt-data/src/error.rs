//! Errors between a folder and a batch.

use std::path::{Path, PathBuf};

use crate::DecodeError;
use crate::augment::AugmentError;
use crate::listing::Unlisted;
use crate::loader::LoaderError;
use crate::shapes::ShapesError;
use crate::source::{ClassError, FolderError, PairError, ParquetFault, ShardFault, SplitError};
use crate::text::around;

/// An error while reading a data set.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// Class folders that cannot be used.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// Splits that are missing, or are there where they must not be.
    #[error(transparent)]
    Split(#[from] SplitError),
    /// Classes that are not those expected.
    #[error(transparent)]
    Classes(#[from] ClassError),
    /// Images and masks that are no pairs.
    #[error(transparent)]
    Pairs(#[from] PairError),
    /// A generated data set that cannot be made, or is not there.
    #[error(transparent)]
    Shapes(#[from] ShapesError),
    /// An epoch that cannot start or go on.
    #[error(transparent)]
    Loader(#[from] LoaderError),
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
    /// A folder without CIFAR's files.
    #[error(
        "`{}` holds neither CIFAR-10 (`data_batch_1.bin`, ...) nor CIFAR-100 (`train.bin`) in their binary version: unpack \
         the archive there",
        .0.display()
    )]
    NoCifar(PathBuf),
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
    /// An image that cannot be prepared.
    #[error("could not prepare `{}`", path.display())]
    Augment {
        /// The image.
        path: PathBuf,
        /// The reason.
        source: AugmentError,
    },
    /// A worker thread could not be started.
    #[error("could not start a data worker: {0}")]
    Spawn(std::io::Error),
    /// A worker thread panicked: a bug, reported instead of a truncated epoch.
    #[error("a data worker panicked: {0}")]
    Panicked(String),
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

fn expected(split: &Option<String>) -> String {
    split.as_ref().map_or(String::new(), |split| {
        format!(
            " of a split `{split}` (`{split}-00000-of-00001.parquet`, ... or `{split}/*.parquet`)"
        )
    })
}
