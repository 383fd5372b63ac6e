//! The images of a split, from folders, tar shards, Parquet files or CIFAR's files, with labels, masks or objects.

mod cache;
mod cifar;
mod coco;
mod folder;
mod label_sets;
mod labelled;
mod labels;
mod masks;
mod names;
mod objects;
mod open;
mod parquet;
mod shards;
mod share;

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use image::RgbImage;
use kvt_ops::Key;
use rayon::prelude::*;

use self::cache::Cache;
use self::masks::Masks;
use self::objects::Objects;
use self::parquet::Table;
use crate::augment::{Look, Part, Transform};
use crate::decode::{decode_stored, dimensions, region};
use crate::file::{self, ImageLimits};
use crate::listing::{OtherFormats, Unlisted};
use crate::text::quoted;
use crate::{
    ColorKind, DataError, DecodeError, Decoded, LabelMap, View, decode_bytes, decode_mask,
};

pub use self::parquet::is_guarded;
pub use folder::ClassOrder;
pub use labelled::has_splits;
pub(super) use labelled::surveys as labelled_surveys;
pub use masks::Unpaired;
use names::gaps;
pub use names::{TEST, TRAIN, VAL};
pub(super) use names::{is_usual, splits_among};
pub use objects::ImageObjects;
pub use open::{
    Split, is_split, is_whole, open, open_part, open_split, split_name, test_split, unused_splits,
};
pub(super) use open::{coco_survey, detected, label_set_surveys, mask_survey, surveys};
pub(super) use shards::{CLASSES, LABEL, SHARD};

/// One labelled image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
    /// The image file; for an image within a file, that file's path and the image's name in it.
    pub path: PathBuf,
    /// The class, an index into [`Source::classes`].
    pub label: u32,
    place: Place,
}

/// The location of an image's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// The whole file.
    File,
    /// A part of one of [`Source::files`].
    Within { file: u32, offset: u64, length: u64 },
    /// A value in one of [`Source::tables`].
    Row { file: u32, row: u64 },
}

/// The content of an image's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Coding {
    /// An image file.
    File,
    /// The red, green and blue planes of a square, as in CIFAR.
    Planes { side: u32 },
}

/// The labelled images of one split. Each can be read independently, in any order.
#[derive(Debug, Clone)]
pub struct Source {
    /// Their folder.
    pub root: PathBuf,
    /// Class names; a label is an index into them.
    pub classes: Vec<String>,
    /// The images, in the order of their indices.
    pub samples: Vec<Sample>,
    /// Images in other formats, which were ignored.
    pub others: OtherFormats,
    /// Files in shards that are neither an image nor a label, and Parquet files of no split, which were ignored.
    pub beside: OtherFormats,
    /// Warnings about what a table of labels leaves out.
    notes: Vec<String>,
    /// The files that contain several images each.
    files: Vec<PathBuf>,
    /// The files that contain images in a column.
    tables: Arc<[Table]>,
    /// Whether the classes are numbers because they have no names.
    is_numbered: bool,
    /// Whether the labels themselves are the names of the classes, as in a column of text.
    are_labels: bool,
    /// Where each class has a column: these. Their names in texts such as `cat|dog` are labels.
    class_columns: Option<Vec<String>>,
    coding: Coding,
    cache: Option<Arc<Cache>>,
    /// Where each image has a mask; the label of a sample then says nothing.
    masks: Option<Arc<Masks>>,
    /// Where images have objects; the label of a sample then says nothing.
    objects: Option<Arc<Objects>>,
    /// The labels of each image where it can have any number; the label of a sample is then the first.
    label_sets: Option<Arc<[Vec<u32>]>>,
}

/// A decoded image, or the requested part of it.
#[derive(Debug, Clone)]
pub enum Picture {
    /// The whole image.
    Whole(RgbImage),
    /// A part.
    Part(Part),
}

/// The classes of another split.
#[derive(Debug, Clone, Copy)]
struct Known<'a> {
    classes: &'a [String],
    /// Whether labels themselves are their names there: then a number says nothing about them.
    are_labels: bool,
}

/// A source, and the problems of its listing.
#[derive(Debug)]
pub(super) struct Survey {
    pub(super) source: Source,
    pub(super) unlisted: Vec<Unlisted>,
    /// Classes without an image.
    pub(super) empty: Vec<PathBuf>,
}

