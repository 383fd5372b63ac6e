//! What can be wrong with a Parquet file.

use std::path::PathBuf;

use crate::text::{around, quoted};

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
