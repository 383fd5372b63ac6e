//! Window attention: every token of a map sees the tokens, or the pooled tokens, in the square around it.
//!
//! Tokens before the map see all tokens and are seen by all. Without a map, the other tokens form one row.

use burn::tensor::Tensor;

use super::weighing::{Qkv, Weighing, with_prefix};
use crate::{AttentionError, Place};

mod axis;
mod tiles;

use axis::Axis;

/// Up to this number of tokens, all keys are scored and those outside the window are hidden. Longer sequences are cut
/// into tiles that see only their neighbours, so that memory does not grow with the square of the tokens.
const WHOLE: usize = 1024;

/// Minimum number of keys of a tile along an axis: products with fewer are slow.
const LEAST_IN_A_ROW: usize = 16;
const LEAST_ON_A_MAP: usize = 4;

/// The keys in reach of a token, along each axis of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Window {
    /// Distance from a token to the centre of the farthest key.
    pub(super) radius: usize,
    /// Tokens whose mean is a key, fewer at the far edge of the map.
    pub(super) pool: usize,
    /// Distance between the first tokens of consecutive keys.
    pub(super) stride: usize,
}

impl Window {
    /// A window of tokens.
    pub(super) fn of_tokens(radius: usize) -> Self {
        Self {
            radius,
            pool: 1,
            stride: 1,
        }
    }
}

/// Refuses a bias or a mask, and cross-attention, whose queries and keys are at different positions.
pub(super) fn fits(kind: &'static str, place: &Place) -> Result<(), AttentionError> {
    place.without_bias(kind)?;
    let Place { queries, keys, .. } = *place;
    if queries == keys {
        return Ok(());
    }
    Err(AttentionError::misplaced(
        kind,
        format!(
            "needs queries and keys at the same positions, but there are {queries} queries and {keys} keys"
        ),
        "use another kind, or a stage whose keys are not reduced",
    ))
}

/// Windows on the map of a sequence.
#[derive(Clone, Debug)]
pub(super) struct Band {
    prefix: usize,
    /// Rows and columns.
    axes: [Axis; 2],
}

impl Band {
    /// Windows on sequences of `tokens` tokens, prefix included.
    pub(super) fn new(
        tokens: usize,
        prefix: usize,
        grid: Option<[usize; 2]>,
        window: Window,
    ) -> Self {
        let prefix = prefix.min(tokens);
        let grid = grid.unwrap_or([1, tokens - prefix]);
        let axes = grid.map(|tokens| Axis::new(tokens, window));
        Self { prefix, axes }
    }

    /// Windows at a place.
    pub(super) fn at(place: &Place, window: Window) -> Self {
        Self::new(place.queries, place.prefix, place.grid, window)
    }

    /// Pairs of a query and a key that it sees, of one image and head.
    pub(super) fn pairs(&self) -> usize {
        let [rows, columns] = &self.axes;
        let (tokens, keys) = (
            rows.tokens() * columns.tokens(),
            rows.keys() * columns.keys(),
        );
        let windows = rows.pairs() * columns.pairs();
        self.prefix * (self.prefix + keys) + tokens * self.prefix + windows
    }

    /// Tokens that determine the output of a query in the middle of the map.
    pub(super) fn reach(&self) -> usize {
        let [rows, columns] = &self.axes;
        self.prefix + rows.reach() * columns.reach()
    }

    /// Keys or values with the means of the pools instead of the tokens of the map,
    /// `[batch, heads, prefix + pools, head_dim]`.
    pub(super) fn pool(&self, x: Tensor<4>) -> Tensor<4> {
        let [rows, columns] = &self.axes;
        if rows.is_plain() || x.dims()[2] == self.prefix {
            return x;
        }
        let [batch, heads, tokens, dim] = x.dims();
        let map = x.clone().narrow(2, self.prefix, tokens - self.prefix);
        let each_row = map.reshape([batch * heads * rows.tokens(), columns.tokens(), dim]);
        let width = columns.keys() * dim;
        let narrower = columns
            .pool(each_row)
            .reshape([batch * heads, rows.tokens(), width]);
        let pools = rows
            .pool(narrower)
            .reshape([batch, heads, rows.keys() * columns.keys(), dim]);
        with_prefix(x, self.prefix, pools)
    }

    /// Softmax attention of every token to the keys that it sees.
    ///
    /// # Shapes
    /// - `q`: `[batch, heads, prefix + tokens, head_dim]`
    /// - `k`: `[batch, heads, prefix + keys, head_dim]`, as [`pool`](Self::pool) makes them
    /// - `v`: `[batch, heads, prefix + keys, value_dim]`
    /// - output: `[batch, heads, prefix + tokens, value_dim]`
    pub(super) fn attend(&self, qkv: Qkv, weighing: &Weighing) -> Tensor<4> {
        let whole = qkv[0].dims()[2] <= WHOLE;
        let [rows, columns] = &self.axes;
        let least = match rows.tokens() {
            1 => LEAST_IN_A_ROW,
            _ => LEAST_ON_A_MAP,
        };
        let tiles = [rows, columns].map(|axis| axis.tiles(whole, least));
        self.attend_tiles(qkv, weighing, tiles)
    }
}

#[cfg(test)]
mod tests;
