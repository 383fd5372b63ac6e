//! An image folder: `<dir>/<class>/**/*.{jpg,jpeg,png,webp,bmp,tif,tiff,gif}`.

mod error;

use std::cmp::Ordering;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::error::FolderError;
use super::{Place, Sample, Source};
use crate::DataError;
use crate::listing::{self, OtherFormats};

/// How class folders become labels 0, 1, 2, ...
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ClassOrder {
    /// By the bytes of the names, as torchvision and timm have it: `10` before `2`.
    #[default]
    Byte,
    /// Runs of digits by value: `2` before `10`.
    Natural,
}

impl ClassOrder {
    /// Sorts the names of classes.
    pub(super) fn sort(self, names: &mut [String]) {
        names.sort_by(|a, b| match self {
            Self::Byte => a.cmp(b),
            Self::Natural => natural(a, b),
        });
    }
}

impl Source {
    /// Lists an image folder, with classes in the given order. Hidden files and folders, and files with other extensions, are
    /// ignored; links are followed. An entry with the name of an image that is a dead link, a pipe or a device is listed: it
    /// is an unreadable image.
    ///
    /// # Errors
    ///
    /// If a folder is missing or cannot be listed or has no class folders, a class folder has no image, or a link to a
    /// folder is dead or circular.
    pub fn open(dir: impl Into<PathBuf>, order: ClassOrder) -> Result<Self, DataError> {
        Self::survey(dir, order)?.strict()
    }

    /// Lists an image folder whose classes must be exactly these, in any order; labels follow the given list.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open), and [`ClassesDiffer`](super::ClassError::ClassesDiffer) with the missing and the unexpected classes.
    pub fn open_with_classes(
        dir: impl Into<PathBuf>,
        classes: &[String],
    ) -> Result<Self, DataError> {
        let mut source = Self::open(dir, ClassOrder::Byte)?.relabelled(Some(classes))?;
        // Stable: the images of a class remain in their order.
        source.samples.sort_by_key(|sample| sample.label);
        Ok(source)
    }

    /// Lists everything that exists. Only a folder with nothing to list is an error.
    pub(super) fn survey(dir: impl Into<PathBuf>, order: ClassOrder) -> Result<Self, DataError> {
        let root = dir.into();
        let mut classes = listing::classes(&root)?;
        order.sort(&mut classes.names);
        let mut samples = Vec::new();
        let notes = classes.warning(&root).into_iter().collect();
        let (mut others, mut unlisted) = (OtherFormats::default(), classes.unlisted);
        for (label, class) in (0..).zip(&classes.names) {
            let found = listing::images(&root.join(class));
            let (images, place) = (found.images.into_iter(), Place::File);
            samples.extend(images.map(|path| Sample { path, label, place }));
            others.merge(found.others);
            unlisted.extend(found.unlisted);
        }
        Ok(Self {
            others,
            unlisted,
            notes,
            ..Self::new(root, classes.names, samples)?
        })
    }
}

/// Compares digit runs by value and the rest by bytes; names equal in value (`1`, `01`) by bytes.
fn natural(a: &str, b: &str) -> Ordering {
    let (mut left, mut right) = (a, b);
    loop {
        let (x, rest_left) = chunk(left);
        let (y, rest_right) = chunk(right);
        if x.is_empty() || y.is_empty() {
            return x.cmp(y).then_with(|| a.cmp(b));
        }
        let numbers = is_digit(x) && is_digit(y);
        let order = if numbers {
            let (x, y) = (x.trim_start_matches('0'), y.trim_start_matches('0'));
            x.len().cmp(&y.len()).then_with(|| x.cmp(y))
        } else {
            x.cmp(y)
        };
        if order.is_ne() {
            return order;
        }
        (left, right) = (rest_left, rest_right);
    }
}

/// Splits off a run of digits, or one other character.
fn chunk(text: &str) -> (&str, &str) {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let first = text.chars().next().map_or(0, char::len_utf8);
    text.split_at(digits.max(first))
}

