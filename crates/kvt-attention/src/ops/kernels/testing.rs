//! A GPU for the tests of the kernels.
#![expect(clippy::unwrap_used, reason = "tests")]

use burn::backend::ops::FloatTensorOps;
use burn::tensor::TensorData;
use burn_cubecl::{CubeBackend, CubeDevice, tensor::CubeTensor};
use cubecl::features::Plane;

use super::launch::Wanted;

pub(in crate::ops) struct Gpu(CubeDevice);

/// The first adapter of wgpu, often a software driver.
pub(in crate::ops) fn device() -> Option<Gpu> {
    use burn::tensor::{Device, DeviceType};
    if Device::enumerate(DeviceType::Wgpu)
        .into_iter()
        .next()
        .is_some()
    {
        return Some(Gpu(CubeDevice::Wgpu(Default::default())));
    }
    assert!(
        std::env::var_os("KVT_REQUIRE_GPU").is_none(),
        "KVT_REQUIRE_GPU is set, but there is no wgpu adapter"
    );
    None
}

/// The ways to share a row that the device can go.
pub(in crate::ops) fn ways(gpu: &Gpu) -> Vec<Wanted> {
    let mut ways = vec![Wanted::Unit, Wanted::Cube];
    if gpu
        .0
        .client()
        .properties()
        .features
        .plane
        .contains(Plane::Ops)
    {
        ways.push(Wanted::Plane);
    }
    ways
}

impl Gpu {
    pub(in crate::ops) fn tensor<const D: usize>(
        &self,
        data: &[f32],
        shape: [usize; D],
    ) -> CubeTensor {
        CubeBackend::float_from_data(TensorData::new(data.to_vec(), shape), &self.0)
    }

    pub(in crate::ops) fn values(&self, tensor: CubeTensor) -> Vec<f32> {
        let data = cubecl::future::block_on(CubeBackend::float_into_data(tensor));
        data.unwrap().try_to_vec().unwrap()
    }
}
