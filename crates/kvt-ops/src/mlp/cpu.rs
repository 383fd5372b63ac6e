//! The MLP on the CPU: blocks of rows on all threads, each through both layers.

use std::mem::MaybeUninit;
use std::ops::Range;

use burn::backend::{Flex, TensorMetadata, tensor::FloatTensor};
use burn::tensor::{DType, Shape};
use rayon::prelude::*;

use super::{Gradients, MlpOps, composed, composed_backward};
use crate::contiguous::cpu::contiguous;
use crate::cpu::bf16::Kernel;
use crate::cpu::buffer::{new_two, new_values, par_write_to, par_write_two, tensor, values_of};
use crate::cpu::gemm::Matrix;
use crate::cpu::weight::{Blocks, Weight};
use crate::gelu::{Gelu, gelu_in_place};
use crate::optional::Optional;
use backward::backward;
use half::in_bf16;

mod backward;
mod half;

impl MlpOps for Flex {
    fn gelu_mlp(
        x: FloatTensor<Self>,
        weight1: FloatTensor<Self>,
        bias1: FloatTensor<Self>,
        weight2: FloatTensor<Self>,
        bias2: FloatTensor<Self>,
        residual: Optional<Self>,
        curve: Gelu,
    ) -> FloatTensor<Self> {
        let residual = residual.get();
        let (layer1, layer2) = ([weight1, bias1], [weight2, bias2]);
        let all = [&x, &layer1[0], &layer1[1], &layer2[0], &layer2[1]];
        let others_are_f32 = are_f32(all.into_iter().skip(1).chain(&residual));
        match (Kernel::detect(), &residual, curve) {
            _ if is_empty(all) => {}
            _ if others_are_f32 && x.dtype() == DType::F32 => {
                return InF32::new(x, layer1, layer2, residual, curve).forward();
            }
            (Some(kernel), Some(residual), Gelu::Exact)
                if others_are_f32 && x.dtype() == DType::BF16 =>
            {
                return in_bf16(kernel, &x, layer1, layer2, &residual.to_contiguous());
            }
            _ => {}
        }
        composed::<Self>(x, layer1, layer2, Optional::of(residual), curve).0
    }

    fn gelu_mlp_kept(
        x: FloatTensor<Self>,
        weight1: FloatTensor<Self>,
        bias1: FloatTensor<Self>,
        weight2: FloatTensor<Self>,
        bias2: FloatTensor<Self>,
        residual: Optional<Self>,
        curve: Gelu,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let residual = residual.get();
        let (layer1, layer2) = ([weight1, bias1], [weight2, bias2]);
        let all = [&x, &layer1[0], &layer1[1], &layer2[0], &layer2[1]];
        if is_empty(all) || !are_f32(all.into_iter().chain(&residual)) {
            return composed::<Self>(x, layer1, layer2, Optional::of(residual), curve);
        }
        InF32::new(x, layer1, layer2, residual, curve).forward_kept()
    }

    fn gelu_mlp_backward(
        x: Optional<Self>,
        weight1: FloatTensor<Self>,
        hidden: FloatTensor<Self>,
        weight2: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        of_second: bool,
        curve: Gelu,
    ) -> Gradients<Self> {
        let x = x.get();
        let all = [&weight1, &hidden, &weight2, &grad];
        if is_empty(all) || !are_f32(all.into_iter().chain(&x)) {
            return composed_backward::<Self>(
                x,
                [weight1, weight2],
                hidden,
                grad,
                of_second,
                curve,
            );
        }
        backward(x, [weight1, weight2], hidden, grad, of_second, curve)
    }
}

fn is_empty<const N: usize>(tensors: [&FloatTensor<Flex>; N]) -> bool {
    tensors.iter().any(|x| x.shape().num_elements() == 0)
}

fn are_f32<'a>(mut tensors: impl Iterator<Item = &'a FloatTensor<Flex>>) -> bool {
    tensors.all(|x| x.dtype() == DType::F32)
}

/// An MLP in f32: the hidden values of a block stay in the cache of the core that makes them.
struct InF32 {
    x: FloatTensor<Flex>,
    layers: [[FloatTensor<Flex>; 2]; 2],
    residual: Option<FloatTensor<Flex>>,
    curve: Gelu,
}

impl InF32 {
    fn new(
        x: FloatTensor<Flex>,
        layer1: [FloatTensor<Flex>; 2],
        layer2: [FloatTensor<Flex>; 2],
        residual: Option<FloatTensor<Flex>>,
        curve: Gelu,
    ) -> Self {
        Self {
            x: contiguous(x),
            layers: [layer1, layer2].map(|layer| layer.map(contiguous)),
            residual: residual.map(contiguous),
            curve,
        }
    }

