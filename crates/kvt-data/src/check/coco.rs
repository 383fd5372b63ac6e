//! `kvt data check` of images with objects: reads every image and every annotation once and reports what is wrong with them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::{Check, look_at_all, uncounted, wider};
use crate::coco::{BadAnnotation, LeftOut};
use crate::source::coco_survey;
use crate::{DataConfig, DataError, DecodeError, ImageLimits, Source};

/// One split of images with objects.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CocoCheck {
    /// The split's name, as the configuration has it.
    pub name: String,
    /// The file of annotations.
    pub annotations: PathBuf,
    /// Number of images in it.
    pub images: usize,
    /// Those without an object that is trained on: left out of training, not of evaluation.
    pub without_objects: usize,
    /// Objects of each class that are trained on, in label order, with the class's name.
    pub classes: Vec<(String, usize)>,
    /// Objects that are not trained on, by reason.
    pub left_out: BTreeMap<LeftOut, usize>,
    /// Objects that have a box alone.
    pub without_mask: usize,
    /// Objects that are trained on with a mask that has no pixel of the image.
    pub empty_masks: usize,
    /// Objects with the id 0, which pycocotools takes for none.
    pub id_zero: usize,
    /// Invalid annotations.
    pub bad: Vec<BadAnnotation>,
    /// Images that are missing, cannot be read, or have another size than the annotations say.
    pub unreadable: Vec<DecodeError>,
    /// Smallest and largest (width, height) by area, in pixels, as the annotations say.
    pub sizes: Option<((u32, u32), (u32, u32))>,
    /// Warnings about images that are one file.
    pub notes: Vec<String>,
}

impl CocoCheck {
    /// The number of objects that are trained on.
    pub fn objects(&self) -> usize {
        self.classes.iter().map(|(_, objects)| objects).sum()
    }
}

impl Check<CocoCheck> {
    /// Whether training can work: everything is readable and valid, both splits have the same classes, and objects. A class without objects
    /// is possible.
    pub fn is_sound(&self) -> bool {
        self.same_classes
            && self.splits.iter().all(|split| {
                split.unreadable.is_empty() && split.bad.is_empty() && split.objects() > 0
            })
    }
}

/// Reads every image of both splits of a configuration, on all cores, and all annotations.
///
/// # Errors
///
/// If a file of annotations is missing or is none, or its ids are not unique or unknown. Bad images and annotations are part of the
/// result, not an error.
pub fn check_coco(data: &DataConfig, limits: ImageLimits) -> Result<Check<CocoCheck>, DataError> {
    let data = &*data.as_objects();
    let [train, val] = [
        coco_survey(data, &data.train)?,
        coco_survey(data, &data.val)?,
    ];
    let (bad, duplicates) = look_at_all(&[&train, &val], limits, |source, index, _| {
        source.annotated(index, limits).err()
    });
    let splits = [(&data.train, &train), (&data.val, &val)].into_iter();
    let splits = splits.zip(bad).map(|((name, source), bad)| CocoCheck {
        unreadable: bad.into_iter().flatten().collect(),
        ..CocoCheck::of(name, source)
    });
    Ok(Check {
        splits: splits.collect(),
        same_classes: train.classes == val.classes,
        duplicates,
    })
}

impl CocoCheck {
    /// What the annotations say.
    fn of(name: &str, source: &Source) -> Self {
        let mut check = Self {
            name: name.to_owned(),
            images: source.samples.len(),
            classes: uncounted(source),
            notes: source.notes.clone(),
            ..Self::default()
        };
        if let Some(coco) = source.coco() {
            check.annotations.clone_from(&coco.path);
            check.bad.clone_from(&coco.bad);
        }
        for found in source.all_objects() {
            let (height, width) = found.image.size;
            check.sizes = Some(wider(check.sizes, (width, height)));
            check.without_objects += usize::from(found.trained().next().is_none());
            for object in found.annotations {
                check.id_zero += usize::from(object.id == 0);
                check.without_mask += usize::from(object.segmentation.is_none());
                match object.left_out(found.image.size) {
                    None => {
                        let mask = object.mask(found.image.size);
                        let is_empty = mask.is_some_and(|mask| mask.area() == 0);
                        check.empty_masks += usize::from(is_empty);
                        if let Some((_, count)) = check.classes.get_mut(object.label) {
                            *count += 1;
                        }
                    }
                    Some(reason) => *check.left_out.entry(reason).or_default() += 1,
                }
            }
        }
        check
    }
}

#[cfg(test)]
mod tests;
