//! The anchors of a batch, and what the proposal network says of them, on the host.

use burn::tensor::TensorReadError;

use super::rpn::{DELTAS, RpnOutput};
use crate::dense::boxes::{Corners, Deltas, Grid, Proposal, proposals};

/// Pixels of the image from one place of the finest level to the next. They double from level to level.
pub(super) const FINEST_STRIDE: usize = 4;

/// A proposal goes if its IoU with a better one of its level is greater than this.
const IOU: f32 = 0.7;

/// The anchors of every image of a batch, level by level.
#[derive(Clone, Debug)]
pub(super) struct Anchors {
    /// The levels.
    pub(super) grids: Vec<Grid>,
    /// The anchors of all levels.
    pub(super) boxes: Vec<Corners>,
}

/// Probabilities and deltas of all anchors, image by image.
#[derive(Clone, Debug)]
pub(super) struct Scored {
    scores: Vec<f32>,
    deltas: Vec<Deltas>,
}

impl Anchors {
    /// The anchors of levels of these sizes, the finest first.
    pub(super) fn new(sizes: &[[usize; 2]]) -> Self {
        let grid = |(level, size): (usize, &[usize; 2])| Grid {
            size: *size,
            stride: FINEST_STRIDE << level,
        };
        let grids: Vec<Grid> = sizes.iter().enumerate().map(grid).collect();
        Self {
            boxes: grids.iter().flat_map(Grid::anchors).collect(),
            grids,
        }
    }

    /// The places of the anchors that begin in the first `[height, width]` pixels.
    pub(super) fn within(&self, pixels: [usize; 2]) -> Vec<usize> {
        let covered = self.grids.iter().flat_map(|grid| grid.covered(pixels));
        let covered = covered.enumerate().filter(|(_, covered)| *covered);
        covered.map(|(place, _)| place).collect()
    }

    /// The proposals of an image of the batch, with `size` pixels without padding, best first. The limits are how many of the
    /// best anchors of each level are decoded, and how many proposals stay.
    pub(super) fn proposals(
        &self,
        scored: &Scored,
        image: usize,
        size: [usize; 2],
        limits: [usize; 2],
    ) -> Vec<Proposal> {
        let levels: Vec<usize> = self.grids.iter().map(Grid::anchor_count).collect();
        let own = image * self.boxes.len()..(image + 1) * self.boxes.len();
        let (scores, deltas) = (&scored.scores[own.clone()], &scored.deltas[own]);
        proposals(&levels, &self.boxes, scores, deltas, size, limits, IOU)
    }
}

impl Scored {
    /// What the proposal network says, read from the device. No gradient passes through it.
    pub(super) fn read(output: &RpnOutput) -> Result<Self, TensorReadError> {
        let logits = output.logits.clone().detach();
        let deltas = output.deltas.clone().detach();
        let logits = logits.try_into_vec_as::<f32>()?.into_iter();
        let scores = logits.map(|logit| 1.0 / (1.0 + (-logit).exp()));
        Ok(Self {
            scores: scores.collect(),
            deltas: rows(&deltas.try_into_vec_as::<f32>()?),
        })
    }
}

/// Numbers in rows of four.
pub(super) fn rows(values: &[f32]) -> Vec<[f32; DELTAS]> {
    values.as_chunks::<DELTAS>().0.to_vec()
}