impl Source {
    /// The names of numbered files that are missing between others.
    pub fn gaps(&self) -> Vec<String> {
        let tables = self.tables.iter().map(|table| table.path.as_path());
        gaps(self.files.iter().map(PathBuf::as_path).chain(tables))
    }

    /// What a table of labels leaves out, as warnings.
    pub(crate) fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Warnings about files that are not read, and about gaps in numbered files.
    pub fn warnings(&self) -> Vec<String> {
        let root = self.root.display();
        let beside = self.beside.describe().map(|beside| {
            format!("files in `{root}` that belong to no image are not read: {beside}")
        });
        let missing = self.gaps();
        let gaps = (!missing.is_empty()).then(|| {
            format!(
                "the numbered files in `{root}` have gaps: there are files before and after {}; fetch what is missing",
                quoted(&missing)
            )
        });
        let others = self.others.warning(&self.root);
        let objects = self.objects.iter().flat_map(|objects| objects.warnings());
        let files = [others, beside, gaps].into_iter().flatten();
        files
            .chain(self.notes.iter().cloned())
            .chain(objects)
            .collect()
    }

    /// Whether the images are in tables.
    fn is_table(&self) -> bool {
        !self.tables.is_empty()
    }

    /// From samples, which may be within `files`, with these classes, whose names must differ: labels are matched by them.
    fn new(root: PathBuf, classes: Vec<String>, samples: Vec<Sample>) -> Result<Self, DataError> {
        let mut known = HashSet::new();
        for class in &classes {
            // A run writes them to a file, one a line.
            if class.is_empty() || class.contains(['\n', '\r']) {
                let class = class.clone();
                return Err(DataError::ClassLine { path: root, class });
            }
            if !known.insert(class.as_str()) {
                let class = class.clone();
                return Err(DataError::TwoClasses { path: root, class });
            }
        }
        if u32::try_from(samples.len()).is_err() {
            return Err(DataError::TooManyImages(root));
        }
        Ok(Self {
            root,
            classes,
            samples,
            others: OtherFormats::default(),
            beside: OtherFormats::default(),
            notes: Vec::new(),
            files: Vec::new(),
            tables: Arc::from([]),
            is_numbered: false,
            are_labels: false,
            class_columns: None,
            coding: Coding::File,
            cache: None,
            masks: None,
            objects: None,
            label_sets: None,
        })
    }

    /// Where the images are: their files, if these hold several images each, or otherwise their folder.
    pub fn place(&self) -> String {
        let tables = self.tables.iter().map(|table| table.path.as_path());
        let paths = self.files.iter().map(PathBuf::as_path).chain(tables);
        let files: Vec<_> = paths.map(Path::display).collect();
        match files.as_slice() {
            [] => format!("`{}`", self.root.display()),
            [file] => format!("`{file}`"),
            [first, .., last] => format!("`{first}` to `{last}` ({} files)", files.len()),
        }
    }

    /// Whether each image has a mask.
    pub fn has_masks(&self) -> bool {
        self.masks.is_some()
    }

    /// The mask file of an image, if images have masks.
    pub(crate) fn mask_file(&self, index: u32) -> Option<&Path> {
        let files = &self.masks.as_ref()?.files;
        files.get(index as usize).map(PathBuf::as_path)
    }

    /// The path of each mask, relative to their folder, in the order of the samples.
    pub(crate) fn mask_names(&self) -> impl Iterator<Item = &Path> {
        let masks = self.masks.iter();
        masks.flat_map(|masks| {
            let name = |file| Path::strip_prefix(file, &masks.root).unwrap_or(file);
            masks.files.iter().map(PathBuf::as_path).map(name)
        })
    }

    /// The image of a sample and its mask, of the same size. The image is turned by its orientation only where the mask is.
    ///
    /// # Errors
    /// [`DecodeError`] with the path of the image, and a reason that names the mask where it is at fault.
    pub fn pair(
        &self,
        index: u32,
        limits: ImageLimits,
    ) -> Result<(RgbImage, LabelMap), DecodeError> {
        let sample = self.sample(index)?;
        self.read_pair(index, limits).map_err(|reason| DecodeError {
            path: sample.path.clone(),
            reason,
        })
    }

