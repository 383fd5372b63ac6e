//! As in `kvt-train`: the trait and the code that calls NCCL are its files.

#[path = "../../../../crates/kvt-train/src/world/on_device/engine.rs"]
mod engine;
mod memory;
#[path = "../../../../crates/kvt-train/src/world/on_device/nccl.rs"]
mod nccl;
pub mod scenarios;

pub use engine::{Engine, EngineError};
