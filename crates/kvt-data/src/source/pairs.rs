//! Images and masks in two folders as pairs: `<path>/<images>/<split>/**` and `<path>/<masks>/<split>/**`, by their names.

mod error;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use self::error::PairError;
use super::classes::{listed, numbers};
use super::masks::{Masks, Values};
use super::{Place, Sample, Source};
use crate::listing::{self, Files};
use crate::text::{LARGEST_LIST, is_handed_over, read_text};
use crate::{ClassNames, DataConfig, DataError, IGNORED, ZeroMeans};

/// The images and masks of a split that are not a pair, by path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unpaired {
    /// Images without a mask.
    pub images: Vec<PathBuf>,
    /// Masks without an image.
    pub masks: Vec<PathBuf>,
    /// Names of a list without an image.
    pub listed: Vec<String>,
}

impl Unpaired {
    /// How many there are.
    pub fn count(&self) -> usize {
        self.images.len() + self.masks.len() + self.listed.len()
    }
}

/// The images of a split that have a mask, and what has no partner; `None` for the split is all of them. Where the classes are `known`, from
/// another split or a run, they are not read from a pipe, which can be read once.
pub(super) fn survey(
    data: &DataConfig,
    split: Option<&str>,
    known: Option<&[String]>,
) -> Result<(Source, Unpaired), DataError> {
    let is_listed = !data.list.is_empty();
    let dir = |folder: &str| match split {
        Some(split) if !is_listed => data.path.join(folder).join(split),
        _ => data.path.join(folder),
    };
    let (root, mask_root) = (dir(&data.images), dir(&data.masks));
    let missing = [&root, &mask_root]
        .into_iter()
        .find(|folder| !folder.is_dir());
    if let Some(path) = missing.cloned() {
        return Err(PairError::NoPairs {
            path,
            images: root,
            masks: mask_root,
        }
        .into());
    }
    let (mut images, image_listing) = by_stem(&root, &data.image_suffix)?;
    let (mut masks, mask_listing) = by_stem(&mask_root, &data.mask_suffix)?;
    let mut unpaired = Unpaired::default();
    if let (Some(split), true) = (split, is_listed) {
        let list = data.path.join(&data.list).join(format!("{split}.txt"));
        (images, unpaired.listed) = chosen(images, &list)?;
        masks.retain(|stem, _| images.contains_key(stem));
    }
    let pairs = paired(images, masks, &mut unpaired);
    let names = classes(data, known)?;
    let values = Arc::new(Values::new(data, names.len()));
    let (images, files): (Vec<PathBuf>, Vec<PathBuf>) = pairs.into_iter().unzip();
    let samples = images.into_iter().map(|path| Sample {
        path,
        label: 0,
        place: Place::File,
    });
    let masks = Masks {
        root: mask_root,
        files,
        values,
    };
    let source = Source {
        others: image_listing.others,
        unlisted: [image_listing.unlisted, mask_listing.unlisted].concat(),
        masks: Some(Arc::new(masks)),
        ..Source::new(root, names, samples.collect())?
    };
    Ok((source, unpaired))
}

/// The images of a split, each with its mask, as [`survey`]; with `classes` given, these must be its classes.
pub(super) fn open(
    data: &DataConfig,
    split: Option<&str>,
    classes: Option<&[String]>,
) -> Result<Source, DataError> {
    let (source, unpaired) = survey(data, split, classes)?;
    let source = source.strict()?;
    if unpaired.count() > 0 {
        return Err(PairError::Unpaired {
            path: source.root,
            unpaired,
        }
        .into());
    }
    source.not_empty(split)?.with_classes(classes)
}

/// Picture files by their path in a folder, without ending and suffix.
type ByStem = BTreeMap<OsString, PathBuf>;

/// The images that a list names, and its names without an image.
fn chosen(mut images: ByStem, list: &Path) -> Result<(ByStem, Vec<String>), DataError> {
    let (mut chosen, mut missing) = (ByStem::new(), Vec::new());
    let text = read_text(list, LARGEST_LIST)?;
    for name in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if chosen.contains_key(OsStr::new(name)) {
            return Err(DataError::records(list, format!("it has `{name}` twice")));
        }
        match images.remove_entry(OsStr::new(name)) {
            Some((stem, image)) => drop(chosen.insert(stem, image)),
            None => missing.push(name.to_owned()),
        }
    }
    Ok((chosen, missing))
}

