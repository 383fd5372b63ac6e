//! The MLP in bf16. Every step is rounded as by itself, and so are those of its backward pass.

use std::mem::MaybeUninit;
use std::ops::Range;

use burn::backend::{Flex, TensorMetadata, tensor::FloatTensor};
use burn::tensor::{DType, Element, Shape, bf16};
use rayon::prelude::*;

use crate::contiguous::cpu::contiguous;
use crate::cpu::bf16::{Added, Kernel, Number, Right, Scratch, block_height, rows_of_product};
use crate::cpu::buffer::{new_two, par_write_two, par_write_with, tensor_of, values_in};
use crate::cpu::gemm::Matrix;
use crate::gelu::{Gelu, gelu_bf16};
use crate::linear::cpu::prepared;
pub(super) use backward::backward;

mod backward;

/// An MLP with weights in f32, and a residual in f32 or none.
pub(super) struct InBf16 {
    kernel: Kernel,
    x: FloatTensor<Flex>,
    layers: [[FloatTensor<Flex>; 2]; 2],
    residual: Option<FloatTensor<Flex>>,
    curve: Gelu,
}

impl InBf16 {
    pub(super) fn new(
        kernel: Kernel,
        x: FloatTensor<Flex>,
        layers: [[FloatTensor<Flex>; 2]; 2],
        residual: Option<FloatTensor<Flex>>,
        curve: Gelu,
    ) -> Self {
        let prepare = |[weight, bias]: [_; 2]| [contiguous(weight), prepared(bias, DType::BF16)];
        Self {
            kernel,
            x: contiguous(x),
            layers: layers.map(prepare),
            residual: residual.map(contiguous),
            curve,
        }
    }

    /// The output.
    pub(super) fn forward(&self) -> FloatTensor<Flex> {
        let layers = self.prepare();
        match &self.residual {
            Some(residual) => self.output(layers.forward(Some(values_in::<f32>(residual)))),
            None => self.output(layers.forward::<bf16>(None)),
        }
    }

    /// The output, and the hidden values before the GELU.
    pub(super) fn forward_kept(&self) -> (FloatTensor<Flex>, FloatTensor<Flex>) {
        let layers = self.prepare();
        let (out, hidden) = match &self.residual {
            Some(residual) => {
                let (out, hidden) = layers.forward_kept(Some(values_in::<f32>(residual)));
                (self.output(out), hidden)
            }
            None => {
                let (out, hidden) = layers.forward_kept::<bf16>(None);
                (self.output(out), hidden)
            }
        };
        (out, tensor_of(hidden, self.shape(layers.hidden)))
    }

    fn output<T: Element>(&self, values: Vec<T>) -> FloatTensor<Flex> {
        let [_, [_, bias]] = &self.layers;
        tensor_of(values, self.shape(bias.shape().num_elements()))
    }

    fn shape(&self, width: usize) -> Shape {
        let mut shape = self.x.shape();
        let last = shape.num_dims() - 1;
        shape[last] = width;
        shape
    }

    /// With the weights packed once for all blocks.
    fn prepare(&self) -> Prepared<'_> {
        let [[weight1, bias1], [weight2, bias2]] = &self.layers;
        let [inputs, hidden] = weight1.shape().dims();
        let [_, outputs] = weight2.shape().dims();
        let rows = self.x.shape().num_elements() / inputs;
        let packed = |weight, [rows, columns]: [usize; 2]| {
            let matrix = Matrix::new(values_in::<f32>(weight), [rows, columns], columns);
            Right::new(self.kernel, matrix)
        };
        Prepared {
            kernel: self.kernel,
            curve: self.curve,
            x: Matrix::new(values_in(&self.x), [rows, inputs], inputs),
            weights: [
                packed(weight1, [inputs, hidden]),
                packed(weight2, [hidden, outputs]),
            ],
            biases: [bias1, bias2].map(values_in),
            height: block_height(Some(self.kernel), rows),
            rows,
            hidden,
            outputs,
        }
    }
}

/// The values of an MLP, and how its rows are divided.
struct Prepared<'a> {
    kernel: Kernel,
    curve: Gelu,
    x: Matrix<'a, bf16>,
    weights: [Right; 2],
    biases: [&'a [f32]; 2],
    /// Rows of a block.
    height: usize,
    rows: usize,
    hidden: usize,
    outputs: usize,
}

impl Prepared<'_> {
    fn forward<T: Number>(&self, residual: Option<&[T]>) -> Vec<T> {
        let (len, part) = (self.rows * self.outputs, self.height * self.outputs);
        let blocks = self.blocks();
        par_write_with(
            len,
            part,
            blocks,
            || self.buffers(),
            |buffers, out, rows| {
                let (scratch, inner) = buffers;
                let inner = &mut inner[..rows.len() * self.hidden];
                let inner = self.first(rows.clone(), inner, scratch);
                gelu_bf16(inner, self.curve);
                self.second(rows, out, inner, residual, scratch)
            },
        )
    }

    fn forward_kept<T: Number>(&self, residual: Option<&[T]>) -> (Vec<T>, Vec<bf16>) {
        let [lens, parts] = [self.rows, self.height]
            .map(|rows| [self.outputs, self.hidden].map(|width| rows * width));
        let blocks = self.blocks();
        new_two(lens, |places| {
            par_write_two(
                places,
                parts,
                blocks,
                || self.buffers(),
                |buffers, (out, hidden), rows| {
                    let (scratch, inner) = buffers;
                    let hidden = self.first(rows.clone(), hidden, scratch);
                    let inner = inner[..hidden.len()].write_copy_of_slice(hidden);
                    gelu_bf16(inner, self.curve);
                    (self.second(rows, out, inner, residual, scratch), hidden)
                },
            )
        })
    }

    /// The rows of each block.
    fn blocks(&self) -> impl IndexedParallelIterator<Item = Range<usize>> {
        let (rows, height) = (self.rows, self.height);
        let numbers = (0..rows.div_ceil(height)).into_par_iter();
        numbers.map(move |number| number * height..rows.min((number + 1) * height))
    }

    /// Buffers of a thread: for products, and for the hidden values of a block.
    fn buffers(&self) -> (Scratch, Box<[MaybeUninit<bf16>]>) {
        (
            Scratch::default(),
            Box::new_uninit_slice(self.height * self.hidden),
        )
    }

    /// The first layer's output for some rows.
    fn first<'o>(
        &self,
        rows: Range<usize>,
        out: &'o mut [MaybeUninit<bf16>],
        scratch: &mut Scratch,
    ) -> &'o mut [bf16] {
        let added = Added {
            bias: Some(self.biases[0]),
            residual: None,
        };
        let x = self.x.rows(rows);
        rows_of_product(self.kernel, x, &self.weights[0], added, out, scratch)
    }

    /// The second layer's output for some rows.
    fn second<'o, T: Number>(
        &self,
        rows: Range<usize>,
        out: &'o mut [MaybeUninit<T>],
        inner: &[bf16],
        residual: Option<&[T]>,
        scratch: &mut Scratch,
    ) -> &'o mut [T] {
        let inner = Matrix::new(inner, [rows.len(), self.hidden], self.hidden);
        let range = rows.start * self.outputs..rows.end * self.outputs;
        let added = Added {
            bias: Some(self.biases[1]),
            residual: residual.map(|residual| &residual[range]),
        };
        rows_of_product(self.kernel, inner, &self.weights[1], added, out, scratch)
    }
}