    fn read_pair(&self, index: u32, limits: ImageLimits) -> Result<(RgbImage, LabelMap), String> {
        let (Some(masks), Some(file)) = (&self.masks, self.mask_file(index)) else {
            return Err("the image has no mask".to_owned());
        };
        let of_mask = |reason| format!("its mask `{}`: {reason}", file.display());
        let bytes = file::read(file, limits).map_err(of_mask)?;
        let values = decode_mask(&bytes, limits).map_err(of_mask)?;
        let map = masks.labels(values).map_err(of_mask)?;
        // Read from a file with sides of 32 bits.
        let size = (map.size.1 as u32, map.size.0 as u32);
        let image = self.image_of_size(index, size, limits, file)?;
        Ok((image, map))
    }

    /// The image of a sample as its annotation in `file` describes it: of (width, height), turned by its orientation only where this
    /// makes it so.
    fn image_of_size(
        &self,
        index: u32,
        size: (u32, u32),
        limits: ImageLimits,
        file: &Path,
    ) -> Result<RgbImage, String> {
        let sample = self.sample(index).map_err(|error| error.reason)?;
        let cache = self.cache.as_deref();
        if let Some(image) = cache.and_then(|cache| cache.get(index))
            && image.dimensions() == size
        {
            return Ok(image.clone());
        }
        let stored = decode_stored(&self.bytes(sample, limits)?, limits)?;
        let image = stored.of_size(size);
        let image = image.map_err(|reason| format!("{reason}, in `{}`", file.display()))?;
        if let Some(cache) = cache {
            cache.keep(index, &image);
        }
        Ok(image)
    }

    /// Images per class, in label order, each with every label that it has; those with an object of the class where images have objects; empty where they have masks,
    /// since only reading these would tell.
    pub fn class_counts(&self) -> Vec<usize> {
        if self.has_masks() {
            return Vec::new();
        }
        if let Some(objects) = &self.objects {
            return objects.class_counts();
        }
        let mut counts = vec![0; self.classes.len()];
        for index in (0..).take(self.samples.len()) {
            for &label in self.labels(index) {
                if let Some(count) = counts.get_mut(label as usize) {
                    *count += 1;
                }
            }
        }
        counts
    }

    /// The bytes of an image, as stored.
    ///
    /// # Errors
    ///
    /// The reason, as text.
    pub fn bytes(&self, sample: &Sample, limits: ImageLimits) -> Result<Vec<u8>, String> {
        let (file, offset, length) = match sample.place {
            Place::File => return file::read(&sample.path, limits),
            Place::Row { file, row } => {
                let table = self.tables.get(file as usize).ok_or("no such file")?;
                let bytes = table.image(row)?;
                limits.check_bytes(bytes.len() as u64)?;
                return Ok(bytes);
            }
            Place::Within {
                file,
                offset,
                length,
            } => (file, offset, length),
        };
        limits.check_bytes(length)?;
        let path = self.files.get(file as usize).ok_or("no such file")?;
        let words = |error: std::io::Error| error.to_string();
        let mut bytes = vec![0; usize::try_from(length).map_err(|error| error.to_string())?];
        // Opened for each image: a data set may have more shards than the allowed number of open files.
        let mut file = File::open(path).map_err(words)?;
        file.seek(SeekFrom::Start(offset)).map_err(words)?;
        file.read_exact(&mut bytes).map_err(words)?;
        Ok(bytes)
    }

    /// Decodes the bytes of an image.
    ///
    /// # Errors
    ///
    /// The reason, as text.
    pub fn picture(&self, bytes: &[u8], limits: ImageLimits) -> Result<Decoded, String> {
        match self.coding {
            Coding::File => decode_bytes(bytes, limits),
            Coding::Planes { side } => Ok(Decoded {
                image: cifar::picture(bytes, side).ok_or("not a whole record")?,
                color: ColorKind::Rgb,
            }),
        }
    }

    /// Width and height of an image in pixels, from its first bytes and without decoding it; as stored, so that an image that is shown
    /// turned by its orientation has them the other way round.
    ///
    /// # Errors
    /// [`DecodeError`] with the path and the reason.
    pub fn size(&self, index: u32, limits: ImageLimits) -> Result<(u32, u32), DecodeError> {
        let size = |sample: &Sample| match self.coding {
            Coding::File => dimensions(&self.bytes(sample, limits)?),
            Coding::Planes { side } => Ok((side, side)),
        };
        let sample = self.sample(index)?;
        size(sample).map_err(|reason| DecodeError {
            path: sample.path.clone(),
            reason,
        })
    }

