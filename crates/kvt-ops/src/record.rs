//! The operations on Burn's `Capture` backend, which computes nothing and records a forward pass, for an export.
//!
//! Each is composed of those operations of Burn's for which the formats of other programs have an operator.

use burn::backend::ops::{ActivationOps, FloatTensorOps, ModuleOps};
use burn::backend::tensor::{Device, FloatTensor};
use burn::backend::{Capture, TensorMetadata, get_device_settings};
use burn::tensor::{FloatDType, IndexingUpdateOp, Shape, TensorData};

use crate::attention::AttentionOps;
use crate::batch_norm::BatchNormOps;
use crate::cast::{cast, to_f32};
use crate::contiguous::LayoutOps;
use crate::conv::ConvOps;
use crate::convert::ConvertOps;
use crate::gelu::GeluOps;
use crate::knn_softmax::KnnSoftmaxOps;
use crate::layer_norm::LayerNormOps;
use crate::linear::LinearOps;
use crate::max_pool::MaxPoolOps;
use crate::mlp::MlpOps;
use crate::residual::ResidualOps;
use crate::resize::{ResizeOps, products};
use crate::rows::RowOps;
use crate::unfold::UnfoldOps;
use crate::window::Window;

impl AttentionOps for Capture {}
impl BatchNormOps for Capture {}
impl ConvOps for Capture {}
impl ConvertOps for Capture {}
impl GeluOps for Capture {}
impl LayoutOps for Capture {}
impl LinearOps for Capture {}
impl MaxPoolOps for Capture {}
impl MlpOps for Capture {}
impl ResidualOps for Capture {}
impl ResizeOps for Capture {}
impl RowOps for Capture {}

impl LayerNormOps for Capture {
    /// Burn's operation. The statistics are placeholders: only a backward pass reads them.
    fn fused_layer_norm(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        epsilon: f64,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        let out = Self::layer_norm(x.clone(), gamma, Some(beta), epsilon);
        (out, x.clone(), x)
    }
}

impl KnnSoftmaxOps for Capture {
    /// Top-k, a softmax of its values, and these scattered into zeros. Of equal scores, top-k finds those at lower indices
    /// first, as [the rule](crate::top_k#the-rule) asks.
    fn knn_softmax(scores: FloatTensor<Self>, k: usize) -> FloatTensor<Self> {
        let (dtype, shape, device) = (scores.dtype(), scores.shape(), scores.device());
        let last = shape.num_dims() - 1;
        let scores = to_f32::<Self>(scores);
        if k >= shape[last] {
            return cast::<Self>(Self::softmax(scores, last), dtype);
        }
        let int = get_device_settings::<Self>(&device).int_dtype;
        let (kept, indices) = Self::float_topk_with_indices(scores, last, k, int);
        let zeros = Self::float_zeros(shape, &device, FloatDType::F32);
        let update = IndexingUpdateOp::Assign;
        let kept = Self::softmax(kept, last);
        cast::<Self>(
            Self::float_scatter(last, zeros, indices, kept, update),
            dtype,
        )
    }
}

/// As products with one-hot matrices, one per axis: of windows that overlap, no other operator sums the pixels.
impl UnfoldOps for Capture {
    fn unfold_windows(x: FloatTensor<Self>, settings: Window) -> FloatTensor<Self> {
        let [batch, channels, height, width] = x.shape().dims();
        let Window { kernel, .. } = settings;
        let [rows, columns] = settings.positions([height, width]);
        let matrices = pixels(&x.device(), settings, [height, width]);
        let x = products::<Self>(x, matrices);
        let x = reshaped(x, [batch, channels, kernel, rows, kernel, columns]);
        let x = Self::float_permute(x, &[0, 1, 2, 4, 3, 5]);
        reshaped(x, [batch, channels * kernel.pow(2), rows * columns])
    }

    fn fold_windows(x: FloatTensor<Self>, size: [usize; 2], settings: Window) -> FloatTensor<Self> {
        let [batch, lines, _] = x.shape().dims();
        let Window { kernel, .. } = settings;
        let channels = lines / kernel.pow(2);
        let [rows, columns] = settings.positions(size);
        let matrices = pixels(&x.device(), settings, size).map(|x| Self::float_swap_dims(x, 0, 1));
        let x = reshaped(x, [batch, channels, kernel, kernel, rows, columns]);
        let x = Self::float_permute(x, &[0, 1, 2, 4, 3, 5]);
        let x = reshaped(x, [batch, channels, kernel * rows, kernel * columns]);
        products::<Self>(x, matrices)
    }
}

fn reshaped<const D: usize>(x: FloatTensor<Capture>, shape: [usize; D]) -> FloatTensor<Capture> {
    Capture::float_reshape(x, Shape::new(shape))
}

/// For each axis of images of `size` the matrix `[kernel * positions, pixels]` that is 1 where a place of a window is a pixel. A row
/// of a place in the padding is 0.
fn pixels(
    device: &Device<Capture>,
    settings: Window,
    size: [usize; 2],
) -> [FloatTensor<Capture>; 2] {
    let Window {
        kernel,
        stride,
        padding,
    } = settings;
    let positions = settings.positions(size);
    [0, 1].map(|axis| {
        let (positions, length) = (positions[axis], size[axis]);
        let mut matrix = vec![0.0f32; kernel * positions * length];
        for (row, weights) in matrix.chunks_exact_mut(length).enumerate() {
            let (offset, position) = (row / positions, row % positions);
            let pixel = (position * stride + offset).checked_sub(padding);
            if let Some(weight) = pixel.and_then(|pixel| weights.get_mut(pixel)) {
                *weight = 1.0;
            }
        }
        let data = TensorData::new(matrix, [kernel * positions, length]);
        Capture::float_from_data(data, device)
    })
}
