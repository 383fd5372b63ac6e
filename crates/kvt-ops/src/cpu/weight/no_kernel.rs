//! Other CPU architectures, which have no kernel.

use std::mem::MaybeUninit;
use std::ops::Range;

use super::Line;
use crate::cpu::gemm::Matrix;

/// A type without values.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kernel {}

impl Kernel {
    pub(super) fn detect() -> Option<Self> {
        None
    }

    pub(super) fn tile(
        self,
        _: &mut [MaybeUninit<f32>],
        _: Range<usize>,
        _: Matrix<'_>,
        _: &[Line],
        _: (&[f32], Option<&[f32]>),
    ) {
        match self {}
    }
}
