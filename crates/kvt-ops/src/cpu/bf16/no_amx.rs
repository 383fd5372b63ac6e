//! Other CPU architectures, which have no AMX.

use super::pack::{Line, Sums, WIDTH};

pub(super) const HEIGHT: usize = 32;

pub(super) type Step = [Line; HEIGHT];

pub(super) const PAIRS: usize = 16;

/// A type without values.
pub(super) enum Tiles {}

impl Tiles {
    pub(super) fn product(&self, _: &[Step], _: &[[u32; WIDTH]], _: &mut Sums<HEIGHT>) {
        match *self {}
    }
}
