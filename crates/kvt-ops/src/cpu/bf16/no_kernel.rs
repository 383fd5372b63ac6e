//! CPUs of other architectures: there is no kernel.

use super::pack::{HEIGHT, LANES, Rows, VECTORS};

/// No CPU has the instructions.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kernel {}

impl Kernel {
    pub(crate) fn detect() -> Option<Self> {
        None
    }

    pub(crate) fn run<T>(self, _: impl FnOnce() -> T) -> T {
        match self {}
    }

    pub(super) fn tile(
        self,
        _: Rows<'_>,
        _: &[[[u32; LANES]; VECTORS]],
        _: &mut [[[f32; LANES]; VECTORS]; HEIGHT],
    ) {
        match self {}
    }
}
