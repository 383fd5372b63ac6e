//! Reassessed labels of ImageNet's validation images: Beyer et al.,
//! [Are we done with ImageNet?](https://arxiv.org/abs/2006.07159), their file `real.json`.

use std::path::{Path, PathBuf};

use crate::data::Source;
use crate::text::read_text;

/// Bytes of the file: far more than it has.
const LARGEST: u64 = 1 << 26;
/// How the names of the images begin; their number follows, from 1.
const PREFIX: &str = "ILSVRC2012_val_";

/// The classes of each validation image, by its number from 0: none, one or several.
#[derive(Clone, Debug, PartialEq)]
pub struct RealLabels(Vec<Vec<u32>>);

/// Why there are no reassessed labels.
#[derive(Debug, thiserror::Error)]
pub enum RealError {
    /// The file cannot be read; the message names it.
    #[error(transparent)]
    Read(#[from] std::io::Error),
    /// The file holds something else.
    #[error("`{}` is no list of lists of class numbers: {reason}; the file is `real.json` of google-research/reassessed-imagenet", .path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The parser's words.
        reason: String,
    },
    /// An image without a number in its name.
    #[error(
        "`{}` is not named as ImageNet's validation images are, `{PREFIX}00000001.JPEG`: reassessed labels go by these names",
        .0.display()
    )]
    Name(PathBuf),
    /// Another number of classes than ImageNet's.
    #[error("reassessed labels are for the 1000 classes of ImageNet, and the model has {0}")]
    Classes(usize),
}

impl RealLabels {
    /// Reads `real.json`.
    ///
    /// # Errors
    /// If the file cannot be read, or is no list of lists of numbers.
    pub fn read(path: &Path) -> Result<Self, RealError> {
        let text = read_text(path, LARGEST)?;
        let lists = serde_json::from_str(&text);
        lists.map(Self).map_err(|error| RealError::Malformed {
            path: path.to_owned(),
            reason: error.to_string(),
        })
    }

    /// The classes of an image by its number, from 0.
    pub(super) fn of(&self, number: usize) -> &[u32] {
        self.0.get(number).map_or(&[], Vec::as_slice)
    }

    /// The number of each image of a split in this list, by its name.
    ///
    /// # Errors
    /// If the model has other classes, or an image another name.
    pub fn numbers(&self, source: &Source) -> Result<Vec<usize>, RealError> {
        match source.classes.len() {
            1000 => {}
            classes => return Err(RealError::Classes(classes)),
        }
        let number = |path: &Path| {
            let stem = path.file_stem()?.to_str()?;
            let number: usize = stem.strip_prefix(PREFIX)?.parse().ok()?;
            number
                .checked_sub(1)
                .filter(|number| *number < self.0.len())
        };
        let numbers = source.samples.iter();
        let numbers = numbers
            .map(|sample| number(&sample.path).ok_or_else(|| RealError::Name(sample.path.clone())));
        numbers.collect()
    }
}

#[cfg(test)]
impl RealLabels {
    pub(super) fn of_lists(lists: &[&[u32]]) -> Self {
        Self(lists.iter().map(|list| list.to_vec()).collect())
    }
}
