//! The custom operations, one folder each, in one pattern:
//!
//! - `mod.rs`: a trait that every backend implements, its portable default, the public function;
//! - `flex.rs`: plain Rust for the CPU; `cube.rs`: a kernel for the GPU runtimes;
//! - `autodiff.rs`: the backward pass.
//!
//! Beside them what the CPU code shares: `math.rs`, `rows.rs` (one row of scores), `matrix.rs`.

pub(crate) mod attention;
mod gelu;
mod knn_softmax;
mod math;
mod matrix;
pub(crate) mod portable;
mod rows;

pub use attention::AttentionOps;
pub use gelu::{GeluOps, gelu};
pub use knn_softmax::{KnnOps, knn_softmax};
