//! Both splits of a data set, or one of them, by kind.

use std::path::{Path, PathBuf};

use super::names::{self, TEST, TRAIN, VAL, splits_of_files};
use super::{
    Known, Source, Survey, Unpaired, cifar, coco, labelled, masks, parquet, shards, share,
};
use crate::text::quoted;
use crate::{ClassOrder, DataConfig, DataError, DataKind, listing};

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
    }
    match data.kind {
        DataKind::Folder | DataKind::Shapes if data.val_fraction > 0.0 => {
            let whole = folder(&data.path, data, classes)?;
            Ok(share::split(&whole, data.val_fraction))
        }
        DataKind::Folder | DataKind::Shapes => {
            refuse_whole(data)?;
            let dir = |part| Ok::<_, DataError>(data.path.join(name(data, part)?));
            let train = folder(&dir(Split::Train)?, data, classes)?;
            let val = Source::open_with_classes(dir(Split::Val)?, &train.classes)?;
            Ok([train, val])
        }
        DataKind::Parquet if data.label_sets => with_label_sets(data, classes),
        DataKind::Tar | DataKind::Parquet if data.val_fraction > 0.0 => {
            let whole = listed(data, None, None)?;
            Ok(share::split(
                &relabelled(whole, classes)?,
                data.val_fraction,
            ))
        }
        DataKind::Tar | DataKind::Parquet => {
            let of_train = name(data, Split::Train)?;
            let of_val = name(data, Split::Val)?;
            let mut train = listed(data, Some(of_train), None)?;
            if data.kind == DataKind::Parquet {
                train.beside = parquet::others(&data.path, &[of_train, of_val]);
            }
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
        DataKind::Masks if data.val_fraction > 0.0 => {
            let whole = masks::open(data, None, classes)?;
            Ok(share::split(&whole, data.val_fraction))
        }
        DataKind::Masks => {
            let of = |part| masks::open(data, Some(name(data, part)?), classes);
            Ok([of(Split::Train)?, of(Split::Val)?])
        }
        DataKind::Coco => {
            let train = objects(data, Split::Train, classes)?;
            let val = objects(data, Split::Val, Some(&train.classes))?;
            Ok([coco::for_training(train)?, val])
        }
    }
}

/// Both splits of tables whose labels are texts such as `cat|dog`, or have a column for each class, with the classes of the training
/// images.
fn with_label_sets(
    data: &DataConfig,
    classes: Option<&[String]>,
) -> Result<[Source; 2], DataError> {
    if data.val_fraction > 0.0 {
        return Ok(share::split(
            &label_sets(data, None, classes)?,
            data.val_fraction,
        ));
    }
    let [of_train, of_val] = [name(data, Split::Train)?, name(data, Split::Val)?];
    let mut train = label_sets(data, Some(of_train), classes)?;
    train.beside = parquet::others(&data.path, &[of_train, of_val]);
    let val = label_sets(data, Some(of_val), Some(&train.classes))?;
    Ok([train, val])
}

/// The images of a split of such tables, or all.
fn label_sets(
    data: &DataConfig,
    split: Option<&str>,
    classes: Option<&[String]>,
) -> Result<Source, DataError> {
    listed(data, split, None)?.split_labels(classes, data.class_order)
}

