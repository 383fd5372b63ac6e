//! Both splits of a data set, or one of them, by kind.

use std::path::Path;

use super::{Source, Survey, cifar, parquet, shards, share};
use crate::data::{ClassOrder, DataConfig, DataError, DataKind, listing};

/// A split of a data set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Split {
    /// The training images.
    Train,
    /// The validation images.
    Val,
}

/// The training and validation images of a data set.
///
/// With `classes` given (from a run that is resumed or evaluated), the data must have exactly these, and labels follow
/// that list.
///
/// # Errors
/// If something is missing, damaged or does not match.
pub fn open(data: &DataConfig, classes: Option<&[String]>) -> Result<[Source; 2], DataError> {
    let [train, val] = both(data, classes)?;
    Ok([subset(data, train)?, val])
}

/// The images that are used for training.
fn subset(data: &DataConfig, train: Source) -> Result<Source, DataError> {
    let found = train.samples.len();
    match data.subset {
        0 => Ok(train),
        asked if asked > found => Err(DataError::Subset {
            root: train.root,
            asked,
            found,
        }),
        asked => Ok(share::subset(&train, asked)),
    }
}

/// Both splits in full.
fn both(data: &DataConfig, classes: Option<&[String]>) -> Result<[Source; 2], DataError> {
    let dir = |part| data.path.join(name(data, part));
    match data.kind {
        DataKind::Folder | DataKind::Shapes if data.val_fraction > 0.0 => {
            let whole = folder(&data.path, data, classes)?;
            let is_split = |class: &String| [&data.train, &data.val].contains(&class);
            if whole.classes.iter().all(is_split) {
                return Err(already_split(data));
            }
            Ok(share::split(&whole, data.val_fraction))
        }
        DataKind::Folder | DataKind::Shapes => {
            refuse_whole(data)?;
            let train = folder(&dir(Split::Train), data, classes)?;
            let val = Source::open_with_classes(dir(Split::Val), &train.classes)?;
            Ok([train, val])
        }
        DataKind::Tar | DataKind::Parquet if data.val_fraction > 0.0 => {
            let has = |split: &str| is_split(data.kind, &data.path, split);
            if has(&data.train) && has(&data.val) {
                return Err(already_split(data));
            }
            let whole = listed(data, None, None)?;
            Ok(share::split(
                &relabelled(whole, classes)?,
                data.val_fraction,
            ))
        }
        DataKind::Tar | DataKind::Parquet => {
            let train = listed(data, Some(&data.train), None)?;
            let val = listed(data, Some(&data.val), Some(&train.classes))?;
            let train = relabelled(train, classes)?;
            let val = val.relabelled(&train.classes)?;
            Ok([train, val])
        }
        DataKind::Cifar => {
            let [train, val] = cifar::open(&data.path)?;
            Ok([relabelled(train, classes)?, relabelled(val, classes)?])
        }
    }
}

/// One of the splits of a data set, without reading the other one if possible.
///
/// # Errors
/// As [`open`].
pub fn open_part(
    data: &DataConfig,
    part: Split,
    classes: Option<&[String]>,
) -> Result<Source, DataError> {
    let is_folder = matches!(data.kind, DataKind::Folder | DataKind::Shapes);
    if is_folder && data.val_fraction == 0.0 {
        refuse_whole(data)?;
        let source = folder(&data.path.join(name(data, part)), data, classes)?;
        return match part {
            Split::Train => subset(data, source),
            Split::Val => Ok(source),
        };
    }
    let [train, val] = open(data, classes)?;
    Ok(match part {
        Split::Train => train,
        Split::Val => val,
    })
}

/// A split of a data set by its name, with these classes if given. CIFAR's splits are called `train`, and `val` or `test`.
///
/// # Errors
/// As [`open`].
pub fn open_split(
    data: &DataConfig,
    split: &str,
    classes: Option<&[String]>,
) -> Result<Source, DataError> {
    match data.kind {
        DataKind::Folder | DataKind::Shapes => folder(&data.path.join(split), data, classes),
        DataKind::Tar | DataKind::Parquet => {
            relabelled(listed(data, Some(split), classes)?, classes)
        }
        DataKind::Cifar => relabelled(cifar_split(&data.path, split)?, classes),
    }
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
    }
}

/// Whether a folder contains data of a kind that is not divided into splits: class folders, shards, or Parquet files. CIFAR
/// is always divided.
pub fn is_whole(kind: DataKind, root: &Path) -> bool {
    match kind {
        DataKind::Folder | DataKind::Shapes => has_folders(root),
        DataKind::Tar => shards::is_here(root),
        DataKind::Parquet => !parquet::all_files(root).is_empty(),
        DataKind::Cifar => false,
    }
}

