//! Reassessed labels of ImageNet's validation images: Beyer et al.,
//! [Are we done with ImageNet?](https://arxiv.org/abs/2006.07159), their file `real.json`.

use std::path::{Path, PathBuf};

use crate::data::Source;
use kvt_data::text::read_text;

/// Largest size of the file in bytes: far more than it has.
const LARGEST: u64 = 1 << 26;
/// Classes of ImageNet.
const CLASSES: u32 = 1000;
/// The prefix of the image names; the number of the image follows, from 1.
const PREFIX: &str = "ILSVRC2012_val_";

/// The classes of each validation image, by its number from 0: none, one or several.
#[derive(Clone, Debug, PartialEq)]
pub struct RealLabels(Vec<Vec<u32>>);

/// Why reassessed labels cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RealError {
    /// The file cannot be read; the message names it.
    #[error(transparent)]
    Read(#[from] std::io::Error),
    /// The file has other contents.
    #[error(
        "`{path}` does not hold a list of class numbers for each image, as in `[[65], [970, 795], []]`: {reason}; take `real.json` of \
         github.com/google-research/reassessed-imagenet"
    )]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The parser's message, or the number that is not a class.
        reason: String,
    },
    /// The file has labels for fewer images.
    #[error(
        "there are reassessed labels of {labels} images, and none for `{path}`: the file is truncated; download it again"
    )]
    TooShort {
        /// How many images have labels.
        labels: usize,
        /// The first image that has none.
        path: PathBuf,
    },
    /// An image has no number in its name.
    #[error(
        "`{0}` is not named as ImageNet's validation images are, `{PREFIX}00000001.JPEG`: reassessed labels go by these names"
    )]
    Name(PathBuf),
    /// The model has another number of classes than ImageNet.
    #[error("reassessed labels are for the 1000 classes of ImageNet, and the model has {0}")]
    Classes(usize),
    /// The classes have another order or other names.
    #[error(
        "reassessed labels number ImageNet's classes by their WordNet names (`n01440764` is 0), and the class `{0}` is not such a name, \
         or is out of order: name the class folders accordingly"
    )]
    ClassName(String),
}

impl RealLabels {
    /// Reads `real.json`.
    ///
    /// # Errors
    /// If the file cannot be read, or is not a list of lists of class numbers.
    pub fn read(path: &Path) -> Result<Self, RealError> {
        let text = read_text(path, LARGEST)?;
        let malformed = |reason| RealError::Malformed {
            path: path.to_owned(),
            reason,
        };
        let lists: Vec<Vec<u32>> =
            serde_json::from_str(&text).map_err(|error| malformed(error.to_string()))?;
        let unknown = |list: &Vec<u32>| list.iter().copied().find(|class| *class >= CLASSES);
        let mut numbered = (1..).zip(&lists);
        if let Some((image, class)) = numbered.find_map(|(i, list)| Some((i, unknown(list)?))) {
            let last = CLASSES - 1;
            let reason = format!("image {image} has class {class}, and classes are 0 to {last}");
            return Err(malformed(reason));
        }
        Ok(Self(lists))
    }

    /// The same labels without the classes that must not be chosen: an image with no other label is not counted.
    #[must_use]
    pub fn among(mut self, chosen: &[bool]) -> Self {
        for list in &mut self.0 {
            list.retain(|class| chosen.get(*class as usize).copied().unwrap_or(false));
        }
        self
    }

    /// The classes of an image by its number, from 0.
    pub(super) fn of(&self, number: usize) -> &[u32] {
        self.0.get(number).map_or(&[], Vec::as_slice)
    }

    /// The number of each image of a split in this list, from its name.
    ///
    /// # Errors
    /// If the model has other classes, or an image has another name.
    pub fn numbers(&self, source: &Source) -> Result<Vec<usize>, RealError> {
        check_classes(&source.classes)?;
        let number = |path: &Path| {
            let stem = path.file_stem()?.to_str()?;
            let number: usize = stem.strip_prefix(PREFIX)?.parse().ok()?;
            number.checked_sub(1)
        };
        let numbers = source.samples.iter().map(|sample| {
            let path = &sample.path;
            let number = number(path).ok_or_else(|| RealError::Name(path.clone()))?;
            if number < self.0.len() {
                Ok(number)
            } else {
                Err(RealError::TooShort {
                    labels: self.0.len(),
                    path: path.clone(),
                })
            }
        });
        numbers.collect()
    }
}

/// Refuses classes that are not numbered as in `real.json`: ImageNet's, sorted by their WordNet names.
fn check_classes(classes: &[String]) -> Result<(), RealError> {
    if classes.len() != CLASSES as usize {
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
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn a_file_that_is_none_of_labels_is_told_with_its_form() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("real.json");
        let read = |text: &str| {
            fs_err::write(&path, text).unwrap();
            RealLabels::read(&path)
        };
        let labels = read("[[65], [970, 795], []]").unwrap();
        assert_eq!((labels.of(1), labels.of(2)), (&[970, 795][..], &[][..]));
        assert_eq!(read("\u{feff}[[65], [970, 795], []]").unwrap(), labels);
        for (text, reason) in [
            ("<html>", "expected value at line 1 column 1"),
            (
                "[65, 970]",
                "invalid type: integer `65`, expected a sequence",
            ),
            (
                "[[65], [1000]]",
                "image 2 has class 1000, and classes are 0 to 999",
            ),
            ("[[65], [-1]]", "invalid value: integer `-1`"),
            ("[[65], [97", "EOF while parsing"),
        ] {
            let error = read(text).unwrap_err().to_string();
            let start = format!(
                "`{}` does not hold a list of class numbers for each image, as in `[[65], [970, 795], []]`: {reason}",
                path.display()
            );
            assert!(error.starts_with(&start), "{error}");
            assert!(
                error.ends_with("github.com/google-research/reassessed-imagenet"),
                "{error}"
            );
        }
    }

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
