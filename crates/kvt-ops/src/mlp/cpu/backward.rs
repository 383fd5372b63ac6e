//! The backward pass of the MLP in f32.

use burn::backend::{Flex, TensorMetadata, tensor::FloatTensor};
use burn::tensor::Shape;
use rayon::prelude::*;

use super::super::Gradients;
use crate::contiguous::cpu::contiguous;
use crate::cpu::buffer::{par_write_to, par_write_two, tensor, values_of};
use crate::cpu::gemm::Matrix;
use crate::cpu::layer::{Backward, Parts, Sums};
use crate::gelu::{Gelu, gelu_and_gradient, multiply_by_slope};

/// [`MlpOps`](super::super::MlpOps)'s gradients: those of the hidden values stay in the cache.
pub(super) fn backward(
    x: Option<FloatTensor<Flex>>,
    weights: [FloatTensor<Flex>; 2],
    hidden: FloatTensor<Flex>,
    grad: FloatTensor<Flex>,
    of_second: bool,
    curve: Gelu,
) -> Gradients<Flex> {
    let mut shape = grad.shape();
    let last = shape.num_dims() - 1;
    let [weight1, weight2] = weights.map(contiguous);
    let ([inputs, width], [_, outputs]) = (weight1.shape().dims(), weight2.shape().dims());
    shape[last] = inputs;
    let [hidden, grad] = [hidden, grad].map(contiguous);
    let x = x.map(contiguous);
    let rows = hidden.shape().num_elements() / width;
    let x = x
        .as_ref()
        .map(|x| Matrix::new(values_of(x), [rows, inputs], inputs));
    let grads = Matrix::new(values_of(&grad), [rows, outputs], outputs);
    let hidden = values_of(&hidden);
    let layer1 = Backward::new(
        rows,
        Matrix::new(values_of(&weight1), [inputs, width], width),
    );
    let layer2 = Backward::new(
        rows,
        Matrix::new(values_of(&weight2), [width, outputs], outputs),
    );
    let parts = Parts::new(rows, (inputs + outputs) * width);
    let (of_x, sums) = parts.each_block(inputs, |[sums1, sums2], out, rows| {
        let (count, grads) = (rows.len(), grads.rows(rows.clone()));
        let hidden = &hidden[rows.start * width..rows.end * width];
        let as_rows = |values| Matrix::new(values, [count, width], width);
        let blocks = layer2.blocks(count);
        let (part, no_scratch) = (blocks.height * width, || ());
        let hidden = hidden.par_chunks(part).enumerate();
        let mut of_hidden = Box::new_uninit_slice(count * width);
        let mut inner = Box::new_uninit_slice(if of_second { count * width } else { 0 });
        let of_hidden = if of_second {
            let (of_hidden, inner) = par_write_two(
                (&mut of_hidden[..], &mut inner[..]),
                [part; 2],
                hidden,
                no_scratch,
                |(), (out, inner), item| {
                    let (number, hidden) = item;
                    let grad = layer2.inputs_of(blocks, number, out, grads);
                    let inner = inner.write_copy_of_slice(hidden);
                    gelu_and_gradient(grad, inner, curve);
                    (grad, inner)
                },
            );
            sums2.add(parts.threads(), as_rows(inner), grads);
            of_hidden
        } else {
            par_write_to(&mut of_hidden, part, hidden, no_scratch, |(), out, item| {
                let (number, hidden) = item;
                let grad = layer2.inputs_of(blocks, number, out, grads);
                multiply_by_slope(grad, hidden, curve);
                grad
            })
        };
        let of_hidden = as_rows(of_hidden);
        if let Some(x) = x {
            sums1.add(parts.threads(), x.rows(rows), of_hidden);
        }
        layer1.inputs(out, of_hidden)
    });
    let of_x = tensor(of_x, shape);
    let [sums1, sums2] = sums;
    let of_layer = |is_asked: bool, sums: Sums, shape: [usize; 2]| {
        if !is_asked {
            return [None, None];
        }
        let [weight, bias] = sums.into_values(shape, false);
        let bias = tensor(bias, Shape::new([shape[1]]));
        [tensor(weight, Shape::new(shape)), bias].map(Some)
    };
    let [weight1, bias1] = of_layer(x.is_some(), sums1, [inputs, width]);
    let [weight2, bias2] = of_layer(of_second, sums2, [width, outputs]);
    (of_x, weight1, bias1, weight2, bias2)
}