/// The images with their masks. Files without a partner go to `unpaired`.
fn paired(images: ByStem, mut masks: ByStem, unpaired: &mut Unpaired) -> Vec<(PathBuf, PathBuf)> {
    let mut pairs = Vec::new();
    for (stem, image) in images {
        match masks.remove(&stem) {
            Some(mask) => pairs.push((image, mask)),
            None => unpaired.images.push(image),
        }
    }
    unpaired.masks = masks.into_values().collect();
    unpaired.images.sort();
    unpaired.masks.sort();
    // As in other listings: by the bytes of the whole path.
    pairs.sort_by(|(a, _), (b, _)| a.as_os_str().cmp(b.as_os_str()));
    pairs
}

/// The picture files of a folder. Those with another suffix are not part of the data.
fn by_stem(root: &Path, suffix: &str) -> Result<(ByStem, Files), DataError> {
    let mut listing = listing::images(root);
    let mut found = BTreeMap::new();
    for path in std::mem::take(&mut listing.images) {
        let inner = path.strip_prefix(root).unwrap_or(&path).with_extension("");
        let Some(stem) = without_suffix(inner.into_os_string(), suffix) else {
            continue;
        };
        match found.entry(stem) {
            Entry::Vacant(place) => drop(place.insert(path)),
            Entry::Occupied(other) => {
                let reason = format!(
                    "`{}` has the same name but for its ending, so masks cannot be told apart: rename one",
                    other.get().display()
                );
                return Err(DataError::Records { path, reason });
            }
        }
    }
    Ok((found, listing))
}

fn without_suffix(name: OsString, suffix: &str) -> Option<OsString> {
    if suffix.is_empty() {
        return Some(name);
    }
    // A name that is not UTF-8 has no partner, and is told so.
    match name.to_str() {
        Some(text) => text.strip_suffix(suffix).map(OsString::from),
        None => Some(name),
    }
}

/// The names of the classes. A list that a shell hands over is read where none is `known`.
fn classes(data: &DataConfig, known: Option<&[String]>) -> Result<Vec<String>, DataError> {
    let mapped = data.map.iter().map(|[_, label]| *label);
    let mapped = mapped.filter(|label| *label != IGNORED).max();
    let path = match &data.classes {
        Some(ClassNames::File(file)) => data.path.join(file),
        _ => data.path.clone(),
    };
    let names = match known {
        Some(known) if is_handed_over(&path) => known.to_vec(),
        _ => listed(data)?
            .unwrap_or_else(|| numbers(mapped.map_or(0, |label| usize::from(label) + 1))),
    };
    let mut values = BTreeSet::new();
    let twice = data.map.iter().find(|[value, _]| !values.insert(*value));
    let fault = if let Some([value, _]) = twice {
        format!("`data.map` has the value {value} twice")
    } else if names.is_empty() {
        "no classes: `data.classes` names a file with a class on each line, or their number"
            .to_owned()
    } else if names.len() > usize::from(IGNORED) {
        format!(
            "{} classes, but the values of a mask tell {IGNORED} apart",
            names.len()
        )
    } else if let Some(class) = lost(data, names.len()) {
        format!(
            "`data.ignore = {}` is the value of class {class}, which would have no pixels",
            data.ignore
        )
    } else if let Some(label) = mapped.filter(|label| usize::from(*label) >= names.len()) {
        format!(
            "`data.map` has the class {label}, but there are {} classes",
            names.len()
        )
    } else {
        return Ok(names);
    };
    Err(DataError::records(path, fault))
}

/// The class whose value in the masks is ignored, if there is one.
fn lost(data: &DataConfig, classes: usize) -> Option<usize> {
    let value = usize::from(data.ignore);
    let class = match data.zero {
        _ if !data.map.is_empty() => None,
        ZeroMeans::Ignored => value.checked_sub(1),
        ZeroMeans::Class => Some(value),
    };
    class.filter(|class| *class < classes)
}

#[cfg(test)]
mod tests;