/// The same splits, and that of test images, by their names for a check; all images are one with `data.val_fraction`.
pub(crate) fn label_set_surveys(data: &DataConfig) -> Result<Vec<(String, Survey)>, DataError> {
    if data.val_fraction > 0.0 {
        refuse_splits(data)?;
        let name = data.path.display().to_string();
        return Ok(vec![(name, label_sets(data, None, None)?.surveyed())]);
    }
    let own = [name(data, Split::Train)?, name(data, Split::Val)?];
    let test = TEST
        .into_iter()
        .find(|test| is_split(data.kind, &data.path, test));
    let test = test.filter(|test| !own.contains(test));
    let mut surveys: Vec<(String, Survey)> = Vec::new();
    for split in own.into_iter().chain(test) {
        let classes = surveys
            .first()
            .map(|(_, train)| train.source.classes.as_slice());
        let survey = label_sets(data, Some(split), classes)?.surveyed();
        surveys.push((split.to_owned(), survey));
    }
    if let Some((_, train)) = surveys.first_mut() {
        train.source.beside = parquet::others(&data.path, &own);
    }
    Ok(surveys)
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
    let is_folder = matches!(data.kind, DataKind::Folder | DataKind::Shapes);
    if is_folder && data.val_fraction == 0.0 && data.labels.is_empty() {
        refuse_whole(data)?;
        let source = folder(&data.path.join(name(data, part)?), data, classes)?;
        return match part {
            Split::Train => subset(data, source),
            Split::Val => Ok(source),
        };
    }
    if data.kind == DataKind::Coco {
        let source = objects(data, part, classes)?;
        return match part {
            Split::Train => subset(data, coco::for_training(source)?),
            Split::Val => Ok(source),
        };
    }
    let [train, val] = open(data, classes)?;
    Ok(match part {
        Split::Train => train,
        Split::Val => val,
    })
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
        DataKind::Masks => masks::open(data, Some(split), classes),
        DataKind::Coco => coco::open(data, asked, split, classes),
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

/// The split of test images in a folder of any kind of data, if there is one.
pub fn test_split(root: &Path) -> Option<&'static str> {
    let mut kinds = [DataKind::Folder, DataKind::Tar, DataKind::Parquet].into_iter();
    kinds.find_map(|kind| TEST.into_iter().find(|test| is_split(kind, root, test)))
}

/// [`split_name`] for data of any kind; the name itself if there is no such split.
pub(crate) fn detected<'a>(root: &Path, split: &'a str) -> &'a str {
    let mut kinds = [DataKind::Tar, DataKind::Parquet, DataKind::Folder].into_iter();
    let found = kinds.find_map(|kind| split_name(kind, root, split));
    found.unwrap_or(split)
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
fn divided(data: &DataConfig) -> PathBuf {
    match data.kind {
        DataKind::Masks => data.path.join(&data.images),
        _ => data.path.clone(),
    }
}

/// A split of images with masks, with the problems of its listing and what has no partner, for a check.
pub(crate) fn mask_survey(data: &DataConfig, split: &str) -> Result<(Survey, Unpaired), DataError> {
    let data = &*data.as_read();
    let split = split_name(DataKind::Masks, &divided(data), split).unwrap_or(split);
    masks::survey(data, (!split.is_empty()).then_some(split))
}

