//! Linear layers of bf16 activations on the CPU. Weights, residuals and gradients are bf16 or f32, and rounded to bf16
//! for a product; sums are f32.

use burn::backend::{Flex, TensorMetadata, tensor::FloatTensor};
use burn::tensor::{DType, Shape, bf16};

use super::cpu::prepared;
use crate::cast::cast;
use crate::cpu::bf16::{Added, Kernel, product, product_over_rows};
use crate::cpu::buffer::{tensor_of, values_in};
use crate::cpu::gemm::Matrix;
use crate::cpu::layer::sum_of_rows;

/// Runs `$body` with the values of a contiguous tensor in their type, bf16 or f32.
macro_rules! in_its_type {
    ($tensor:expr, $values:ident => $body:expr) => {
        if $tensor.dtype() == DType::BF16 {
            let $values: &[bf16] = values_in($tensor);
            $body
        } else {
            let $values: &[f32] = values_in($tensor);
            $body
        }
    };
}

/// `x W + b` in bf16, or `r + x W + b` in the type of r.
pub(super) fn affine(
    kernel: Option<Kernel>,
    [x, weight, bias]: [FloatTensor<Flex>; 3],
    residual: Option<FloatTensor<Flex>>,
) -> FloatTensor<Flex> {
    // The caller waits for the thread pool once, not in every loop.
    rayon::scope(|_| {
        let [x, weight] = [x, weight].map(|tensor| tensor.to_contiguous());
        let bias = prepared(bias, DType::BF16);
        let [inputs, outputs] = weight.shape().dims();
        let mut shape = x.shape();
        let rows = shape.num_elements() / inputs;
        let last = shape.num_dims() - 1;
        shape[last] = outputs;
        let x = Matrix::new(values_in::<bf16>(&x), [rows, inputs], inputs);
        let bias = Some(values_in(&bias));
        in_its_type!(&weight, weight => {
            let weight = Matrix::new(weight, [inputs, outputs], outputs);
            match residual {
                None => {
                    let added = Added { bias, residual: None };
                    tensor_of::<bf16>(product(kernel, x, weight, added), shape)
                }
                Some(residual) => {
                    let residual = residual.to_contiguous();
                    in_its_type!(&residual, residual => {
                        let residual = Some(residual);
                        tensor_of(product(kernel, x, weight, Added { bias, residual }), shape)
                    })
                }
            }
        })
    })
}

