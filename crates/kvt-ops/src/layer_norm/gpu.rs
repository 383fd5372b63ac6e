//! Layer normalisation on GPUs, the CubeCL runtimes: launches of the kernels in `gpu/kernel.rs`.

use burn::backend::{TensorMetadata, cubecl::dtype_to_storage_type, tensor::FloatTensor};
use burn::tensor::{DType, Shape};
use burn_cubecl::{CubeBackend, kernel::into_contiguous, tensor::CubeTensor};
use cubecl::prelude::*;

use self::kernel::{
    block_sums_kernel, column_sums_kernel, layer_norm_backward_kernel, layer_norm_kernel,
};
use super::{LayerNormOps, one_per_row};
use crate::gpu::launch::{Launch, address, empty};

mod kernel;

/// Threads per workgroup for column sums.
const COLUMNS: u32 = 64;

/// Maximum number of blocks of rows that are summed separately.
const BLOCKS: u32 = 256;
/// Minimum number of rows per block.
const ROWS: u32 = 32;

impl LayerNormOps for CubeBackend {
    fn fused_layer_norm(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        epsilon: f64,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        let launch = Launch::new(&x);
        forward([x, gamma, beta], epsilon, launch)
    }

    fn fused_layer_norm_backward(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        mean: FloatTensor<Self>,
        rstd: FloatTensor<Self>,
        grad: FloatTensor<Self>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        let launch = Launch::new(&x);
        backward([x, gamma, grad], [mean, rstd], launch)
    }
}

fn forward(
    inputs: [CubeTensor; 3],
    epsilon: f64,
    launch: Launch,
) -> (CubeTensor, CubeTensor, CubeTensor) {
    let [x, gamma, beta] = inputs.map(into_contiguous);
    let out = empty(&x, x.shape(), x.dtype);
    let [mean, rstd] = [0, 1].map(|_| empty(&x, one_per_row(&x.shape()), DType::F32));
    let (client, dtype) = (x.client.clone(), x.dtype);
    layer_norm_kernel::launch(
        &client,
        launch.count,
        launch.dim,
        x.required_address_type(),
        x.into_tensor_arg(),
        gamma.into_tensor_arg(),
        beta.into_tensor_arg(),
        out.clone().into_tensor_arg(),
        mean.clone().into_tensor_arg(),
        rstd.clone().into_tensor_arg(),
        launch.rows,
        launch.width,
        epsilon as f32,
        launch.strategy,
        launch.chunk,
        dtype_to_storage_type(dtype),
    );
    (out, mean, rstd)
}

fn backward(
    inputs: [CubeTensor; 3],
    [mean, rstd]: [CubeTensor; 2],
    launch: Launch,
) -> (CubeTensor, CubeTensor, CubeTensor) {
    let [x, gamma, grad] = inputs.map(into_contiguous);
    let (rows, width) = (launch.rows, launch.width);
    let rows_per_block = rows.div_ceil(BLOCKS).max(ROWS);
    let blocks = rows.div_ceil(rows_per_block);
    let shape = Shape::new([2, blocks as usize, width as usize]);
    let sums = empty(&x, shape, DType::F32);
    let [x_grad, gamma_grad, beta_grad] =
        [&x, &gamma, &gamma].map(|like| empty(like, like.shape(), like.dtype));
    let (client, dtype) = (x.client.clone(), x.dtype);
    let address = address(&[&x, &sums]);
    layer_norm_backward_kernel::launch(
        &client,
        launch.count,
        launch.dim,
        address,
        x.clone().into_tensor_arg(),
        gamma.into_tensor_arg(),
        mean.clone().into_tensor_arg(),
        rstd.clone().into_tensor_arg(),
        grad.clone().into_tensor_arg(),
        x_grad.clone().into_tensor_arg(),
        rows,
        width,
        launch.strategy,
        launch.chunk,
        dtype_to_storage_type(dtype),
    );
    let columns = width.div_ceil(COLUMNS);
    column_sums_kernel::launch(
        &client,
        CubeCount::Static(columns, blocks, 1),
        CubeDim::new_1d(COLUMNS),
        address,
        x.into_tensor_arg(),
        mean.into_tensor_arg(),
        rstd.into_tensor_arg(),
        grad.into_tensor_arg(),
        sums.clone().into_tensor_arg(),
        rows,
        width,
        rows_per_block,
        dtype_to_storage_type(dtype),
    );
    block_sums_kernel::launch(
        &client,
        CubeCount::Static(columns, 1, 1),
        CubeDim::new_1d(COLUMNS),
        address,
        sums.into_tensor_arg(),
        gamma_grad.clone().into_tensor_arg(),
        beta_grad.clone().into_tensor_arg(),
        width,
        blocks,
        dtype_to_storage_type(dtype),
    );
    (x_grad, gamma_grad, beta_grad)
}

