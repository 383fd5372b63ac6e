//! The units that have a row together.

use cubecl::prelude::*;

/// Who has a row together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Sharing {
    /// Nobody: a unit has it for itself. The fastest where units are no units at all, but turns of a
    /// loop on a CPU.
    Unit,
    /// The units of a plane (subgroup, warp), by operations of the plane.
    Plane,
    /// So many of the `units` of a cube, through its shared memory, at barriers. Both are powers of two.
    Cube { units: usize, size: usize },
}

impl Sharing {
    /// Words that the units of a cube tell each other at once.
    fn words(self) -> usize {
        match self {
            Self::Unit | Self::Plane => 0,
            Self::Cube { units, .. } => units,
        }
    }

    /// Units that have a row together in shared memory.
    fn size(self) -> usize {
        match self {
            Self::Unit | Self::Plane => 1,
            Self::Cube { size, .. } => size,
        }
    }
}

/// The part of a row that a unit looks at: every `step`-th number from `first`.
#[derive(CubeType, Clone, Copy)]
pub(crate) struct Part {
    pub row: usize,
    /// Where the row begins.
    pub base: usize,
    /// Numbers of the row; none past the last row, so that its units come to every barrier.
    pub width: usize,
    pub first: usize,
    pub step: usize,
}

/// What the units of a row tell each other. In shared memory two halves are used in turn, so that
/// one barrier is enough: who writes to a half has seen all who read it pass the barrier in between.
#[derive(CubeType)]
pub(crate) struct Team {
    words: Shared<[u32]>,
    half: usize,
    #[cube(comptime)]
    sharing: Sharing,
}

#[cube]
impl Team {
    pub(crate) fn new(#[comptime] sharing: Sharing) -> Team {
        Team {
            words: Shared::new_slice(comptime!((2 * sharing.words()).max(1))),
            half: 0usize.runtime(),
            sharing,
        }
    }

    /// The part of this unit of its row, of `rows` rows that lie one after the other.
    pub(crate) fn part(&self, rows: u32, width: u32) -> Part {
        let size = comptime!(self.sharing.size());
        let mut row = ABSOLUTE_POS / size;
        let mut first = UNIT_POS as usize % size;
        let mut step = size.runtime();
        if comptime!(self.sharing == Sharing::Plane) {
            row = CUBE_POS * CUBE_DIM_Y as usize + UNIT_POS_Y as usize;
            first = UNIT_POS_X as usize;
            step = CUBE_DIM_X as usize;
        }
        let width = select(row < rows as usize, width as usize, 0usize);
        Part {
            row,
            base: row * width,
            width,
            first,
            step,
        }
    }

    /// The first word of this unit's row, after all units have given theirs. All units of the cube
    /// call it.
    fn share(&mut self, word: u32) -> usize {
        let base = self.half * comptime!(self.sharing.words());
        self.words[base + UNIT_POS as usize] = word;
        sync_cube();
        self.half = 1usize - self.half;
        let size = comptime!(self.sharing.size());
        base + UNIT_POS as usize / size * size
    }

    /// The largest of the row.
    pub(crate) fn max(&mut self, value: u32) -> u32 {
        if comptime!(self.sharing == Sharing::Plane) {
            plane_max(value)
        } else if comptime!(self.sharing == Sharing::Unit) {
            value
        } else {
            let first = self.share(value);
            let mut max = 0u32;
            for i in 0..comptime!(self.sharing.size()) {
                let word = self.words[first + i];
                max = select(word > max, word, max);
            }
            max
        }
    }

    /// The sum over the row.
    pub(crate) fn sum(&mut self, value: f32) -> f32 {
        if comptime!(self.sharing == Sharing::Plane) {
            plane_sum(value)
        } else if comptime!(self.sharing == Sharing::Unit) {
            value
        } else {
            let first = self.share(u32::reinterpret(value));
            let mut sum = 0.0f32;
            for i in 0..comptime!(self.sharing.size()) {
                sum += f32::reinterpret(self.words[first + i]);
            }
            sum
        }
    }

    /// The sum over the row, and whether any row that meets this one at barriers `wants` another turn.
    pub(crate) fn count(&mut self, value: u32, wants: bool) -> (u32, bool) {
        if comptime!(self.sharing == Sharing::Plane) {
            (plane_sum(value), wants)
        } else if comptime!(self.sharing == Sharing::Unit) {
            (value, wants)
        } else {
            let size = comptime!(self.sharing.size());
            let units = comptime!(self.sharing.words());
            let base = self.half * units;
            let first = self.share(value | select(wants, 0x8000_0000u32, 0u32));
            let mut sum = 0u32;
            for i in 0..size {
                sum += self.words[first + i] & 0x7fff_ffffu32;
            }
            let mut any = 0u32;
            for team in 0..comptime!(units / size) {
                any |= self.words[base + team * size] >> 31u32;
            }
            (sum, any == 1u32)
        }
    }
}
