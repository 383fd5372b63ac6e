//! Windows in tiles: each sees its own keys and those of the tiles beside it.

use burn::tensor::ops::PadMode;
use burn::tensor::{Bool, Device, Tensor};

use super::Band;
use crate::mechanisms::weighing::{Qkv, Weighing};

/// An axis cut into tiles, each with the same number of queries and with the keys along them: a tile sees its own keys
/// and those of the tiles beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tiles {
    pub(super) count: usize,
    /// Queries of a tile.
    pub(super) queries: usize,
    /// Keys of a tile.
    pub(super) keys: usize,
    /// Tiles on each side that it sees.
    pub(super) neighbors: usize,
}

impl Tiles {
    /// Keys that a tile sees.
    pub(super) fn visible(&self) -> usize {
        self.keys * (1 + 2 * self.neighbors)
    }

    /// The tiles whose keys are the queries of these, without neighbours.
    fn of_queries(self) -> Self {
        Self {
            keys: self.queries,
            neighbors: 0,
            ..self
        }
    }
}

/// `[rows, keys, channels]` to `[rows, tile, key, channels]`, with the keys of the neighbours; zeros beyond the ends.
fn cut(x: Tensor<3>, tiles: Tiles) -> Tensor<4> {
    let Tiles {
        count,
        keys,
        neighbors,
        ..
    } = tiles;
    let [rows, len, channels] = x.dims();
    let (before, covered) = (neighbors * keys, count * keys);
    let x = if before + covered > len {
        let after = covered - len + before;
        x.pad([(before, after), (0, 0)], PadMode::Constant(0.0))
    } else {
        x
    };
    let shifted = (0..=2 * neighbors).map(|shift| {
        let piece = x.clone().narrow(1, shift * keys, covered);
        piece.reshape([rows, count, keys, channels])
    });
    Tensor::cat(shifted.collect(), 2)
}

impl Band {
    /// [`attend`](Self::attend) with given tiles.
    pub(super) fn attend_tiles(
        &self,
        qkv: Qkv,
        weighing: &Weighing,
        tiles: [Tiles; 2],
    ) -> Tensor<4> {
        weighing.after_prefix(self.prefix, qkv, |[q, k, v]| {
            let ([batch, heads, tokens, _], value_dim) = (q.dims(), v.dims()[3]);
            let [rows, columns] = &self.axes;
            let [down, across] = tiles;
            let hidden = self.hidden(tiles, &q.device());
            let lengths = [rows.tokens(), columns.tokens()];
            let q = in_tiles(q, lengths, tiles.map(Tiles::of_queries));
            let [k, v] = [k, v].map(|x| self.keys_in_tiles(x, tiles));
            let out = weighing.attend_visible([q, k, v], hidden);
            // From tiles folded into the heads to rows.
            let (height, width) = (down.count * down.queries, across.count * across.queries);
            let out = out
                .reshape([
                    batch,
                    down.count,
                    across.count,
                    heads,
                    down.queries,
                    across.queries,
                    value_dim,
                ])
                .permute([0, 3, 1, 4, 2, 5, 6])
                .reshape([batch * heads, height, width, value_dim])
                .narrow(1, 0, rows.tokens())
                .narrow(2, 0, columns.tokens());
            out.reshape([batch, heads, tokens, value_dim])
        })
    }

    /// The keys or values that each tile sees, those of the prefix first,
    /// `[batch, tiles * heads, prefix + visible, head_dim]`.
    fn keys_in_tiles(&self, x: Tensor<4>, tiles: [Tiles; 2]) -> Tensor<4> {
        let [down, across] = tiles;
        let [batch, heads, keys, dim] = x.dims();
        let [rows, columns] = &self.axes;
        let map = x.clone().narrow(2, self.prefix, keys - self.prefix);
        let lengths = [rows.keys(), columns.keys()];
        let map = in_tiles(map, lengths, tiles);
        if self.prefix == 0 {
            return map;
        }
        let count = down.count * across.count;
        let prefix = x
            .narrow(2, 0, self.prefix)
            .unsqueeze_dim::<5>(1)
            .expand([batch, count, heads, self.prefix, dim])
            .reshape([batch, count * heads, self.prefix, dim]);
        Tensor::cat(vec![prefix, map], 2)
    }

    /// The keys that the queries of each tile do not see, `[1, tiles, query, key]`; `None` if all keys are visible.
    pub(super) fn hidden(
        &self,
        [down, across]: [Tiles; 2],
        device: &Device,
    ) -> Option<Tensor<4, Bool>> {
        let [rows, columns] = &self.axes;
        let all = rows.tokens() * columns.tokens() * rows.keys() * columns.keys();
        if down.count * across.count == 1 && rows.pairs() * columns.pairs() == all {
            return None;
        }
        let (height, width) = (down.visible(), across.visible());
        let shape = [
            down.count,
            across.count,
            down.queries,
            across.queries,
            height,
            width,
        ];
        let row = rows
            .hidden(&down, device)
            .reshape([down.count, 1, down.queries, 1, height, 1]);
        let column =
            columns
                .hidden(&across, device)
                .reshape([1, across.count, 1, across.queries, 1, width]);
        let hidden = row.expand(shape).bool_or(column.expand(shape));
        let (tiles, queries) = (down.count * across.count, down.queries * across.queries);
        let hidden = hidden.reshape([1, tiles, queries, height * width]);
        if self.prefix == 0 {
            return Some(hidden);
        }
        let prefix = Tensor::<4, Bool>::zeros([1, tiles, queries, self.prefix], device);
        Some(Tensor::cat(vec![prefix, hidden], 3))
    }
}

/// A map `[batch, heads, rows * columns, channels]` in tiles, `[batch, tiles * heads, tokens of a tile, channels]`.
fn in_tiles(x: Tensor<4>, [rows, columns]: [usize; 2], [down, across]: [Tiles; 2]) -> Tensor<4> {
    let [batch, heads, _, channels] = x.dims();
    let x = cut(x.reshape([batch * heads * rows, columns, channels]), across);
    let [_, across, width, _] = x.dims();
    let x = cut(
        x.reshape([batch * heads, rows, across * width * channels]),
        down,
    );
    let [_, down, height, _] = x.dims();
    x.reshape([batch, heads, down, height, across, width, channels])
        .permute([0, 2, 4, 1, 3, 5, 6])
        .reshape([batch, down * across * heads, height * width, channels])
}