fn is_digit(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use std::path::Path;

    use super::*;

    fn folder(files: &[&str]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for file in files {
            let path = dir.path().join(file);
            fs_err::create_dir_all(path.parent().unwrap()).unwrap();
            fs_err::write(path, b"").unwrap();
        }
        dir
    }

    fn names(source: &Source) -> Vec<(String, u32)> {
        let relative = |s: &Sample| s.path.strip_prefix(&source.root).unwrap().to_owned();
        let text = |s: &Sample| relative(s).to_str().unwrap().replace('\\', "/");
        source.samples.iter().map(|s| (text(s), s.label)).collect()
    }

    #[test]
    fn lists_in_byte_order() {
        let dir = folder(&[
            "b/2.PNG",
            "b/10.jpg",
            "b/sub/1.webp",
            "b/.hidden.png",
            "b/.git/x.png",
            "a/z.Jpeg",
            "B/x.bmp",
            "b/notes.txt",
            ".cache/1.png",
            "readme.md",
        ]);
        let source = Source::open(dir.path(), ClassOrder::Byte).unwrap();
        assert_eq!(source.classes, ["B", "a", "b"]);
        let expected = [
            ("B/x.bmp", 0),
            ("a/z.Jpeg", 1),
            ("b/10.jpg", 2),
            ("b/2.PNG", 2),
            ("b/sub/1.webp", 2),
        ];
        assert_eq!(
            names(&source),
            expected.map(|(name, label)| (name.to_owned(), label))
        );
        assert_eq!(source.class_counts(), [1, 1, 3]);
    }

    #[test]
    fn natural_order_reads_digits_by_value() {
        let dir = folder(&[
            "10/a.png",
            "2/a.png",
            "1/a.png",
            "x10/a.png",
            "x9/a.png",
            "x/a.png",
        ]);
        let byte = Source::open(dir.path(), ClassOrder::Byte).unwrap();
        assert_eq!(byte.classes, ["1", "10", "2", "x", "x10", "x9"]);
        let natural = Source::open(dir.path(), ClassOrder::Natural).unwrap();
        assert_eq!(natural.classes, ["1", "2", "10", "x", "x9", "x10"]);
    }

    #[test]
    fn given_classes_set_the_labels() {
        let dir = folder(&["a/1.png", "b/1.png"]);
        let list = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
        let source = Source::open_with_classes(dir.path(), &list(&["b", "a"])).unwrap();
        assert_eq!(
            names(&source),
            [("b/1.png".to_owned(), 0), ("a/1.png".to_owned(), 1)]
        );
        let error = Source::open_with_classes(dir.path(), &list(&["a", "c"])).unwrap_err();
        let message = error.to_string();
        assert!(
            message.contains("it lacks `c`, it also has `b`"),
            "{message}"
        );
        let error = Source::open_with_classes(dir.path(), &list(&["a", "b", "a"])).unwrap_err();
        let message = error.to_string();
        assert!(message.contains("are called `a`"), "{message}");
    }

    /// As macOS writes them: in a list the two look the same.
    #[test]
    fn two_forms_of_a_name_are_told_apart() {
        let dir = folder(&["tea/1.png", "cafe\u{301}/1.png"]);
        let open = |names: [&str; 2]| {
            Source::open_with_classes(dir.path(), &names.map(str::to_owned)).unwrap_err()
        };
        let message = open(["caf\u{e9}", "tea"]).to_string();
        let words =
            r"`caf\u{e9}` is there as `cafe\u{301}`, which differs in its Unicode form alone";
        assert!(message.contains(words), "{message}");
        let message = open(["cafe", "tea"]).to_string();
        assert!(!message.contains("Unicode"), "{message}");
    }

    #[test]
    fn images_without_a_class_are_counted() {
        let dir = folder(&[
            "a/1.png",
            "b/1.png",
            "z.png",
            "y.jpg",
            ".x.png",
            "readme.md",
        ]);
        let source = Source::open(dir.path(), ClassOrder::Byte).unwrap();
        assert_eq!(source.samples.len(), 2);
        let root = dir.path().display();
        let example = dir.path().join("y.jpg");
        let expected = format!(
            "2 images beside the class folders of `{root}`, such as `{}`: without a class, not used",
            example.display()
        );
        assert_eq!(source.warnings(), [expected]);
    }

    /// Where masks are learned: an image would be one class, its mask another.
    #[test]
    fn images_and_their_masks_are_no_classes() {
        let dir = folder(&["images/train/1.png", "Masks/train/1.png"]);
        let open = || Source::open(dir.path(), ClassOrder::Byte);
        let message = open().unwrap_err().to_string();
        let expected = "not classes: `Masks`, `images`; in a configuration, `task = \"segment\"` with `data.kind = \"masks\"`";
        assert!(message.contains(expected), "{message}");
        // A third one says that they are classes.
        fs_err::create_dir(dir.path().join("paintings")).unwrap();
        fs_err::write(dir.path().join("paintings/1.png"), b"").unwrap();
        assert_eq!(open().unwrap().classes.len(), 3);
    }

    #[test]
    fn mistakes_are_named() {
        let open = |dir: &Path| Source::open(dir, ClassOrder::Byte).unwrap_err();
        let dir = folder(&["1.png", "2.png"]);
        let flat = || open(dir.path()).to_string();
        assert!(flat().ends_with("labels in `data.labels`"), "{}", flat());
        for table in ["b.csv", "a.tsv"] {
            fs_err::write(dir.path().join(table), "path,label\n1.png,x\n").unwrap();
        }
        let words = "in `data.labels`, such as `a.tsv`, `b.csv`";
        assert!(flat().ends_with(words), "{}", flat());
        assert!(matches!(
            open(&dir.path().join("train")),
            DataError::Folder(FolderError::MissingFolder(_))
        ));
        assert!(matches!(
            open(folder(&["readme"]).path()),
            DataError::Folder(FolderError::NoClasses(_))
        ));
        let dir = folder(&["a/1.png", "b/readme"]);
        assert!(
            matches!(open(dir.path()), DataError::Folder(FolderError::EmptyClass { path, .. }) if path.ends_with("b"))
        );
        let dir = folder(&["a/1.png", "b/2.HEIC", "b/1.heic"]);
        let message = open(dir.path()).to_string();
        let example = dir.path().join("b/1.heic");
        let words = format!("only 2 .heic, such as `{}`", example.display());
        assert!(message.contains(&words), "{message}");
    }
}
