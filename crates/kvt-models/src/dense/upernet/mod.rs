//! UPerNet (Xiao et al., 2018) as mmsegmentation trains it on ADE20K: a pyramid of maps, a decode head and an auxiliary head.

mod auxiliary;
mod cost;
mod head;
mod layers;
mod network;
mod pooling;

pub use auxiliary::FcnHead;
pub use head::UperHead;
pub use network::{SegmentLogits, UperNet, UperNetHeads};

use crate::error::ModelError;
use crate::family::validate;

/// The sizes of UPerNet's heads.
#[derive(Clone, Debug, PartialEq)]
pub struct UperNetConfig {
    /// Classes of a pixel.
    pub num_classes: usize,
    /// Channels of the decode head.
    pub channels: usize,
    /// The grids over which the last map is averaged: of 1 x 1 cells, 2 x 2 and so on.
    pub pool_scales: Vec<usize>,
    /// The share of the channels that each head drops before it classifies.
    pub dropout: f64,
    /// The map of the auxiliary head, counted from 1; 0 for no auxiliary head.
    pub aux_stage: usize,
    /// Channels of the auxiliary head.
    pub aux_channels: usize,
}

impl UperNetConfig {
    /// Refuses sizes of 0 or implausibly large ones, a dropout outside of `[0, 1)`, and an auxiliary head on a map that is not there,
    /// for a pyramid of `maps` maps.
    ///
    /// # Errors
    ///
    /// [`ModelError::OutOfRange`].
    pub fn validate(&self, maps: usize) -> Result<(), ModelError> {
        let of_auxiliary = if self.aux_stage > 0 {
            self.aux_channels
        } else {
            1
        };
        let sizes = [
            ("num_classes", self.num_classes),
            ("channels", self.channels),
            (
                "pool_scales",
                self.pool_scales.iter().copied().min().unwrap_or(0),
            ),
            ("aux_channels", of_auxiliary),
        ];
        validate::sizes(&sizes)?;
        validate::rate("dropout", self.dropout)?;
        let (stage, expected) = (
            self.aux_stage,
            "the number of a map, from 1 to 4, or 0 for no auxiliary head",
        );
        validate::within("aux_stage", stage as f64, stage <= maps, expected)
    }

    /// Refuses batch norms over a single image, where a map is pooled to one cell: a channel would have one value, and become
    /// its bias. To be asked before training, with the images of a micro-batch: of all processes, if they share their batch norms.
    ///
    /// # Errors
    ///
    /// [`ModelError::OneValue`].
    pub fn check_batch(&self, images: usize) -> Result<(), ModelError> {
        if images < 2 && self.pool_scales.contains(&1) {
            return Err(ModelError::OneValue { images });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
