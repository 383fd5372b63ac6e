//! The memory of a tensor on a CUDA device, for a library that takes addresses.

use std::fmt;

use burn::tensor::{DType, Tensor};
use burn_cubecl::tensor::CubeTensor;
use burn_cubecl::{Cube, CubeBackend, CubeDevice};
use cubecl::cuda::CudaRuntime;
use cubecl::future::block_on;
use cubecl_runtime::runtime::Runtime;

use super::EngineError;

/// CubeCL's manager of CUDA device memory.
type Server = <CudaRuntime as Runtime>::Server;

/// The values of a tensor in the memory of a CUDA device. Their address stays valid while this lives.
pub(super) struct CudaMemory {
    /// While this is held, no operation writes in place to the memory of a tensor that shares it.
    tensor: CubeTensor,
    /// The device's index among CUDA's devices.
    pub(super) device: usize,
    /// The address of the first value.
    pub(super) address: u64,
    /// The number of values.
    pub(super) numbers: usize,
    /// CubeCL's hold on the allocation: it is neither freed, reused for another tensor nor moved.
    _held: Box<dyn Send>,
}

impl fmt::Debug for CudaMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (numbers, device) = (self.numbers, self.device);
        write!(f, "{numbers} numbers on CUDA device {device}")
    }
}

impl CudaMemory {
    /// The memory of a contiguous f32 tensor. The work that writes it has been submitted to the device, but may not have run: see
    /// [`wait`](Self::wait).
    ///
    /// # Errors
    /// If the tensor is not on a CUDA device, has another type or is not contiguous, or if the work that writes it failed.
    pub(super) fn of(tensor: Tensor<1>) -> Result<Self, EngineError> {
        let tensor = tensor
            .try_into_primitive::<Cube>()
            .map_err(|error| failed(format!("{error:?}")))?;
        let fusion = tensor.client.clone();
        let tensor = fusion.resolve_tensor_float::<CubeBackend>(tensor);
        let CubeDevice::Cuda(device) = &tensor.device else {
            return Err(failed(format!("{:?} is not a CUDA device", tensor.device)));
        };
        let numbers = tensor.meta.shape().num_elements();
        if tensor.dtype != DType::F32 || !tensor.is_contiguous() {
            return Err(failed(format!("{tensor:?} is not f32 without gaps")));
        }
        // Makes this thread's stream wait for the stream that writes the tensor, if it is another one.
        let resource = tensor
            .client
            .get_resource::<Server>(tensor.handle.clone())
            .map_err(|error| failed(error.to_string()))?;
        let (address, bytes) = (resource.resource().ptr, resource.resource().size);
        if bytes < (numbers * size_of::<f32>()) as u64 {
            return Err(failed(format!("{bytes} bytes for {numbers} numbers")));
        }
        Ok(Self {
            device: device.index,
            tensor,
            address,
            numbers,
            _held: Box::new(resource),
        })
    }

    /// Waits until the device has finished all work that this thread has submitted so far. CubeCL does not expose its stream, so
    /// another stream cannot wait for it.
    pub(super) fn wait(&self) -> Result<(), EngineError> {
        block_on(self.tensor.client.sync()).map_err(|error| failed(error.to_string()))
    }
}

fn failed(reason: String) -> EngineError {
    EngineError {
        library: "CubeCL",
        reason,
    }
}
