//! Other CPU architectures, which have no AMX.

use super::pack::WIDTH;

pub(super) const HEIGHT: usize = 32;

/// A type without values.
pub(super) enum Tiles {}

impl Tiles {
    pub(super) fn product(
        &self,
        _rows: &[[u16; 2]],
        _stride: usize,
        _columns: &[[u32; WIDTH]],
        _sums: &mut [[f32; WIDTH]; HEIGHT],
    ) {
        match *self {}
    }
}
