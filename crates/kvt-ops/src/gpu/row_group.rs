//! Row groups: the threads that process a row together, and how they exchange results.

use cubecl::prelude::*;

/// The threads that process a row together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum RowStrategy {
    /// One thread per row; fastest on software drivers, where threads are loop iterations.
    Unit,
    /// The threads of a subgroup (plane, warp), with subgroup operations.
    Plane,
    /// Groups of `size` of the `units` threads of a workgroup, through shared memory and barriers. Both are powers of two.
    Cube { units: usize, size: usize },
}

impl RowStrategy {
    /// Words of shared memory per exchange.
    fn words(self) -> usize {
        match self {
            Self::Unit | Self::Plane => 0,
            Self::Cube { units, .. } => units,
        }
    }

    /// Threads per group that uses shared memory.
    fn size(self) -> usize {
        match self {
            Self::Unit | Self::Plane => 1,
            Self::Cube { size, .. } => size,
        }
    }
}

/// The part of a row that a thread reads: every `step`-th number from `first`.
#[derive(CubeType, Clone, Copy)]
pub(crate) struct Part {
    pub row: usize,
    /// Index of the first number of the row.
    pub base: usize,
    /// Numbers of the row; 0 past the last row, whose threads must still reach every barrier.
    pub width: usize,
    pub first: usize,
    pub step: usize,
}

/// The row group of a thread.
///
/// The shared memory has two halves, used in turn, so that one barrier per exchange is enough: a thread that writes to
/// a half again has passed the barrier of the other half, which all readers of the first half have reached.
#[derive(CubeType)]
pub(crate) struct RowGroup {
    words: Shared<[u32]>,
    half: usize,
    #[cube(comptime)]
    strategy: RowStrategy,
}

#[cube]
impl RowGroup {
    pub(crate) fn new(#[comptime] strategy: RowStrategy) -> RowGroup {
        RowGroup {
            words: Shared::new_slice(comptime!((2 * strategy.words()).max(1))),
            half: 0usize.runtime(),
            strategy,
        }
    }

    /// The part that this thread reads of `rows` contiguous rows.
    pub(crate) fn part(&self, rows: u32, width: u32) -> Part {
        let size = comptime!(self.strategy.size());
        let mut row = ABSOLUTE_POS / size;
        let mut first = UNIT_POS as usize % size;
        let mut step = size.runtime();
        if comptime!(self.strategy == RowStrategy::Plane) {
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

    /// Index of the group's first word, after every thread has written one. All threads of the workgroup must call it.
    fn exchange(&mut self, word: u32) -> usize {
        let base = self.half * comptime!(self.strategy.words());
        self.words[base + UNIT_POS as usize] = word;
        sync_cube();
        self.half = 1usize - self.half;
        let size = comptime!(self.strategy.size());
        base + UNIT_POS as usize / size * size
    }

    /// The maximum over the group.
    pub(crate) fn max(&mut self, value: u32) -> u32 {
        if comptime!(self.strategy == RowStrategy::Plane) {
            plane_max(value)
        } else if comptime!(self.strategy == RowStrategy::Unit) {
            value
        } else {
            let first = self.exchange(value);
            let mut max = 0u32;
            for i in 0..comptime!(self.strategy.size()) {
                let word = self.words[first + i];
                max = select(word > max, word, max);
            }
            max
        }
    }

    /// The sum over the group.
    pub(crate) fn sum(&mut self, value: f32) -> f32 {
        if comptime!(self.strategy == RowStrategy::Plane) {
            plane_sum(value)
        } else if comptime!(self.strategy == RowStrategy::Unit) {
            value
        } else {
            let first = self.exchange(u32::reinterpret(value));
            let mut sum = 0.0f32;
            for i in 0..comptime!(self.strategy.size()) {
                sum += f32::reinterpret(self.words[first + i]);
            }
            sum
        }
    }

    /// The sum over the group, and whether any group at the same barriers `wants` another turn.
    pub(crate) fn count(&mut self, value: u32, wants: bool) -> (u32, bool) {
        if comptime!(self.strategy == RowStrategy::Plane) {
            (plane_sum(value), wants)
        } else if comptime!(self.strategy == RowStrategy::Unit) {
            (value, wants)
        } else {
            let size = comptime!(self.strategy.size());
            let units = comptime!(self.strategy.words());
            let base = self.half * units;
            let first = self.exchange(value | select(wants, 0x8000_0000u32, 0u32));
            let mut sum = 0u32;
            for i in 0..size {
                sum += self.words[first + i] & 0x7fff_ffffu32;
            }
            let mut any = 0u32;
            for group in 0..comptime!(units / size) {
                any |= self.words[base + group * size] >> 31u32;
            }
            (sum, any == 1u32)
        }
    }
}
