//! The MLP on the CPU: blocks of rows on all threads, each through both layers.

use std::mem::MaybeUninit;
use std::ops::Range;

use burn::backend::{Flex, TensorMetadata, tensor::FloatTensor};
use burn::tensor::{DType, Shape, bf16};
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
use half::InBf16;

mod backward;
mod half;

/// How an MLP is computed.
enum Way {
    F32,
    Bf16(Kernel),
    /// As operations one after the other.
    Steps,
}

impl Way {
    /// That for the type of x, or of the hidden values, where all others are in f32.
    fn of<'a>(
        x: &FloatTensor<Flex>,
        mut others: impl Iterator<Item = &'a FloatTensor<Flex>>,
    ) -> Self {
        let is_empty = |x: &FloatTensor<Flex>| x.shape().num_elements() == 0;
        let fit = |x: &FloatTensor<Flex>| x.dtype() == DType::F32 && !is_empty(x);
        if is_empty(x) || !others.all(fit) {
            return Self::Steps;
        }
        match (x.dtype(), Kernel::detect()) {
            (DType::F32, _) => Self::F32,
            (DType::BF16, Some(kernel)) => Self::Bf16(kernel),
            _ => Self::Steps,
        }
    }
}

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
        let layers = [[weight1, bias1], [weight2, bias2]];
        match Way::of(&x, layers.as_flattened().iter().chain(&residual)) {
            Way::F32 => InF32::new(x, layers, residual, curve).forward(),
            Way::Bf16(kernel) => InBf16::new(kernel, x, layers, residual, curve).forward(),
            Way::Steps => composed::<Self>(x, layers, Optional::of(residual), curve).0,
        }
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
        let layers = [[weight1, bias1], [weight2, bias2]];
        match Way::of(&x, layers.as_flattened().iter().chain(&residual)) {
            Way::F32 => InF32::new(x, layers, residual, curve).forward_kept(),
            Way::Bf16(kernel) => InBf16::new(kernel, x, layers, residual, curve).forward_kept(),
            Way::Steps => composed::<Self>(x, layers, Optional::of(residual), curve),
        }
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
        let (x, weights) = (x.get(), [weight1, weight2]);
        match Way::of(&hidden, weights.iter()) {
            Way::F32 => backward(x, weights, hidden, grad, of_second, curve),
            Way::Bf16(kernel) => {
                let backward = match grad.dtype() {
                    DType::BF16 => half::backward::<bf16>,
                    _ => half::backward::<f32>,
                };
                backward(kernel, x, weights, hidden, grad, of_second, curve)
            }
            Way::Steps => composed_backward::<Self>(x, weights, hidden, grad, of_second, curve),
        }
    }
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
        layers: [[FloatTensor<Flex>; 2]; 2],
        residual: Option<FloatTensor<Flex>>,
        curve: Gelu,
    ) -> Self {
        Self {
            x: contiguous(x),
            layers: layers.map(|layer| layer.map(contiguous)),
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
        let (out, hidden) = new_two(
            [outputs, width].map(|width| layers.rows * width),
            |places| {
                let numbers = layers.numbers();
                par_write_two(
                    places,
                    parts,
                    numbers,
                    no_scratch,
                    |(), (out, hidden), number| {
                        let hidden = layers.first(number, hidden);
                        let mut inner = Box::new_uninit_slice(hidden.len());
                        let inner = inner.write_copy_of_slice(hidden);
                        gelu_in_place(inner, self.curve);
                        (layers.second(number, out, inner), hidden)
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
