//! From images to the objects in them.

use burn::tensor::activation::{sigmoid, softmax};
use burn::tensor::{Tensor, TensorReadError};
use kvt_ops::{Phase, Region};

use super::anchors::{Anchors, Scored, rows};
use super::layers::places;
use super::mask_head::MASK_SIDE;
use super::network::MaskRcnn;
use super::objects::{Frame, check_sizes};
use crate::dense::boxes::{Coder, Corners, Proposal, clip, suppress_by_class};

/// An object that was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Detection {
    /// Its box in pixels of the original image.
    pub corners: Corners,
    /// The probability of its class.
    pub score: f32,
    /// Its class, from 0.
    pub label: usize,
    /// The probabilities of 28 x 28 places of its box, row by row, for being inside: for [`paste()`](super::paste()).
    pub mask: Vec<f32>,
}

/// A detection in pixels of the network's input, without a mask.
#[derive(Clone, Copy)]
struct Found {
    region: Region,
    score: f32,
    label: usize,
}

impl MaskRcnn {
    /// The objects in images, `[batch, 3, height, width]`, each padded at the right and at the bottom: those of an image best first.
    ///
    /// Sizes of other images of the batch change what is found a little, since the backbone sees the padding: evaluate one by one.
    ///
    /// # Errors
    ///
    /// A device that cannot be read.
    ///
    /// # Panics
    ///
    /// On sizes that do not fit the images, or that the pyramid refuses.
    pub fn detect(
        &self,
        images: Tensor<4>,
        frames: &[Frame],
    ) -> Result<Vec<Vec<Detection>>, TensorReadError> {
        check_sizes(images.dims(), frames.iter().map(|frame| frame.size));
        let (levels, rpn) = self.look(&self.maps(images, Phase::Eval));
        let (anchors, scored) = (Anchors::new(&rpn.sizes), Scored::read(&rpn)?);
        let config = &self.heads.config;
        let limits = [config.test_per_level, config.test_proposals];
        let mut regions = Vec::new();
        for (image, frame) in frames.iter().enumerate() {
            for Proposal { corners, .. } in anchors.proposals(&scored, image, frame.size, limits) {
                regions.push(Region { image, corners });
            }
        }
        let found = self.found(&levels, &regions, frames)?;
        let masks = self.masks(&levels, &found)?;
        let mut all = vec![Vec::new(); frames.len()];
        for (found, mask) in found.into_iter().zip(masks) {
            let Region { image, corners } = found.region;
            all[image].push(Detection {
                corners: in_original(corners, frames[image]),
                score: found.score,
                label: found.label,
                mask,
            });
        }
        Ok(all)
    }

    /// The detections among regions, image by image, best first.
    fn found(
        &self,
        levels: &[Tensor<4>],
        regions: &[Region],
        frames: &[Frame],
    ) -> Result<Vec<Found>, TensorReadError> {
        if regions.is_empty() {
            return Ok(Vec::new());
        }
        let config = &self.heads.config;
        let output = self.classify(levels, regions);
        let probabilities = softmax(output.logits, 1).try_into_vec_as::<f32>()?;
        let deltas = rows(&output.deltas.try_into_vec_as::<f32>()?);
        let classes = config.num_classes;
        let of_regions = probabilities
            .chunks(classes + 1)
            .zip(deltas.chunks(classes));
        let (mut all, mut boxes, mut scores, mut kinds) = (vec![], vec![], vec![], vec![]);
        for (region, (of_classes, deltas)) in regions.iter().zip(of_regions) {
            let image = region.image;
            // The background has a score and no deltas.
            for (label, (score, deltas)) in of_classes.iter().zip(deltas).enumerate() {
                if *score > config.score as f32 {
                    let decoded = Coder::ROI.decode(&region.corners, deltas);
                    let corners = clip(&decoded, frames[image].size);
                    all.push(Found {
                        region: Region { image, corners },
                        score: *score,
                        label,
                    });
                    boxes.push(corners);
                    scores.push(*score);
                    kinds.push(image * classes + label);
                }
            }
        }
        let image_of = |place: &usize| all[*place].region.image;
        let mut kept = suppress_by_class(&boxes, &scores, &kinds, config.iou as f32);
        // Stable: those of an image stay in order.
        kept.sort_by_key(image_of);
        let of_images = kept.chunk_by(|a, b| image_of(a) == image_of(b));
        let kept = of_images.flat_map(|places| places.iter().take(config.detections));
        Ok(kept.map(|place| all[*place]).collect())
    }

    /// The masks of detections, of their classes.
    fn masks(
        &self,
        levels: &[Tensor<4>],
        found: &[Found],
    ) -> Result<Vec<Vec<f32>>, TensorReadError> {
        if found.is_empty() {
            return Ok(Vec::new());
        }
        let regions: Vec<Region> = found.iter().map(|found| found.region).collect();
        let logits = self.outline(levels, &regions);
        let [count, classes, height, width] = logits.dims();
        let own = found.iter().enumerate();
        let own: Vec<usize> = own.map(|(at, found)| at * classes + found.label).collect();
        let own = places(&own, &logits.device());
        let logits = logits.reshape([count * classes, height * width]);
        let masks = sigmoid(logits.select(0, own)).try_into_vec_as::<f32>()?;
        let masks = masks.chunks_exact(MASK_SIDE * MASK_SIDE);
        Ok(masks.map(<[f32]>::to_vec).collect())
    }
}

/// A box in pixels of the original image.
fn in_original(corners: Corners, frame: Frame) -> Corners {
    let factor = |axis: usize| frame.size[axis] as f32 / frame.original[axis] as f32;
    let [down, across] = [factor(0), factor(1)];
    let [x1, y1, x2, y2] = corners;
    [x1 / across, y1 / down, x2 / across, y2 / down]
}
