//! The backward pass of the MLP in bf16.

use burn::backend::{Flex, TensorMetadata, tensor::FloatTensor};
use burn::tensor::{Element, Shape, bf16};
use rayon::prelude::*;

use crate::contiguous::cpu::contiguous;
use crate::cpu::bf16::{
    Added, Kernel, Number, Right, Scratch, block_height, product_over_rows, rows_of_product,
};
use crate::cpu::buffer::{new_two, par_write_two, tensor, tensor_of, values_in};
use crate::cpu::gemm::Matrix;
use crate::cpu::layer::sum_of_rows;
use crate::gelu::{Gelu, gelu_and_gradient_bf16};
use crate::mlp::Gradients;

/// The gradients, those of the hidden values block by block; for a gradient of the output in the type `A`.
pub(in crate::mlp) fn backward<A: Number + Element>(
    kernel: Kernel,
    x: Option<FloatTensor<Flex>>,
    weights: [FloatTensor<Flex>; 2],
    hidden: FloatTensor<Flex>,
    grad: FloatTensor<Flex>,
    of_second: bool,
    curve: Gelu,
) -> Gradients<Flex> {
    let mut shape = grad.shape();
    let last = shape.num_dims() - 1;
    let ([weight1, weight2], x) = (weights.map(contiguous), x.map(contiguous));
    let [mut hidden, grad] = [hidden, grad].map(contiguous);
    let ([inputs, width], [_, outputs]) = (weight1.shape().dims(), weight2.shape().dims());
    shape[last] = inputs;
    let rows = hidden.shape().num_elements() / width;
    let grads = Matrix::new(values_in::<A>(&grad), [rows, outputs], outputs);
    let turned = |weight, [rows, columns]: [usize; 2]| {
        let matrix = Matrix::new(values_in::<f32>(weight), [rows, columns], columns);
        Right::new(kernel, matrix.t())
    };
    let turned1 = turned(&weight1, [inputs, width]);
    let turned2 = turned(&weight2, [width, outputs]);
    let height = block_height(Some(kernel), rows);
    let parts = [height * inputs, height * width];
    // What is kept becomes its GELU.
    let values = hidden.storage_mut::<bf16>().par_chunks_mut(parts[1]);
    let (of_x, of_hidden): (Vec<bf16>, Vec<bf16>) =
        new_two([rows * inputs, rows * width], |places| {
            par_write_two(
                places,
                parts,
                values.enumerate(),
                Scratch::default,
                |scratch, (of_x, of_hidden), (number, inner)| {
                    let (start, count) = (number * height, inner.len() / width);
                    let grads = grads.rows(start..start + count);
                    let nothing = Added::nothing();
                    let of_hidden =
                        rows_of_product(kernel, grads, &turned2, nothing, of_hidden, scratch);
                    gelu_and_gradient_bf16(of_hidden, inner, curve);
                    let grads = Matrix::new(of_hidden, [count, width], width);
                    let nothing = Added::nothing();
                    (
                        rows_of_product(kernel, grads, &turned1, nothing, of_x, scratch),
                        of_hidden,
                    )
                },
            )
        });
    let of_hidden = Matrix::new(&of_hidden, [rows, width], width);
    let [weight1, bias1] = match &x {
        Some(x) => of_layer(
            kernel,
            Matrix::new(values_in(x), [rows, inputs], inputs),
            of_hidden,
        ),
        None => [None, None],
    };
    let [weight2, bias2] = if of_second {
        of_layer(
            kernel,
            Matrix::new(values_in(&hidden), [rows, width], width),
            grads,
        )
    } else {
        [None, None]
    };
    (tensor_of(of_x, shape), weight1, bias1, weight2, bias2)
}

/// The gradients of a layer's weight and bias.
fn of_layer<A: Number>(
    kernel: Kernel,
    x: Matrix<'_, bf16>,
    grads: Matrix<'_, A>,
) -> [Option<FloatTensor<Flex>>; 2] {
    let ([_, inputs], [_, outputs]) = (x.shape(), grads.shape());
    let weight = product_over_rows(Some(kernel), x, grads);
    let bias = sum_of_rows(grads.values(), outputs);
    let (of_weight, of_bias) = (Shape::new([inputs, outputs]), Shape::new([outputs]));
    [tensor(weight, of_weight), tensor(bias, of_bias)].map(Some)
}
