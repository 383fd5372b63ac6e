//! Both splits of a data set, or one of them, by kind.

use super::archives::{label_sets, listed};
use super::splits::{Split, SplitError, divided, name, refuse_splits, refuse_whole, split_name};
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
        return Err(SplitError::NoneValidates(val.root).into());
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
        // The others are always divided.
        if !matches!(data.kind, DataKind::Cifar | DataKind::Coco) {
            let whole = read(data, "", None, classes)?;
            return Ok(share::split(&whole, data.val_fraction));
        }
    }
    if matches!(data.kind, DataKind::Tar | DataKind::Parquet) {
        return archives(data, classes);
    }
    let train = of_use(data, Split::Train, classes)?;
    let val = of_use(data, Split::Val, Some(&train.classes))?;
    Ok([train, val])
}

/// Both splits in files that hold many images.
fn archives(data: &DataConfig, classes: Option<&[String]>) -> Result<[Source; 2], DataError> {
    let names @ [of_train, of_val] = [name(data, Split::Train)?, name(data, Split::Val)?];
    let [mut train, val] = if data.kind == DataKind::Parquet && data.label_sets {
        let train = label_sets(data, Some(of_train), classes)?;
        let val = label_sets(data, Some(of_val), Some(&train.classes))?;
        [train, val]
    } else {
        let train = listed(data, Some(of_train), None)?;
        let known = Known {
            classes: &train.classes,
            are_labels: train.are_labels,
        };
        let val = listed(data, Some(of_val), Some(known))?;
        let train = train.relabelled(classes)?;
        let val = val.relabelled(Some(&train.classes))?;
        [train, val]
    };
    if data.kind == DataKind::Parquet {
        train.beside = parquet::others(&data.path, &names);
    }
    Ok([train, val])
}

/// The training or the validation images in full, of data whose splits do not depend on each other.
fn of_use(data: &DataConfig, part: Split, classes: Option<&[String]>) -> Result<Source, DataError> {
    if matches!(data.kind, DataKind::Folder | DataKind::Shapes) {
        refuse_whole(data)?;
    }
    let split = match data.kind {
        DataKind::Cifar => part.name(),
        _ => name(data, part)?,
    };
    let source = read(data, part.asked(data), Some(split), classes)?;
    match (data.kind, part) {
        (DataKind::Coco, Split::Train) => coco::for_training(source),
        (DataKind::Coco, Split::Val) => coco::for_evaluation(source),
        _ => Ok(source),
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
    let data = &*data.as_read();
    let is_alone = match data.kind {
        DataKind::Folder | DataKind::Shapes => data.val_fraction == 0.0 && data.labels.is_empty(),
        DataKind::Cifar | DataKind::Coco => true,
        DataKind::Tar | DataKind::Parquet | DataKind::Masks => false,
    };
    if !is_alone {
        let [train, val] = open(data, classes)?;
        return Ok(match part {
            Split::Train => train,
            Split::Val => val,
        });
    }
    let source = of_use(data, part, classes)?;
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
    let found = split_name(data.kind, &divided(data), split).unwrap_or(split);
    read(data, split, Some(found), classes)
}

/// The images of a split, which the configuration calls `asked`; without one, all.
fn read(
    data: &DataConfig,
    asked: &str,
    split: Option<&str>,
    classes: Option<&[String]>,
) -> Result<Source, DataError> {
    let name = split.unwrap_or_default();
    match data.kind {
        DataKind::Folder | DataKind::Shapes => {
            let dir = split.map_or_else(|| data.path.clone(), |split| data.path.join(split));
            match classes {
                Some(classes) => Source::open_with_classes(dir, classes),
                None => Source::open(dir, data.class_order),
            }
        }
        DataKind::Parquet if data.label_sets => label_sets(data, split, classes),
        DataKind::Tar | DataKind::Parquet => {
            // A split can lack images of a class.
            let known = classes.filter(|_| split.is_some()).map(|classes| Known {
                classes,
                are_labels: false,
            });
            listed(data, split, known)?.relabelled(classes)
        }
        DataKind::Cifar => cifar::open(&data.path, name)?.relabelled(classes),
        DataKind::Masks => pairs::open(data, split, classes),
        DataKind::Coco => coco::open(data, asked, name, classes),
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::{ClassOrder, FolderError};

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
            DataError::Split(SplitError::OnlyTest { test, .. }) => assert_eq!(test, "test"),
            other => unreachable!("{other}"),
        }
        assert_eq!(open("test", 0.0).unwrap(), at("test"));
        // Another name is not that of the usual split.
        let error = open("other", 0.0).unwrap_err();
        assert!(
            matches!(error, DataError::Folder(FolderError::MissingFolder(path)) if path == at("other"))
        );
        make("other");
        for (val, expected) in [("val", "train test"), ("other", "train test other")] {
            match open(val, 0.5).unwrap_err() {
                DataError::Split(SplitError::AlreadySplit { splits, .. }) => {
                    assert_eq!(splits.join(" "), expected);
                }
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
                DataError::Split(
                    SplitError::AlreadySplit { splits, .. } | SplitError::SideBySide { splits, .. },
                ) => {
                    assert_eq!(splits.join(" "), "test trainval");
                }
                other => unreachable!("{other}"),
            }
        }
        let error = Source::open(dir.path(), ClassOrder::Byte).unwrap_err();
        match error {
            DataError::Folder(FolderError::SplitsAsClasses { splits, .. }) => {
                assert_eq!(splits, ["test", "train"]);
            }
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
        assert!(matches!(
            error,
            DataError::Folder(FolderError::SplitsAsClasses { .. })
        ));
    }
}
