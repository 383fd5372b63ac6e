//! How data is divided into splits: what they are called, which are there, and where a folder must be divided or must not.

mod error;

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::error::SplitError;
use super::names::{self, TEST, TRAIN, VAL, splits_of_files};
use super::{cifar, parquet, shards};
use crate::text::quoted;
use crate::{DataConfig, DataError, DataKind, listing};

/// A split of a data set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Split {
    /// The training images.
    Train,
    /// The validation images.
    Val,
}

impl Split {
    /// The name of a folder of it, of the usual ones.
    pub fn name(self) -> &'static str {
        match self {
            Self::Train => TRAIN[0],
            Self::Val => VAL[0],
        }
    }

    /// Its name in the configuration.
    pub(super) fn asked(self, data: &DataConfig) -> &str {
        match self {
            Self::Train => &data.train,
            Self::Val => &data.val,
        }
    }
}

/// The name by which a folder contains a split: the given one, or another usual one in place of `train` or `val`. That of the
/// test images never takes the place of another.
pub fn split_name<'a>(kind: DataKind, root: &Path, split: &'a str) -> Option<&'a str> {
    usual_name(split, |name| is_split(kind, root, name))
}

/// The given name of a split if it is there, or another usual one in place of `train` or `val`.
pub(super) fn usual_name(split: &str, is_there: impl Fn(&str) -> bool) -> Option<&str> {
    if is_there(split) {
        return Some(split);
    }
    let others = match split {
        _ if split == TRAIN[0] => TRAIN.iter(),
        _ if split == VAL[0] => VAL.iter(),
        _ => return None,
    };
    others.copied().find(|name| is_there(name))
}

/// Warnings about further splits of the same use (only the first is read): `valid` beside `val`. None if the configuration
/// names another split itself.
pub fn unused_splits(data: &DataConfig) -> Vec<String> {
    let is_listed = !data.list.is_empty() || !data.labels.is_empty();
    if data.val_fraction > 0.0 || data.kind == DataKind::Cifar || is_listed {
        return Vec::new();
    }
    let mut warnings = Vec::new();
    for (asked, usual) in [(&data.train, &TRAIN[..]), (&data.val, &VAL[..])] {
        if usual.first() != Some(&asked.as_str()) {
            continue;
        }
        let mut there: Vec<String> = usual.iter().map(|&name| name.to_owned()).collect();
        let root = divided(data);
        there.retain(|name| is_split(data.kind, &root, name));
        if let [used, unused @ ..] = there.as_slice()
            && !unused.is_empty()
        {
            let (root, unused) = (root.display(), quoted(unused));
            warnings.push(format!(
                "`{root}` has `{used}`, which is used, and also {unused}, which is not read"
            ));
        }
    }
    warnings
}

/// The same warnings about a folder whose kind is not known.
pub fn unused_splits_of(root: &Path) -> Vec<String> {
    let of = |kind| {
        unused_splits(&DataConfig {
            kind,
            path: root.to_owned(),
            ..DataConfig::default()
        })
    };
    let kinds = [DataKind::Folder, DataKind::Tar, DataKind::Parquet];
    kinds.into_iter().flat_map(of).collect()
}

/// The split of test images in a folder of any kind of data, if there is one.
pub fn test_split(root: &Path) -> Option<&'static str> {
    let mut kinds = [DataKind::Folder, DataKind::Tar, DataKind::Parquet].into_iter();
    kinds.find_map(|kind| TEST.into_iter().find(|test| is_split(kind, root, test)))
}

/// [`split_name`] for data of any kind.
pub(crate) fn detected<'a>(root: &Path, split: &'a str) -> Option<&'a str> {
    let mut kinds = [DataKind::Tar, DataKind::Parquet, DataKind::Folder].into_iter();
    kinds.find_map(|kind| split_name(kind, root, split))
}

/// Whether a folder contains a split of that name, for a kind of data. For images, a split is a folder that contains
/// folders, not images: a class could be called `train`.
pub fn is_split(kind: DataKind, root: &Path, split: &str) -> bool {
    let dir = root.join(split);
    match kind {
        DataKind::Folder | DataKind::Shapes => has_folders(&dir),
        DataKind::Tar => shards::is_here(&dir),
        DataKind::Parquet => !parquet::files(root, split).is_empty(),
        DataKind::Cifar => cifar::is_here(root),
        DataKind::Masks | DataKind::Coco => dir.is_dir(),
    }
}

