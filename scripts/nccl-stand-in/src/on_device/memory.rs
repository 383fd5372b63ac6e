use burn::tensor::Tensor;

use super::EngineError;

/// The numbers of a tensor, which stay where they are as long as this lives.
#[derive(Debug)]
pub struct CudaMemory(Tensor<1>);

impl CudaMemory {
    pub fn of(tensor: Tensor<1>) -> Result<Self, EngineError> {
        Ok(Self(tensor))
    }

    pub fn device(&self) -> usize {
        0
    }

    pub fn address(&self) -> u64 {
        self.0.address()
    }

    pub fn numbers(&self) -> usize {
        self.0.dims()[0]
    }

    pub fn wait(&self) -> Result<(), EngineError> {
        Ok(())
    }
}
