//! Other CPU architectures, which have no kernel.

use super::amx::Tiles;
use burn::tensor::bf16;

use super::pack::{HEIGHT, LANES, Rows, Sums, VECTORS, WIDTH};

/// A type without values, except in tests.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kernel {
    /// Plain Rust, in tests.
    #[cfg(test)]
    Scalar,
}

impl Kernel {
    pub(crate) fn detect() -> Option<Self> {
        None
    }

    #[cfg(test)]
    pub(crate) fn scalar() -> Self {
        Self::Scalar
    }

    #[cfg(test)]
    pub(super) fn without_amx(self) -> Self {
        self
    }

    pub(super) fn tiles(self) -> Option<Tiles> {
        None
    }

    pub(crate) fn height(self) -> usize {
        HEIGHT
    }

    pub(super) fn step(self) -> usize {
        1
    }

    pub(crate) fn run<T>(self, _task: impl FnOnce() -> T) -> T {
        match self {
            #[cfg(test)]
            Self::Scalar => _task(),
        }
    }

    pub(super) fn round(self, _sums: &[f32; WIDTH]) -> [bf16; WIDTH] {
        match self {
            #[cfg(test)]
            Self::Scalar => super::testing::round(_sums),
        }
    }

    pub(super) fn transposed(self, _square: [[u32; LANES]; LANES]) -> [[u32; LANES]; LANES] {
        match self {
            #[cfg(test)]
            Self::Scalar => super::testing::transposed(_square),
        }
    }

    pub(super) fn prefetch<T>(self, _place: *const T) {}

    pub(super) fn tile(
        self,
        _rows: Rows<'_>,
        _columns: &[[[u32; LANES]; VECTORS]],
        _sums: &mut Sums<HEIGHT>,
    ) {
        match self {
            #[cfg(test)]
            Self::Scalar => super::testing::tile(_rows, _columns, _sums),
        }
    }
}
