//! Splits as a check looks at them: with the problems of their listing, of which training would stop at the first.

use std::path::Path;

use super::archives::label_sets;
use super::names::TEST;
use super::splits::{
    Split, divided, is_split, name, refuse_side_by_side, refuse_splits, split_name,
};
use super::{FolderError, Source, Unpaired, cifar, coco, pairs, parquet, shards};
use crate::{ClassOrder, DataConfig, DataError, DataKind, listing};

impl Source {
    /// The source, if its listing has no errors.
    pub(super) fn strict(self) -> Result<Self, DataError> {
        if let Some(first) = self.unlisted.first() {
            return Err(DataError::Unlisted(first.clone()));
        }
        let empty = self.class_counts().iter().position(|count| *count == 0);
        let empty = empty.and_then(|class| Some(self.root.join(self.classes.get(class)?)));
        match empty {
            Some(path) => Err(FolderError::EmptyClass {
                others: listing::images(&path).others,
                path,
            }
            .into()),
            None => Ok(self),
        }
    }
}

/// Splits of a data set by name, with the problems of their listing, for a check. The kind is detected from the files.
///
/// Splits whose classes have no names use those of the first split, as in training. If that one has none either, the
/// classes are the numbers up to the largest label of all splits. A split with labels beyond the names does not change.
pub(crate) fn surveys(
    root: &Path,
    splits: &[&str],
    label_column: &str,
) -> Result<Vec<Source>, DataError> {
    let surveys = splits.iter().map(|split| survey(root, split, label_column));
    let mut surveys = surveys.collect::<Result<Vec<Source>, DataError>>()?;
    if let Some(first) = surveys.first_mut()
        && !first.tables.is_empty()
        && splits != [""]
    {
        first.beside = parquet::others(root, splits);
    }
    let names = shared_classes(&surveys);
    for source in &mut surveys {
        if source.is_numbered && source.classes.len() <= names.len() {
            source.classes.clone_from(&names);
        }
    }
    Ok(surveys)
}

/// The classes of splits that do not name theirs.
fn shared_classes(surveys: &[Source]) -> Vec<String> {
    if let Some(first) = surveys.first()
        && !first.is_numbered
    {
        return first.classes.clone();
    }
    let numbered = surveys.iter().filter(|source| source.is_numbered);
    let longest = numbered.max_by_key(|source| source.classes.len());
    longest.map_or_else(Vec::new, |source| source.classes.clone())
}

/// A split with its classes by their bytes, as without a configuration: a check counts them in any order.
fn survey(root: &Path, split: &str, label_column: &str) -> Result<Source, DataError> {
    let order = ClassOrder::Byte;
    // Without a name, the whole folder is used.
    let dir = match split {
        "" => root.to_owned(),
        split => root.join(split),
    };
    if shards::is_here(&dir) {
        if split.is_empty() {
            refuse_side_by_side(&dir, &shards::files(&dir))?;
        }
        return shards::open(&dir, None);
    }
    let files = parquet::files(root, split);
    if !files.is_empty() {
        return parquet::open(root, &files, (label_column, false), order, None);
    }
    if !dir.exists() && cifar::is_here(root) {
        return cifar::open(root, split);
    }
    Source::survey(dir, order)
}

/// The splits of tables with any number of labels for an image, and that of test images, by their names for a check; all images are one
/// with `data.val_fraction`.
pub(crate) fn label_set_surveys(data: &DataConfig) -> Result<Vec<(String, Source)>, DataError> {
    if data.val_fraction > 0.0 {
        refuse_splits(data)?;
        let name = data.path.display().to_string();
        return Ok(vec![(name, label_sets(data, None, None)?)]);
    }
    let own = [name(data, Split::Train)?, name(data, Split::Val)?];
    let test = TEST
        .into_iter()
        .find(|test| is_split(data.kind, &data.path, test));
    let test = test.filter(|test| !own.contains(test));
    let mut surveys: Vec<(String, Source)> = Vec::new();
    for split in own.into_iter().chain(test) {
        let classes = surveys.first().map(|(_, train)| train.classes.as_slice());
        let survey = label_sets(data, Some(split), classes)?;
        surveys.push((split.to_owned(), survey));
    }
    if let Some((_, train)) = surveys.first_mut() {
        train.beside = parquet::others(&data.path, &own);
    }
    Ok(surveys)
}

/// A split of images with masks, with the problems of its listing and what has no partner, for a check; the classes of another split may
/// be `known`.
pub(crate) fn mask_survey(
    data: &DataConfig,
    split: &str,
    known: Option<&[String]>,
) -> Result<(Source, Unpaired), DataError> {
    let data = &*data.as_read();
    let split = split_name(DataKind::Masks, &divided(data), split).unwrap_or(split);
    pairs::survey(data, (!split.is_empty()).then_some(split), known)
}

/// All images of a split with objects, with what is wrong with them, for a check.
pub(crate) fn coco_survey(data: &DataConfig, split: &str) -> Result<Source, DataError> {
    let folder = split_name(DataKind::Coco, &data.path, split).unwrap_or(split);
    coco::survey(data, split, folder)
}
