//! Layer normalisation on the `flex` CPU backend.

use burn::backend::{Flex, TensorMetadata, ops::FloatTensorOps, tensor::FloatTensor};
use burn::tensor::{DType, FloatDType, Shape};
use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

use super::LayerNormOps;
use crate::ops::math::{dot, sum};

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
        let [x, gamma, beta] = [x, gamma, beta].map(widen);
        let shape = x.shape();
        let (width, part) = sizes(&shape);
        let empty = |shape: Shape| FloatTensor::<Self>::empty(shape, DType::F32);
        let (mut out, mut mean, mut inverse) = (
            empty(shape.clone()),
            empty(one_each(&shape)),
            empty(one_each(&shape)),
        );
        let parts = out.storage_mut::<f32>().par_chunks_mut(part * width);
        let means = mean.storage_mut::<f32>().par_chunks_mut(part);
        let inverses = inverse.storage_mut::<f32>().par_chunks_mut(part);
        let x = values_of(&x).par_chunks(part * width);
        parts
            .zip(x)
            .zip(means)
            .zip(inverses)
            .for_each(|(((out, x), mean), inverse)| {
                Arch::new().dispatch(Forward {
                    x,
                    gamma: values_of(&gamma),
                    beta: values_of(&beta),
                    epsilon: epsilon as f32,
                    out,
                    mean,
                    inverse,
                });
            });
        (narrow(out, dtype), mean, inverse)
    }

    fn normalize_backward(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        mean: FloatTensor<Self>,
        inverse: FloatTensor<Self>,
        grad: FloatTensor<Self>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        let dtype = x.dtype();
        let [x, gamma, mut grad] = [x, gamma, grad].map(widen);
        let shape = x.shape();
        let (width, part) = sizes(&shape);
        let mut out = FloatTensor::<Self>::empty(shape, DType::F32);
        let sums: Vec<[Vec<f32>; 2]> = out
            .storage_mut::<f32>()
            .par_chunks_mut(part * width)
            .zip(grad.storage_mut::<f32>().par_chunks_mut(part * width))
            .zip(values_of(&x).par_chunks(part * width))
            .zip(values_of(&mean).par_chunks(part))
            .zip(values_of(&inverse).par_chunks(part))
            .map(|((((out, grad), x), mean), inverse)| {
                Arch::new().dispatch(Backward {
                    x,
                    gamma: values_of(&gamma),
                    mean,
                    inverse,
                    grad,
                    out,
                })
            })
            .collect();
        let mut totals =
            [0, 1].map(|_| FloatTensor::<Self>::zeros(Shape::new([width]), DType::F32));
        for part in &sums {
            for (total, part) in totals.iter_mut().zip(part) {
                for (total, x) in total.storage_mut::<f32>().iter_mut().zip(part) {
                    *total += x;
                }
            }
        }
        let [gamma_grad, beta_grad] = totals.map(|total| narrow(total, dtype));
        (narrow(out, dtype), gamma_grad, beta_grad)
    }
}

struct Forward<'a> {
    x: &'a [f32],
    gamma: &'a [f32],
    beta: &'a [f32],
    epsilon: f32,
    out: &'a mut [f32],
    mean: &'a mut [f32],
    inverse: &'a mut [f32],
}

impl WithSimd for Forward<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let width = self.gamma.len();
        let share = 1.0 / width as f32;
        let rows = self
            .x
            .chunks_exact(width)
            .zip(self.out.chunks_exact_mut(width));
        let statistics = self.mean.iter_mut().zip(self.inverse);
        for ((x, out), (mean, inverse)) in rows.zip(statistics) {
            *mean = sum(simd, x) * share;
            for (out, x) in out.iter_mut().zip(x) {
                *out = x - *mean;
            }
            *inverse = 1.0 / (dot(simd, out, out) * share + self.epsilon).sqrt();
            for ((out, gamma), beta) in out.iter_mut().zip(self.gamma).zip(self.beta) {
                *out = *out * *inverse * gamma + beta;
            }
        }
    }
}

struct Backward<'a> {
    x: &'a [f32],
    gamma: &'a [f32],
    mean: &'a [f32],
    inverse: &'a [f32],
    /// The gradient of the output, used up.
    grad: &'a mut [f32],
    out: &'a mut [f32],
}

impl WithSimd for Backward<'_> {
    /// The gradients of gamma and beta.
    type Output = [Vec<f32>; 2];

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> Self::Output {
        let width = self.gamma.len();
        let share = 1.0 / width as f32;
        let (mut gamma_grad, mut beta_grad) = (vec![0.0; width], vec![0.0; width]);
        let rows = self
            .x
            .chunks_exact(width)
            .zip(self.out.chunks_exact_mut(width));
        let rows = rows.zip(self.grad.chunks_exact_mut(width));
        for (((x, out), grad), (&mean, &inverse)) in rows.zip(self.mean.iter().zip(self.inverse)) {
            for (out, x) in out.iter_mut().zip(x) {
                *out = (x - mean) * inverse;
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

/// The shape with one value per row.
fn one_each(shape: &Shape) -> Shape {
    let mut shape = shape.clone();
    let last = shape.num_dims() - 1;
    shape[last] = 1;
    shape
}

/// The values of a contiguous tensor.
fn values_of(tensor: &FloatTensor<Flex>) -> &[f32] {
    tensor.as_slice().unwrap_or(&[])
}

fn widen(x: FloatTensor<Flex>) -> FloatTensor<Flex> {
    match x.dtype() {
        DType::F32 => x,
        _ => Flex::float_cast(x, FloatDType::F32),
    }
    .to_contiguous()
}

fn narrow(x: FloatTensor<Flex>, dtype: DType) -> FloatTensor<Flex> {
    match dtype {
        DType::F32 => x,
        dtype => Flex::float_cast(x, dtype.into()),
    }
}