/// The gradient of x in bf16, and those of W, if x is given, and b, if it is asked for, in the type of W.
pub(super) fn backward(
    kernel: Option<Kernel>,
    x: Option<FloatTensor<Flex>>,
    [weight, grad]: [FloatTensor<Flex>; 2],
    of_bias: bool,
) -> (
    FloatTensor<Flex>,
    Option<FloatTensor<Flex>>,
    Option<FloatTensor<Flex>>,
) {
    let dtype = weight.dtype();
    let x = x.map(|x| x.to_contiguous());
    let [weight, grad] = [weight, grad].map(|tensor| tensor.to_contiguous());
    let [inputs, outputs] = weight.shape().dims();
    let mut shape = grad.shape();
    let (rows, last) = (shape.num_elements() / outputs, shape.num_dims() - 1);
    shape[last] = inputs;
    rayon::scope(|_| {
        in_its_type!(&grad, grad => {
            let grads = Matrix::new(grad, [rows, outputs], outputs);
            let of_x: Vec<bf16> = in_its_type!(&weight, weight => {
                let weight = Matrix::new(weight, [inputs, outputs], outputs);
                product(kernel, grads, weight.t(), Added::nothing())
            });
            let in_dtype = |grad: Vec<f32>, shape| cast::<Flex>(tensor_of(grad, shape), dtype);
            let of_weight = x.as_ref().map(|x| {
                let x = Matrix::new(values_in::<bf16>(x), [rows, inputs], inputs);
                in_dtype(product_over_rows(kernel, x, grads), Shape::new([inputs, outputs]))
            });
            let of_bias =
                of_bias.then(|| in_dtype(sum_of_rows(grad, outputs), Shape::new([outputs])));
            (tensor_of(of_x, shape), of_weight, of_bias)
        })
    })
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    use crate::cast::to_f32;
    use crate::cpu::bf16::testing::kernels;

    type Round = fn(FloatTensor<Flex>) -> FloatTensor<Flex>;

    fn to_bf16(x: FloatTensor<Flex>) -> FloatTensor<Flex> {
        cast::<Flex>(x, DType::BF16)
    }

    fn numbers(shape: [usize; 2], seed: usize) -> FloatTensor<Flex> {
        let len = shape[0] * shape[1];
        let values = (0..len).map(|i| ((i * 7919 + seed) % 2003) as f32 / 500.0 - 2.0);
        tensor_of(values.collect(), Shape::new(shape))
    }

    /// The results of a layer on CPUs with and without the instructions, with weights in f32 or bf16, differ only by
    /// rounding.
    #[test]
    fn all_cpus_agree() {
        let (rows, inputs, outputs) = (37, 21, 19);
        let x = to_bf16(numbers([rows, inputs], 1));
        let weight = numbers([inputs, outputs], 2);
        let bias = numbers([1, outputs], 3).reshape(Shape::new([outputs]));
        let [residual, grad] = [4, 5].map(|seed| numbers([rows, outputs], seed));
        let run = |kernel, round: Round| {
            let given = [x.clone(), round(weight.clone()), bias.clone()];
            let out = affine(kernel, given.clone(), Some(residual.clone()));
            let plain = affine(kernel, given, None);
            let given = [weight.clone(), grad.clone()].map(round);
            let (alone, no_weight, no_bias) = backward(kernel, None, given.clone(), false);
            let others = [no_weight, no_bias].map(|x| x.is_none());
            assert_eq!(others, [true; 2], "gradients that nobody asked for");
            let (of_x, of_weight, of_bias) = backward(kernel, Some(x.clone()), given, true);
            assert_eq!(values_in::<bf16>(&alone), values_in::<bf16>(&of_x));
            let (of_weight, of_bias) = (of_weight.unwrap(), of_bias.unwrap());
            let types = [&out, &plain, &of_x, &of_weight, &of_bias].map(TensorMetadata::dtype);
            let all = [out, plain, of_x, of_weight, of_bias]
                .map(to_f32::<Flex>)
                .map(|x| values_in::<f32>(&x).to_vec());
            (all, types)
        };
        let same: Round = |x| x;
        let (expected, types) = run(None, same);
        let (f32, bf16) = (DType::F32, DType::BF16);
        assert_eq!(types, [f32, bf16, bf16, f32, f32]);
        assert_eq!(run(None, to_bf16).1, [f32, bf16, bf16, bf16, bf16]);
        for kernel in kernels() {
            for round in [same, to_bf16 as Round] {
                let (actual, _) = run(kernel, round);
                for (number, (actual, expected)) in actual.iter().zip(&expected).enumerate() {
                    let size = expected.iter().fold(0.0f32, |size, x| size.max(x.abs()));
                    for (a, e) in actual.iter().zip(expected) {
                        let near = (a - e).abs() <= 5e-3 * size;
                        assert!(near, "result {number}: {a} is not {e}");
                    }
                }
            }
        }
    }

    /// 256 and 1.003, which is 1 in bf16, add up to 257. This is halfway between two bf16 numbers, 256 and 258, and 256 is
    /// the even one.
    #[test]
    fn a_bias_is_rounded_before_it_is_added() {
        let tensor = |value: f32, shape: Shape| tensor_of(vec![value], shape);
        let x = to_bf16(tensor(256.0, Shape::new([1, 1])));
        for kernel in kernels() {
            let weight = tensor(1.0, Shape::new([1, 1]));
            let bias = tensor(1.003, Shape::new([1]));
            let out = to_f32::<Flex>(affine(kernel, [x.clone(), weight, bias], None));
            assert_eq!(values_in::<f32>(&out), [256.0], "{kernel:?}");
        }
    }
}
