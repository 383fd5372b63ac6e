//! As in `kvt-train`.

mod connect;
mod memory;
#[path = "../../../../crates/kvt-train/src/world/on_device/nccl.rs"]
mod nccl;
pub mod scenarios;

use std::fmt::Debug;

use burn::tensor::Tensor;

#[derive(Debug)]
pub struct EngineError {
    pub library: &'static str,
    pub reason: String,
}

pub trait Engine: Debug + Send {
    fn start(&mut self, bucket: Tensor<1>) -> Result<Tensor<1>, EngineError>;
    fn poll(&mut self) -> Result<bool, EngineError>;
    fn abort(&mut self);
}