/// The folder that contains the splits of a data set.
pub(super) fn divided(data: &DataConfig) -> PathBuf {
    match data.kind {
        DataKind::Masks => data.path.join(&data.images),
        _ => data.path.clone(),
    }
}

/// Whether a folder contains data of a kind that is not divided into splits: class folders, shards, or Parquet files. CIFAR
/// is always divided.
pub fn is_whole(kind: DataKind, root: &Path) -> bool {
    match kind {
        DataKind::Folder | DataKind::Shapes => has_folders(root),
        DataKind::Tar => shards::is_here(root),
        DataKind::Parquet => !parquet::all_files(root).is_empty(),
        DataKind::Cifar | DataKind::Masks | DataKind::Coco => false,
    }
}

/// The kind of data that is not divided into splits, by its files.
pub fn whole_kind(root: &Path) -> DataKind {
    let mut kinds = [DataKind::Tar, DataKind::Parquet].into_iter();
    let found = kinds.find(|kind| is_whole(*kind, root));
    found.unwrap_or(DataKind::Folder)
}

/// Whether a folder contains folders other than hidden ones.
fn has_folders(folder: &Path) -> bool {
    listing::shown(folder).any(|path| path.is_dir())
}

/// Rejects class folders instead of the folders of the two splits.
pub(super) fn refuse_whole(data: &DataConfig) -> Result<(), DataError> {
    let root = &data.path;
    let is_split = [&data.train, &data.val]
        .into_iter()
        .any(|split| root.join(split).exists());
    if !is_split && listing::holds_classes(root) {
        Err(SplitError::NotSplit {
            path: root.clone(),
            train: data.train.clone(),
            val: data.val.clone(),
        }
        .into())
    } else {
        Ok(())
    }
}

/// Rejects several splits where a share of a whole is to validate.
pub(super) fn refuse_splits(data: &DataConfig) -> Result<(), DataError> {
    let mut candidates: Vec<&str> = names::usual().collect();
    let own = [data.train.as_str(), data.val.as_str()].into_iter();
    candidates.extend(own.filter(|own| names::usual().all(|usual| usual != *own)));
    let root = divided(data);
    candidates.retain(|name| is_split(data.kind, &root, name));
    let mut splits: Vec<String> = candidates.into_iter().map(str::to_owned).collect();
    if splits.len() < 2 {
        splits.clear();
        match data.kind {
            DataKind::Tar => refuse_side_by_side(&data.path, &shards::files(&data.path))?,
            DataKind::Parquet => {
                splits = splits_of_files(&parquet::all_files(&data.path)).unwrap_or_default();
            }
            _ => {}
        }
    }
    if splits.is_empty() {
        Ok(())
    } else {
        Err(SplitError::AlreadySplit { path: root, splits }.into())
    }
}

/// Rejects shards of several splits in one folder.
pub(super) fn refuse_side_by_side(dir: &Path, shards: &[PathBuf]) -> Result<(), DataError> {
    match splits_of_files(shards) {
        None => Ok(()),
        Some(splits) => Err(SplitError::SideBySide {
            path: dir.to_owned(),
            splits,
        }
        .into()),
    }
}

/// The name of a split, as the data has it.
pub(super) fn name(data: &DataConfig, part: Split) -> Result<&str, DataError> {
    let root = divided(data);
    let asked = part.asked(data);
    // A list has exactly this name.
    if !data.list.is_empty() {
        return Ok(asked);
    }
    if let Some(found) = split_name(data.kind, &root, asked) {
        return Ok(found);
    }
    let is_test = |name: &&str| is_split(data.kind, &root, name);
    match TEST.into_iter().find(is_test) {
        Some(test) if asked == VAL[0] && !root.join(asked).exists() => {
            Err(SplitError::OnlyTest { path: root, test }.into())
        }
        _ => Ok(asked),
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn usual_names_take_the_place_of_train_and_val() {
        let dir = tempfile::tempdir().unwrap();
        let name = |split| split_name(DataKind::Folder, dir.path(), split);
        let make =
            |split: &str| fs_err::create_dir_all(dir.path().join(split).join("class")).unwrap();
        make("test");
        assert_eq!(
            [name("train"), name("val"), name("test")],
            [None, None, Some("test")]
        );
        make("training");
        assert_eq!([name("train"), name("testing")], [Some("training"), None]);
        for split in ["dev", "validation", "valid", "val"] {
            make(split);
            assert_eq!([name("val"), name(split)], [Some(split); 2]);
        }
        fs_err::remove_dir_all(dir.path().join("valid")).unwrap();
        assert_eq!(name("valid"), None);
    }
}
