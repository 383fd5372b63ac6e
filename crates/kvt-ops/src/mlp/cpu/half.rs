//! The MLP in bf16.

use burn::backend::{Flex, TensorMetadata, tensor::FloatTensor};
use burn::tensor::{DType, bf16};
use rayon::prelude::*;

use crate::contiguous::cpu::contiguous;
use crate::cpu::bf16::{Added, Kernel, Right, Scratch, block_height, rows_of_product};
use crate::cpu::buffer::{par_write_with, tensor_of, values_in, values_of};
use crate::cpu::gemm::Matrix;
use crate::gelu::exact_bf16;
use crate::linear::cpu::prepared;

/// In bf16, with a residual in f32. Weights are packed once for all blocks.
pub(super) fn in_bf16(
    kernel: Kernel,
    x: &FloatTensor<Flex>,
    layer1: [FloatTensor<Flex>; 2],
    layer2: [FloatTensor<Flex>; 2],
    residual: &FloatTensor<Flex>,
) -> FloatTensor<Flex> {
    let x = contiguous(x.clone());
    let prepare = |[weight, bias]: [FloatTensor<Flex>; 2]| {
        [weight.to_contiguous(), prepared(bias, DType::BF16)]
    };
    let [layer1, layer2] = [layer1, layer2].map(prepare);
    let [inputs, hidden] = layer1[0].shape().dims();
    let [_, outputs] = layer2[0].shape().dims();
    let [[weight1, bias1], [weight2, bias2]] =
        [&layer1, &layer2].map(|layer| layer.each_ref().map(values_of));
    let rows = residual.shape().num_elements() / outputs;
    let x = Matrix::new(values_in::<bf16>(&x), [rows, inputs], inputs);
    let weight1 = Right::new(kernel, Matrix::new(weight1, [inputs, hidden], hidden));
    let weight2 = Right::new(kernel, Matrix::new(weight2, [hidden, outputs], outputs));
    let height = block_height(Some(kernel), rows);
    let blocks = values_of(residual).par_chunks(height * outputs).enumerate();
    let scratch = || (Scratch::default(), Box::new_uninit_slice(height * hidden));
    let out = par_write_with(
        rows * outputs,
        height * outputs,
        blocks,
        scratch,
        |(scratch, middle), out, (number, residual)| {
            let start = number * height;
            let x = x.rows(start..start + out.len() / outputs);
            let middle = &mut middle[..x.shape()[0] * hidden];
            let added = Added {
                bias: Some(bias1),
                residual: None,
            };
            let middle = rows_of_product(kernel, x, &weight1, added, middle, scratch);
            exact_bf16(middle);
            let middle = Matrix::new(middle, [x.shape()[0], hidden], hidden);
            let added = Added {
                bias: Some(bias2),
                residual: Some(residual),
            };
            rows_of_product(kernel, middle, &weight2, added, out, scratch)
        },
    );
    tensor_of::<f32>(out, residual.shape())
}
