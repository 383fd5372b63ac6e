//! The custom operations, one folder each, in one pattern:
//!
//! - `mod.rs`: a trait that every backend implements, its portable default, the public function;
//! - `flex.rs`: plain Rust for the CPU; `cube.rs`: a kernel for the GPU runtimes;
//! - `autodiff.rs`: the backward pass.

mod gelu;
mod knn_softmax;
mod math;
pub(crate) mod portable;

pub use gelu::{GeluOps, gelu};
pub use knn_softmax::{KnnOps, knn_softmax};
