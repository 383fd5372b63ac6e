//! Other CPU architectures, which have no kernel.

use std::ops::Range;

use super::{Line, Output};
use crate::cpu::gemm::Matrix;

/// A type without values.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kernel {}

impl Kernel {
    pub(crate) fn detect() -> Option<Self> {
        Self::all().next()
    }

    pub(crate) fn all() -> impl Iterator<Item = Self> {
        std::iter::empty()
    }

    pub(super) fn lines(self) -> usize {
        match self {}
    }

    pub(crate) fn usual_height(self) -> usize {
        match self {}
    }

    pub(super) fn height(self, _: usize, _: usize) -> usize {
        match self {}
    }

    pub(super) fn tile(self, _: Output<'_>, _: usize, _: Range<usize>, _: Matrix<'_>, _: &[Line]) {
        match self {}
    }
}