#[cfg(all(test, feature = "wgpu"))]
mod tests {
    use super::*;
    use crate::gpu::testing::{device, folded, strategies};

    const EPSILON: f64 = 1e-5;

    /// Output, mean, rstd, and the gradients of x, gamma and beta, value by value in f64.
    fn defined(x: &[f32], gamma: &[f32], beta: &[f32], grad: &[f32]) -> [Vec<f32>; 6] {
        let width = gamma.len();
        let size = width as f64;
        let mut results = [(); 6].map(|()| Vec::new());
        let (mut gamma_grad, mut beta_grad) = (vec![0.0; width], vec![0.0; width]);
        for (x, grad) in x.chunks(width).zip(grad.chunks(width)) {
            let x: Vec<f64> = x.iter().map(|x| f64::from(*x)).collect();
            let mean = x.iter().sum::<f64>() / size;
            let variance = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / size;
            let rstd = 1.0 / (variance + EPSILON).sqrt();
            let x_hat: Vec<f64> = x.iter().map(|x| (x - mean) * rstd).collect();
            let g = |i: usize| f64::from(grad[i]) * f64::from(gamma[i]);
            let mean_g = (0..width).map(g).sum::<f64>() / size;
            let mean_g_x_hat = (0..width).map(|i| g(i) * x_hat[i]).sum::<f64>() / size;
            for i in 0..width {
                let out = x_hat[i] * f64::from(gamma[i]) + f64::from(beta[i]);
                results[0].push(out as f32);
                results[3].push(((g(i) - mean_g - x_hat[i] * mean_g_x_hat) * rstd) as f32);
                gamma_grad[i] += f64::from(grad[i]) * x_hat[i];
                beta_grad[i] += f64::from(grad[i]);
            }
            results[1].push(mean as f32);
            results[2].push(rstd as f32);
        }
        results[4] = gamma_grad.iter().map(|x| *x as f32).collect();
        results[5] = beta_grad.iter().map(|x| *x as f32).collect();
        results
    }

    /// Rows shorter and longer than a workgroup, down to one value, in one or many blocks of rows; with a mean far from
    /// zero, where a variance computed as a difference of squares would lose its digits.
    #[test]
    fn every_row_strategy_normalises_the_rows() {
        let Some(device) = device() else { return };
        for (rows, width, mean) in [
            (1, 1, 0.0),
            (3, 7, 2.0),
            (600, 48, 300.0),
            (9000, 5, 0.0),
            (2, 9000, 1.0),
        ] {
            let numbers = |len: usize, seed: usize, mean: f32| -> Vec<f32> {
                let number = |i: usize| ((i * 7919 + seed * 104_729) % 2003) as f32 / 500.0;
                (0..len).map(|i| number(i) - 2.0 + mean).collect()
            };
            let (x, grad) = (
                numbers(rows * width, 1, mean),
                numbers(rows * width, 2, 0.0),
            );
            let (gamma, beta) = (numbers(width, 3, 0.5), numbers(width, 4, 0.0));
            let expected = defined(&x, &gamma, &beta, &grad);
            for kind in strategies(&device) {
                let wide = |data: &[f32]| device.tensor(data, [rows, width]);
                let (x, grad) = (wide(&x), wide(&grad));
                let [gamma, beta] = [&gamma, &beta].map(|data| device.tensor(data, [width]));
                let inputs = [x.clone(), gamma.clone(), beta];
                let (out, mean, rstd) = forward(inputs, EPSILON, folded(Launch::with(&x, kind)));
                let launch = folded(Launch::with(&x, kind));
                let statistics = [mean.clone(), rstd.clone()];
                let (dx, dgamma, dbeta) = backward([x, gamma, grad], statistics, launch);
                let actual = [out, mean, rstd, dx, dgamma, dbeta].map(|x| device.values(x));
                let names = ["out", "mean", "rstd", "x", "gamma", "beta"];
                for ((name, actual), expected) in names.iter().zip(actual).zip(&expected) {
                    assert_eq!(actual.len(), expected.len(), "{name}");
                    let largest = expected.iter().fold(1e-2f32, |m, x| m.max(x.abs()));
                    for (i, (a, e)) in actual.iter().zip(expected).enumerate() {
                        let what = format!("{kind:?} [{rows}, {width}] {name} {i}");
                        assert!((a - e).abs() <= 3e-5 * largest, "{what}: {a}, not {e}");
                    }
                }
            }
        }
    }
}
