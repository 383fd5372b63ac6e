//! `kvt data check`: reads every image of a data set once and reports what is wrong with it.

mod coco;
mod masks;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rayon::prelude::*;

pub use self::coco::{CocoCheck, check_coco};
pub use self::masks::{MaskCheck, check_masks};
use crate::source::{detected, label_set_surveys, labelled_surveys, surveys};
use crate::{
    ColorKind, DataConfig, DataError, DataKind, DecodeError, ImageLimits, OtherFormats, Source,
    TRAIN, Unlisted, VAL, file, is_split, test_split,
};

/// The findings about the splits of a data set: of images with labels, with masks, or with objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check<S = SplitCheck> {
    /// The splits, in the order given, or for training and validation; one of all images if `data.val_fraction` divides them.
    pub splits: Vec<S>,
    /// Whether all splits have the same classes.
    pub same_classes: bool,
    /// Files with the same content in different splits: images that can be memorised.
    pub duplicates: Vec<Duplicate>,
}

/// One split of the data set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SplitCheck {
    /// The split's name, as the data has it.
    pub name: String,
    /// Number of images in the split.
    pub images: usize,
    /// Classes and their number of images, in label order.
    pub classes: Vec<(String, usize)>,
    /// How many labels images have, where they can have any number.
    pub label_sets: Option<LabelCounts>,
    /// Images that cannot be decoded.
    pub unreadable: Vec<DecodeError>,
    /// Links to missing images, which are also unreadable.
    pub dead_links: Vec<DecodeError>,
    /// Other links that are dead or circular, and folders that cannot be listed.
    pub unlisted: Vec<Unlisted>,
    /// Files in image formats that are not supported.
    pub others: OtherFormats,
    /// Files in shards that are neither an image nor a label, and Parquet files of no split.
    pub beside: OtherFormats,
    /// Numbered files that are missing between others.
    pub gaps: Vec<String>,
    /// What is left out for want of a class, or by a table of labels, as warnings.
    pub notes: Vec<String>,
    /// Smallest and largest (width, height) by area, in pixels; `None` if no image is readable.
    pub sizes: Option<((u32, u32), (u32, u32))>,
    /// Number of greyscale images.
    pub grey: usize,
    /// Number of CMYK and YCCK images.
    pub cmyk: usize,
}

/// How many labels the images of a split have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LabelCounts {
    /// Labels of all images together.
    pub all: usize,
    /// Fewest labels of an image.
    pub least: usize,
    /// Most labels of an image.
    pub most: usize,
    /// Images without a label.
    pub unlabelled: usize,
}

impl LabelCounts {
    /// The mean number of labels of so many images.
    pub fn mean(&self, images: usize) -> f64 {
        self.all as f64 / images.max(1) as f64
    }

    /// Those of a source whose images have any number of labels.
    fn of(source: &Source) -> Option<Self> {
        let counts = (0..)
            .take(source.samples.len())
            .map(|index| source.labels(index).len());
        source.has_label_sets().then(|| Self {
            all: counts.clone().sum(),
            least: counts.clone().min().unwrap_or_default(),
            most: counts.max().unwrap_or_default(),
            unlabelled: source.unlabelled(),
        })
    }
}

/// How unequal the classes of a split are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Imbalance<'a> {
    /// The largest class and its images; of several, the first.
    pub most: (&'a str, usize),
    /// The smallest class with an image.
    pub least: (&'a str, usize),
    /// How many times larger the largest one is.
    pub ratio: f64,
}

/// From this ratio on, a network that is trained on classes as they are tends to neglect the small ones.
const UNBALANCED: f64 = 5.0;

/// Files with the same content, from at least two splits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Duplicate {
    /// The files, in the order of the splits.
    pub paths: Vec<PathBuf>,
}

