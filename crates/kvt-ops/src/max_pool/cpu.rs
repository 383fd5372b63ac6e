//! Max pooling on the CPU.

use burn::backend::{Flex, TensorMetadata, tensor::FloatTensor};
use burn::tensor::{DType, Shape};
use pulp::Arch;
use rayon::prelude::*;

use super::{MaxPool, MaxPoolOps};
use crate::cpu::buffer::{par_build, tensor, values_of};
use crate::cpu::windows::Windows;

impl MaxPoolOps for Flex {
    fn max_pool(x: FloatTensor<Self>, settings: MaxPool) -> FloatTensor<Self> {
        if x.dtype() != DType::F32 {
            return super::forward::<Self>(x, settings);
        }
        let x = x.to_contiguous();
        let [batch, channels, height, width] = x.shape().dims();
        let windows = settings.windows([height, width]);
        let positions = windows.positions();
        let planes = values_of(&x).par_chunks(windows.pixels());
        let out = par_build(planes.len() * positions, positions, planes, |out, plane| {
            out.fill(f32::NEG_INFINITY);
            Arch::new().dispatch(|| {
                windows.for_each(|_, span| {
                    let row = &plane[span.input..span.input_end(windows.stride)];
                    let out = &mut out[span.output..span.output + span.len];
                    for (out, x) in out.iter_mut().zip(row.iter().step_by(windows.stride)) {
                        *out = if *x > *out || x.is_nan() { *x } else { *out };
                    }
                });
            });
        });
        let shape = Shape::new([batch, channels, windows.rows, windows.columns]);
        tensor(out, shape)
    }

    fn max_pool_backward(
        x: FloatTensor<Self>,
        out: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        settings: MaxPool,
    ) -> FloatTensor<Self> {
        if x.dtype() != DType::F32 {
            return super::backward::<Self>(x, grad, settings);
        }
        let [x, out, grad] = [x, out, grad].map(|x| x.to_contiguous());
        let [_, _, height, width] = x.shape().dims();
        let windows = settings.windows([height, width]);
        let (pixels, positions) = (windows.pixels(), windows.positions());
        let planes = values_of(&x)
            .par_chunks(pixels)
            .zip(values_of(&out).par_chunks(positions))
            .zip(values_of(&grad).par_chunks(positions));
        let len = x.shape().num_elements();
        let x_grad = par_build(len, pixels, planes, |x_grad, ((plane, largest), grad)| {
            // The gradient of a window, until it has found its pixel.
            let mut left = grad.to_vec();
            Arch::new().dispatch(|| {
                windows.for_each(|_, span| {
                    let pixels = span.input..span.input_end(windows.stride);
                    let places = span.output..span.output + span.len;
                    let pixels = x_grad[pixels.clone()]
                        .iter_mut()
                        .zip(&plane[pixels])
                        .step_by(windows.stride);
                    let positions = left[places.clone()].iter_mut().zip(&largest[places]);
                    for ((x_grad, x), (left, largest)) in pixels.zip(positions) {
                        let is_largest = x == largest || (x.is_nan() && largest.is_nan());
                        *x_grad += if is_largest { *left } else { 0.0 };
                        *left = if is_largest { 0.0 } else { *left };
                    }
                });
            });
        });
        tensor(x_grad, x.shape())
    }
}

impl MaxPool {
    fn windows(self, size: [usize; 2]) -> Windows {
        Windows::new(size, self.kernel, self.stride, self.padding)
    }
}
