//! The images, classes and objects of an annotation file.

use std::io::Read;
use std::ops::Range;
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::rle::Rle;
use super::segmentation::Segmentation;
use super::{Fault, json};
use crate::{DataError, OnError, regular};

/// An annotation file in memory: polygons and runs as they are, no bitmaps.
#[derive(Debug, Clone, PartialEq)]
pub struct Coco {
    /// The file.
    pub path: PathBuf,
    /// The classes, in ascending id: a label is a place in this list.
    pub categories: Vec<Category>,
    /// The images, in ascending id.
    pub images: Vec<CocoImage>,
    /// Annotations that are left out because they are invalid, in the order of the file.
    pub bad: Vec<BadAnnotation>,
    /// Image by image; within an image, in the order of the file.
    annotations: Vec<Annotation>,
    /// BLAKE3 of the file.
    pub hash: [u8; 32],
}

/// A class.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Category {
    /// Its id in the file, which result files have too.
    pub id: u64,
    /// Its name.
    pub name: String,
}

/// An image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CocoImage {
    /// Its id in the file, which result files have too.
    pub id: u64,
    /// Its path in the folder of the split.
    pub file_name: String,
    /// Height and width in pixels.
    pub size: (u32, u32),
    /// Its annotations.
    objects: Range<usize>,
}

/// An object, or a crowd of objects.
#[derive(Debug, Clone, PartialEq)]
pub struct Annotation {
    /// Its id in the file.
    pub id: u64,
    /// Its class: a place in [`Coco::categories`].
    pub label: usize,
    /// `[x, y, width, height]` in pixels, as the file has it.
    pub bbox: [f64; 4],
    /// Pixels, as the file has it; without a number there, the mask's, or that of the box.
    pub area: f64,
    /// Whether these are several objects that are not told apart.
    pub is_crowd: bool,
    /// Whether the file says that it is to be ignored in training.
    pub is_ignored: bool,
    /// Its pixels.
    pub segmentation: Segmentation,
}

/// An annotation behind the place of its image and its own in the file.
type Placed = (usize, usize, Annotation);

/// An invalid annotation.
#[derive(Debug, Clone, PartialEq)]
pub struct BadAnnotation {
    /// Its id.
    pub id: u64,
    /// What is wrong with it.
    pub fault: Fault,
}

impl Annotation {
    /// Its pixels in its own image, of `(height, width)`; `None` if it only has a box. What is wrong with them was said when the file
    /// was read.
    pub fn mask(&self, image: (u32, u32)) -> Option<Rle> {
        self.segmentation.mask(image).ok().flatten()
    }
}

impl Coco {
    /// Reads a file. With [`OnError::Skip`], invalid annotations are in [`Coco::bad`] instead of an error.
    ///
    /// # Errors
    /// If it is missing or no such file, ids are not unique or unknown, or an annotation is invalid.
    pub fn read(path: &Path, on_error: OnError) -> Result<Self, DataError> {
        let file = regular::open(path).map_err(|error| {
            let reason = format!(
                "could not open these annotations: {error}; `data.train_annotations` and `data.val_annotations` name these files"
            );
            DataError::records(path, reason)
        })?;
        Self::parse(file, path, on_error)
    }

    /// The same for what a reader holds; `path` is for messages.
    ///
    /// # Errors
    /// As [`Coco::read`].
    pub fn parse(reader: impl Read, path: &Path, on_error: OnError) -> Result<Self, DataError> {
        let (file, hash) = json::read(reader).map_err(|error| {
            let reason = format!(
                "this is not a file of annotations as COCO has it (`images`, `annotations`, `categories`): {error}"
            );
            DataError::records(path, reason)
        })?;
        let mut coco = Self {
            path: path.to_owned(),
            categories: file.categories,
            images: Vec::with_capacity(file.images.len()),
            bad: Vec::new(),
            annotations: Vec::new(),
            hash,
        };
        coco.categories.sort_by_key(|category| category.id);
        for image in file.images {
            coco.images.push(coco.image(image)?);
        }
        coco.images.sort_by_key(|image| image.id);
        let twice = coco.twice("categories", coco.categories.iter().map(|entry| entry.id));
        twice?;
        coco.twice("images", coco.images.iter().map(|image| image.id))?;
        let mut ids: Vec<u64> = file.annotations.iter().map(|entry| entry.id).collect();
        ids.sort_unstable();
        coco.twice("annotations", ids.into_iter())?;
        if coco.categories.is_empty() {
            let reason = "it has no categories: they are the classes";
            return Err(DataError::records(path, reason));
        }
        coco.group(file.annotations, on_error)?;
        Ok(coco)
    }

