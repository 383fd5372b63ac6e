//! Linear layers on the CPU. Products of half types are summed in f32: bf16 with dedicated instructions if the CPU has
//! them, others widened.

use burn::backend::{Flex, TensorMetadata, tensor::FloatTensor};
use burn::tensor::{DType, FloatDType, Shape};
use pulp::Arch;
use rayon::prelude::*;

use super::{LinearOps, add_branch, bf16, burn_backward, burn_forward};
use crate::cast::{cast, to_f32};
use crate::contiguous::cpu::contiguous;
use crate::cpu::bf16::{Kernel, Number};
use crate::cpu::buffer::{par_write_with, tensor, values_of};
use crate::cpu::gemm::{Matrix, product, product_over_rows};
use crate::cpu::weight::Weight;
use crate::optional::Optional;

/// Parts of the sum over the rows: a constant, so that the result does not depend on the number of threads.
const PARTS: usize = 16;

impl LinearOps for Flex {
    fn affine(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        residual: Optional<Self>,
    ) -> FloatTensor<Self> {
        let (dtype, residual) = (x.dtype(), residual.get());
        let all_fit = [&x, &weight].into_iter().chain(&residual).all(fits_bf16);
        if dtype == DType::BF16 && all_fit {
            return bf16::affine(Kernel::detect(), [x, weight, bias], residual);
        }
        if dtype == DType::F64 || is_empty(&x) || is_empty(&weight) {
            return burn_forward::<Self>(x, weight, bias, residual);
        }
        let residual = match residual {
            // A product in a half type is rounded before it is added, as on other devices.
            Some(residual) if [dtype, residual.dtype()] != [DType::F32; 2] => {
                let branch = Self::affine(x, weight, bias, Optional::Missing);
                return add_branch::<Self>(residual, branch);
            }
            residual => residual.map(contiguous),
        };
        let [inputs, outputs] = weight.shape().dims();
        let [x, bias] = [x, bias].map(|tensor| prepared(tensor, dtype));
        let weight = Stored::new(weight, dtype);
        let mut shape = x.shape();
        let rows = shape.num_elements() / inputs;
        let last = shape.num_dims() - 1;
        shape[last] = outputs;
        let x = Matrix::new(values_of(&x), [rows, inputs], inputs);
        let weight = Weight::for_rows(rows, weight.matrix());
        let blocks = weight.blocks(rows, inputs.max(outputs));
        let (bias, block) = (values_of(&bias), blocks.height * outputs);
        let residual = residual.as_ref().map(values_of);
        let (len, numbers) = (rows * outputs, (0..blocks.count).into_par_iter());
        let out = par_write_with(
            len,
            block,
            numbers,
            || (),
            |(), out, number| {
                let rows = blocks.rows(number, rows);
                let range = rows.start * outputs..rows.end * outputs;
                let residual = residual.map(|residual| &residual[range]);
                weight.affine(blocks, out, x.rows(rows), bias, residual)
            },
        );
        cast::<Self>(tensor(out, shape), dtype)
    }

