//! A GPU for the tests of the kernels.
#![expect(clippy::unwrap_used, reason = "tests")]

use burn::backend::Backend;
use burn::backend::ops::FloatTensorOps;
use burn::tensor::{DType, TensorData};
use burn_cubecl::{CubeBackend, CubeDevice, tensor::CubeTensor};
use cubecl::features::Plane;
use cubecl::prelude::CubeCount;

use super::launch::{Launch, StrategyKind, strategy_from_env};

pub(crate) struct Gpu(CubeDevice);

/// The device of [`kvt_testing::devices::gpu`], often a software driver.
#[track_caller]
pub(crate) fn device() -> Option<Gpu> {
    let (name, _) = kvt_testing::devices::gpu()?;
    let device = match name {
        "cuda" => CubeDevice::Cuda(Default::default()),
        _ => CubeDevice::Wgpu(Default::default()),
    };
    Some(Gpu(device))
}

/// The row strategies that the device supports.
#[track_caller]
pub(crate) fn strategies(gpu: &Gpu) -> Vec<StrategyKind> {
    let mut kinds = vec![StrategyKind::Unit, StrategyKind::Cube];
    let client = gpu.0.client();
    let properties = client.properties();
    let trusted = properties.features.plane.contains(Plane::Ops)
        || strategy_from_env() == Some(StrategyKind::Plane);
    let hardware = &properties.hardware;
    let of_one_size = hardware.plane_size_min == hardware.plane_size_max;
    if trusted && of_one_size {
        kinds.push(StrategyKind::Plane);
    } else {
        kvt_testing::skipped("the GPU adapter has no planes that can be trusted");
    }
    kinds
}

/// The same workgroups in two dimensions, as on a device that limits one; there may be a surplus workgroup.
pub(crate) fn folded(mut launch: Launch) -> Launch {
    if let CubeCount::Static(x, 1, 1) = launch.count {
        launch.count = CubeCount::Static(x / 2 + 1, 2, 1);
    }
    launch
}

impl Gpu {
    pub(crate) fn tensor<const D: usize>(&self, data: &[f32], shape: [usize; D]) -> CubeTensor {
        CubeBackend::float_from_data(TensorData::new(data.to_vec(), shape), &self.0)
    }

    /// The half types that the device supports.
    pub(crate) fn halves(&self) -> Vec<DType> {
        let types = [DType::F16, DType::BF16];
        let has = |dtype: &DType| CubeBackend::supports_dtype(&self.0, *dtype);
        types.into_iter().filter(has).collect()
    }

    pub(crate) fn values(&self, tensor: CubeTensor) -> Vec<f32> {
        let data = cubecl::future::block_on(CubeBackend::float_into_data(tensor));
        data.unwrap().try_to_vec().unwrap()
    }
}
