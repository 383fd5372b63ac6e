//! What a network sees in an image.

use std::path::Path;

use image::RgbImage;
use serde_json::{Value, json};

use super::Segmenter;
use crate::data::{DataError, IGNORED, LabelMap, View, decode, image_key};
use crate::error::TrainError;
use crate::paint::{classes_of, painted, side_by_side, with_legend};
use crate::splits::image_limits;
use crate::task::{eval_image, eval_images, predict_labels};
use crate::trained::{Images, TrainedError};

/// The shortest longer side of a painted picture: smaller ones are enlarged by a whole number.
const LEAST_SIDE: u32 = 256;

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
    /// What the network sees in a file.
    ///
    /// # Errors
    /// If the file cannot be read, or the device fails.
    pub fn look(&self, path: &Path) -> Result<Seen, TrainError> {
        let picture = decode(path, image_limits(&self.plan)).map_err(DataError::from)?;
        let size = (picture.height() as usize, picture.width() as usize);
        let view = eval_image(&self.plan, picture.clone()).map_err(|source| {
            let path = path.to_owned();
            TrainedError::Prepare { path, source }
        })?;
        Ok(Seen {
            prediction: self.prediction(View::from(view), size)?,
            picture,
            label: None,
        })
    }

    /// What the network sees in an image of a source with masks, and its mask.
    ///
    /// # Errors
    /// If the image or its mask cannot be read, or the device fails.
    pub fn look_at(&self, images: &Images, index: u32) -> Result<Seen, TrainError> {
        let source = &images.source;
        let picture = source
            .image(index, image_limits(&self.plan))
            .map_err(DataError::from)?;
        let prepare = eval_images(&self.plan)?;
        let example = prepare
            .prepare(source, index, image_key(0, 0, index))
            .map_err(DataError::from)?;
        let Some(view) = example.views.into_iter().next() else {
            return Err(TrainError::NothingEvaluated);
        };
        let size = example.target.size;
        Ok(Seen {
            prediction: self.prediction(View::from(view), size)?,
            picture,
            label: Some(example.target),
        })
    }

    fn prediction(&self, view: View, size: (usize, usize)) -> Result<LabelMap, TrainError> {
        let device = &self.device.device;
        let labels = predict_labels(&self.network, view, size, &self.plan.segment, device)?;
        Ok(LabelMap { labels, size })
    }
}

impl Seen {
    /// The image under the classes that the network sees; beside it, if the right ones are known, the image under these. Below are
    /// the names of the classes.
    ///
    /// # Errors
    /// The drawing library's message.
    pub fn drawn(&self, names: &[String]) -> Result<RgbImage, String> {
        let maps = self.label.iter().chain([&self.prediction]);
        let maps: Vec<&[u8]> = maps.map(|map| map.labels.as_slice()).collect();
        let pictures: Vec<RgbImage> = maps.iter().map(|map| painted(&self.picture, map)).collect();
        let pictures = side_by_side(&pictures.iter().collect::<Vec<_>>(), LEAST_SIDE);
        with_legend(&pictures, &classes_of(maps), Some(names))
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
            let name = names.get(usize::from(class));
            let pixels = labels.iter().filter(|label| **label == class).count();
            json!({
                "number": class,
                "class": name.cloned().unwrap_or_else(|| class.to_string()),
                "pixels": pixels,
            })
        });
        let (height, width) = self.prediction.size;
        json!({ "height": height, "width": width, "classes": classes.collect::<Vec<_>>() })
    }
}
