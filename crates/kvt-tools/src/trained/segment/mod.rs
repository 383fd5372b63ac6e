//! A trained network for segmentation, the images that it is judged on, and images that it paints.

mod results;

use std::path::Path;

use image::RgbImage;
use image::imageops::{FilterType, resize};
use kvt_models::dense::upernet::UperNet;
use serde_json::{Value, json};

pub use self::results::SegmentResults;
use super::dense::TrainedDense;
use super::judge::{check_loss, judged};
use super::{Images, TrainedError, Warn};
use crate::paint::{classes_of, fitted, name_of, painted, side_by_side, with_legend};
use kvt_data::augment::JointEval;
use kvt_data::{DataError, IGNORED, LabelMap, View, decode};
use kvt_train::splits::{image_limits, prepared_batches};
use kvt_train::task::{
    SegmentEvaluation, eval_images, evaluate_segments, least_side, predict_labels,
};
use kvt_train::world::Alone;

/// The shortest longer side of a painted picture: smaller ones are enlarged by a whole number.
const LEAST_SIDE: u32 = 256;

/// A network for segmentation that is ready to predict.
pub type Segmenter = TrainedDense<UperNet>;

/// An image with the class of each pixel.
#[derive(Clone, Debug)]
pub struct Seen {
    /// The image, upright, at its own size.
    pub picture: RgbImage,
    /// What the network says of each pixel.
    pub prediction: LabelMap,
    /// What is right, if that is known.
    pub label: Option<LabelMap>,
}

impl Segmenter {
    /// Evaluates the network on images, one by one, and warns of those that were skipped. `progress` gets the number of images done
    /// and of all.
    ///
    /// # Errors
    /// If no image can be read, the device fails, or the logits are not finite.
    pub fn judge(
        &self,
        images: &Images,
        progress: &mut dyn FnMut(usize, usize),
        warn: Warn<'_>,
    ) -> Result<SegmentEvaluation, TrainedError> {
        let prepare = eval_images(&self.plan)?;
        let batches = prepared_batches(&self.plan, &images.source, prepare, 1, (0, 1))?;
        let (device, of) = (
            &self.device.device,
            (self.classes.len(), &self.plan.segment),
        );
        let evaluation = judged(images, batches, progress, warn, |batches, done| {
            evaluate_segments(&self.network, Ok(batches), of, device, &Alone, done)
        })?;
        check_loss(evaluation.images, evaluation.loss)?;
        Ok(evaluation)
    }

    /// What the network sees in a file.
    ///
    /// # Errors
    /// If the file cannot be read, logits are not finite, or the device fails.
    pub fn look(&self, path: &Path) -> Result<Seen, TrainedError> {
        let picture = decode(path, image_limits(&self.plan)).map_err(DataError::from)?;
        self.seen(path, picture, None)
    }

    /// What the network sees in an image of a source with masks, and its mask.
    ///
    /// # Errors
    /// If the image or its mask cannot be read, logits are not finite, or the device fails.
    pub fn look_at(&self, images: &Images, index: u32) -> Result<Seen, TrainedError> {
        let pair = images.source.pair(index, image_limits(&self.plan));
        let (picture, label) = pair.map_err(DataError::from)?;
        self.seen(images.path(index), picture, Some(label))
    }

    /// What the network sees in an image that was read from `path`.
    fn seen(
        &self,
        path: &Path,
        picture: RgbImage,
        label: Option<LabelMap>,
    ) -> Result<Seen, TrainedError> {
        let plan = &self.plan;
        let (limits, least) = (image_limits(plan), least_side(plan));
        let prepare = JointEval::new(&plan.dense, &plan.augment, limits, least);
        let image = prepare.and_then(|prepare| prepare.image(picture.clone()));
        let image = image.map_err(|error| error.at(path))?;
        let view = View::whole(image.pixels, 3, image.size);
        let size = (picture.height() as usize, picture.width() as usize);
        let device = &self.device.device;
        let labels = predict_labels(&self.network, view, size, &plan.segment, device)?;
        let labels = labels.ok_or_else(|| TrainedError::LogitsOf(path.to_owned()))?;
        Ok(Seen {
            picture,
            prediction: LabelMap { labels, size },
            label,
        })
    }
}

