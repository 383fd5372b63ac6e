//! Why an epoch cannot start or go on.

use std::path::PathBuf;

use crate::DecodeError;

/// Why an epoch cannot start or go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoaderError {
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
}
