//! Building blocks of the CPU implementations.
//!
//! Their results are bit-identical for any number of threads: a sum is split into parts whose number depends only on
//! the shapes.

pub(crate) mod bf16;
pub(crate) mod buffer;
pub(crate) mod gemm;
pub(crate) mod layer;
mod matrix;
pub(crate) mod panels;
pub(crate) mod round;
pub(crate) mod simd;
pub(crate) mod small;
pub(crate) mod softmax_row;
pub(crate) mod weight;
pub(crate) mod wide;
pub(crate) mod windows;
