//! What tiles of queries keep together, and how far heads agree. A kernel for GPUs loads blocks of keys for a tile of queries, so it can
//! skip only what no query of the tile keeps.

mod figure;
mod table;

use burn::tensor::Tensor;

pub use figure::figure;
use table::Tile;
pub(super) use table::json;
pub use table::{HEADER, csv, rows};

/// Sizes of a tile, in consecutive queries.
const SIZES: [usize; 3] = [8, 16, 64];
/// Widths of a block, in consecutive keys.
const WIDTHS: [usize; 2] = [16, 64];

/// A number of a block of a model, for each image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Together {
    /// The number of keys, n.
    Keys,
    /// The share of a head's kept keys that another head keeps for the same query, mean over pairs of heads and queries.
    Heads,
    /// The number of keys that at least one of so many consecutive queries keeps, mean over tiles, heads and windows.
    Union(usize),
    /// The share of the blocks of so many keys (the second number) that hold at least one of these keys.
    Blocks(usize, usize),
}

/// What is kept together, for each image `[images]`. A key is kept if its weight is above 0. A last tile with fewer queries is left out; a
/// last block may have fewer keys. `Heads` is left out unless `has_heads`: within windows, the second dimension mixes heads and windows.
///
/// # Shapes
///
/// `[images, heads, query, key]`
pub(super) fn together(weights: Tensor<4>, has_heads: bool) -> Vec<(Together, Tensor<1>)> {
    let [images, heads, _, keys] = weights.dims();
    let device = weights.device();
    let is_kept = weights.greater_elem(0.0).float();
    let mut found = vec![(Together::Keys, Tensor::full([images], keys as f64, &device))];
    for size in SIZES {
        let Some(union) = union(is_kept.clone(), size) else {
            continue;
        };
        for width in WIDTHS {
            let share = touched(union.clone(), width);
            found.push((Together::Blocks(size, width), share));
        }
        let count = union.sum_dim(2).mean_dim(1).reshape([images]);
        found.push((Together::Union(size), count));
    }
    if has_heads && heads > 1 {
        found.push((Together::Heads, overlap(is_kept)));
    }
    found
}

/// 1 where at least one query of a tile keeps a key: `[images, heads, query, key]` to `[images, heads * tiles, key]`, or `None` if
/// there are fewer queries than a tile has.
fn union(is_kept: Tensor<4>, size: usize) -> Option<Tensor<3>> {
    let [images, heads, queries, keys] = is_kept.dims();
    let tiles = queries / size;
    (tiles > 0).then(|| {
        let whole = is_kept.narrow(2, 0, tiles * size);
        let tiled = whole.reshape([images, heads * tiles, size, keys]);
        tiled.max_dim(2).reshape([images, heads * tiles, keys])
    })
}

/// The share of blocks with a key, for each image.
fn touched(union: Tensor<3>, width: usize) -> Tensor<1> {
    let [images, tiles, keys] = union.dims();
    let blocks = keys.div_ceil(width);
    let missing = blocks * width - keys;
    let full = if missing == 0 {
        union
    } else {
        let zeros = Tensor::zeros([images, tiles, missing], &union.device());
        Tensor::cat(vec![union, zeros], 2)
    };
    let blocked = full.reshape([images, tiles * blocks, width]);
    blocked.max_dim(2).mean_dim(1).reshape([images])
}

/// `|A and B| / k`, mean over pairs of heads and queries. A key that c heads keep is shared by `c (c - 1)` ordered pairs, so no pair
/// is compared.
fn overlap(is_kept: Tensor<4>) -> Tensor<1> {
    let [images, heads, ..] = is_kept.dims();
    let count = is_kept.sum_dim(1);
    let shared = (count.clone() * (count.clone() - 1.0)).sum_dim(3);
    let all = count.sum_dim(3).clamp_min(1.0) * heads.saturating_sub(1).max(1) as f64;
    (shared / all).mean_dim(2).reshape([images])
}

#[cfg(test)]
mod tests;