    /// The image of a sample as one for a model: transformed, with the draws of `key`.
    ///
    /// # Errors
    /// If it cannot be decoded or transformed, with its path.
    pub fn view(
        &self,
        index: u32,
        limits: ImageLimits,
        transform: &Transform,
        key: Key,
    ) -> Result<View, DataError> {
        let image = self.image(index, limits)?;
        View::of(image, transform, key).map_err(|source| DataError::Augment {
            path: self.path_of(index),
            source,
        })
    }

    /// The whole image of a sample, from memory if it is kept there.
    ///
    /// # Errors
    /// [`DecodeError`] with the path and the reason.
    pub fn image(&self, index: u32, limits: ImageLimits) -> Result<RgbImage, DecodeError> {
        match self.decode(index, limits, None)? {
            Picture::Whole(image) => Ok(image),
            Picture::Part(_) => Err(DecodeError {
                path: self.path_of(index),
                reason: "only a part was decoded".to_owned(),
            }),
        }
    }

    /// A sample by its index.
    pub(crate) fn sample(&self, index: u32) -> Result<&Sample, DecodeError> {
        let sample = self.samples.get(index as usize);
        sample.ok_or_else(|| DecodeError {
            path: self.root.clone(),
            reason: format!("there is no image {index}"),
        })
    }

    /// The path of a sample; that of all samples if there is no such sample.
    fn path_of(&self, index: u32) -> PathBuf {
        let sample = self.samples.get(index as usize);
        sample.map_or_else(|| self.root.clone(), |sample| sample.path.clone())
    }

    /// The image of a sample, from memory if it is kept there. With `look`, which returns the part that a transform uses of
    /// an image of (width, height), the result can be only this part, at a smaller size.
    ///
    /// # Errors
    ///
    /// [`DecodeError`] with the path and the reason.
    pub fn decode(
        &self,
        index: u32,
        limits: ImageLimits,
        look: Option<&dyn Fn((u32, u32)) -> Option<Look>>,
    ) -> Result<Picture, DecodeError> {
        // Beside masks and objects, it has images as these describe them, which may not be upright.
        let is_upright = !self.has_masks() && self.objects.is_none();
        let cache = self.cache.as_deref().filter(|_| is_upright);
        if let Some(image) = cache.and_then(|cache| cache.get(index)) {
            return Ok(Picture::Whole(image.clone()));
        }
        let sample = self.sample(index)?;
        let bytes = self.bytes(sample, limits);
        let picture = bytes.and_then(|bytes| self.look(&bytes, limits, look));
        let picture = picture.map_err(|reason| DecodeError {
            path: sample.path.clone(),
            reason,
        })?;
        if let (Some(cache), Picture::Whole(image)) = (cache, &picture) {
            cache.keep(index, image);
        }
        Ok(picture)
    }

    /// Decodes the bytes of an image, or only the part that `look` returns if that is possible.
    ///
    /// # Errors
    ///
    /// The reason, as text.
    pub fn look(
        &self,
        bytes: &[u8],
        limits: ImageLimits,
        look: Option<&dyn Fn((u32, u32)) -> Option<Look>>,
    ) -> Result<Picture, String> {
        if let (Some(look), Coding::File) = (look, self.coding)
            && let Some(part) = region::decode(bytes, limits, look)
        {
            return Ok(Picture::Part(part));
        }
        Ok(Picture::Whole(self.picture(bytes, limits)?.image))
    }

    /// Keeps decoded images in memory while `left`, which several sources can share, has bytes left.
    pub fn cached(self, left: &Arc<AtomicU64>) -> Self {
        let cache = Cache::new(self.samples.len(), Arc::clone(left));
        Self {
            cache: Some(Arc::new(cache)),
            ..self
        }
    }

    /// The stored size of an image in bytes; in Parquet, that of its page; for a dead link, more than any file has.
    pub(super) fn stored_bytes(&self, sample: &Sample) -> u64 {
        match sample.place {
            Place::File => std::fs::metadata(&sample.path).map_or(u64::MAX, |found| found.len()),
            Place::Within { length, .. } => length,
            Place::Row { file, row } => {
                let table = self.tables.get(file as usize);
                table.map_or(0, |table| table.stored(row))
            }
        }
    }

