//! Common to the kernels: products of one row with many rows, and weighted sums of many rows.

use cubecl::prelude::*;

use super::plan::{Spread, TileLayout};

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

/// This thread's share of the sums.
#[derive(CubeType, Clone, Copy)]
pub(super) struct Lane {
    /// Its column.
    pub column: usize,
    /// Its first row.
    pub row: usize,
    /// Its first pair.
    pub slice: usize,
    /// Whether the thread has a share.
    pub busy: bool,
}

#[cube]
impl Lane {
    pub(super) fn new(#[comptime] spread: Spread) -> Lane {
        let unit = UNIT_POS as usize;
        let group = unit / comptime!(spread.columns);
        Lane {
            column: unit % comptime!(spread.columns),
            row: group % comptime!(spread.groups) * comptime!(spread.rows),
            slice: group / comptime!(spread.groups),
            busy: group < comptime!(spread.groups * spread.slices),
        }
    }
}

/// Loads rows of a tensor into shared memory, multiplied by a factor; rows past the last become zeros.
#[cube]
pub(super) fn load<F: Float, N: Size>(
    x: &Tensor<Vector<F, N>>,
    tile: &mut Shared<[Vector<f32, N>]>,
    first: usize,
    count: usize,
    factor: f32,
    #[comptime] rows: usize,
    #[comptime] columns: usize,
    #[comptime] units: usize,
) {
    let mut i = UNIT_POS as usize;
    while i < comptime!(rows * columns) {
        let mut value = Vector::<f32, N>::new(0.0f32);
        if i < count * columns {
            value = Vector::cast_from(x[first * columns + i]) * Vector::new(factor);
        }
        tile[i] = value;
        i += units;
    }
}

/// The dot products of the rows of a tile with the row of `x` at `at`, multiplied by a factor. All kernels scale the
/// queries, in the tile or here, so that they round alike.
#[cube]
pub(super) fn products<F: Float, N: Size>(
    x: &Tensor<Vector<F, N>>,
    at: usize,
    tile: &Shared<[Vector<f32, N>]>,
    products: &mut Array<f32>,
    factor: f32,
    #[comptime] rows: usize,
    #[comptime] columns: usize,
) {
    let mut sums = Array::<Vector<f32, N>>::new(rows);
    #[unroll]
    for row in 0..rows {
        sums[row] = Vector::new(0.0f32);
    }
    for column in 0..columns {
        let value = Vector::<f32, N>::cast_from(x[at + column]) * Vector::new(factor);
        #[unroll]
        for row in 0..rows {
            sums[row] += value * tile[row * columns + column];
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

/// Adds the vectors of `x` from row `first` to the sums of this thread, weighted for the row of the sum. Each kind of
/// weights has separate sums, kind after kind.
#[cube]
pub(super) fn accumulate<F: Float, N: Size>(
    x: &Tensor<Vector<F, N>>,
    first: usize,
    count: usize,
    weights: &Shared<[f32]>,
    sums: &mut Array<Vector<f32, N>>,
    lane: &Lane,
    #[comptime] layout: TileLayout,
    #[comptime] spread: Spread,
) {
    if lane.busy {
        let mut i = lane.slice;
        while i < count {
            let at = (first + i) * comptime!(spread.columns) + lane.column;
            let value = Vector::<f32, N>::cast_from(x[at]);
            #[unroll]
            for row in 0..comptime!(spread.rows) {
                let from = (lane.row + row) * comptime!(layout.stride) + i;
                #[unroll]
                for kind in 0..comptime!(layout.kinds) {
                    let kind_from = comptime!((layout.first + kind) * layout.apart);
                    let weight = weights[from + kind_from];
                    sums[comptime!(kind * spread.rows + row)] += value * Vector::new(weight);
                }
            }
            i += comptime!(spread.slices);
        }
    }
}

/// Adds the sums of all slices to the sums of the first slice.
#[cube]
pub(super) fn merge<N: Size>(
    sums: &mut Array<Vector<f32, N>>,
    lane: &Lane,
    #[comptime] units: usize,
    #[comptime] kinds: usize,
    #[comptime] spread: Spread,
) {
    if comptime!(spread.slices > 1) {
        let mut parts = Shared::<[Vector<f32, N>]>::new_slice(comptime!(kinds * units));
        let unit = UNIT_POS as usize;
        // With several slices, a thread has one row.
        #[unroll]
        for kind in 0..kinds {
            parts[unit + comptime!(kind * units)] = sums[kind];
        }
        sync_cube();
        if lane.slice == 0 {
            #[unroll]
            for slice in 1..comptime!(spread.slices) {
                let other = unit + comptime!(slice * spread.columns * spread.groups);
                #[unroll]
                for kind in 0..kinds {
                    sums[kind] += parts[other + comptime!(kind * units)];
                }
            }
        }
    }
}

/// Sets sums to zero.
#[cube]
pub(super) fn clear<N: Size>(sums: &mut Array<Vector<f32, N>>, #[comptime] count: usize) {
    #[unroll]
    for i in 0..count {
        sums[i] = Vector::new(0.0f32);
    }
}