impl SplitCheck {
    /// How unequal the classes are, if some class has at least five times as many images as another.
    pub fn imbalance(&self) -> Option<Imbalance<'_>> {
        let there = self.classes.iter().filter(|(_, count)| *count > 0);
        let mut sizes: Vec<_> = there.map(|(name, count)| (name.as_str(), *count)).collect();
        // Stable: of equal ones, the first stays first.
        sizes.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let (most, least) = (*sizes.first()?, *sizes.last()?);
        let ratio = most.1 as f64 / least.1 as f64;
        (ratio >= UNBALANCED).then_some(Imbalance { most, least, ratio })
    }
}

impl Check {
    /// Whether training on this data set can work: everything is readable and listed, and all splits have the same two
    /// or more classes, each with an image; where images can have any number of labels, some image of each split has one. Files in other
    /// formats are ignored.
    pub fn is_sound(&self) -> bool {
        self.same_classes
            && self.splits.iter().all(|split| {
                split.unreadable.is_empty()
                    && split.dead_links.is_empty()
                    && split.unlisted.is_empty()
                    && match split.label_sets {
                        Some(labels) => labels.all > 0,
                        None => {
                            let mut classes = split.classes.iter();
                            split.classes.len() > 1 && classes.all(|(_, images)| *images > 0)
                        }
                    }
            })
    }
}

/// Reads every image of a folder on all cores: of these [splits](crate::split_name), and where they are `train` and `val` as by default,
/// those of them that are there with the test images beside them; or of a folder that is not divided, as one split. They are image folders,
/// tar shards, Parquet files with their labels in `label_column`, or CIFAR's files, depending on what is found.
///
/// # Errors
/// If a split has no class folder, or a shard or Parquet file is damaged. Unreadable images, dead links and the like are
/// part of the result, not an error.
pub fn check_folder(
    root: &Path,
    splits: &[String],
    limits: ImageLimits,
    label_column: &str,
) -> Result<Check, DataError> {
    let mut splits: Vec<&str> = splits.iter().map(String::as_str).collect();
    if splits == [TRAIN[0], VAL[0]] {
        let is_there = |split: &&str| detected(root, split).is_some() || root.join(split).exists();
        if let Some(test) = test_split(root) {
            splits.retain(is_there);
            splits.push(test);
        } else if !splits.iter().any(is_there) && !is_split(DataKind::Cifar, root, "") {
            // A folder that holds only classes, which `data.val_fraction` divides, is one split.
            splits = vec![""];
        }
    }
    let own = splits
        .iter()
        .map(|split| detected(root, split).unwrap_or(split));
    let splits: Vec<&str> = own.collect();
    let surveys = surveys(root, &splits, label_column)?;
    let names = splits.into_iter().map(|split| match split {
        "" => root.display().to_string(),
        split => split.to_owned(),
    });
    Ok(report(&names.zip(surveys).collect::<Vec<_>>(), limits))
}

/// The same of the splits of a configuration with a table of labels, `data.labels`, or with any number of labels for each image in Parquet
/// files, and of its test images.
///
/// # Errors
/// If the table, a file or a row cannot be used. Images that are missing are part of the result.
pub fn check_labels(data: &DataConfig, limits: ImageLimits) -> Result<Check, DataError> {
    let surveys = if data.labels.is_empty() {
        label_set_surveys(data)?
    } else {
        labelled_surveys(data)?
    };
    Ok(report(&surveys, limits))
}

/// Reads every image of these splits.
fn report(surveys: &[(String, Source)], limits: ImageLimits) -> Check {
    let sources: Vec<&Source> = surveys.iter().map(|(_, source)| source).collect();
    let (found, duplicates) = look_at_all(&sources, limits, |source, _, bytes| {
        let decoded = source.picture(&bytes?, limits)?;
        Ok::<_, String>((decoded.image.dimensions(), decoded.color))
    });
    let mut splits = Vec::new();
    for ((name, source), images) in surveys.iter().zip(found) {
        let mut split = SplitCheck::unread(name, source);
        for (sample, image) in source.samples.iter().zip(images) {
            match image {
                Ok((size, color)) => split.count(size, color),
                Err(reason) if file::is_dead_link(&sample.path) => {
                    split.dead_links.push(sample.error(reason));
                }
                Err(reason) => split.unreadable.push(sample.error(reason)),
            }
        }
        splits.push(split);
    }
    let same_classes = surveys.windows(2).all(|pair| match pair {
        [(_, a), (_, b)] => a.classes == b.classes,
        _ => true,
    });
    Check {
        splits,
        same_classes,
        duplicates,
    }
}

