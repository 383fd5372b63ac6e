//! A device, tensors and a compiler that need no GPU.

use std::path::Path;
use std::sync::Arc;

use cubecl::prelude::*;
use cubecl_common::device::{DeviceId, ServiceId};
use cubecl_common::profile::TimingMethod;
use cubecl_core::ir::features::Features;
use cubecl_core::ir::{
    DeviceIdentity, DeviceProperties, HardwareProperties, MemoryDeviceProperties,
};
use cubecl_core::prelude::TensorBinding;
use cubecl_cpp::shared::{CompilationOptions, CppCompiler};
use cubecl_cpp::target::Cuda;
use cubecl_environment::stream::StreamId;
use cubecl_runtime::compiler::Compiler;
use cubecl_runtime::kernel::CubeKernel;
use cubecl_runtime::memory_management::ManagedMemoryHandle;
use cubecl_runtime::server::BufferBinding;

/// Writes the CUDA C++ of a kernel into a file of this name.
pub fn write(
    folder: &Path,
    name: &str,
    kernel: &impl CubeKernel,
) -> Result<(), Box<dyn std::error::Error>> {
    let kernel = CppCompiler::<Cuda>::default()
        .compile(kernel.define(), &CompilationOptions::default())
        .map_err(|error| format!("{name}: {error:?}"))?;
    std::fs::write(folder.join(format!("{name}.cu")), kernel.to_string())?;
    Ok(())
}

/// A tensor without allocated memory: a kernel is made for a shape, not for data.
pub fn tensor() -> TensorArg {
    struct Nowhere;
    let memory = ManagedMemoryHandle::new();
    TensorArg::Handle {
        handle: TensorBinding {
            handle: BufferBinding {
                memory: memory.binding(),
                service: ServiceId::of::<Nowhere>(DeviceId::new(0, 0)),
                offset_start: None,
                offset_end: None,
                stream: StreamId::current(),
                size: (super::SHAPE[0] * super::SHAPE[1] * 4) as u64,
            },
            strides: [super::SHAPE[1], 1].into(),
            shape: super::SHAPE.into(),
            tiling: Default::default(),
        },
    }
}

/// A GPU as CUDA's usually are.
pub fn properties() -> Arc<DeviceProperties> {
    Arc::new(DeviceProperties::new(
        Features::default(),
        MemoryDeviceProperties::new(u64::MAX, 256),
        HardwareProperties {
            load_width: 128,
            vector_register_count: None,
            plane_size_min: 32,
            plane_size_max: 32,
            max_bindings: 32,
            max_shared_memory_size: 48 * 1024,
            max_cube_count: (i32::MAX as u32, u16::MAX as u32, u16::MAX as u32),
            max_units_per_cube: 1024,
            max_cube_dim: (1024, 1024, 64),
            num_streaming_multiprocessors: None,
            num_cpu_cores: None,
            last_level_cache_size: None,
            num_tensor_cores: None,
            min_tensor_cores_dim: None,
            max_vector_size: 4,
            cube_mma_reserved_shared_memory: 0,
        },
        TimingMethod::Device,
        DeviceIdentity {
            name: "offline".to_owned(),
            fingerprint: "offline".to_owned(),
            physical: None,
        },
    ))
}
