//! Outlook attention: each place of a map produces the weights that mix the tokens around it.

use burn::module::Module;
use burn::nn::Linear;
use burn::tensor::Tensor;
use kvt_attention::Dropout;
use kvt_ops::{Window, fold, in_type, knn_softmax, linear, permute_reshape, unfold, widened};

use crate::family::cost::BlockSize;
use crate::family::transformer::Transformer;
use crate::layers::{Init, Pass, SelfAttention, avg_pool_ceil};

/// Windows of 3 x 3 tokens around every second token.
pub(super) const WINDOWS: Window = Window {
    kernel: 3,
    stride: 2,
    padding: 1,
};
/// Tokens of a window. Each gets a mix of all of them.
pub(super) const AREA: usize = WINDOWS.kernel * WINDOWS.kernel;

/// Attention within overlapping windows. A linear layer makes the weights of each window from the mean of the tokens
/// at its centre, and the outputs of a token from several windows are summed.
#[derive(Module, Debug)]
pub(super) struct OutlookAttention {
    v: Linear,
    attn: Linear,
    proj: Linear,
    #[module(skip)]
    heads: usize,
    #[module(skip)]
    dropout: f64,
}

impl OutlookAttention {
    pub(super) fn new(init: &Init<'_>, blocks: &Transformer) -> Self {
        let BlockSize { dim, qkv_bias, .. } = blocks.block;
        let heads = blocks.place.heads;
        Self {
            v: init.linear("v", dim, dim, qkv_bias),
            attn: init.linear("attn", dim, heads * AREA.pow(2), true),
            proj: init.linear("proj", dim, dim, true),
            heads,
            dropout: blocks.place.dropout,
        }
    }

    /// The weights of every window in f32, before dropout.
    ///
    /// # Shapes
    ///
    /// `[batch, rows, columns, dim]` to `[batch, windows * heads, area, area]`.
    fn weights(&self, map: Tensor<4>) -> Tensor<4> {
        let [batch, _, _, dim] = map.dims();
        let centres = avg_pool_ceil(map.permute([0, 3, 1, 2]), WINDOWS.stride);
        let scores = widened(linear(&self.attn, centres.permute([0, 2, 3, 1])));
        let [_, rows, columns, _] = scores.dims();
        let scores = scores.reshape([batch, rows * columns * self.heads, AREA, AREA]);
        let scale = ((dim / self.heads) as f64).powf(-0.5);
        knn_softmax(scores * scale, AREA)
    }
}

impl SelfAttention<4> for OutlookAttention {
    /// # Shapes
    ///
    /// `[batch, rows, columns, dim]` to the same shape.
    fn mix(&self, map: Tensor<4>, pass: Pass<'_>) -> Tensor<4> {
        let [batch, rows, columns, dim] = map.dims();
        let (heads, head_dim) = (self.heads, dim / self.heads);
        let values = unfold(linear(&self.v, map.clone()).permute([0, 3, 1, 2]), WINDOWS);
        let windows = values.dims()[2];
        // Windows are folded into the heads.
        let values = values.reshape([batch, heads, head_dim, AREA, windows]);
        let shape = [batch, windows * heads, AREA, head_dim];
        let values = permute_reshape(values, [0, 4, 1, 3, 2], shape);

        let weights = self.weights(map);
        let dropout = Dropout::in_phase(pass.phase, self.dropout);
        let weights = Dropout::apply_any(dropout, weights);
        let mixed = in_type(weights, values.dtype())
            .matmul(values)
            .reshape([batch, windows, heads, AREA, head_dim]);
        let mixed = permute_reshape(mixed, [0, 2, 4, 3, 1], [batch, dim * AREA, windows]);
        fold(mixed, [rows, columns], WINDOWS).permute([0, 2, 3, 1])
    }

    fn proj(&self) -> &Linear {
        &self.proj
    }
}
