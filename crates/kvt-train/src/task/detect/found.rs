//! What is found in an image, also as processes send it to each other.

use burn::tensor::Device;
use kvt_data::coco::rle::Rle;
use kvt_models::dense::mask_rcnn::{Frame, MaskRcnn, paste};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::data::View;
use crate::error::TrainError;

/// The detections of an image, best first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct OfImage {
    /// The image's id in the file of annotations.
    pub(super) id: u64,
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
    /// Its pixels.
    pub mask: Rle,
}

impl FoundObject {
    /// Its box, its score and its mask in COCO's format of results; a user adds what it is.
    pub fn json(&self) -> Map<String, Value> {
        let segmentation = json!({ "size": self.mask.size(), "counts": self.mask.to_text() });
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
/// If the image does not match the model, or the device fails.
///
/// # Panics
/// If it is not one image, or `size` does not fit it.
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
    let found = found.map(|one| {
        let inside = paste(&one.mask, one.corners, frame.original);
        let [x1, y1, x2, y2] = one.corners.map(f64::from);
        FoundObject {
            label: one.label,
            bbox: [x1, y1, x2 - x1, y2 - y1],
            score: one.score.into(),
            mask: Rle::encode(size, |row, column| {
                inside.contains(row as usize, column as usize)
            }),
        }
    });
    Ok(found.collect())
}
