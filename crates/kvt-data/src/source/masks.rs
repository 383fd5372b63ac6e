//! Images with a mask each: what the values of a mask mean, and an image beside its mask.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use image::RgbImage;
use rayon::prelude::*;

use super::Source;
use crate::file::{self, ImageLimits};
use crate::{DataConfig, DecodeError, IGNORED, LabelMap, ZeroMeans, decode_mask};

/// The masks of a source's images.
#[derive(Debug, Clone)]
pub(crate) struct Masks {
    /// Their folder.
    pub(crate) root: PathBuf,
    /// The mask of each sample.
    pub(crate) files: Vec<PathBuf>,
    pub(super) values: Arc<Values>,
}

/// What the values of a mask mean.
#[derive(Debug)]
pub(super) struct Values {
    /// The label of each value; `None` for one that is not a class.
    labels: [Option<u8>; 256],
    classes: usize,
}

impl Values {
    pub(super) fn new(data: &DataConfig, classes: usize) -> Self {
        let label = |value: usize| {
            if !data.map.is_empty() {
                let found = data
                    .map
                    .iter()
                    .find(|[from, _]| usize::from(*from) == value);
                return Some(found.map_or(IGNORED, |[_, label]| *label));
            }
            if value == usize::from(data.ignore) {
                return Some(IGNORED);
            }
            let class = match (data.zero, value) {
                (ZeroMeans::Ignored, 0) => return Some(IGNORED),
                (ZeroMeans::Ignored, value) => value - 1,
                (ZeroMeans::Class, value) => value,
            };
            (class < classes).then_some(class as u8)
        };
        Self {
            labels: std::array::from_fn(label),
            classes,
        }
    }
}

impl Masks {
    /// The labels of a mask file; the error names it.
    fn read(&self, file: &Path, limits: ImageLimits) -> Result<LabelMap, String> {
        let bytes = file::read(file, limits);
        let values = bytes.and_then(|bytes| decode_mask(&bytes, limits));
        let map = values.and_then(|values| self.labels(values));
        map.map_err(|reason| format!("its mask `{}`: {reason}", file.display()))
    }

    /// The labels of a mask with these values.
    pub(crate) fn labels(&self, mut map: LabelMap) -> Result<LabelMap, String> {
        let width = map.size.1.max(1);
        for (at, value) in map.labels.iter_mut().enumerate() {
            let Some(label) = self.values.labels[usize::from(*value)] else {
                return Err(format!(
                    "pixel ({}, {}) has the value {value}, which is none of the {} classes and not `data.ignore`: see \
                     `data.zero`, `data.map` and `data.classes`",
                    at % width,
                    at / width,
                    self.values.classes
                ));
            };
            *value = label;
        }
        Ok(map)
    }
}

impl Source {
    /// Whether each image has a mask.
    pub fn has_masks(&self) -> bool {
        self.masks.is_some()
    }

    /// Whether a pixel of any mask has a class, or may have one since the mask cannot be read. Reads masks until one has.
    pub fn is_labelled(&self, limits: ImageLimits) -> bool {
        self.masks.as_ref().is_none_or(|masks| {
            let maps = masks.files.par_iter().map(|file| masks.read(file, limits));
            maps.any(|map| map.ok().is_none_or(|map| map.is_labelled()))
        })
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
        self.read_pair(index, limits)
            .map_err(|reason| sample.error(reason))
    }

    fn read_pair(&self, index: u32, limits: ImageLimits) -> Result<(RgbImage, LabelMap), String> {
        let masks = self.masks.as_ref();
        let found = masks.and_then(|masks| Some((masks, masks.files.get(index as usize)?)));
        let (masks, file) = found.ok_or("the image has no mask")?;
        let map = masks.read(file, limits)?;
        // Read from a file with sides of 32 bits.
        let size = (map.size.1 as u32, map.size.0 as u32);
        let image = self.image_of_size(index, size, limits, file)?;
        Ok((image, map))
    }

    /// The size of each mask file in bytes, in the order of the samples.
    pub(crate) fn stored_masks(&self) -> impl ParallelIterator<Item = u64> {
        let files = self.masks.as_ref().map_or(&[][..], |masks| &masks.files);
        let size = |file: &PathBuf| std::fs::metadata(file).map_or(u64::MAX, |found| found.len());
        files.par_iter().map(size)
    }
}
