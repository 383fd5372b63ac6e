//! Both splits of a data set, or one of them, by kind.

use std::path::Path;

use super::archives::{cifar_split, label_sets, listed};
use super::splits::{Split, divided, name, refuse_splits, refuse_whole, split_name};
use super::{Known, Source, cifar, coco, labelled, pairs, parquet, share};
use crate::{DataConfig, DataError, DataKind};

/// The training and validation images of a data set.
///
/// With `classes` given (from a run that is resumed or evaluated), the data must have exactly these, and labels follow
/// that list.
///
/// # Errors
/// If something is missing, damaged or does not match.
pub fn open(data: &DataConfig, classes: Option<&[String]>) -> Result<[Source; 2], DataError> {
    let data = &*data.as_read();
    let [train, val] = both(data, classes)?;
    // It would be noticed when they are evaluated, after the last epoch perhaps.
    if val.samples.is_empty() {
        return Err(DataError::NoneValidates(val.root));
    }
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
    if !data.labels.is_empty() {
        return labelled::open(data, classes);
    }
    if data.val_fraction > 0.0 {
        refuse_splits(data)?;
        if let Some(whole) = whole(data, classes)? {
            return Ok(share::split(&whole, data.val_fraction));
        }
    }
    match data.kind {
        DataKind::Folder | DataKind::Shapes => {
            refuse_whole(data)?;
            let dir = |part| Ok::<_, DataError>(data.path.join(name(data, part)?));
            let train = folder(&dir(Split::Train)?, data, classes)?;
            let val = Source::open_with_classes(dir(Split::Val)?, &train.classes)?;
            Ok([train, val])
        }
        DataKind::Tar | DataKind::Parquet => {
            let [of_train, of_val] = [name(data, Split::Train)?, name(data, Split::Val)?];
            let beside = |train: &mut Source| {
                if data.kind == DataKind::Parquet {
                    train.beside = parquet::others(&data.path, &[of_train, of_val]);
                }
            };
            if data.kind == DataKind::Parquet && data.label_sets {
                let mut train = label_sets(data, Some(of_train), classes)?;
                beside(&mut train);
                let val = label_sets(data, Some(of_val), Some(&train.classes))?;
                return Ok([train, val]);
            }
            let mut train = listed(data, Some(of_train), None)?;
            beside(&mut train);
            let known = Known {
                classes: &train.classes,
                are_labels: train.are_labels,
            };
            let val = listed(data, Some(of_val), Some(known))?;
            let train = relabelled(train, classes)?;
            let val = val.relabelled(&train.classes)?;
            Ok([train, val])
        }
        DataKind::Cifar => {
            let [train, val] = cifar::open(&data.path)?;
            Ok([relabelled(train, classes)?, relabelled(val, classes)?])
        }
        DataKind::Masks => {
            let train = pairs::open(data, Some(name(data, Split::Train)?), None, classes)?;
            let val = pairs::open(data, Some(name(data, Split::Val)?), Some(&train), classes)?;
            Ok([train, val])
        }
        DataKind::Coco => {
            let train = objects(data, Split::Train, classes)?;
            let val = objects(data, Split::Val, Some(&train.classes))?;
            Ok([coco::for_training(train)?, coco::for_evaluation(val)?])
        }
    }
}

/// All images of data of which a share validates; `None` for kinds that are always divided.
fn whole(data: &DataConfig, classes: Option<&[String]>) -> Result<Option<Source>, DataError> {
    let whole = match data.kind {
        DataKind::Folder | DataKind::Shapes => folder(&data.path, data, classes)?,
        DataKind::Parquet if data.label_sets => label_sets(data, None, classes)?,
        DataKind::Tar | DataKind::Parquet => relabelled(listed(data, None, None)?, classes)?,
        DataKind::Masks => pairs::open(data, None, None, classes)?,
        DataKind::Cifar | DataKind::Coco => return Ok(None),
    };
    Ok(Some(whole))
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
    let data = &*data.as_read();
    let source = match data.kind {
        DataKind::Folder | DataKind::Shapes
            if data.val_fraction == 0.0 && data.labels.is_empty() =>
        {
            refuse_whole(data)?;
            folder(&data.path.join(name(data, part)?), data, classes)?
        }
        DataKind::Coco => match part {
            Split::Train => coco::for_training(objects(data, part, classes)?)?,
            Split::Val => coco::for_evaluation(objects(data, part, classes)?)?,
        },
        _ => {
            let [train, val] = open(data, classes)?;
            return Ok(match part {
                Split::Train => train,
                Split::Val => val,
            });
        }
    };
    match part {
        Split::Train => subset(data, source),
        Split::Val => Ok(source),
    }
}