impl Seen {
    /// The image under the classes that the network sees; beside it, if the right ones are known, the image under these. Below are
    /// the names of the classes.
    ///
    /// # Errors
    /// If it cannot be drawn.
    pub fn drawn(&self, names: &[String]) -> Result<RgbImage, TrainedError> {
        let maps = self.label.iter().chain([&self.prediction]);
        let maps: Vec<&[u8]> = maps.map(|map| map.labels.as_slice()).collect();
        let pictures: Vec<RgbImage> = maps.iter().map(|map| painted(&self.picture, map)).collect();
        let pictures = side_by_side(&pictures.iter().collect::<Vec<_>>(), LEAST_SIDE);
        with_legend(&pictures, &classes_of(maps), names).map_err(TrainedError::Draw)
    }

    /// The same at a smaller size, of at most `most` pixels on the longer side, for pages.
    #[must_use]
    pub fn shrunk(&self, most: u32) -> Self {
        let (width, height) = self.picture.dimensions();
        if width.max(height) <= most {
            return self.clone();
        }
        let (columns, rows) = fitted((width, height), most);
        let map = |map: &LabelMap| {
            let place = |at: u32, of: u32, sides: usize| at as usize * sides / of as usize;
            let pixels = (0..rows).flat_map(|y| (0..columns).map(move |x| (y, x)));
            let labels = pixels.map(|(y, x)| {
                let (y, x) = (place(y, rows, map.size.0), place(x, columns, map.size.1));
                let label = map.labels.get(y * map.size.1 + x);
                label.copied().unwrap_or(IGNORED)
            });
            LabelMap {
                labels: labels.collect(),
                size: (rows as usize, columns as usize),
            }
        };
        Self {
            picture: resize(&self.picture, columns, rows, FilterType::Triangle),
            prediction: map(&self.prediction),
            label: self.label.as_ref().map(map),
        }
    }

    /// The share of the labelled pixels whose class the network sees, in percent.
    #[must_use]
    pub fn right(&self) -> Option<f64> {
        let label = self.label.as_ref()?;
        let pairs = label.labels.iter().zip(&self.prediction.labels);
        let labelled = pairs.filter(|(label, _)| **label != IGNORED);
        let (right, all) = labelled.fold((0_u32, 0_u32), |(right, all), (label, seen)| {
            (right + u32::from(label == seen), all + 1)
        });
        (all > 0).then(|| 100.0 * f64::from(right) / f64::from(all))
    }

    /// The classes that the network sees, with their pixels, for programs.
    #[must_use]
    pub fn json(&self, names: &[String]) -> Value {
        let labels = &self.prediction.labels;
        let found = classes_of([labels.as_slice()]);
        let classes = found.into_iter().map(|class| {
            let is_of = |label: &&u8| usize::from(**label) == class;
            let pixels = labels.iter().filter(is_of).count();
            json!({
                "number": class,
                "class": name_of(names, class),
                "pixels": pixels,
            })
        });
        let (height, width) = self.prediction.size;
        json!({ "height": height, "width": width, "classes": classes.collect::<Vec<_>>() })
    }
}

#[cfg(test)]
mod tests {
    use image::Rgb;

    use super::*;

    /// Of 4 x 2 pixels, every second one is left, with the classes in their places.
    #[test]
    fn a_shrunk_picture_keeps_its_classes_in_place() {
        let map = LabelMap {
            labels: vec![0, 0, 1, 1, 0, 0, 1, 1],
            size: (2, 4),
        };
        let seen = Seen {
            picture: RgbImage::from_pixel(4, 2, Rgb([9, 9, 9])),
            prediction: map.clone(),
            label: Some(map),
        };
        let small = seen.shrunk(2);
        assert_eq!(small.picture.dimensions(), (2, 1));
        assert_eq!(small.prediction.labels, [0, 1]);
        assert_eq!(small.prediction.size, (1, 2));
        assert_eq!(small.label.as_ref(), Some(&small.prediction));
        assert_eq!(seen.shrunk(4).prediction, seen.prediction);
    }
}