/// All images of a split with objects, with what is wrong with them, for a check.
pub(crate) fn coco_survey(data: &DataConfig, split: &str) -> Result<Source, DataError> {
    let folder = split_name(DataKind::Coco, &data.path, split).unwrap_or(split);
    coco::survey(data, split, folder)
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
pub(crate) fn surveys(
    root: &Path,
    splits: &[&str],
    order: ClassOrder,
    label_column: &str,
) -> Result<Vec<Survey>, DataError> {
    let mut surveys: Vec<Survey> = Vec::new();
    for split in splits {
        surveys.push(survey(root, split, order, label_column)?);
    }
    if let Some(first) = surveys.first_mut()
        && first.source.is_table()
        && splits != [""]
    {
        first.source.beside = parquet::others(root, splits);
    }
    let names = shared_classes(&surveys);
    for Survey { source, .. } in &mut surveys {
        if source.is_numbered && source.classes.len() <= names.len() {
            source.classes.clone_from(&names);
        }
    }
    Ok(surveys)
}

/// The classes of splits that do not name theirs.
fn shared_classes(surveys: &[Survey]) -> Vec<String> {
    if let Some(first) = surveys.first()
        && !first.source.is_numbered
    {
        return first.source.classes.clone();
    }
    let mut sources: Vec<&Source> = surveys.iter().map(|survey| &survey.source).collect();
    sources.retain(|source| source.is_numbered);
    let longest = sources.iter().max_by_key(|source| source.classes.len());
    longest.map_or_else(Vec::new, |source| source.classes.clone())
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
        if split.is_empty() {
            refuse_side_by_side(&dir, &shards::files(&dir)?)?;
        }
        return Ok(shards::open(&dir, None)?.surveyed());
    }
    let files = parquet::files(root, split);
    if !files.is_empty() {
        return Ok(parquet::open(root, &files, (label_column, false), order, None)?.surveyed());
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
/// those of `known`, or otherwise numbers.
fn listed(
    data: &DataConfig,
    split: Option<&str>,
    known: Option<Known<'_>>,
) -> Result<Source, DataError> {
    let root = &data.path;
    let source = if data.kind == DataKind::Tar {
        let dir = split.map_or_else(|| root.clone(), |split| root.join(split));
        if !shards::is_here(&dir) && shards::is_here(root) {
            refuse_side_by_side(root, &shards::files(root)?)?;
        }
        shards::open(&dir, known.map(|known| known.classes))?
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
        parquet::open(
            root,
            &files,
            (&data.label_column, data.label_sets),
            data.class_order,
            known,
        )?
    };
    // An epoch without images would end immediately, and so would the run.
    if source.samples.is_empty() {
        Err(DataError::NoImages {
            path: source.root,
            split: split.map(str::to_owned),
        })
    } else {
        Ok(source)
    }
}

/// Rejects class folders instead of the folders of the two splits.
fn refuse_whole(data: &DataConfig) -> Result<(), DataError> {
    let root = &data.path;
    let is_split = [&data.train, &data.val]
        .into_iter()
        .any(|split| root.join(split).exists());
    if !is_split && listing::holds_classes(root) {
        Err(DataError::NotSplit {
            path: root.clone(),
            train: data.train.clone(),
            val: data.val.clone(),
        })
    } else {
        Ok(())
    }
}

/// Rejects several splits where a share of a whole is to validate.
fn refuse_splits(data: &DataConfig) -> Result<(), DataError> {
    let mut candidates: Vec<&str> = names::usual().collect();
    for own in [data.train.as_str(), data.val.as_str()] {
        if names::usual().all(|usual| usual != own) {
            candidates.push(own);
        }
    }
    let root = divided(data);
    candidates.retain(|name| is_split(data.kind, &root, name));
    let mut splits: Vec<String> = candidates.into_iter().map(str::to_owned).collect();
    if splits.len() < 2 {
        splits.clear();
        match data.kind {
            DataKind::Tar => refuse_side_by_side(&data.path, &shards::files(&data.path)?)?,
            DataKind::Parquet => {
                splits = splits_of_files(&parquet::all_files(&data.path)).unwrap_or_default();
            }
            _ => {}
        }
    }
    if splits.is_empty() {
        Ok(())
    } else {
        Err(DataError::AlreadySplit { path: root, splits })
    }
}

/// Rejects shards of several splits in one folder.
fn refuse_side_by_side(dir: &Path, shards: &[PathBuf]) -> Result<(), DataError> {
    match splits_of_files(shards) {
        None => Ok(()),
        Some(splits) => Err(DataError::SideBySide {
            path: dir.to_owned(),
            splits,
        }),
    }
}

/// The name of a split, as the data has it.
fn name(data: &DataConfig, part: Split) -> Result<&str, DataError> {
    let root = divided(data);
    let asked = match part {
        Split::Train => data.train.as_str(),
        Split::Val => data.val.as_str(),
    };
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
            Err(DataError::OnlyTest { path: root, test })
        }
        _ => Ok(asked),
    }
}

/// All images of a split with objects.
fn objects(
    data: &DataConfig,
    part: Split,
    classes: Option<&[String]>,
) -> Result<Source, DataError> {
    let asked = match part {
        Split::Train => &data.train,
        Split::Val => &data.val,
    };
    coco::open(data, asked, name(data, part)?, classes)
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
