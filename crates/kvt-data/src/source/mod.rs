//! The images of a split, from folders, tar shards, Parquet files or CIFAR's files, with labels, masks or objects.

mod archives;
mod cache;
mod cifar;
mod classes;
mod coco;
mod folder;
mod label_sets;
mod labelled;
mod labels;
mod masks;
mod names;
mod objects;
mod open;
mod pairs;
mod parquet;
mod read;
mod shards;
mod share;
mod splits;
mod survey;

use std::borrow::Cow;
use std::collections::HashSet;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use self::cache::Cache;
use self::labels::whole;
use self::masks::Masks;
use self::objects::Objects;
use self::parquet::Table;
use crate::DataError;
use crate::listing::{OtherFormats, Unlisted};
use crate::text::quoted;

pub use self::parquet::{ParquetFault, is_guarded};
pub use classes::ClassError;
pub use folder::{ClassOrder, FolderError};
pub use labelled::has_splits;
pub(super) use labelled::surveys as labelled_surveys;
pub use labels::label_tables;
use names::gaps;
pub use names::{TEST, TRAIN, VAL};
pub(super) use names::{is_usual, splits_among};
pub use objects::ImageObjects;
pub use open::{open, open_part, open_split};
pub use pairs::{PairError, Unpaired};
pub use read::Picture;
pub use shards::ShardFault;
pub(super) use shards::{CLASSES, LABEL, SHARD};
pub(super) use share::chosen;
pub(super) use splits::detected;
pub use splits::{
    Split, SplitError, is_split, is_whole, split_name, test_split, unused_splits, unused_splits_of,
    whole_kind,
};
pub(super) use survey::{coco_survey, label_set_surveys, mask_survey, surveys};

/// One labelled image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
    /// The image file; for an image within a file, that file's path and the image's name in it.
    pub path: PathBuf,
    /// The class, an index into [`Source::classes`].
    pub label: u32,
    place: Place,
}

/// The location of an image's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// The whole file.
    File,
    /// A part of one of [`Source::files`].
    Within { file: u32, offset: u64, length: u64 },
    /// A value in one of [`Source::tables`].
    Row { file: u32, row: u64 },
}

/// The content of an image's bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Coding {
    /// An image file.
    #[default]
    File,
    /// The red, green and blue planes of a square of CIFAR.
    Planes,
}

/// The labelled images of one split. Each can be read independently, in any order.
#[derive(Debug, Clone, Default)]
pub struct Source {
    /// Their folder.
    pub root: PathBuf,
    /// Class names; a label is an index into them.
    pub classes: Vec<String>,
    /// The images, in the order of their indices.
    pub samples: Vec<Sample>,
    /// Images in other formats, which were ignored.
    pub others: OtherFormats,
    /// Files in shards that are neither an image nor a label, and Parquet files of no split, which were ignored.
    pub beside: OtherFormats,
    /// Links that are dead or circular, and folders that cannot be listed. Only a check passes over them.
    pub(crate) unlisted: Vec<Unlisted>,
    /// Warnings about images without a class, and about what a table of labels leaves out.
    pub(crate) notes: Vec<String>,
    /// The files that contain several images each.
    files: Vec<PathBuf>,
    /// The files that contain images in a column.
    tables: Arc<[Table]>,
    /// Whether the classes are numbers because they have no names.
    is_numbered: bool,
    /// Whether the labels themselves are the names of the classes, as in a column of text.
    are_labels: bool,
    /// Where each class has a column: these. Their names in texts such as `cat|dog` are labels.
    class_columns: Option<Vec<String>>,
    coding: Coding,
    cache: Option<Arc<Cache>>,
    /// Where each image has a mask; the label of a sample then says nothing.
    masks: Option<Arc<Masks>>,
    /// Where images have objects; the label of a sample then says nothing.
    objects: Option<Arc<Objects>>,
    /// The labels of each image where it can have any number; the label of a sample is then the first.
    label_sets: Option<Arc<[Vec<u32>]>>,
}

/// The classes of another split.
#[derive(Debug, Clone, Copy)]
struct Known<'a> {
    classes: &'a [String],
    /// Whether labels themselves are their names there: then a number says nothing about them.
    are_labels: bool,
}

impl Source {
    /// The names of numbered files that are missing between others.
    pub fn gaps(&self) -> Vec<String> {
        gaps(self.holders())
    }

    /// The files that hold several images each.
    fn holders(&self) -> impl Iterator<Item = &Path> {
        let tables = self.tables.iter().map(|table| table.path.as_path());
        self.files.iter().map(PathBuf::as_path).chain(tables)
    }

    /// Warnings about files that are not read, and about gaps in numbered files.
    pub fn warnings(&self) -> Vec<String> {
        let root = self.root.display();
        let beside = self.beside.describe().map(|beside| {
            format!("files in `{root}` that belong to no image are not read: {beside}")
        });
        let missing = self.gaps();
        let gaps = (!missing.is_empty()).then(|| {
            format!(
                "the numbered files in `{root}` have gaps: there are files before and after {}; fetch what is missing",
                quoted(&missing)
            )
        });
        let others = self.others.warning(&self.root);
        let objects = self.objects.iter().flat_map(|objects| objects.warnings());
        let files = [others, beside, gaps].into_iter().flatten();
        files
            .chain(self.notes.iter().cloned())
            .chain(objects)
            .collect()
    }

