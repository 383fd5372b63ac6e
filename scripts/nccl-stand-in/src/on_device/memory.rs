use burn::tensor::Tensor;

use super::EngineError;
use crate::tensor::use_device;

/// The numbers of a tensor, which stay where they are as long as this lives.
#[derive(Debug)]
pub struct CudaMemory {
    pub device: usize,
    pub address: u64,
    pub numbers: usize,
    _tensor: Tensor<1>,
}

impl CudaMemory {
    pub fn of(tensor: Tensor<1>) -> Result<Self, EngineError> {
        use_device();
        Ok(Self {
            device: 0,
            address: tensor.address(),
            numbers: tensor.dims()[0],
            _tensor: tensor,
        })
    }

    pub fn wait(&self) -> Result<(), EngineError> {
        use_device();
        Ok(())
    }
}
