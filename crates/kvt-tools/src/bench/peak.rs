//! The speed of a device in one large product and in one large copy: a reference for all other measurements on it.

use burn::tensor::Device;
use kvt_ops::Key;
use serde::{Deserialize, Serialize};

use super::BenchError;
use super::inputs::normal;
use super::timing::time;

/// The best of several runs is used: disturbances only make a run slower.
const RUNS: usize = 10;

/// Rates of a device in f32: the best of several runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Peak {
    /// GFLOP/s of Burn's matrix product, of `1024 x 1024` or more.
    pub matmul_gflops: f64,
    /// GFLOP/s of arithmetic in registers without matrix units, as Burn measures it; only on GPUs.
    pub arithmetic_gflops: Option<f64>,
    /// GB/s of a large copy, counting reads and writes.
    pub memory_gbps: Option<f64>,
}

impl Peak {
    /// Measures a device.
    ///
    /// # Errors
    /// If it fails.
    pub fn measure(device: &Device) -> Result<Self, BenchError> {
        let matmul_gflops = matmul_gflops(device)?;
        let rates = gpu::rates(device);
        let [arithmetic_gflops, memory_gbps] = rates.unwrap_or_else(|| [None, host_memory_gbps()]);
        Ok(Self {
            matmul_gflops,
            arithmetic_gflops,
            memory_gbps,
        })
    }
}

/// The first product of square matrices that takes long enough for the launch time to be negligible.
fn matmul_gflops(device: &Device) -> Result<f64, BenchError> {
    const ENOUGH_MS: f64 = 5.0;
    let mut side = 1024;
    loop {
        let [a, b] = ["a", "b"].map(|name| normal(Key::new(0).named(name), [side, side], device));
        let mut best = f64::INFINITY;
        for _ in 0..RUNS {
            best = best.min(time(device, || Ok(a.clone().matmul(b.clone())))?);
        }
        if best >= ENOUGH_MS || side >= 8192 {
            return Ok(2.0 * (side as f64).powi(3) / best / 1e6);
        }
        side *= 2;
    }
}

/// All threads copy from one large block of memory to another. `None` if there is not enough memory.
fn host_memory_gbps() -> Option<f64> {
    use rayon::prelude::*;
    const BYTES: usize = 256 << 20;
    const CHUNK: usize = 1 << 20;
    let block = |value: u8| {
        let mut block = Vec::new();
        block.try_reserve_exact(BYTES).ok()?;
        block.resize(BYTES, value);
        Some(block)
    };
    let (from, mut to) = (block(1)?, block(2)?);
    let best = (0..RUNS)
        .map(|_| {
            let start = std::time::Instant::now();
            to.par_chunks_mut(CHUNK)
                .zip(from.par_chunks(CHUNK))
                .for_each(|(to, from)| to.copy_from_slice(from));
            start.elapsed().as_secs_f64()
        })
        .fold(f64::INFINITY, f64::min);
    Some(2.0 * BYTES as f64 / best / 1e9)
}

#[cfg(feature = "gpu")]
mod gpu {
    use burn::tensor::{Device, MemoryAccess, ThroughputKey, ThroughputMode};
    use cubecl::ir::{ElemType, FloatKind};

    /// GFLOP/s of arithmetic and GB/s of copies with Burn's probes, which exist only for GPUs.
    pub(super) fn rates(device: &Device) -> Option<[Option<f64>; 2]> {
        let dtype = ElemType::Float(FloatKind::F32);
        let keys = [
            ThroughputMode::ComputeDirect { dtype },
            ThroughputMode::memory(MemoryAccess::Copy),
        ]
        .map(|mode| ThroughputKey { mode });
        let stats = device.performance_stats(&keys);
        let [arithmetic, memory] = stats.as_slice() else {
            return None;
        };
        let operations = arithmetic.value.as_ref().ok();
        let bytes = memory.value.as_ref().ok();
        Some([
            operations.map(|value| value.ops_per_s() / 1e9),
            bytes.map(|value| value.bytes_per_s(&memory.key) / 1e9),
        ])
    }
}

#[cfg(not(feature = "gpu"))]
mod gpu {
    use burn::tensor::Device;

    pub(super) fn rates(_: &Device) -> Option<[Option<f64>; 2]> {
        None
    }
}
