//! One axis of a map: which keys a query sees along it, and how it is cut into tiles.

use burn::tensor::ops::PadMode;
use burn::tensor::{Bool, Device, Tensor, TensorData};

use super::Window;
use super::tiles::Tiles;

/// Queries and keys along one axis of a map.
#[derive(Clone, Copy, Debug)]
pub(super) struct Axis {
    tokens: usize,
    window: Window,
}

impl Axis {
    pub(super) fn new(tokens: usize, window: Window) -> Self {
        Self { tokens, window }
    }

    pub(super) fn tokens(&self) -> usize {
        self.tokens
    }

    pub(super) fn keys(&self) -> usize {
        self.tokens.div_ceil(self.window.stride)
    }

    /// Whether keys are tokens.
    pub(super) fn is_plain(&self) -> bool {
        self.window.pool == 1 && self.window.stride == 1
    }

    /// The first token of a key, and the token after its last.
    fn span(&self, key: usize) -> (usize, usize) {
        let first = key * self.window.stride;
        (first, (first + self.window.pool).min(self.tokens))
    }

    /// Twice the position of the centre of a key.
    fn twice_centre(&self, key: usize) -> usize {
        let (first, end) = self.span(key);
        first + end - 1
    }

    fn sees(&self, query: usize, key: usize) -> bool {
        self.twice_centre(key).abs_diff(2 * query) <= 2 * self.window.radius
    }

    /// Pairs of a query and a key that it sees.
    pub(super) fn pairs(&self) -> usize {
        let Some(last) = self.tokens.checked_sub(1) else {
            return 0;
        };
        let seen_by = |key| {
            let (centre, radius) = (self.twice_centre(key), 2 * self.window.radius);
            let first = centre.saturating_sub(radius).div_ceil(2);
            ((centre + radius) / 2).min(last) + 1 - first
        };
        (0..self.keys()).map(seen_by).sum()
    }

    /// Tokens that determine the output of a query far from the ends.
    pub(super) fn reach(&self) -> usize {
        self.tokens.min(2 * self.window.radius + self.window.pool)
    }

    /// The axis as one tile, or as tiles of at least `least` keys that are at least as long as the reach of a query
    /// to one side.
    pub(super) fn tiles(&self, whole: bool, least: usize) -> Tiles {
        let Window {
            radius,
            pool,
            stride,
        } = self.window;
        // The distance to a key is that to its centre, half a pool after its first token.
        let keys = (radius + pool / 2).div_ceil(stride).max(least);
        if whole || keys >= self.keys() {
            return Tiles {
                count: 1,
                queries: self.tokens,
                keys: self.keys(),
                neighbors: 0,
            };
        }
        Tiles {
            count: self.keys().div_ceil(keys),
            queries: keys * stride,
            keys,
            neighbors: 1,
        }
    }

    /// The keys of each tile that its queries do not see, `[tile, query, key]`. Queries past the end of the axis see
    /// what the last one sees, so that no row is empty.
    pub(super) fn hidden(&self, tiles: &Tiles, device: &Device) -> Tensor<3, Bool> {
        let shape = [tiles.count, tiles.queries, tiles.visible()];
        let before = tiles.neighbors * tiles.keys;
        let mut hidden = Vec::with_capacity(shape.iter().product());
        for tile in 0..tiles.count {
            for query in 0..tiles.queries {
                let query = (tile * tiles.queries + query).min(self.tokens.saturating_sub(1));
                hidden.extend((0..tiles.visible()).map(|key| {
                    let key = (tile * tiles.keys + key).checked_sub(before);
                    !key.is_some_and(|key| key < self.keys() && self.sees(query, key))
                }));
            }
        }
        Tensor::from_data(TensorData::new(hidden, shape), device)
    }

    /// Means of the tokens of each key, `[rows, tokens, channels]` to `[rows, keys, channels]`.
    pub(super) fn pool(&self, x: Tensor<3>) -> Tensor<3> {
        let Window { pool, stride, .. } = self.window;
        // There are only zeros past the end.
        let pool = pool.min(self.tokens);
        let ([rows, len, channels], keys) = (x.dims(), self.keys());
        let blocks = keys + (pool - 1) / stride;
        let x = x
            .pad([(0, blocks * stride - len), (0, 0)], PadMode::Constant(0.0))
            .reshape([rows, blocks, stride, channels]);
        let tap = |offset: usize| {
            let of_each_key = x.clone().narrow(1, offset / stride, keys);
            of_each_key.narrow(2, offset % stride, 1)
        };
        let sum = (1..pool).fold(tap(0), |sum, offset| sum + tap(offset));
        let shares: Vec<f32> = (0..keys)
            .map(|key| {
                let (first, end) = self.span(key);
                1.0 / (end - first) as f32
            })
            .collect();
        let shares = TensorData::new(shares, [1, keys, 1]);
        sum.reshape([rows, keys, channels]) * Tensor::<3>::from_data(shares, &x.device())
    }
}