    /// The path of an image, relative to the folder, which can be moved, however the two are written.
    pub(crate) fn relative<'a>(&self, sample: &'a Sample) -> Cow<'a, Path> {
        match sample.path.strip_prefix(&self.root) {
            Ok(path) => path.into(),
            // The folder is `./photos`, or a table in `photos/tables` has images of `photos/images`.
            Err(_) => between(&whole(&self.root), &whole(&sample.path)).into(),
        }
    }

    /// From samples, which may be within `files`, with these classes, whose names must differ: labels are matched by them.
    fn new(root: PathBuf, classes: Vec<String>, samples: Vec<Sample>) -> Result<Self, DataError> {
        let mut known = HashSet::new();
        for class in &classes {
            // A run writes them to a file, one a line.
            if class.is_empty() || class.contains(['\n', '\r']) {
                let class = class.clone();
                return Err(ClassError::ClassLine { path: root, class }.into());
            }
            if !known.insert(class.as_str()) {
                let class = class.clone();
                return Err(ClassError::TwoClasses { path: root, class }.into());
            }
        }
        if u32::try_from(samples.len()).is_err() {
            return Err(DataError::TooManyImages(root));
        }
        Ok(Self {
            root,
            classes,
            samples,
            ..Self::default()
        })
    }

    /// The images of a split, unless there are none: an epoch without images would end immediately, and so would the run.
    fn not_empty(self, split: Option<&str>) -> Result<Self, DataError> {
        if self.samples.is_empty() {
            return Err(DataError::NoImages {
                path: self.root,
                split: split.map(str::to_owned),
            });
        }
        Ok(self)
    }

    /// Where the images are: their files, if these hold several images each, or otherwise their folder.
    pub fn place(&self) -> String {
        let files: Vec<_> = self.holders().map(Path::display).collect();
        match files.as_slice() {
            [] => format!("`{}`", self.root.display()),
            [file] => format!("`{file}`"),
            [first, .., last] => format!("`{first}` to `{last}` ({} files)", files.len()),
        }
    }

    /// Images per class, in label order, each with every label that it has; those with an object of the class where images have objects; empty where they have masks,
    /// since only reading these would tell.
    pub fn class_counts(&self) -> Vec<usize> {
        if self.has_masks() {
            return Vec::new();
        }
        if let Some(objects) = &self.objects {
            return objects.class_counts();
        }
        let mut counts = vec![0; self.classes.len()];
        for index in (0..).take(self.samples.len()) {
            for &label in self.labels(index) {
                if let Some(count) = counts.get_mut(label as usize) {
                    *count += 1;
                }
            }
        }
        counts
    }
}

/// The path of an image within a file, for messages and for the identity of the data.
fn within(file: &Path, name: &str) -> PathBuf {
    // Not `join`, which would replace the path by an absolute name.
    let mut path = file.as_os_str().to_owned();
    path.push("/");
    path.push(name);
    path.into()
}

/// The path of a file relative to a folder, of the whole paths of both.
fn between(folder: &Path, file: &Path) -> PathBuf {
    let pairs = folder.components().zip(file.components());
    let shared = pairs.take_while(|(a, b)| a == b).count();
    let up = folder.components().skip(shared);
    let up = up.map(|_| Component::ParentDir);
    up.chain(file.components().skip(shared)).collect()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    pub(super) fn source(classes: &[&str], labels: &[u32]) -> Result<Source, DataError> {
        let samples = labels.iter().map(|&label| Sample {
            path: PathBuf::from("image.png"),
            label,
            place: Place::File,
        });
        let classes = classes.iter().map(|&class| class.to_owned()).collect();
        Source::new(PathBuf::from("data"), classes, samples.collect())
    }

    #[test]
    fn a_class_has_a_line() {
        for class in ["", "a\nb", "a\r"] {
            let error = source(&["cat", class], &[0]).unwrap_err();
            assert!(
                matches!(error, DataError::Classes(ClassError::ClassLine { class: found, .. }) if found == class)
            );
        }
    }

    /// The split of a table's images, and whether a run has the same images as before, depend on it.
    #[test]
    fn a_path_is_relative_however_it_is_written() {
        for (root, path, expected) in [
            ("photos", "photos/a/1.png", "a/1.png"),
            ("./photos", "photos/a/1.png", "a/1.png"),
            ("x/../photos", "photos/1.png", "1.png"),
            ("photos/tables", "photos/img/1.png", "../img/1.png"),
            ("/data/./tables", "/data/img/1.png", "../img/1.png"),
            ("/data/tables", "/other/1.png", "../../other/1.png"),
        ] {
            let source = Source::new(root.into(), Vec::new(), Vec::new()).unwrap();
            let sample = Sample {
                path: path.into(),
                label: 0,
                place: Place::File,
            };
            assert_eq!(source.relative(&sample), Path::new(expected), "{root}");
        }
    }
}
