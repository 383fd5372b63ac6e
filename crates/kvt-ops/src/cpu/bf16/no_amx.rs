//! Other CPU architectures, which have no AMX.

use super::pack::{Line, WIDTH};

pub(super) const HEIGHT: usize = 32;

pub(super) type Step = [Line; HEIGHT];

pub(super) struct Sums(pub(super) [[f32; WIDTH]; HEIGHT]);

pub(super) const PAIRS: usize = 16;

/// A type without values.
pub(super) enum Tiles {}

impl Tiles {
    pub(super) fn transpose(&self, _: &[[u32; HEIGHT]; PAIRS], _: &mut Step) {
        match *self {}
    }

    pub(super) fn product(&self, _: &[Step], _: &[[u32; WIDTH]], _: &mut Sums) {
        match *self {}
    }
}