    /// The size of each mask file in bytes, in the order of the samples.
    pub(super) fn stored_masks(&self) -> impl ParallelIterator<Item = u64> {
        let files = self.masks.as_ref().map_or(&[][..], |masks| &masks.files);
        let size = |file: &PathBuf| std::fs::metadata(file).map_or(u64::MAX, |found| found.len());
        files.par_iter().map(size)
    }

    /// These images with the labels of a list, which must contain the same names in any order.
    fn relabelled(mut self, classes: &[String]) -> Result<Self, DataError> {
        // Of equal names, the first one counts.
        let last_first = classes.iter().enumerate().rev();
        let numbers: HashMap<&String, usize> = last_first.map(|(n, class)| (class, n)).collect();
        let number = |name: &String| numbers.get(name).copied();
        let labels: Option<Vec<usize>> = self.classes.iter().map(number).collect();
        match labels {
            Some(labels) if self.classes.len() == classes.len() => {
                for sample in &mut self.samples {
                    let new = labels.get(sample.label as usize);
                    sample.label = new.map_or(sample.label, |&new| new as u32);
                }
                self.classes = classes.to_vec();
                Ok(self)
            }
            _ => Err(self.other_classes(&self.classes, classes)),
        }
    }

    /// The error that the classes of this source, `found`, are not those `expected`.
    fn other_classes(&self, found: &[String], expected: &[String]) -> DataError {
        DataError::ClassesDiffer {
            missing: without(expected, found),
            extra: without(found, expected),
            // The splits may be in the same folder.
            path: match self.tables.first() {
                Some(table) => table.path.clone(),
                None => self.root.clone(),
            },
        }
    }

    /// The survey of a source whose listing can have no problems other than empty classes.
    fn surveyed(self) -> Survey {
        let counts = self.class_counts().into_iter().zip(&self.classes);
        let empty = counts.filter(|(count, _)| *count == 0);
        Survey {
            empty: empty.map(|(_, class)| self.root.join(class)).collect(),
            unlisted: Vec::new(),
            source: self,
        }
    }
}

/// The names of one list that are missing from another one, in order.
fn without(names: &[String], others: &[String]) -> Vec<String> {
    let others: HashSet<&String> = others.iter().collect();
    let missing = names.iter().filter(|name| !others.contains(name));
    missing.cloned().collect()
}

/// The path of an image within a file, for messages and for the identity of the data.
fn within(file: &Path, name: &str) -> PathBuf {
    // Not `join`, which would replace the path by an absolute name.
    let mut path = file.as_os_str().to_owned();
    path.push("/");
    path.push(name);
    path.into()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn source(classes: &[&str], labels: &[u32]) -> Result<Source, DataError> {
        let samples = labels.iter().map(|&label| Sample {
            path: PathBuf::from("image.png"),
            label,
            place: Place::File,
        });
        let classes = classes.iter().map(|&class| class.to_owned()).collect();
        Source::new(PathBuf::from("data"), classes, samples.collect())
    }

    /// So many that comparing each with each takes minutes.
    #[test]
    fn classes_are_found_by_their_names() {
        let names: Vec<String> = (0..200_000).map(|class| class.to_string()).collect();
        let turned: Vec<String> = names.iter().rev().cloned().collect();
        let few = source(&[], &[0, 7, 199_999]).unwrap();
        let all = Source {
            classes: names.clone(),
            ..few
        };
        let found = all.clone().relabelled(&turned).unwrap();
        let labels: Vec<u32> = found.samples.iter().map(|sample| sample.label).collect();
        assert_eq!(
            (labels, &found.classes),
            (vec![199_999, 199_992, 0], &turned)
        );
        let others: Vec<String> = names.iter().map(|name| format!("{name}0")).collect();
        match all.relabelled(&others) {
            // Those that end in a zero are among the others.
            Err(DataError::ClassesDiffer { missing, extra, .. }) => {
                assert_eq!((missing.len(), extra.len()), (180_001, 180_001));
            }
            other => unreachable!("{other:?}"),
        }
    }

    #[test]
    fn a_class_has_a_line() {
        for class in ["", "a\nb", "a\r"] {
            let error = source(&["cat", class], &[0]).unwrap_err();
            assert!(matches!(error, DataError::ClassLine { class: found, .. } if found == class));
        }
    }
}
