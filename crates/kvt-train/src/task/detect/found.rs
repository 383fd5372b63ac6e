//! What is found in an image, as processes send it to each other.

use burn::tensor::Device;
use kvt_data::augment::Objects;
use kvt_data::coco::rle::Rle;
use kvt_models::dense::mask_rcnn::{Detection, Frame, MaskRcnn, paste};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::ap::Found;
use super::score::ScoreError;
use crate::data::View;
use crate::error::TrainError;
use crate::world::WorldError;

/// The detections of an image, best first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct OfImage {
    /// The image's id in the file of annotations.
    pub(super) id: u64,
    /// Its height and width.
    size: (u32, u32),
    found: Vec<One>,
}

/// A detection in the original image.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct One {
    label: usize,
    /// Left, top, width, height.
    bbox: [f64; 4],
    score: f64,
    /// The compressed runs of its mask.
    counts: String,
}

impl OfImage {
    /// Finds the objects in a prepared image.
    ///
    /// # Errors
    /// If the image does not match the model, or the device fails.
    pub(super) fn look(
        network: &MaskRcnn,
        image: View,
        target: &Objects,
        device: &Device,
    ) -> Result<Self, TrainError> {
        let images = image.upload(&device.clone().inner());
        let [_, _, height, width] = images.dims();
        network.pyramid.check_size([height, width])?;
        let frame = Frame {
            size: target.size.into(),
            original: target.original.into(),
        };
        let (id, [height, width]) = (target.image_id, frame.original);
        let size = (height as u32, width as u32);
        let found = network.detect(images, &[frame])?.into_iter().flatten();
        // Broken weights can make boxes that are not numbers.
        let is_finite = |one: &Detection| one.corners.iter().all(|side| side.is_finite());
        let found = found.filter(is_finite).map(|one| {
            let inside = paste(&one.mask, one.corners, frame.original);
            let mask = Rle::encode(size, |row, column| {
                inside.contains(row as usize, column as usize)
            });
            let mask = mask.map_err(|fault| ScoreError::Runs { image: id, fault })?;
            let [x1, y1, x2, y2] = one.corners.map(f64::from);
            Ok::<_, TrainError>(One {
                label: one.label,
                bbox: [x1, y1, x2 - x1, y2 - y1],
                score: one.score.into(),
                counts: mask.to_text(),
            })
        });
        Ok(Self {
            id,
            size,
            found: found.collect::<Result<_, _>>()?,
        })
    }

    /// As a line of text.
    ///
    /// # Errors
    /// None for what was [found](Self::look): all numbers are finite.
    pub(super) fn line(&self) -> Result<String, WorldError> {
        serde_json::to_string(self).map_err(|error| WorldError::State(error.to_string()))
    }

    /// From a line of text.
    ///
    /// # Errors
    /// If it is another one.
    pub(super) fn of_line(line: &str) -> Result<Self, WorldError> {
        serde_json::from_str(line).map_err(|error| WorldError::State(error.to_string()))
    }

    /// As they are compared.
    ///
    /// # Errors
    /// If the runs of a mask are not those of the image.
    pub(super) fn compared(&self) -> Result<Vec<Found>, ScoreError> {
        let image = self.id;
        let all = self.found.iter().map(|one| {
            let mask = Rle::from_text(self.size, &one.counts);
            let mask = mask.map_err(|fault| ScoreError::Runs { image, fault })?;
            Ok(Found {
                image,
                class: one.label,
                bbox: one.bbox,
                score: one.score,
                mask: Some(mask),
            })
        });
        all.collect()
    }

    /// In COCO's format of results, with the ids of the classes in label order.
    pub(super) fn results(&self, categories: &[u64]) -> impl Iterator<Item = Value> {
        let (image, (height, width)) = (self.id, self.size);
        self.found.iter().map(move |one| {
            json!({
                "image_id": image,
                "category_id": categories.get(one.label),
                "bbox": one.bbox,
                "score": one.score,
                "segmentation": { "size": [height, width], "counts": one.counts },
            })
        })
    }
}
