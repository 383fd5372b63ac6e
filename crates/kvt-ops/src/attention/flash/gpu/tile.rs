//! Common to the kernels: products of one row with many rows, and weighted sums of many rows.

use cubecl::prelude::*;

use super::plan::{FlashPlan, Spread};

/// The rows of a workgroup.
#[derive(CubeType, Clone, Copy)]
pub(super) struct Block {
    /// Their head, counted over all images; past the last head in surplus workgroups.
    pub head: usize,
    /// The first row, within the head.
    pub first: usize,
    /// Number of rows from the first to the end of the head.
    pub present: usize,
}

#[cube]
impl Block {
    /// The rows of this workgroup; a head has `count` rows.
    pub(super) fn new(count: usize, #[comptime] rows: usize) -> Block {
        let blocks = count.div_ceil(rows);
        let first = CUBE_POS % blocks * rows;
        Block {
            head: CUBE_POS / blocks,
            first,
            present: count - first,
        }
    }
}

/// Rows of a tensor in shared memory.
#[derive(CubeType)]
pub(super) struct Tile<N: Size> {
    values: Shared<[Vector<f32, N>]>,
    /// Vectors per row.
    #[cube(comptime)]
    columns: usize,
    #[cube(comptime)]
    plan: FlashPlan,
}

#[cube]
impl<N: Size> Tile<N> {
    /// Loads `count` rows of a tensor, multiplied by a factor; rows past the last become zeros.
    pub(super) fn load<F: Float>(
        x: &Tensor<Vector<F, N>>,
        first: usize,
        count: usize,
        factor: f32,
        #[comptime] columns: usize,
        #[comptime] plan: FlashPlan,
    ) -> Tile<N> {
        let mut values = Shared::<[Vector<f32, N>]>::new_slice(comptime!(plan.rows * columns));
        let mut i = UNIT_POS as usize;
        while i < comptime!(plan.rows * columns) {
            let mut value = Vector::<f32, N>::new(0.0f32);
            if i < count * columns {
                value = Vector::cast_from(x[first * columns + i]) * Vector::new(factor);
            }
            values[i] = value;
            i += plan.units;
        }
        Tile::<N> {
            values,
            columns,
            plan,
        }
    }

    /// The dot products of the rows with the row of `x` at `at`, multiplied by a factor. All kernels scale the queries, in the tile
    /// or here, so that they round alike.
    pub(super) fn products<F: Float>(
        &self,
        x: &Tensor<Vector<F, N>>,
        at: usize,
        factor: f32,
        products: &mut Array<f32>,
    ) {
        let rows = comptime!(self.plan.rows);
        let columns = comptime!(self.columns);
        let mut sums = Array::<Vector<f32, N>>::new(rows);
        #[unroll]
        for row in 0..rows {
            sums[row] = Vector::new(0.0f32);
        }
        for column in 0..columns {
            let value = Vector::<f32, N>::cast_from(x[at + column]) * Vector::new(factor);
            #[unroll]
            for row in 0..rows {
                sums[row] += value * self.values[row * columns + column];
            }
        }
        #[unroll]
        for row in 0..rows {
            let mut sum = 0.0f32;
            #[unroll]
            for i in 0..N::value() {
                sum += sums[row].extract(i);
            }
            products[row] = sum;
        }
    }
}

/// This thread's share of weighted sums of rows of vectors: one column of a group of rows, over a slice of the pairs. Each kind of
/// weights has separate sums.
#[derive(CubeType)]
pub(super) struct Sums<N: Size> {
    /// The sums, kind after kind.
    pub values: Array<Vector<f32, N>>,
    /// Its column.
    pub column: usize,
    /// Its first row.
    pub row: usize,
    /// Its first pair.
    slice: usize,
    /// Whether the thread has a share.
    busy: bool,
    #[cube(comptime)]
    kinds: usize,
    #[cube(comptime)]
    pub spread: Spread,
    #[cube(comptime)]
    plan: FlashPlan,
}

