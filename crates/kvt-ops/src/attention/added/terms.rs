//! Bias and mask in the composed attention.

use burn::backend::{Scalar, TensorMetadata, tensor::FloatTensor};
use burn::tensor::{Shape, Slice};

use super::Added;
use crate::cast::{cast, to_f32};
use crate::convert::ConvertOps;

impl<B: ConvertOps> Added<B> {
    /// Whether there is a bias.
    pub(in crate::attention) fn has_bias(&self) -> bool {
        self.bias().is_some()
    }

    /// The part for a range of queries.
    pub(in crate::attention) fn rows(&self, start: usize, end: usize) -> Self {
        let part = |shape: Shape| {
            let [batch, heads, queries, keys] = shape.dims();
            let queries = if queries > 1 { start..end } else { 0..1 };
            let all = |size: usize| Slice::from(0..size);
            [all(batch), all(heads), Slice::from(queries), all(keys)]
        };
        let (bias, mask) = self.clone().into_parts();
        Self::new(
            bias.map(|x| {
                let slices = part(x.shape());
                B::float_slice(x, &slices)
            }),
            mask.map(|x| {
                let slices = part(x.shape());
                B::bool_slice(x, &slices)
            }),
        )
    }

    /// Adds the bias to scores `[batch, heads, query, key]` and hides masked keys.
    pub(in crate::attention) fn add(&self, scores: FloatTensor<B>) -> FloatTensor<B> {
        let scores = match self.bias() {
            Some(bias) => {
                let shape = scores.shape();
                let [batch, heads, queries, keys] = bias.shape().dims();
                let spread = Shape::new([batch, 1, heads, queries, keys]);
                let bias = B::float_reshape(to_f32::<B>(bias), spread);
                let scores = B::float_reshape(scores, in_windows(&shape, heads));
                B::float_reshape(B::float_add(scores, bias), shape)
            }
            None => scores,
        };
        self.hide(scores, f32::NEG_INFINITY)
    }

    /// Replaces the scores of masked keys.
    pub(in crate::attention) fn hide(&self, scores: FloatTensor<B>, value: f32) -> FloatTensor<B> {
        let (_, Some(mask)) = self.clone().into_parts() else {
            return scores;
        };
        let shape = scores.shape();
        let [batch, windows, queries, keys] = mask.shape().dims();
        let heads = shape[1] / windows;
        let split = in_windows(&shape, heads);
        let mask = B::bool_reshape(mask, Shape::new([batch, windows, 1, queries, keys]));
        let mask = B::bool_expand(mask, split.clone());
        let scores = B::float_reshape(scores, split);
        let scores = B::float_mask_fill(scores, mask, Scalar::from(value));
        B::float_reshape(scores, shape)
    }

    /// The gradient of the bias in f32: the gradient of the scores, summed over the axes along which the bias was
    /// broadcast.
    pub(in crate::attention) fn bias_gradient(
        &self,
        d_scores: &FloatTensor<B>,
    ) -> Option<FloatTensor<B>> {
        let shape = self.bias()?.shape();
        let [batch, heads, queries, keys] = shape.dims();
        let split = in_windows(&d_scores.shape(), heads);
        let mut d_scores = B::float_reshape(d_scores.clone(), split);
        let axes = [(0, batch), (1, 1), (3, queries), (4, keys)];
        for (axis, size) in axes {
            if size == 1 && d_scores.shape()[axis] > 1 {
                d_scores = B::float_sum_dim(d_scores, axis);
            }
        }
        Some(B::float_reshape(d_scores, shape))
    }

    /// Joins the gradients of blocks of queries.
    pub(in crate::attention) fn join(&self, parts: Vec<FloatTensor<B>>) -> Option<FloatTensor<B>> {
        let bias = self.bias()?;
        let whole = if bias.shape()[2] > 1 {
            B::float_cat(parts, 2)
        } else {
            parts.into_iter().reduce(B::float_add)?
        };
        Some(cast::<B>(whole, bias.dtype()))
    }
}

/// The shape of the scores with separate axes for the windows and for the `heads` of a window.
fn in_windows(scores: &Shape, heads: usize) -> Shape {
    let [batch, all, queries, keys] = scores.dims();
    Shape::new([batch, all / heads, heads, queries, keys])
}
