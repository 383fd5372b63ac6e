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
        Self::all().next()
    }

    pub(super) fn all() -> impl Iterator<Item = Self> {
        std::iter::empty()
    }

    pub(super) fn lines(self) -> usize {
        match self {}
    }

    pub(super) fn height(self, _: usize, _: usize) -> usize {
        match self {}
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
