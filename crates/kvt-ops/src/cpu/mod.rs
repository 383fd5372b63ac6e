//! Building blocks of the CPU implementations.
//!
//! All of them give the same bits whatever the number of threads: a sum is split into parts whose number
//! depends on the shapes alone.

pub(crate) mod bf16;
pub(crate) mod buffer;
pub(crate) mod gemm;
pub(crate) mod round;
pub(crate) mod simd;
pub(crate) mod softmax_row;
pub(crate) mod windows;