    /// The output.
    fn forward(&self) -> FloatTensor<Flex> {
        let layers = self.prepare();
        let (part, no_scratch) = (layers.blocks.height * layers.outputs, || ());
        let out = new_values(layers.rows * layers.outputs, |out| {
            par_write_to(
                out,
                part,
                layers.numbers(),
                no_scratch,
                |(), out, number| {
                    let mut inner =
                        Box::new_uninit_slice(layers.rows(number).len() * layers.hidden);
                    let inner = layers.first(number, &mut inner);
                    gelu_in_place(inner, self.curve);
                    layers.second(number, out, inner)
                },
            )
        });
        tensor(out, self.shape(layers.outputs))
    }

    /// The output, and the hidden values before the GELU.
    fn forward_kept(&self) -> (FloatTensor<Flex>, FloatTensor<Flex>) {
        let layers = self.prepare();
        let (outputs, width) = (layers.outputs, layers.hidden);
        let (parts, no_scratch) = (
            [outputs, width].map(|width| layers.blocks.height * width),
            || (),
        );
        let [out, hidden] = new_two(
            [outputs, width].map(|width| layers.rows * width),
            |places| {
                let numbers = layers.numbers();
                par_write_two(
                    places,
                    parts,
                    numbers,
                    no_scratch,
                    |(), [out, hidden], number| {
                        let hidden = layers.first(number, hidden);
                        let mut inner = Box::new_uninit_slice(hidden.len());
                        let inner = inner.write_copy_of_slice(hidden);
                        gelu_in_place(inner, self.curve);
                        [layers.second(number, out, inner), hidden]
                    },
                )
            },
        );
        let [out, hidden] = [(out, outputs), (hidden, width)]
            .map(|(values, width)| tensor(values, self.shape(width)));
        (out, hidden)
    }

    fn shape(&self, width: usize) -> Shape {
        let mut shape = self.x.shape();
        let last = shape.num_dims() - 1;
        shape[last] = width;
        shape
    }

    fn prepare(&self) -> Prepared<'_> {
        let [[weight1, bias1], [weight2, bias2]] = &self.layers;
        let [inputs, hidden] = weight1.shape().dims();
        let [_, outputs] = weight2.shape().dims();
        let rows = self.x.shape().num_elements() / inputs;
        let packed = |weight, shape: [usize; 2]| {
            Weight::for_rows(rows, Matrix::new(values_of(weight), shape, shape[1]))
        };
        let weights = [
            packed(weight1, [inputs, hidden]),
            packed(weight2, [hidden, outputs]),
        ];
        Prepared {
            blocks: weights[0].blocks(rows, inputs.max(hidden).max(outputs)),
            x: Matrix::new(values_of(&self.x), [rows, inputs], inputs),
            weights,
            biases: [bias1, bias2].map(values_of),
            residual: self.residual.as_ref().map(values_of),
            rows,
            hidden,
            outputs,
        }
    }
}

/// The values of an MLP, and how its rows are divided.
struct Prepared<'a> {
    x: Matrix<'a>,
    weights: [Weight<'a>; 2],
    biases: [&'a [f32]; 2],
    residual: Option<&'a [f32]>,
    blocks: Blocks,
    rows: usize,
    hidden: usize,
    outputs: usize,
}

impl Prepared<'_> {
    /// The numbers of the blocks.
    fn numbers(&self) -> impl IndexedParallelIterator<Item = usize> {
        (0..self.blocks.count).into_par_iter()
    }

    /// The rows of a block.
    fn rows(&self, number: usize) -> Range<usize> {
        self.blocks.rows(number, self.rows)
    }

    /// The first layer's output for the rows of a block.
    fn first<'o>(&self, number: usize, out: &'o mut [MaybeUninit<f32>]) -> &'o mut [f32] {
        let x = self.x.rows(self.rows(number));
        self.weights[0].affine(self.blocks, out, x, self.biases[0], None)
    }

    /// The second layer's output for the rows of a block.
    fn second<'o>(
        &self,
        number: usize,
        out: &'o mut [MaybeUninit<f32>],
        inner: &[f32],
    ) -> &'o mut [f32] {
        let rows = self.rows(number);
        let inner = Matrix::new(inner, [rows.len(), self.hidden], self.hidden);
        let range = rows.start * self.outputs..rows.end * self.outputs;
        let residual = self.residual.map(|residual| &residual[range]);
        self.weights[1].affine(self.blocks, out, inner, self.biases[1], residual)
    }
}
