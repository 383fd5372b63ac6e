//! Linear layers on the CPU. Products of half types are summed in f32: bf16 with dedicated instructions if the CPU has
//! them, others widened.

use super::{LinearOps, add_branch, bf16, burn_backward, burn_forward};
use crate::cast::{cast, to_f32};
use crate::contiguous::cpu::contiguous;
use crate::cpu::bf16::Kernel;
use crate::cpu::buffer::{new_values, tensor, values_of};
use crate::cpu::gemm::Matrix;
use crate::cpu::layer::{Backward, Parts};
use crate::cpu::weight::Weight;
use crate::optional::Optional;
use burn::backend::{Flex, TensorMetadata, tensor::FloatTensor};
use burn::tensor::{DType, FloatDType, Shape};

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
        let residual = residual.as_ref().map(values_of);
        let added = (values_of(&bias), residual);
        let out = new_values(rows * outputs, |out| weight.all(blocks, out, x, added));
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
        let x = x.map(|x| prepared(x, dtype));
        let x = x
            .as_ref()
            .map(|x| Matrix::new(values_of(x), [rows, inputs], inputs));
        let parts = Parts::new(rows, inputs * outputs);
        let backward = Backward::new(rows, weight.matrix());
        let (of_x, [sums]) = parts.each_block(inputs, |[sums], out, rows| {
            let grads = grads.rows(rows.clone());
            let of_x = backward.inputs(out, grads);
            if let Some(x) = x {
                sums.add_weight(parts.threads(), x.rows(rows), grads);
            }
            if of_bias {
                sums.add_bias(grads);
            }
            of_x
        });
        let [of_weight, of_bias_values] = sums.into_values([inputs, outputs], weight.is_transposed);
        let of_weight = x.is_some().then(|| {
            if weight.is_transposed {
                let sums = in_dtype(of_weight, Shape::new([outputs, inputs]));
                return cast::<Self>(sums, own).permute(&[1, 0]);
            }
            cast::<Self>(in_dtype(of_weight, Shape::new([inputs, outputs])), own)
        });
        let of_bias =
            of_bias.then(|| cast::<Self>(in_dtype(of_bias_values, Shape::new([outputs])), own));
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