impl SplitCheck {
    /// What is known before an image is read.
    fn unread(name: &str, source: &Source) -> Self {
        let classes = source.classes.iter().cloned();
        Self {
            name: name.to_owned(),
            images: source.samples.len(),
            classes: classes.zip(source.class_counts()).collect(),
            label_sets: LabelCounts::of(source),
            unlisted: source.unlisted.clone(),
            others: source.others.clone(),
            beside: source.beside.clone(),
            gaps: source.gaps(),
            notes: source.notes.clone(),
            ..Self::default()
        }
    }

    fn count(&mut self, size: (u32, u32), color: ColorKind) {
        self.sizes = Some(wider(self.sizes, size));
        match color {
            ColorKind::Grey => self.grey += 1,
            ColorKind::Cmyk => self.cmyk += 1,
            ColorKind::Rgb => {}
        }
    }
}

/// Reads every image of some splits on all cores: what `look` finds by its index and its bytes, split by split, and the files whose
/// content is in several. Paths are copied for these only: there may be millions.
fn look_at_all<T: Send>(
    sources: &[&Source],
    limits: ImageLimits,
    look: impl Fn(&Source, u32, Result<Vec<u8>, String>) -> T + Sync,
) -> (Vec<Vec<T>>, Vec<Duplicate>) {
    let mut contents: BTreeMap<[u8; 32], Vec<(usize, &Path)>> = BTreeMap::new();
    let mut found = Vec::new();
    for (split, source) in sources.iter().enumerate() {
        let samples = source.samples.par_iter().enumerate();
        let seen = samples.map(|(index, sample)| {
            let bytes = source.bytes(sample, limits);
            let hash = bytes
                .as_ref()
                .ok()
                .map(|bytes| *blake3::hash(bytes).as_bytes());
            // The loader's indices have 32 bits.
            (hash, look(source, index as u32, bytes))
        });
        let (hashes, own): (Vec<Option<[u8; 32]>>, Vec<T>) = seen.unzip();
        for (sample, hash) in source.samples.iter().zip(hashes) {
            if let Some(hash) = hash {
                let same = contents.entry(hash).or_default();
                same.push((split, sample.path.as_path()));
            }
        }
        found.push(own);
    }
    let in_several = contents.into_values().filter(|same| {
        let first = same.first().map(|(split, _)| *split);
        same.iter().any(|(split, _)| Some(*split) != first)
    });
    let duplicates = in_several.map(|same| Duplicate {
        paths: same.into_iter().map(|(_, path)| path.to_owned()).collect(),
    });
    let mut duplicates: Vec<Duplicate> = duplicates.collect();
    duplicates.sort_by(|a, b| a.paths.cmp(&b.paths));
    (found, duplicates)
}

/// The smallest and the largest (width, height) by area, with one more.
fn wider(sizes: Option<((u32, u32), (u32, u32))>, size: (u32, u32)) -> ((u32, u32), (u32, u32)) {
    let area = |(width, height): (u32, u32)| u64::from(width) * u64::from(height);
    let (small, large) = sizes.unwrap_or((size, size));
    let (is_smaller, is_larger) = (area(size) < area(small), area(size) > area(large));
    let small = if is_smaller { size } else { small };
    let large = if is_larger { size } else { large };
    (small, large)
}

/// The classes of a source, of which nothing has been counted yet.
fn uncounted<N: Default>(source: &Source) -> Vec<(String, N)> {
    let classes = source.classes.iter().cloned();
    classes.map(|class| (class, N::default())).collect()
}

#[cfg(test)]
mod tests;
