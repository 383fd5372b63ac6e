//! Attention that never writes scores to GPU memory (after Dao et al., FlashAttention, 2022), with the selection of the
//! k best keys.
//!
//! For each row, only its maximum, its sum and, if keys are dropped, one bit per key are saved.

pub(super) mod gpu;
