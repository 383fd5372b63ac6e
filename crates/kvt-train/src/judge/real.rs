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
    /// Classes in another order, or by other names.
    #[error(
        "reassessed labels number ImageNet's classes by their WordNet names (`n01440764` is 0), and the class `{0}` is no such name, \
         or is not behind the one before it: name the folders of classes so"
    )]
    ClassName(String),
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
        check_classes(&source.classes)?;
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

/// Refuses classes that are not numbered as in `real.json`: ImageNet's, sorted by their WordNet names.
fn check_classes(classes: &[String]) -> Result<(), RealError> {
    if classes.len() != 1000 {
        return Err(RealError::Classes(classes.len()));
    }
    let misplaced = |&i: &usize| !is_wordnet(&classes[i]) || i > 0 && classes[i - 1] >= classes[i];
    match (0..classes.len()).find(misplaced) {
        None => Ok(()),
        Some(i) => Err(RealError::ClassName(classes[i].clone())),
    }
}

/// `n` and eight digits.
fn is_wordnet(name: &str) -> bool {
    let digits = name.strip_prefix('n').unwrap_or_default();
    digits.len() == 8 && digits.bytes().all(|digit| digit.is_ascii_digit())
}

#[cfg(test)]
impl RealLabels {
    pub(super) fn of_lists(lists: &[&[u32]]) -> Self {
        Self(lists.iter().map(|list| list.to_vec()).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_imagenets_in_their_order() {
        let mut classes: Vec<_> = (0..1000).map(|i| format!("n{:08}", 7 * i)).collect();
        assert!(check_classes(&classes).is_ok());
        assert!(matches!(
            check_classes(&classes[1..]),
            Err(RealError::Classes(999))
        ));
        classes.swap(3, 4);
        let wrong = |classes: &[String], name: &str| matches!(check_classes(classes), Err(RealError::ClassName(found)) if found == name);
        assert!(wrong(&classes, "n00000021"));
        classes[0] = "tench".to_owned();
        assert!(wrong(&classes, "tench"));
    }
}
