//! Other CPU architectures, which have no kernel.

use std::ops::Range;

use super::WIDTH;
use crate::cpu::gemm::Matrix;

/// A type without values.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kernel {}

impl Kernel {
    pub(super) fn detect() -> Option<Self> {
        None
    }

    pub(super) fn add_tile(
        self,
        _: &mut [f32],
        _: usize,
        _: Range<usize>,
        _: Matrix<'_>,
        _: &[[f32; WIDTH]],
    ) {
        match self {}
    }
}
