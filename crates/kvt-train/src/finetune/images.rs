//! How a folder of images is laid out: in splits, or classes alone.

use std::path::{Path, PathBuf};

use toml::Table;

use super::{FinetuneError, text};
use crate::data::{self, ClassOrder, DataError};
use crate::error::TrainError;

/// What people call the folders of the two splits, the usual name first.
const TRAIN: [&str; 2] = ["train", "training"];
const VAL: [&str; 5] = ["val", "valid", "validation", "test", "testing"];

/// The share of each class that is kept for validation where there is no folder for it.
const VAL_FRACTION: f64 = 0.2;

/// The images of a user.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Images {
    /// `data.path`.
    pub(super) path: PathBuf,
    /// The splits' folders below it; without them it holds the classes.
    splits: Option<[&'static str; 2]>,
    classes: usize,
    /// Images to train on.
    pub(super) train: usize,
    /// The folder that the user named, without its path.
    name: String,
}

impl Images {
    /// Looks at a folder. A sub-folder of a split's name counts as a split if there are folders in it, not images:
    /// there may be a class of trains.
    pub(super) fn of(folder: &Path) -> Result<Self, FinetuneError> {
        if !folder.is_dir() {
            return Err(DataError::MissingFolder(folder.to_owned()).into());
        }
        let split = |names: &[&'static str]| {
            let mut names = names.iter().copied();
            names.find(|name| has_folders(&folder.join(name)))
        };
        let (path, splits) = match (split(&TRAIN), split(&VAL)) {
            (Some(train), Some(val)) => (folder.to_owned(), Some([train, val])),
            (Some(train), None) => (folder.join(train), None),
            (None, _) => (folder.to_owned(), None),
        };
        let root = match splits {
            Some([train, _]) => path.join(train),
            None => path.clone(),
        };
        let listed = data::Source::open(root, ClassOrder::Byte)?;
        if let [class] = listed.classes.as_slice() {
            return Err(FinetuneError::Train(TrainError::OneClass {
                class: class.clone(),
                data: listed.root,
            }));
        }
        let all = listed.samples.len();
        let held_out = match splits {
            Some(_) => 0.0,
            None => VAL_FRACTION,
        };
        let absolute = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
        let name = absolute
            .file_name()
            .map(|name| name.to_string_lossy().into_owned());
        Ok(Self {
            path,
            splits,
            classes: listed.classes.len(),
            train: (all as f64 * (1.0 - held_out)).round() as usize,
            name: name.unwrap_or_else(|| "images".to_owned()),
        })
    }

    /// What a run on these images is called.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The keys of `[data]`.
    pub(super) fn keys(&self) -> Result<Table, FinetuneError> {
        let path = text(&self.path)?;
        let mut keys = Table::from_iter([
            ("path".to_owned(), path),
            // Of a few images none is left out.
            ("drop_last".to_owned(), false.into()),
        ]);
        match self.splits {
            Some([train, val]) => {
                keys.insert("train".to_owned(), train.into());
                keys.insert("val".to_owned(), val.into());
            }
            None => {
                keys.insert("val_fraction".to_owned(), VAL_FRACTION.into());
            }
        }
        Ok(keys)
    }

    /// The folder in words.
    pub(super) fn describe(&self) -> String {
        let validation = match self.splits {
            Some([_, val]) => format!("validated on those in `{val}`"),
            None => format!(
                "{:.0} % of each class are kept for validation",
                100.0 * VAL_FRACTION
            ),
        };
        format!(
            "images   `{}`: {} classes, {} images to train on, {validation}",
            self.path.display(),
            self.classes,
            self.train
        )
    }
}

/// Whether a folder holds folders that are not hidden.
fn has_folders(folder: &Path) -> bool {
    let entries = fs_err::read_dir(folder).into_iter().flatten().flatten();
    let mut folders = entries.filter(|entry| entry.path().is_dir());
    folders.any(|entry| !entry.file_name().to_string_lossy().starts_with('.'))
}
