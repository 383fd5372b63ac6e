//! The feature pyramid (Lin et al., 2017): maps of equal channels, where each has got what the coarser ones know.

use burn::module::Module;
use burn::tensor::Tensor;
use burn::tensor::module::interpolate;
use burn::tensor::ops::{InterpolateMode, InterpolateOptions};
use kvt_ops::widened;

use super::layers::{BareConv, places};
use crate::dense::numbered::{numbered, size};
use crate::layers::Init;
use crate::precision::Precision;

/// mmdetection's `FPN` with five levels; fields have the names of its parameters.
#[derive(Module, Debug)]
pub struct Fpn {
    lateral_convs: Vec<BareConv>,
    fpn_convs: Vec<BareConv>,
}

impl Fpn {
    /// A pyramid of `channels` over maps of these channels, the finest first.
    pub(super) fn new(init: &Init<'_>, maps: &[usize], channels: usize) -> Self {
        Self {
            lateral_convs: numbered(&init.child("lateral_convs"), maps, |init, map| {
                BareConv::xavier(init, [map, channels], 1)
            }),
            fpn_convs: numbered(&init.child("fpn_convs"), maps, |init, _| {
                BareConv::xavier(init, [channels, channels], 3)
            }),
        }
    }

    /// The levels in f32, the finest first: one for each map, and a last one of every second row and column of the coarsest.
    /// Products are in the given precision.
    ///
    /// # Shapes
    ///
    /// Maps `[batch, inputs, height, width]` in f32, the finest first, to `[batch, channels, height, width]` for each; the last
    /// level is `[batch, channels, ceil(height / 2), ceil(width / 2)]`.
    ///
    /// # Panics
    ///
    /// If maps have other channels.
    pub fn forward(&self, maps: &[Tensor<4>], precision: Precision) -> Vec<Tensor<4>> {
        // From the coarsest to the finest: each map gets the sum of those above it.
        let mut above: Option<Tensor<4>> = None;
        let mut levels = Vec::with_capacity(maps.len() + 1);
        let convs = self.lateral_convs.iter().zip(&self.fpn_convs);
        for ((lateral, fpn), map) in convs.zip(maps).rev() {
            let own = lateral.forward(precision.lower(map.clone()));
            let sum = match above {
                Some(above) => {
                    let above = nearest(above, size(&own));
                    own + above
                }
                None => own,
            };
            levels.push(widened(fpn.forward(sum.clone())));
            above = Some(sum);
        }
        let last = levels.first().cloned().map(halved);
        levels.reverse();
        levels.extend(last);
        levels
    }
}

/// A map of another size, where each pixel is that of `floor(place * from / to)`: PyTorch's `interpolate(mode="nearest")`.
fn nearest(map: Tensor<4>, size: [usize; 2]) -> Tensor<4> {
    let options = InterpolateOptions::new(InterpolateMode::Nearest)
        .with_align_corners(false)
        .with_output_size(size);
    interpolate(map, options)
}

/// Every second row and column of a map, from the first: PyTorch's max pooling of single pixels with a stride of 2.
fn halved(map: Tensor<4>) -> Tensor<4> {
    let device = map.device();
    let every_second = |length: usize| {
        let all: Vec<usize> = (0..length).step_by(2).collect();
        places(&all, &device)
    };
    let [rows, columns] = size(&map).map(every_second);
    map.select(2, rows).select(3, columns)
}