    /// The annotations of an image by its place in [`Coco::images`], in the order of the file: crowds and what is not trained on too.
    pub fn annotations(&self, image: usize) -> &[Annotation] {
        let image = self.images.get(image);
        let found = image.and_then(|image| self.annotations.get(image.objects.clone()));
        found.unwrap_or_default()
    }

    /// The first of two equal ids of a list in ascending order.
    fn twice(&self, what: &str, ids: impl Iterator<Item = u64>) -> Result<(), DataError> {
        let mut before = None;
        for id in ids {
            if before.replace(id) == Some(id) {
                let reason = format!(
                    "it has two {what} with the id {id}: write the file again with ids of their own"
                );
                return Err(DataError::records(&self.path, reason));
            }
        }
        Ok(())
    }

    fn image(&self, image: json::Image) -> Result<CocoImage, DataError> {
        let (id, height, width) = (image.id, image.height, image.width);
        let file_name = image.file_name;
        let refuse = |reason: String| {
            let reason = format!("image {id}: {reason}");
            Err(DataError::records(&self.path, reason))
        };
        if height == 0 || width == 0 || height.checked_mul(width).is_none() {
            return refuse(format!(
                "it has {height} x {width} pixels (`height` x `width`): expected at least 1 and fewer than 2^32"
            ));
        }
        // A file of others may not name any file of the machine.
        let is_inner = |part| matches!(part, Component::Normal(_) | Component::CurDir);
        if file_name.is_empty() || !Path::new(&file_name).components().all(is_inner) {
            return refuse(format!(
                "`file_name` is {file_name:?}: expected a path in the folder of the images"
            ));
        }
        Ok(CocoImage {
            id,
            file_name,
            size: (height, width),
            objects: 0..0,
        })
    }

    /// Sorts annotations by their images, without a second list of them: a file of boxes alone has millions.
    fn group(&mut self, found: Vec<json::Annotation>, on_error: OnError) -> Result<(), DataError> {
        let (path, images, categories) = (&self.path, &self.images, &self.categories);
        let bad = &mut self.bad;
        let place =
            |(order, annotation): (usize, json::Annotation)| -> Result<Option<Placed>, DataError> {
                let (id, image_id, category) =
                    (annotation.id, annotation.image_id, annotation.category_id);
                let unknown = |what: &str, unknown: u64| {
                    let reason = format!(
                        "annotation {id} is of {what} {unknown}, which is not in the file: leave it out, or add the {what}"
                    );
                    DataError::records(path, reason)
                };
                let place = images.binary_search_by_key(&image_id, |image| image.id);
                let place = place.map_err(|_| unknown("image", image_id))?;
                let label = categories.binary_search_by_key(&category, |class| class.id);
                let label = label.map_err(|_| unknown("category", category))?;
                let size = images.get(place).map_or((0, 0), |image| image.size);
                match Annotation::new(annotation, label, size) {
                    Ok(annotation) => Ok(Some((place, order, annotation))),
                    Err(fault) if on_error == OnError::Skip => {
                        bad.push(BadAnnotation { id, fault });
                        Ok(None)
                    }
                    Err(fault) => {
                        let reason = format!(
                            "annotation {id}: {fault}; `data.on_error = \"skip\"` leaves it out"
                        );
                        Err(DataError::records(path, reason))
                    }
                }
            };
        let placed = found.into_iter().enumerate().map(place);
        let mut placed: Vec<Placed> = placed
            .filter_map(Result::transpose)
            .collect::<Result<_, _>>()?;
        // The order of the file remains within an image.
        placed.sort_unstable_by_key(|(place, order, _)| (*place, *order));
        for (place, image) in self.images.iter_mut().enumerate() {
            let start = placed.partition_point(|(of, ..)| *of < place);
            image.objects = start..placed.partition_point(|(of, ..)| *of <= place);
        }
        let annotations = placed.into_iter().map(|(.., annotation)| annotation);
        self.annotations = annotations.collect();
        Ok(())
    }
}

impl Annotation {
    fn new(found: json::Annotation, label: usize, image: (u32, u32)) -> Result<Self, Fault> {
        let segmentation = found.segmentation.0?;
        // The errors of polygons were found when they were read: these are only drawn for their area.
        let is_polygons = matches!(segmentation, Segmentation::Polygons(_));
        let mask = match found.area {
            Some(_) if is_polygons => None,
            _ => segmentation.mask(image)?,
        };
        let bbox = found.bbox.map_err(Fault::Box)?;
        let [.., width, height] = bbox;
        let of_pixels = || mask.map_or(width * height, |mask| f64::from(mask.area()));
        Ok(Self {
            id: found.id,
            label,
            bbox,
            area: found.area.unwrap_or_else(of_pixels),
            is_crowd: found.iscrowd,
            is_ignored: found.ignore,
            segmentation,
        })
    }
}

#[cfg(test)]
mod tests;
