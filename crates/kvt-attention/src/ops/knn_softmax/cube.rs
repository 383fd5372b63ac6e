//! CubeCL kernels: one cube (workgroup) per row, reductions in shared memory
//! only, so that no plane (subgroup) feature is needed. Correctness first.

use burn::backend::{TensorMetadata, cubecl::dtype_to_storage_type, tensor::FloatTensor};
use burn_cubecl::{
    CubeBackend, kernel::into_contiguous, ops::numeric::empty_device_contiguous_dtype,
    tensor::CubeTensor,
};
use cubecl::prelude::*;

use super::KnnOps;

/// Sum over the cube; every unit gets the result. The cube size is a power of two.
#[cube]
fn cube_sum<T: Numeric>(value: T, scratch: &mut [T]) -> T {
    let unit = UNIT_POS as usize;
    scratch[unit] = value;
    sync_cube();
    let mut stride = CUBE_DIM as usize / 2;
    while stride > 0 {
        if unit < stride {
            let other = scratch[unit + stride];
            scratch[unit] += other;
        }
        sync_cube();
        stride /= 2;
    }
    let total = scratch[0];
    sync_cube();
    total
}

/// Maximum over the cube; every unit gets the result.
#[cube]
fn cube_max(value: u32, scratch: &mut [u32]) -> u32 {
    let unit = UNIT_POS as usize;
    scratch[unit] = value;
    sync_cube();
    let mut stride = CUBE_DIM as usize / 2;
    while stride > 0 {
        if unit < stride {
            let other = scratch[unit + stride];
            if other > scratch[unit] {
                scratch[unit] = other;
            }
        }
        sync_cube();
        stride /= 2;
    }
    let total = scratch[0];
    sync_cube();
    total
}

/// A u32 whose unsigned order is the order of the floats. Both zeros map to one key, and every NaN
/// to the largest: shader compilers may assume that there is none, so it is found by its bits.
#[cube]
fn ordered_key<F: Float>(value: F) -> u32 {
    let value = f32::cast_from(value);
    let bits = u32::reinterpret(value);
    let bits = select(bits & 0x7fff_ffffu32 > 0x7f80_0000u32, 0x7fff_ffffu32, bits);
    let bits = select(bits == 0x8000_0000u32, 0u32, bits);
    let mask = select(bits >> 31u32 == 1u32, 0xffff_ffffu32, 0x8000_0000u32);
    bits ^ mask
}

/// The key of -inf.
const NEGATIVE_INFINITY: u32 = 0x007f_ffff;
/// The key of +inf; only NaN's is larger.
const INFINITY: u32 = 0xff80_0000;

/// The float that [`ordered_key`] came from.
#[cube]
fn key_value(key: u32) -> f32 {
    let mask = select(key >> 31u32 == 1u32, 0x8000_0000u32, 0xffff_ffffu32);
    f32::reinterpret(key ^ mask)
}

#[cube(launch)]
fn knn_softmax_kernel<F: Float>(
    scores: &Tensor<F>,
    output: &mut Tensor<F>,
    rows: u32,
    keys: u32,
    k: u32,
    index_bits: u32,
    #[comptime] units: usize,
    #[define(F)] _dtype: ElemType,
) {
    let row = CUBE_POS;
    // Uniform over the cube, so no unit is missing at a barrier below.
    if row >= rows as usize {
        terminate!();
    }
    let n = keys as usize;
    let base = row * n;
    let unit = UNIT_POS as usize;
    let step = CUBE_DIM as usize;
    let mut counts = Shared::<[u32]>::new_slice(units);
    let mut sums = Shared::<[f32]>::new_slice(units);

    // 1. The k-th largest key, bit by bit: the largest t with |{key >= t}| >= k.
    //    Left at 0, which is below every key, where all survive.
    let mut threshold = 0u32;
    if k < keys {
        for pass in 0..32u32 {
            let candidate = threshold | (1u32 << (31u32 - pass));
            let mut count = 0u32;
            let mut i = unit;
            while i < n {
                if ordered_key::<F>(scores[base + i]) >= candidate {
                    count += 1u32;
                }
                i += step;
            }
            if cube_sum::<u32>(count, &mut counts) >= k {
                threshold = candidate;
            }
        }
    }

    // 2. Everything above survives; the places left go to the ties, lowest index first.
    let mut above = 0u32;
    let mut max_key = 0u32;
    let mut i = unit;
    while i < n {
        let key = ordered_key::<F>(scores[base + i]);
        if key > threshold {
            above += 1u32;
        }
        if key > max_key {
            max_key = key;
        }
        i += step;
    }
    let places = k - cube_sum::<u32>(above, &mut counts);
    let max_key = cube_max(max_key, &mut counts);
    let max = key_value(max_key);
    // A NaN or +inf in the row, or nothing but -inf: the softmax has no value.
    let broken = max_key >= INFINITY || max_key <= NEGATIVE_INFINITY;
    let nan = f32::reinterpret(max_key | 0x7fff_ffffu32);

    // The largest bound b with |{tie, index < b}| <= places.
    let mut bound = 0u32;
    for pass in 0..index_bits {
        let candidate = bound | (1u32 << (index_bits - 1u32 - pass));
        let mut count = 0u32;
        let mut i = unit;
        while i < n {
            if ordered_key::<F>(scores[base + i]) == threshold && (i as u32) < candidate {
                count += 1u32;
            }
            i += step;
        }
        if cube_sum::<u32>(count, &mut counts) <= places {
            bound = candidate;
        }
    }

    // 3. Softmax over the survivors, accumulated in f32.
    let mut sum = 0.0f32;
    let mut i = unit;
    while i < n {
        let value = scores[base + i];
        let key = ordered_key::<F>(value);
        let kept = key > threshold || (key == threshold && (i as u32) < bound);
        if kept && key > NEGATIVE_INFINITY {
            sum += (f32::cast_from(value) - max).exp();
        }
        i += step;
    }
    let total = cube_sum::<f32>(sum, &mut sums);
    let mut i = unit;
    while i < n {
        let value = scores[base + i];
        let key = ordered_key::<F>(value);
        let kept = key > threshold || (key == threshold && (i as u32) < bound);
        let mut probability = 0.0f32;
        if kept && key > NEGATIVE_INFINITY {
            probability = (f32::cast_from(value) - max).exp() / total;
        }
        if broken {
            probability = nan;
        }
        output[base + i] = F::cast_from(probability);
        i += step;
    }
}

