//! Both splits of a data set, or one of them, by its kind.

use std::path::Path;

use super::{Source, Survey, cifar, shards, share};
use crate::data::{ClassOrder, DataConfig, DataError, DataKind};

/// A split of a data set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Split {
    /// The images to train on.
    Train,
    /// The images to validate on.
    Val,
}

/// The training and validation images of a data set.
///
/// With `classes` given (from a run that is resumed or evaluated), the data must have exactly these, and labels follow
/// that list.
///
/// # Errors
/// If something is missing, damaged or does not fit.
pub fn open(data: &DataConfig, classes: Option<&[String]>) -> Result<[Source; 2], DataError> {
    let dir = |part| data.path.join(name(data, part));
    match data.kind {
        DataKind::Folder | DataKind::Shapes if data.val_fraction > 0.0 => {
            let whole = folder(&data.path, data, classes)?;
            let is_split = |class: &String| [&data.train, &data.val].contains(&class);
            if whole.classes.iter().all(is_split) {
                return Err(DataError::AlreadySplit {
                    path: data.path.clone(),
                    train: data.train.clone(),
                    val: data.val.clone(),
                });
            }
            Ok(share::split(&whole, data.val_fraction))
        }
        DataKind::Folder | DataKind::Shapes => {
            let train = folder(&dir(Split::Train), data, classes)?;
            let val = Source::open_with_classes(dir(Split::Val), &train.classes)?;
            Ok([train, val])
        }
        DataKind::Tar if data.val_fraction > 0.0 => {
            let whole = shards::open(&data.path, None)?;
            Ok(share::split(
                &relabelled(whole, classes)?,
                data.val_fraction,
            ))
        }
        DataKind::Tar => {
            let train = shards::open(&dir(Split::Train), None)?;
            let val = shards::open(&dir(Split::Val), Some(&train.classes))?;
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

/// One of the splits of a data set, without a look at the other one where it can be had without.
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
        return folder(&data.path.join(name(data, part)), data, classes);
    }
    let [train, val] = open(data, classes)?;
    Ok(match part {
        Split::Train => train,
        Split::Val => val,
    })
}

/// A split of a data set by its folder's name, with what is wrong with its listing, for a check. The kind is that of the
/// files that are there.
pub(in crate::data) fn survey(
    root: &Path,
    split: &str,
    order: ClassOrder,
) -> Result<Survey, DataError> {
    let dir = root.join(split);
    if shards::is_here(&dir) {
        return Ok(shards::open(&dir, None)?.surveyed());
    }
    if !dir.exists() && cifar::is_here(root) {
        let [train, val] = cifar::open(root)?;
        return match split {
            "train" => Ok(train.surveyed()),
            "val" | "test" => Ok(val.surveyed()),
            _ => Err(DataError::MissingFolder(dir)),
        };
    }
    Survey::of(dir, order)
}

/// Whether a folder holds CIFAR's own files.
pub fn is_cifar(root: &Path) -> bool {
    cifar::is_here(root)
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