#[cube]
impl<N: Size> Sums<N> {
    /// Zeros, of rows of `columns` vectors.
    pub(super) fn new(
        #[comptime] columns: usize,
        #[comptime] kinds: usize,
        #[comptime] plan: FlashPlan,
    ) -> Sums<N> {
        let spread = comptime!(plan.spread(columns));
        let mut values = Array::<Vector<f32, N>>::new(comptime!(kinds * spread.rows));
        #[unroll]
        for i in 0..comptime!(kinds * spread.rows) {
            values[i] = Vector::new(0.0f32);
        }
        let unit = UNIT_POS as usize;
        let group = unit / comptime!(spread.columns);
        Sums::<N> {
            values,
            column: unit % comptime!(spread.columns),
            row: group % comptime!(spread.groups) * comptime!(spread.rows),
            slice: group / comptime!(spread.groups),
            busy: group < comptime!(spread.groups * spread.slices),
            kinds,
            spread,
            plan,
        }
    }

    /// Adds `count` vectors of `x` from row `first` on, weighted for the row of the sum with those from kind `from_kind` on. The weights of
    /// one row and kind are adjacent.
    pub(super) fn accumulate<F: Float>(
        &mut self,
        x: &Tensor<Vector<F, N>>,
        first: usize,
        count: usize,
        weights: &Shared<[f32]>,
        #[comptime] from_kind: usize,
    ) {
        if self.busy {
            let mut i = self.slice;
            while i < count {
                let at = (first + i) * comptime!(self.spread.columns) + self.column;
                let value = Vector::<f32, N>::cast_from(x[at]);
                #[unroll]
                for row in 0..comptime!(self.spread.rows) {
                    let from = (self.row + row) * comptime!(self.plan.capacity) + i;
                    #[unroll]
                    for kind in 0..comptime!(self.kinds) {
                        let kind_from = comptime!((from_kind + kind) * self.plan.units);
                        let weight = weights[from + kind_from];
                        let place = comptime!(kind * self.spread.rows + row);
                        self.values[place] += value * Vector::new(weight);
                    }
                }
                i += comptime!(self.spread.slices);
            }
        }
    }

    /// Adds the sums of all slices to the sums of the first slice.
    pub(super) fn merge(&mut self) {
        if comptime!(self.spread.slices > 1) {
            let units = comptime!(self.plan.units);
            let kinds = comptime!(self.kinds);
            let mut parts = Shared::<[Vector<f32, N>]>::new_slice(comptime!(kinds * units));
            let unit = UNIT_POS as usize;
            // With several slices, a thread has one row.
            #[unroll]
            for kind in 0..kinds {
                parts[unit + comptime!(kind * units)] = self.values[kind];
            }
            sync_cube();
            if self.slice == 0 {
                #[unroll]
                for slice in 1..comptime!(self.spread.slices) {
                    let other = unit + comptime!(slice * self.spread.columns * self.spread.groups);
                    #[unroll]
                    for kind in 0..kinds {
                        self.values[kind] += parts[other + comptime!(kind * units)];
                    }
                }
            }
        }
    }

    /// Whether the thread has sums over all pairs, once the slices are merged.
    pub(super) fn are_whole(&self) -> bool {
        self.busy && self.slice == 0
    }

    /// Writes the sums of the rows before `present`, from row `first` of `out` on.
    pub(super) fn write<F: Float>(
        &self,
        out: &mut Tensor<Vector<F, N>>,
        first: usize,
        present: usize,
    ) {
        if self.are_whole() {
            #[unroll]
            for i in 0..comptime!(self.spread.rows) {
                let row = self.row + i;
                if row < present {
                    let at = (first + row) * comptime!(self.spread.columns) + self.column;
                    out[at] = Vector::cast_from(self.values[i]);
                }
            }
        }
    }
}