/// Whether a folder contains folders other than hidden ones.
fn has_folders(folder: &Path) -> bool {
    let entries = fs_err::read_dir(folder).into_iter().flatten().flatten();
    let mut folders = entries.filter(|entry| entry.path().is_dir());
    folders.any(|entry| !listing::is_hidden(&entry.file_name()))
}

/// Splits of a data set by name, with the problems of their listing, for a check. The kind is detected from the files.
///
/// Splits whose classes have no names use those of the first split, as in training. If that one has none either, the
/// classes are the numbers up to the largest label of all splits. A split with labels beyond the names does not change.
pub(in crate::data) fn surveys(
    root: &Path,
    splits: &[&str],
    order: ClassOrder,
    label_column: &str,
) -> Result<Vec<Survey>, DataError> {
    let surveys = splits.iter();
    let surveys = surveys.map(|split| survey(root, split, order, label_column));
    let mut surveys = surveys.collect::<Result<Vec<_>, _>>()?;
    let numbered = surveys.iter().filter(|survey| survey.source.is_numbered);
    let numbered = numbered.map(|survey| &survey.source.classes);
    let first = surveys.first().filter(|first| !first.source.is_numbered);
    let names = match first {
        Some(first) => Some(&first.source.classes),
        None => numbered.max_by_key(|classes| classes.len()),
    };
    let names = names.cloned().unwrap_or_default();
    for Survey { source, .. } in &mut surveys {
        if source.is_numbered && source.classes.len() <= names.len() {
            source.classes.clone_from(&names);
        }
    }
    Ok(surveys)
}

fn survey(
    root: &Path,
    split: &str,
    order: ClassOrder,
    label_column: &str,
) -> Result<Survey, DataError> {
    // Without a name, the whole folder is used.
    let dir = match split {
        "" => root.to_owned(),
        split => root.join(split),
    };
    if shards::is_here(&dir) {
        return Ok(shards::open(&dir, None)?.surveyed());
    }
    let files = parquet::files(root, split);
    if !files.is_empty() {
        return Ok(parquet::open(root, &files, label_column, None)?.surveyed());
    }
    if !dir.exists() && cifar::is_here(root) {
        return Ok(cifar_split(root, split)?.surveyed());
    }
    Survey::of(dir, order)
}

fn cifar_split(root: &Path, split: &str) -> Result<Source, DataError> {
    let [train, val] = cifar::open(root)?;
    match split {
        "train" => Ok(train),
        "val" | "test" => Ok(val),
        _ => Err(DataError::MissingFolder(root.join(split))),
    }
}

/// The images of shards or Parquet files: those of a split, or all. If the files do not name the classes, they are
/// `names`, or otherwise numbers.
fn listed(
    data: &DataConfig,
    split: Option<&str>,
    names: Option<&[String]>,
) -> Result<Source, DataError> {
    let root = &data.path;
    let source = if data.kind == DataKind::Tar {
        let dir = split.map_or_else(|| root.clone(), |split| root.join(split));
        shards::open(&dir, names)?
    } else {
        let files = match split {
            Some(split) => parquet::files(root, split),
            None => parquet::all_files(root),
        };
        if files.is_empty() {
            return Err(DataError::NoParquet {
                path: root.clone(),
                split: split.map(str::to_owned),
            });
        }
        parquet::open(root, &files, &data.label_column, names)?
    };
    // An epoch without images would end immediately, and so would the run.
    match source.samples.is_empty() {
        true => Err(DataError::NoImages {
            path: source.root,
            split: split.map(str::to_owned),
        }),
        false => Ok(source),
    }
}

/// Rejects class folders instead of the folders of the two splits.
fn refuse_whole(data: &DataConfig) -> Result<(), DataError> {
    let root = &data.path;
    let is_split = [&data.train, &data.val]
        .into_iter()
        .any(|split| root.join(split).exists());
    match !is_split && listing::holds_classes(root) {
        true => Err(DataError::NotSplit {
            path: root.clone(),
            train: data.train.clone(),
            val: data.val.clone(),
        }),
        false => Ok(()),
    }
}

fn already_split(data: &DataConfig) -> DataError {
    DataError::AlreadySplit {
        path: data.path.clone(),
        train: data.train.clone(),
        val: data.val.clone(),
    }
}

fn name(data: &DataConfig, part: Split) -> &str {
    match part {
        Split::Train => &data.train,
        Split::Val => &data.val,
    }
}

fn folder(dir: &Path, data: &DataConfig, classes: Option<&[String]>) -> Result<Source, DataError> {
    match classes {
        Some(classes) => Source::open_with_classes(dir, classes),
        None => Source::open(dir, data.class_order),
    }
}

fn relabelled(source: Source, classes: Option<&[String]>) -> Result<Source, DataError> {
    match classes {
        Some(classes) => source.relabelled(classes),
        None => Ok(source),
    }
}