/// A split of a data set by its [name](split_name), with these classes if given. CIFAR's splits are called `train`, and `val`
/// or `test`.
///
/// # Errors
/// As [`open`].
pub fn open_split(
    data: &DataConfig,
    split: &str,
    classes: Option<&[String]>,
) -> Result<Source, DataError> {
    let data = &*data.as_read();
    if !data.labels.is_empty() {
        return labelled::open_split(data, split, classes);
    }
    let asked = split;
    let split = split_name(data.kind, &divided(data), split).unwrap_or(split);
    match data.kind {
        DataKind::Folder | DataKind::Shapes => folder(&data.path.join(split), data, classes),
        DataKind::Parquet if data.label_sets => label_sets(data, Some(split), classes),
        DataKind::Tar | DataKind::Parquet => {
            let known = classes.map(|classes| Known {
                classes,
                are_labels: false,
            });
            relabelled(listed(data, Some(split), known)?, classes)
        }
        DataKind::Cifar => relabelled(cifar_split(&data.path, split)?, classes),
        DataKind::Masks => pairs::open(data, Some(split), None, classes),
        DataKind::Coco => coco::open(data, asked, split, classes),
    }
}

/// All images of a split with objects.
fn objects(
    data: &DataConfig,
    part: Split,
    classes: Option<&[String]>,
) -> Result<Source, DataError> {
    coco::open(data, part.asked(data), name(data, part)?, classes)
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

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::ClassOrder;

    #[test]
    fn splits_are_neither_divided_nor_classes_nor_test_images_for_validation() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let make = |split: &str| {
            for class in ["a", "b"] {
                fs_err::create_dir_all(at(split).join(class)).unwrap();
                fs_err::write(at(split).join(class).join("1.png"), b"").unwrap();
            }
        };
        let open = |val: &str, val_fraction| {
            let data = DataConfig {
                path: dir.path().to_owned(),
                val: val.to_owned(),
                val_fraction,
                ..DataConfig::default()
            };
            super::open(&data, None).map(|[_, val]| val.root)
        };
        make("train");
        make("test");
        match open("val", 0.0).unwrap_err() {
            DataError::OnlyTest { test, .. } => assert_eq!(test, "test"),
            other => unreachable!("{other}"),
        }
        assert_eq!(open("test", 0.0).unwrap(), at("test"));
        // Another name is not that of the usual split.
        let error = open("other", 0.0).unwrap_err();
        assert!(matches!(error, DataError::MissingFolder(path) if path == at("other")));
        make("other");
        for (val, expected) in [("val", "train test"), ("other", "train test other")] {
            match open(val, 0.5).unwrap_err() {
                DataError::AlreadySplit { splits, .. } => assert_eq!(splits.join(" "), expected),
                other => unreachable!("{other}"),
            }
        }
        // Files side by side can be splits too.
        for (kind, ending) in [(DataKind::Tar, "tar"), (DataKind::Parquet, "parquet")] {
            let data = DataConfig {
                kind,
                path: at(ending),
                val_fraction: 0.5,
                ..DataConfig::default()
            };
            fs_err::create_dir_all(&data.path).unwrap();
            for stem in ["trainval-000", "test-000"] {
                fs_err::write(data.path.join(format!("{stem}.{ending}")), b"").unwrap();
            }
            match super::open(&data, None).unwrap_err() {
                DataError::AlreadySplit { splits, .. } | DataError::SideBySide { splits, .. } => {
                    assert_eq!(splits.join(" "), "test trainval");
                }
                other => unreachable!("{other}"),
            }
        }
        let error = Source::open(dir.path(), ClassOrder::Byte).unwrap_err();
        match error {
            DataError::SplitsAsClasses { splits, .. } => assert_eq!(splits, ["test", "train"]),
            other => unreachable!("{other}"),
        }
        // A folder of each name, with images and no classes, is no split, but no class either.
        fs_err::remove_dir_all(at("other")).unwrap();
        for split in ["train", "test"] {
            fs_err::remove_dir_all(at(split)).unwrap();
            fs_err::create_dir(at(split)).unwrap();
            fs_err::write(at(split).join("1.png"), b"").unwrap();
        }
        let error = open("val", 0.5).unwrap_err();
        assert!(matches!(error, DataError::SplitsAsClasses { .. }));
    }
}
