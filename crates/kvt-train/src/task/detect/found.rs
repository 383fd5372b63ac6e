//! What is found in an image, also as processes send it to each other.

use burn::tensor::Device;
use kvt_data::coco::rle::{Rle, RleError};
use kvt_models::dense::mask_rcnn::{Detection, Frame, MaskRcnn, paste};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::ap::Instance;
use super::score::ScoreError;
use crate::data::View;
use crate::error::TrainError;

/// The detections of an image, best first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct OfImage {
    /// The image's id in the file of annotations.
    pub(super) id: u64,
    /// Its height and width.
    pub(super) size: (u32, u32),
    pub(super) found: Vec<FoundObject>,
}

/// A detection in the original image.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FoundObject {
    /// Its class, a place among the classes.
    pub label: usize,
    /// `[x, y, width, height]` in pixels.
    pub bbox: [f64; 4],
    /// The probability of its class.
    pub score: f64,
    /// The compressed runs of its mask.
    counts: String,
}

impl FoundObject {
    /// Its pixels in the image of `(height, width)` in which it was found.
    ///
    /// # Errors
    /// None for this image.
    pub fn mask(&self, image: (u32, u32)) -> Result<Rle, RleError> {
        Rle::from_text(image, &self.counts)
    }

    /// Its box, its score and its mask in COCO's format of results, for an image of `(height, width)`; a user adds what it is.
    pub fn json(&self, (height, width): (u32, u32)) -> Map<String, Value> {
        let segmentation = json!({ "size": [height, width], "counts": self.counts });
        Map::from_iter([
            ("bbox".to_owned(), json!(self.bbox)),
            ("score".to_owned(), json!(self.score)),
            ("segmentation".to_owned(), segmentation),
        ])
    }
}

/// Finds the objects in a prepared image of `original` (height, width), best first; `size` is that of the image as the network sees it,
/// without padding.
///
/// # Errors
/// If the image does not match the model, is too large for a mask, or the device fails.
pub fn find_objects(
    network: &MaskRcnn,
    image: View,
    size: (usize, usize),
    original: (usize, usize),
    device: &Device,
) -> Result<Vec<FoundObject>, TrainError> {
    let images = image.upload(&device.clone().inner());
    let [_, _, height, width] = images.dims();
    network.pyramid.check_size([height, width])?;
    let frame = Frame {
        size: size.into(),
        original: original.into(),
    };
    let size = (original.0 as u32, original.1 as u32);
    let found = network.detect(images, &[frame])?.into_iter().flatten();
    // Broken weights can make boxes that are not numbers.
    let is_finite = |one: &Detection| one.corners.iter().all(|side| side.is_finite());
    let found = found.filter(is_finite).map(|one| {
        let inside = paste(&one.mask, one.corners, frame.original);
        let mask = Rle::encode(size, |row, column| {
            inside.contains(row as usize, column as usize)
        });
        let [x1, y1, x2, y2] = one.corners.map(f64::from);
        FoundObject {
            label: one.label,
            bbox: [x1, y1, x2 - x1, y2 - y1],
            score: one.score.into(),
            counts: mask.to_text(),
        }
    });
    Ok(found.collect())
}

impl OfImage {
    /// As they are compared.
    ///
    /// # Errors
    /// If the runs of a mask are not those of the image.
    pub(super) fn compared(&self) -> impl Iterator<Item = Result<Instance, ScoreError>> {
        let image = self.id;
        self.found.iter().map(move |one| {
            let mask = one.mask(self.size);
            let mask = mask.map_err(|fault| ScoreError::Runs { image, fault })?;
            Ok(Instance {
                image,
                class: one.label,
                bbox: one.bbox,
                area: None,
                is_crowd: false,
                score: one.score,
                mask: Some(mask),
            })
        })
    }

    /// In COCO's format of results, with the ids of the classes in label order.
    pub(super) fn results(&self, categories: &[u64]) -> impl Iterator<Item = Value> {
        self.found.iter().map(move |one| {
            let mut all = one.json(self.size);
            all.insert("image_id".to_owned(), json!(self.id));
            all.insert("category_id".to_owned(), json!(categories.get(one.label)));
            Value::from(all)
        })
    }
}
