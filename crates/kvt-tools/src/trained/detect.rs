//! A trained network for detection, the images that it is judged on, and images on which it shows what it finds.

use std::path::Path;

use image::RgbImage;
use image::imageops::{FilterType, resize};
use kvt_models::dense::mask_rcnn::MaskRcnn;
use kvt_ops::ObjectMask;
use serde_json::{Value, json};

use super::dense::TrainedDense;
use super::judge::judged;
use super::{Images, TrainedError, Warn};
use crate::paint::{PaintedObject, fitted, name_of, side_by_side, with_boxes, with_masks};
use kvt_data::augment::PrepareObjects;
use kvt_data::{DataError, ImageObjects, View, decode};
use kvt_train::splits::{PAD_OBJECTS, image_limits, prepared_batches};
use kvt_train::task::{
    DetectEvaluation, FoundObject, eval_objects, evaluate_objects, find_objects,
};
use kvt_train::world::Alone;

/// The least score of an object that is drawn, unless another is asked for: that of mmdetection's pictures.
pub const LEAST_SCORE: f64 = 0.3;
/// The shortest longer side of a picture: smaller ones are enlarged by a whole number, so that words have room.
const LEAST_SIDE: u32 = 512;

/// A network for detection that is ready to find objects.
pub type Detector = TrainedDense<MaskRcnn>;

/// An image with objects.
#[derive(Clone, Debug)]
pub struct Spotted {
    /// The image, upright, at its own size.
    pub picture: RgbImage,
    /// What the network finds, best first.
    pub found: Vec<FoundObject>,
    /// What is there, if that is known.
    pub truth: Option<Vec<PaintedObject>>,
}

impl Detector {
    /// Evaluates the network on images, one by one, and warns of those that were skipped. `progress` gets the number of images done
    /// and of all.
    ///
    /// # Errors
    /// If no image can be read, none has an object, or the device fails.
    ///
    /// # Panics
    /// If the images have fewer classes than the network and it finds an object of another class.
    pub fn judge(
        &self,
        images: &Images,
        progress: &mut dyn FnMut(usize, usize),
        warn: Warn<'_>,
    ) -> Result<DetectEvaluation, TrainedError> {
        let (source, device) = (&images.source, &self.device.device);
        let prepare = eval_objects(&self.plan)?;
        let batches = prepared_batches(&self.plan, source, prepare, 1, (0, 1))?;
        let mut evaluation = judged(images, batches, progress, warn, |batches, done| {
            evaluate_objects(&self.network, Ok(batches), source, device, &Alone, done)
        })?;
        evaluation.scores.classes.clone_from(&self.classes);
        Ok(evaluation)
    }

    /// What the network finds in a file.
    ///
    /// # Errors
    /// If the file cannot be read, or the device fails.
    pub fn look(&self, path: &Path) -> Result<Spotted, TrainedError> {
        let picture = decode(path, image_limits(&self.plan)).map_err(DataError::from)?;
        self.spotted(path, picture, None)
    }

    /// What the network finds in an image of a source with objects, and these.
    ///
    /// # Errors
    /// If the image cannot be read, is not that of its annotations, or the device fails.
    pub fn look_at(&self, images: &Images, index: u32) -> Result<Spotted, TrainedError> {
        let annotated = images.source.annotated(index, image_limits(&self.plan));
        let (picture, objects) = annotated.map_err(DataError::from)?;
        self.spotted(images.path(index), picture, Some(self.truth(objects)))
    }

    /// The objects of an image with their names.
    fn truth(&self, objects: ImageObjects<'_>) -> Vec<PaintedObject> {
        let all = objects.annotations.iter().map(|one| {
            let several = if one.is_crowd { " (crowd)" } else { "" };
            let words = name_of(&self.classes, one.label) + several;
            PaintedObject::of(one, objects.image.size, words)
        });
        all.collect()
    }

    /// What the network finds in an image that was read from `path`, prepared as in an evaluation.
    fn spotted(
        &self,
        path: &Path,
        picture: RgbImage,
        truth: Option<Vec<PaintedObject>>,
    ) -> Result<Spotted, TrainedError> {
        let plan = &self.plan;
        let prepare =
            PrepareObjects::evaluation(&plan.multiscale, &plan.augment, image_limits(plan));
        let image = prepare
            .and_then(|prepare| prepare.image(picture.clone()))
            .map_err(|error| error.at(path))?;
        let size = image.size;
        let original = (picture.height() as usize, picture.width() as usize);
        let view = View::stack(vec![image], PAD_OBJECTS);
        let device = &self.device.device;
        Ok(Spotted {
            found: find_objects(&self.network, view, size, original, device)?,
            picture,
            truth,
        })
    }
}

impl Spotted {
    /// The image with what the network finds with a score of at least `score`; on its left, if they are known, with the objects that are
    /// there. A picture with a longer side above `most` pixels is smaller.
    ///
    /// # Errors
    /// If it cannot be drawn.
    pub fn drawn(
        &self,
        names: &[String],
        score: f64,
        most: Option<u32>,
    ) -> Result<RgbImage, TrainedError> {
        let found = self.found.iter().filter(|one| one.score >= score);
        let found = found.map(|one| PaintedObject {
            label: one.label,
            bbox: one.bbox,
            mask: Some(ObjectMask::from(&one.mask)),
            words: format!("{} {:.2}", name_of(names, one.label), one.score),
        });
        let found: Vec<_> = found.collect();
        let original = self.picture.dimensions();
        let pictures = self.truth.iter().chain([&found]).map(|objects| {
            let painted = with_masks(&self.picture, objects);
            with_boxes(sized(&painted, most), objects, original).map_err(TrainedError::Draw)
        });
        let pictures = pictures.collect::<Result<Vec<_>, _>>()?;
        Ok(side_by_side(&pictures.iter().collect::<Vec<_>>(), 1))
    }

    /// How many objects the network finds with a score of at least `score`.
    #[must_use]
    pub fn count(&self, score: f64) -> usize {
        self.found.iter().filter(|one| one.score >= score).count()
    }

    /// Everything that the network finds, best first, for programs: boxes and masks as in COCO's format of results.
    #[must_use]
    pub fn json(&self, names: &[String]) -> Value {
        let (width, height) = self.picture.dimensions();
        let objects = self.found.iter().map(|one| {
            let mut object = one.json();
            object.insert("number".to_owned(), json!(one.label));
            object.insert("class".to_owned(), json!(name_of(names, one.label)));
            Value::from(object)
        });
        json!({ "height": height, "width": width, "objects": objects.collect::<Vec<_>>() })
    }
}

/// A picture at least as large as [`LEAST_SIDE`], and at most `most`.
fn sized(picture: &RgbImage, most: Option<u32>) -> RgbImage {
    let (width, height) = picture.dimensions();
    match most.filter(|most| width.max(height) > *most) {
        Some(most) => {
            let (width, height) = fitted((width, height), most);
            resize(picture, width, height, FilterType::Triangle)
        }
        None => side_by_side(&[picture], LEAST_SIDE),
    }
}

#[cfg(test)]
mod tests {
    use image::Rgb;

    use super::*;

    #[test]
    fn pictures_are_neither_small_nor_large() {
        let sides = |width, height, most| {
            let picture = RgbImage::from_pixel(width, height, Rgb([9; 3]));
            sized(&picture, most).dimensions()
        };
        assert_eq!(sides(200, 100, None), (600, 300));
        assert_eq!(sides(200, 100, Some(1024)), (600, 300));
        assert_eq!(sides(2000, 500, Some(1000)), (1000, 250));
        assert_eq!(sides(2000, 500, None), (2000, 500));
    }
}