    fn affine_backward(
        x: Optional<Self>,
        weight: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        dtype: FloatDType,
        of_bias: bool,
    ) -> (
        FloatTensor<Self>,
        Option<FloatTensor<Self>>,
        Option<FloatTensor<Self>>,
    ) {
        let x = x.get();
        let all_fit = [&weight, &grad].into_iter().chain(&x).all(fits_bf16);
        if dtype == FloatDType::BF16 && all_fit {
            return bf16::backward(Kernel::detect(), x, [weight, grad], of_bias);
        }
        if dtype == FloatDType::F64 || is_empty(&grad) || is_empty(&weight) {
            return burn_backward::<Self>(x, weight, grad, dtype, of_bias);
        }
        let (dtype, own) = (DType::from(dtype), weight.dtype());
        let [inputs, outputs] = weight.shape().dims();
        let (weight, grad) = (Stored::new(weight, dtype), prepared(grad, dtype));
        let mut shape = grad.shape();
        let (rows, last) = (shape.num_elements() / outputs, shape.num_dims() - 1);
        shape[last] = inputs;
        let grads = Matrix::new(values_of(&grad), [rows, outputs], outputs);
        let in_dtype = |values, shape| cast::<Self>(tensor(values, shape), dtype);
        let of_weight = x.map(|x| {
            let x = prepared(x, dtype);
            let x = Matrix::new(values_of(&x), [rows, inputs], inputs);
            if weight.is_transposed {
                let sums = product_over_rows(grads, x);
                let sums = in_dtype(sums, Shape::new([outputs, inputs]));
                return cast::<Self>(sums, own).permute(&[1, 0]);
            }
            let sums = product_over_rows(x, grads);
            cast::<Self>(in_dtype(sums, Shape::new([inputs, outputs])), own)
        });
        let of_bias = of_bias.then(|| {
            let sum = sum_of_rows(values_of(&grad), outputs);
            cast::<Self>(in_dtype(sum, Shape::new([outputs])), own)
        });
        let of_x = product(grads, weight.matrix().t());
        (in_dtype(of_x, shape), of_weight, of_bias)
    }
}

/// Whether a tensor can be read in a product with bf16 numbers, and is not empty.
fn fits_bf16(x: &FloatTensor<Flex>) -> bool {
    matches!(x.dtype(), DType::F32 | DType::BF16) && !is_empty(x)
}

/// A weight in f32 as it is in memory: contiguous, or the transpose of a contiguous one, such as that of a convolution of pixels, which
/// is read as it is. Its gradient is then stored in the same way.
struct Stored {
    tensor: FloatTensor<Flex>,
    is_transposed: bool,
}

impl Stored {
    /// Of a weight `[inputs, outputs]`, rounded to a type.
    fn new(weight: FloatTensor<Flex>, dtype: DType) -> Self {
        let weight = to_f32::<Flex>(cast::<Flex>(weight, dtype));
        let turned = weight.permute(&[1, 0]);
        let is_transposed = turned.layout().is_contiguous() && !weight.layout().is_contiguous();
        let tensor = if is_transposed {
            turned
        } else {
            contiguous(weight)
        };
        Self {
            tensor,
            is_transposed,
        }
    }

    fn matrix(&self) -> Matrix<'_> {
        let [rows, columns] = self.tensor.shape().dims();
        let matrix = Matrix::new(values_of(&self.tensor), [rows, columns], columns);
        if self.is_transposed {
            matrix.t()
        } else {
            matrix
        }
    }
}

/// Rounded to a type, then contiguous in f32.
pub(crate) fn prepared(tensor: FloatTensor<Flex>, dtype: DType) -> FloatTensor<Flex> {
    contiguous(to_f32::<Flex>(cast::<Flex>(tensor, dtype)))
}

fn is_empty(tensor: &FloatTensor<Flex>) -> bool {
    tensor.shape().num_elements() == 0
}

/// The sum over the rows, `[width]`.
pub(super) fn sum_of_rows<T: Number>(values: &[T], width: usize) -> Vec<f32> {
    let rows = values.len() / width;
    let part = rows.div_ceil(PARTS).max(1) * width;
    let sums: Vec<Vec<f32>> = values
        .par_chunks(part)
        .map(|rows| {
            let mut sum = vec![0.0; width];
            Arch::new().dispatch(
                #[inline(always)]
                || rows.chunks_exact(width).for_each(|row| add(&mut sum, row)),
            );
            sum
        })
        .collect();
    let mut total = vec![0.0; width];
    for sum in sums {
        add(&mut total, &sum);
    }
    total
}

#[inline(always)]
fn add<T: Number>(sum: &mut [f32], row: &[T]) {
    for (sum, x) in sum.iter_mut().zip(row) {
        *sum += x.widened();
    }
}
