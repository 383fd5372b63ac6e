//! The MLP in bf16. Every step is rounded as by itself.

use std::mem::MaybeUninit;
use std::ops::Range;

use burn::backend::{Flex, TensorMetadata, tensor::FloatTensor};
use burn::tensor::{DType, Element, Shape, bf16};
use rayon::prelude::*;

use super::super::Gradients;
use crate::contiguous::cpu::contiguous;
use crate::cpu::bf16::{
    Added, Kernel, Number, Right, Scratch, block_height, product_over_rows, rows_of_product,
};
use crate::cpu::buffer::{new_two, par_write_two, par_write_with, tensor, tensor_of, values_in};
use crate::cpu::gemm::Matrix;
use crate::cpu::layer::sum_of_rows;
use crate::gelu::{Gelu, gelu_and_gradient_bf16, gelu_bf16};
use crate::linear::cpu::prepared;

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

/// The gradients, those of the hidden values block by block; for a gradient of the output in bf16 or f32.
pub(super) fn backward(
    kernel: Kernel,
    x: Option<FloatTensor<Flex>>,
    weights: [FloatTensor<Flex>; 2],
    hidden: FloatTensor<Flex>,
    grad: FloatTensor<Flex>,
    of_second: bool,
    curve: Gelu,
) -> Gradients<Flex> {
    match grad.dtype() {
        DType::BF16 => backward_of::<bf16>(kernel, x, weights, hidden, grad, of_second, curve),
        _ => backward_of::<f32>(kernel, x, weights, hidden, grad, of_second, curve),
    }
}

fn backward_of<A: Number + Element>(
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
