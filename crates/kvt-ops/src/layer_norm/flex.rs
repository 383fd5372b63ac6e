//! Layer normalisation on the `flex` CPU backend.

use burn::backend::{Flex, TensorMetadata, tensor::FloatTensor};
use burn::tensor::{DType, Shape};
use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

use super::{LayerNormOps, one_each};
use crate::buffer::{changed_copy, tensor, values_of};
use crate::math::{dot, sum};
use crate::{narrow, widen};

/// Parts of the sums over the rows: a constant, so that they do not depend on the number of threads.
const PARTS: usize = 16;

impl LayerNormOps for Flex {
    fn normalize(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        epsilon: f64,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        let dtype = x.dtype();
        let [x, gamma, beta] = [x, gamma, beta].map(|x| widen::<Self>(x).to_contiguous());
        let shape = x.shape();
        let (width, part) = sizes(&shape);
        let empty = || FloatTensor::<Self>::empty(one_each(&shape), DType::F32);
        let (mut mean, mut inverse) = (empty(), empty());
        let means = mean.storage_mut::<f32>().par_chunks_mut(part);
        let inverses = inverse.storage_mut::<f32>().par_chunks_mut(part);
        let out = changed_copy(
            values_of(&x),
            part * width,
            means.zip(inverses),
            |out, (mean, inverse)| {
                Arch::new().dispatch(Forward {
                    out,
                    gamma: values_of(&gamma),
                    beta: values_of(&beta),
                    epsilon: epsilon as f32,
                    mean,
                    inverse,
                });
            },
        );
        (narrow::<Self>(tensor(out, shape), dtype), mean, inverse)
    }

    fn normalize_backward(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        mean: FloatTensor<Self>,
        inverse: FloatTensor<Self>,
        grad: FloatTensor<Self>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        let dtype = x.dtype();
        let [x, gamma, mut grad] = [x, gamma, grad].map(|x| widen::<Self>(x).to_contiguous());
        let shape = x.shape();
        let (width, part) = sizes(&shape);
        let mut sums = vec![[Vec::new(), Vec::new()]; PARTS];
        let others = sums
            .par_iter_mut()
            .zip(grad.storage_mut::<f32>().par_chunks_mut(part * width))
            .zip(values_of(&mean).par_chunks(part))
            .zip(values_of(&inverse).par_chunks(part));
        let out = changed_copy(
            values_of(&x),
            part * width,
            others,
            |out, (((sum, grad), mean), inverse)| {
                *sum = Arch::new().dispatch(Backward {
                    out,
                    gamma: values_of(&gamma),
                    mean,
                    inverse,
                    grad,
                });
            },
        );
        let mut totals =
            [0, 1].map(|_| FloatTensor::<Self>::zeros(Shape::new([width]), DType::F32));
        for part in &sums {
            for (total, part) in totals.iter_mut().zip(part) {
                for (total, x) in total.storage_mut::<f32>().iter_mut().zip(part) {
                    *total += x;
                }
            }
        }
        let [gamma_grad, beta_grad] = totals.map(|total| narrow::<Self>(total, dtype));
        (
            narrow::<Self>(tensor(out, shape), dtype),
            gamma_grad,
            beta_grad,
        )
    }
}

struct Forward<'a> {
    /// The input, and then the output.
    out: &'a mut [f32],
    gamma: &'a [f32],
    beta: &'a [f32],
    epsilon: f32,
    mean: &'a mut [f32],
    inverse: &'a mut [f32],
}

impl WithSimd for Forward<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let width = self.gamma.len();
        let share = 1.0 / width as f32;
        let rows = self.out.chunks_exact_mut(width);
        for (out, (mean, inverse)) in rows.zip(self.mean.iter_mut().zip(self.inverse)) {
            *mean = sum(simd, out) * share;
            for x in out.iter_mut() {
                *x -= *mean;
            }
            *inverse = 1.0 / (dot(simd, out, out) * share + self.epsilon).sqrt();
            for ((out, gamma), beta) in out.iter_mut().zip(self.gamma).zip(self.beta) {
                *out = *out * *inverse * gamma + beta;
            }
        }
    }
}

struct Backward<'a> {
    /// The input, and then its gradient.
    out: &'a mut [f32],
    gamma: &'a [f32],
    mean: &'a [f32],
    inverse: &'a [f32],
    /// The gradient of the output, used up.
    grad: &'a mut [f32],
}

impl WithSimd for Backward<'_> {
    /// The gradients of gamma and beta.
    type Output = [Vec<f32>; 2];

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> Self::Output {
        let width = self.gamma.len();
        let share = 1.0 / width as f32;
        let (mut gamma_grad, mut beta_grad) = (vec![0.0; width], vec![0.0; width]);
        let rows = self.out.chunks_exact_mut(width);
        let rows = rows.zip(self.grad.chunks_exact_mut(width));
        for ((out, grad), (&mean, &inverse)) in rows.zip(self.mean.iter().zip(self.inverse)) {
            for x in out.iter_mut() {
                *x = (*x - mean) * inverse;
            }
            let sums = gamma_grad.iter_mut().zip(beta_grad.iter_mut());
            let scaled = grad.iter_mut().zip(self.gamma);
            for (((gamma_sum, beta_sum), (grad, gamma)), normal) in sums.zip(scaled).zip(out.iter())
            {
                *gamma_sum += *grad * normal;
                *beta_sum += *grad;
                *grad *= gamma;
            }
            let shift = sum(simd, grad) * share;
            let along = dot(simd, grad, out) * share;
            for (out, grad) in out.iter_mut().zip(grad) {
                *out = (*grad - shift - *out * along) * inverse;
            }
        }
        [gamma_grad, beta_grad]
    }
}

/// Width of a row, and rows of a part.
fn sizes(shape: &Shape) -> (usize, usize) {
    let width = shape[shape.num_dims() - 1].max(1);
    let rows = shape.num_elements() / width;
    (width, rows.div_ceil(PARTS).max(1))
}
