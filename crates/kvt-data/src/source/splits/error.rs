//! Splits that are missing, or are there where they must not be.

use std::path::PathBuf;

use crate::source::VAL;
use crate::text::quoted;

/// What is wrong with how a folder is divided into splits.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SplitError {
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
    /// No class has enough images to give one to validation.
    #[error(
        "no class of `{}` has two images, so `data.val_fraction` leaves none for validation: add images, or name a folder \
         of images for validation in `data.val`",
        .0.display()
    )]
    NoneValidates(PathBuf),
}
