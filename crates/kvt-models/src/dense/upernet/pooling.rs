//! The pyramid pooling module (Zhao et al., 2017): means of a map over coarse grids, at the map's own size.

use burn::module::Module;
use burn::tensor::Tensor;
use burn::tensor::module::adaptive_avg_pool2d;
use kvt_ops::{Phase, resize_bilinear};

use super::layers::conv_module;
use crate::dense::numbered::numbered;
use crate::layers::{ConvNorm, Init};
use crate::precision::Precision;

/// The means of `scale` x `scale` cells that cover a map, as PyTorch's `AdaptiveAvgPool2d`: cell `i` of `n` covers the rows
/// `floor(i height / n)` to `ceil((i + 1) height / n)`, so that cells may overlap or repeat.
#[derive(Module, Debug)]
pub(super) struct Cells {
    #[module(skip)]
    scale: usize,
}

/// A branch: its two modules are named `0` and `1`, as those of a sequence in PyTorch.
pub(super) type Branch = (Cells, ConvNorm);

/// The branches of all scales.
pub(super) fn branches(init: &Init<'_>, channels: [usize; 2], scales: &[usize]) -> Vec<Branch> {
    numbered(init, scales, |init, scale| {
        let conv = conv_module(&init.child("1"), channels, 1);
        (Cells { scale }, conv)
    })
}

/// The map, and what each branch makes of it, along the channels.
///
/// # Shapes
///
/// `[batch, inputs, height, width]` in f32 to `[batch, inputs + branches * outputs, height, width]` in the type of the precision.
pub(super) fn pooled(
    branches: &[Branch],
    map: &Tensor<4>,
    precision: Precision,
    phase: Phase,
) -> Tensor<4> {
    let [_, _, height, width] = map.dims();
    let mut all = vec![precision.lower(map.clone())];
    all.extend(branches.iter().map(|(Cells { scale }, conv)| {
        let cells = adaptive_avg_pool2d(map.clone(), [*scale; 2]);
        let cells = conv.forward(precision.lower(cells), phase);
        resize_bilinear(cells, [height, width])
    }));
    Tensor::cat(all, 1)
}
