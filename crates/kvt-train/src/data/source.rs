//! An image folder: `<dir>/<class>/**/*.{jpg,jpeg,png,webp,bmp}`.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use walkdir::WalkDir;

use crate::data::DataError;

const EXTENSIONS: [&str; 5] = ["jpg", "jpeg", "png", "webp", "bmp"];

/// One labelled image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
    /// The image file.
    pub path: PathBuf,
    /// The class, an index into [`ImageFolder::classes`].
    pub label: u32,
}

/// How class folders become labels 0, 1, 2, ...
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ClassOrder {
    /// By the bytes of the names, as torchvision and timm have it: `10` before `2`.
    #[default]
    Byte,
    /// Runs of digits by value: `2` before `10`.
    Natural,
}

/// The labelled images of one split.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageFolder {
    /// The split's folder.
    pub root: PathBuf,
    /// Class names; a label is an index into them.
    pub classes: Vec<String>,
    /// The images, by class, then by the bytes of the path.
    pub samples: Vec<Sample>,
}

impl ImageFolder {
    /// Lists an image folder, classes in the given order. Hidden files and folders, and files with other extensions, are
    /// passed over; links are followed.
    ///
    /// # Errors
    ///
    /// A folder that is missing or can not be listed, that has no class folders, or a class folder without an image.
    pub fn open(dir: impl Into<PathBuf>, order: ClassOrder) -> Result<Self, DataError> {
        let root = dir.into();
        let mut classes = class_names(&root)?;
        classes.sort_by(|a, b| match order {
            ClassOrder::Byte => a.cmp(b),
            ClassOrder::Natural => natural(a, b),
        });
        Self::list(root, classes)
    }

    /// Lists an image folder whose classes must be exactly these (in any order); labels follow the given list.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open), and [`DataError::ClassesDiffer`] with the classes that are missing or too many.
    pub fn open_with_classes(
        dir: impl Into<PathBuf>,
        classes: &[String],
    ) -> Result<Self, DataError> {
        let root = dir.into();
        let found: BTreeSet<String> = class_names(&root)?.into_iter().collect();
        let expected: BTreeSet<String> = classes.iter().cloned().collect();
        if found != expected {
            return Err(DataError::ClassesDiffer {
                path: root,
                missing: expected.difference(&found).cloned().collect(),
                extra: found.difference(&expected).cloned().collect(),
            });
        }
        Self::list(root, classes.to_vec())
    }

    fn list(root: PathBuf, classes: Vec<String>) -> Result<Self, DataError> {
        let mut samples = Vec::new();
        for (label, class) in (0..).zip(&classes) {
            let dir = root.join(class);
            let mut paths = image_files(&dir)?;
            if paths.is_empty() {
                return Err(DataError::EmptyClass(dir));
            }
            paths.sort_by(|a, b| bytes(a).cmp(bytes(b)));
            samples.extend(paths.into_iter().map(|path| Sample { path, label }));
        }
        if u32::try_from(samples.len()).is_err() {
            return Err(DataError::TooManyImages(root));
        }
        Ok(Self {
            root,
            classes,
            samples,
        })
    }

    /// Images per class, in label order.
    pub fn class_counts(&self) -> Vec<usize> {
        let mut counts = vec![0; self.classes.len()];
        for sample in &self.samples {
            if let Some(count) = counts.get_mut(sample.label as usize) {
                *count += 1;
            }
        }
        counts
    }
}

fn class_names(root: &Path) -> Result<Vec<String>, DataError> {
    if !root.is_dir() {
        return Err(DataError::MissingFolder(root.to_owned()));
    }
    let mut classes = Vec::new();
    let mut flat = false;
    for entry in fs_err::read_dir(root)? {
        let entry = entry?;
        let path = entry.path();
        if is_hidden(&entry.file_name()) {
            continue;
        }
        // Not `entry.file_type()`: a link to a class folder is a class folder.
        if fs_err::metadata(&path)?.is_dir() {
            let name = entry.file_name().into_string();
            classes.push(name.map_err(|_| DataError::ClassName(path))?);
        } else {
            flat |= is_image(&path);
        }
    }
    match (classes.is_empty(), flat) {
        (true, true) => Err(DataError::FlatFolder(root.to_owned())),
        (true, false) => Err(DataError::NoClasses(root.to_owned())),
        (false, _) => Ok(classes),
    }
}

fn image_files(dir: &Path) -> Result<Vec<PathBuf>, DataError> {
    let mut paths = Vec::new();
    let entries = WalkDir::new(dir)
        .follow_links(true)
        .min_depth(1)
        .into_iter()
        .filter_entry(|entry| !is_hidden(entry.file_name()));
    for entry in entries {
        let entry = entry?;
        if entry.file_type().is_file() && is_image(entry.path()) {
            paths.push(entry.into_path());
        }
    }
    Ok(paths)
}

fn is_image(path: &Path) -> bool {
    path.extension()
        .and_then(OsStr::to_str)
        .is_some_and(|found| {
            EXTENSIONS
                .iter()
                .any(|known| found.eq_ignore_ascii_case(known))
        })
}

fn is_hidden(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b".")
}

fn bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_encoded_bytes()
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

    fn names(source: &ImageFolder) -> Vec<(String, u32)> {
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
        let source = ImageFolder::open(dir.path(), ClassOrder::Byte).unwrap();
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
        let byte = ImageFolder::open(dir.path(), ClassOrder::Byte).unwrap();
        assert_eq!(byte.classes, ["1", "10", "2", "x", "x10", "x9"]);
        let natural = ImageFolder::open(dir.path(), ClassOrder::Natural).unwrap();
        assert_eq!(natural.classes, ["1", "2", "10", "x", "x9", "x10"]);
    }

    #[test]
    fn given_classes_set_the_labels() {
        let dir = folder(&["a/1.png", "b/1.png"]);
        let list = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
        let source = ImageFolder::open_with_classes(dir.path(), &list(&["b", "a"])).unwrap();
        assert_eq!(
            names(&source),
            [("b/1.png".to_owned(), 0), ("a/1.png".to_owned(), 1)]
        );
        let error = ImageFolder::open_with_classes(dir.path(), &list(&["a", "c"])).unwrap_err();
        let message = error.to_string();
        assert!(
            message.contains("missing `c`, not expected `b`"),
            "{message}"
        );
    }

    #[test]
    fn mistakes_are_named() {
        let open = |dir: &Path| ImageFolder::open(dir, ClassOrder::Byte).unwrap_err();
        let dir = folder(&["1.png", "2.png"]);
        assert!(matches!(open(dir.path()), DataError::FlatFolder(_)));
        assert!(matches!(
            open(&dir.path().join("train")),
            DataError::MissingFolder(_)
        ));
        assert!(matches!(
            open(folder(&["readme"]).path()),
            DataError::NoClasses(_)
        ));
        let dir = folder(&["a/1.png", "b/readme"]);
        assert!(matches!(open(dir.path()), DataError::EmptyClass(path) if path.ends_with("b")));
    }
}