#[cube(launch)]
fn knn_softmax_backward_kernel<F: Float>(
    probabilities: &Tensor<F>,
    grad: &Tensor<F>,
    output: &mut Tensor<F>,
    rows: u32,
    keys: u32,
    #[comptime] units: usize,
    #[define(F)] _dtype: ElemType,
) {
    let row = CUBE_POS;
    if row >= rows as usize {
        terminate!();
    }
    let n = keys as usize;
    let base = row * n;
    let unit = UNIT_POS as usize;
    let step = CUBE_DIM as usize;
    let mut sums = Shared::<[f32]>::new_slice(units);

    let mut sum = 0.0f32;
    let mut i = unit;
    while i < n {
        sum += f32::cast_from(probabilities[base + i]) * f32::cast_from(grad[base + i]);
        i += step;
    }
    let dot = cube_sum::<f32>(sum, &mut sums);
    let mut i = unit;
    while i < n {
        let p = f32::cast_from(probabilities[base + i]);
        let g = f32::cast_from(grad[base + i]);
        output[base + i] = F::cast_from(p * (g - dot));
        i += step;
    }
}

/// How a row-per-cube kernel is launched on a tensor's device.
struct Launch {
    rows: u32,
    keys: u32,
    units: usize,
    count: CubeCount,
    dim: CubeDim,
}

impl Launch {
    fn new(tensor: &CubeTensor) -> Self {
        let shape = tensor.shape();
        let keys = shape[shape.num_dims() - 1];
        let rows = (shape.num_elements() / keys) as u32;
        let hardware = &tensor.client.properties().hardware;
        let limit = (hardware
            .max_units_per_cube
            .min(hardware.max_cube_dim.0)
            .min(256)) as usize;
        // The largest power of two within the limit, no larger than the row needs.
        let units = keys.next_power_of_two().min(1 << limit.ilog2());
        // x alone may be limited to 65535 cubes; surplus cubes end at the first check.
        let x = rows.min(hardware.max_cube_count.0);
        Self {
            rows,
            keys: keys as u32,
            units,
            count: CubeCount::Static(x, rows.div_ceil(x), 1),
            dim: CubeDim::new_1d(units as u32),
        }
    }
}

fn output_like(tensor: &CubeTensor) -> CubeTensor {
    empty_device_contiguous_dtype(
        tensor.client.clone(),
        tensor.device.clone(),
        tensor.shape(),
        tensor.dtype,
    )
}

impl KnnOps for CubeBackend {
    fn knn_softmax(scores: FloatTensor<Self>, k: usize) -> FloatTensor<Self> {
        if scores.shape().num_elements() == 0 {
            return scores;
        }
        let scores = into_contiguous(scores);
        let output = output_like(&scores);
        let launch = Launch::new(&scores);
        let (client, dtype) = (scores.client.clone(), scores.dtype);
        knn_softmax_kernel::launch(
            &client,
            launch.count,
            launch.dim,
            scores.into_tensor_arg(),
            output.clone().into_tensor_arg(),
            launch.rows,
            launch.keys,
            k.min(launch.keys as usize) as u32,
            u32::BITS - launch.keys.leading_zeros(),
            launch.units,
            dtype_to_storage_type(dtype),
        );
        output
    }

    fn knn_softmax_backward(
        probabilities: FloatTensor<Self>,
        grad: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        if probabilities.shape().num_elements() == 0 {
            return probabilities;
        }
        let probabilities = into_contiguous(probabilities);
        let grad = into_contiguous(grad);
        let output = output_like(&probabilities);
        let launch = Launch::new(&probabilities);
        let (client, dtype) = (probabilities.client.clone(), probabilities.dtype);
        knn_softmax_backward_kernel::launch(
            &client,
            launch.count,
            launch.dim,
            probabilities.into_tensor_arg(),
            grad.into_tensor_arg(),
            output.clone().into_tensor_arg(),
            launch.rows,
            launch.keys,
            launch.units,
            dtype_to_storage_type(dtype),
        );
        output
    }
}
