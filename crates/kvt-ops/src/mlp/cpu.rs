//! The MLP on the CPU, without autodiff: blocks of rows on all threads, each through both layers.

use burn::backend::{Flex, TensorMetadata, tensor::FloatTensor};
use burn::tensor::{DType, bf16};
use rayon::prelude::*;

use super::{MlpOps, composed};
use crate::contiguous::cpu::contiguous;
use crate::cpu::bf16::{Added, Kernel, Right, Scratch, block_height, rows_of_product};
use crate::cpu::buffer::{par_write_with, tensor, tensor_of, values_in, values_of};
use crate::cpu::gemm::Matrix;
use crate::cpu::weight::Weight;
use crate::gelu::{Curve, exact_bf16, gelu_in_place};
use crate::linear::cpu::prepared;

impl MlpOps for Flex {
    fn gelu_mlp(
        x: FloatTensor<Self>,
        weight1: FloatTensor<Self>,
        bias1: FloatTensor<Self>,
        weight2: FloatTensor<Self>,
        bias2: FloatTensor<Self>,
        residual: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        let (layer1, layer2) = ([weight1, bias1], [weight2, bias2]);
        let all = [
            &x, &layer1[0], &layer1[1], &layer2[0], &layer2[1], &residual,
        ];
        let is_empty = all.iter().any(|x| x.shape().num_elements() == 0);
        let are = |dtype: DType| all.iter().all(|x| x.dtype() == dtype);
        let others_are_f32 = all[1..].iter().all(|x| x.dtype() == DType::F32);
        match Kernel::detect() {
            _ if is_empty => composed::<Self>(x, layer1, layer2, residual),
            _ if are(DType::F32) => in_f32(&x, layer1, layer2, &residual.to_contiguous()),
            Some(kernel) if x.dtype() == DType::BF16 && others_are_f32 => {
                in_bf16(kernel, &x, layer1, layer2, &residual.to_contiguous())
            }
            _ => composed::<Self>(x, layer1, layer2, residual),
        }
    }
}

/// In f32: the hidden values of a block stay in the cache of the core that makes them.
fn in_f32(
    x: &FloatTensor<Flex>,
    layer1: [FloatTensor<Flex>; 2],
    layer2: [FloatTensor<Flex>; 2],
    residual: &FloatTensor<Flex>,
) -> FloatTensor<Flex> {
    let x = contiguous(x.clone());
    let [layer1, layer2] = [layer1, layer2].map(|layer| layer.map(contiguous));
    let ([weight1, bias1], inputs, hidden) = in_f32_layer(&layer1);
    let ([weight2, bias2], _, outputs) = in_f32_layer(&layer2);
    let rows = residual.shape().num_elements() / outputs;
    let x = Matrix::new(values_of(&x), [rows, inputs], inputs);
    let weight1 = Matrix::new(weight1, [inputs, hidden], hidden);
    let weight1 = Weight::for_rows(rows, weight1);
    let weight2 = Matrix::new(weight2, [hidden, outputs], outputs);
    let weight2 = Weight::for_rows(rows, weight2);
    let blocks = weight1.blocks(rows, inputs.max(hidden).max(outputs));
    let (values, block) = (values_of(residual), blocks.height * outputs);
    let numbers = (0..blocks.count).into_par_iter();
    let len = rows * outputs;
    let out = par_write_with(
        len,
        block,
        numbers,
        || (),
        |(), out, number| {
            let rows = blocks.rows(number, rows);
            let values = &values[rows.start * outputs..rows.end * outputs];
            let x = x.rows(rows.clone());
            let mut middle = Box::new_uninit_slice(rows.len() * hidden);
            let middle = weight1.affine(blocks, &mut middle, x, bias1, None);
            gelu_in_place(middle, Curve::Exact);
            let middle = Matrix::new(middle, [rows.len(), hidden], hidden);
            weight2.affine(blocks, out, middle, bias2, Some(values))
        },
    );
    tensor(out, residual.shape())
}

/// Weight and bias of a contiguous layer, and its inputs and outputs.
fn in_f32_layer(layer: &[FloatTensor<Flex>; 2]) -> ([&[f32]; 2], usize, usize) {
    let [inputs, outputs] = layer[0].shape().dims();
    (layer.each_ref().map(values_of), inputs, outputs)
}

/// In bf16, with a residual in f32. Weights are packed once for all blocks.
fn in_bf16(
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
    let ([weight1, bias1], inputs, hidden) = in_f32_layer(&layer1);
    let ([weight2, bias2], _, outputs) = in_f32_layer(&layer2);
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
