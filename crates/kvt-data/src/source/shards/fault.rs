//! What can be wrong with a tar shard.

use crate::text::around;

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
    /// Two images or labels under one name.
    #[error("a second {0} of the same sample")]
    Second(&'static str),
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
