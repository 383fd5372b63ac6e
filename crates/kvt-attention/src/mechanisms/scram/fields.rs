//! Queries and keys on a map, the matches of a search, and the keys around them.

use rayon::prelude::*;

use crate::AttentionError;

/// Queries and keys of some heads on the host. Both form the same map, row by row.
#[derive(Clone, Copy, Debug)]
pub struct Tokens<'a> {
    queries: &'a [f32],
    keys: &'a [f32],
    head_dim: usize,
    grid: Grid,
}

/// The result of a search: for every query the keys of its runs, in the order of the runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fields {
    grid: Grid,
    kept: usize,
    /// `[head, query, run]`
    places: Vec<At>,
}

/// A place on the map: row and column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct At(pub(super) [i32; 2]);

/// Rows and columns of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Grid(pub(super) [i32; 2]);

impl At {
    /// No match: far from every place of a map.
    pub(super) const NONE: Self = Self([i32::MIN / 2, 0]);

    pub(super) fn moved(self, by: [i32; 2]) -> Self {
        Self([0, 1].map(|axis| self.0[axis] + by[axis]))
    }

    /// The Chebyshev distance: the larger of the distances along rows and along columns.
    pub(super) fn distance(self, other: Self) -> i32 {
        let [rows, columns] = [0, 1].map(|axis| self.0[axis] - other.0[axis]);
        rows.abs().max(columns.abs())
    }
}

impl Grid {
    fn new(sides: [usize; 2]) -> Self {
        // The casts cannot overflow: a map of 2^31 rows does not fit into memory.
        Self(sides.map(|side| side as i32))
    }

    /// Tokens of the map.
    pub(super) fn len(self) -> usize {
        let [rows, columns] = self.0;
        rows as usize * columns as usize
    }

    pub(super) fn contains(self, at: At) -> bool {
        let mut axes = at.0.iter().zip(self.0);
        axes.all(|(place, side)| (0..side).contains(place))
    }

    /// The nearest place on the map.
    pub(super) fn clamp(self, at: At) -> At {
        At([0, 1].map(|axis| at.0[axis].clamp(0, self.0[axis] - 1)))
    }

    /// The number of the token at a place on the map.
    pub(super) fn token(self, At([row, column]): At) -> usize {
        let [_, columns] = self.0;
        (row * columns + column) as usize
    }

    /// The place of a token.
    pub(super) fn at(self, token: usize) -> At {
        let ([_, columns], token) = (self.0, token as i32);
        At([token / columns, token % columns])
    }

    /// Adds the tokens that are at most `radius` rows and columns from a place, clipped at the border.
    fn window(self, at: At, radius: i32, tokens: &mut Vec<usize>) {
        let span = |middle: i32, side: i32| {
            (middle - radius).max(0)..=(middle.saturating_add(radius)).min(side - 1)
        };
        let [rows, columns] = [0, 1].map(|axis| span(at.0[axis], self.0[axis]));
        for row in rows {
            for column in columns.clone() {
                tokens.push(self.token(At([row, column])));
            }
        }
    }
}

impl<'a> Tokens<'a> {
    /// # Shapes
    /// - `queries`, `keys`: `[head, token, head_dim]`
    /// - `grid`: rows and columns of the map
    ///
    /// # Errors
    /// If a slice does not hold whole heads of such a map, or the slices differ in length.
    pub fn new(
        queries: &'a [f32],
        keys: &'a [f32],
        head_dim: usize,
        grid: [usize; 2],
    ) -> Result<Self, AttentionError> {
        let head = grid.into_iter().try_fold(head_dim, usize::checked_mul);
        let whole = head.is_some_and(|head| head > 0 && queries.len().is_multiple_of(head));
        if !whole || queries.len() != keys.len() {
            return Err(AttentionError::Setting(
                "queries and keys must be [head, token, head_dim] with the tokens of the map: both must have the same length",
            ));
        }
        Ok(Self::of(queries, keys, head_dim, grid))
    }

    /// [`new`](Self::new) for slices of the right lengths.
    pub(super) fn of(
        queries: &'a [f32],
        keys: &'a [f32],
        head_dim: usize,
        grid: [usize; 2],
    ) -> Self {
        Self {
            queries,
            keys,
            head_dim,
            grid: Grid::new(grid),
        }
    }

    /// Heads.
    pub fn heads(&self) -> usize {
        self.queries.len() / (self.grid.len() * self.head_dim)
    }

    /// Tokens of a head.
    pub fn tokens(&self) -> usize {
        self.grid.len()
    }

    pub(super) fn grid(&self) -> Grid {
        self.grid
    }

    /// The product of a query with a key of its head, without a scale.
    pub fn product(&self, head: usize, query: usize, key: usize) -> f32 {
        let [query, key] = [query, key].map(|token| head * self.grid.len() + token);
        dot(
            token(self.queries, query, self.head_dim),
            token(self.keys, key, self.head_dim),
        )
    }
}

impl Fields {
    /// Fields of `heads` heads without a match, for `kept` runs.
    pub(super) fn new(tokens: &Tokens<'_>, kept: usize) -> Self {
        Self {
            grid: tokens.grid,
            kept,
            places: vec![At::NONE; tokens.heads() * tokens.tokens() * kept],
        }
    }

    /// The fields that a search of all keys finds: one after another the best keys, by dot product, that are more than
    /// `separation` rows or columns from the earlier ones. With a separation of 0 these are the `kept` best keys. Of
    /// equal products the first wins.
    ///
    /// Takes time proportional to the square of the number of tokens.
    pub fn exact(tokens: &Tokens<'_>, kept: usize, separation: usize) -> Self {
        let mut fields = Self::new(tokens, kept);
        let (count, grid) = (tokens.tokens(), tokens.grid);
        let separation = saturated(separation);
        let queries = fields.places.par_chunks_mut(kept.max(1)).enumerate();
        queries.for_each_init(Vec::new, |scores: &mut Vec<f32>, (number, found)| {
            let (head, query) = (number / count, number % count);
            scores.clear();
            scores.extend((0..count).map(|key| tokens.product(head, query, key)));
            for place in found {
                let mut best: Option<usize> = None;
                for (key, score) in scores.iter().enumerate() {
                    let better = |best: usize| *score > scores[best];
                    if !score.is_nan() && best.is_none_or(better) {
                        best = Some(key);
                    }
                }
                let Some(best) = best else { break };
                *place = grid.at(best);
                let mut near = Vec::new();
                grid.window(*place, separation, &mut near);
                for key in near {
                    scores[key] = f32::NAN;
                }
            }
        });
        fields
    }

    /// Fields from keys, `[head, query, run]`; `None` where a run found nothing.
    #[cfg(test)]
    pub(super) fn from_keys(grid: [usize; 2], kept: usize, keys: &[Option<usize>]) -> Self {
        let grid = Grid::new(grid);
        let place = |key: &Option<usize>| key.map_or(At::NONE, |key| grid.at(key));
        Self {
            grid,
            kept,
            places: keys.iter().map(place).collect(),
        }
    }

    /// Whether these are the matches of tokens of these sizes.
    pub(super) fn are_of(&self, tokens: &Tokens<'_>) -> bool {
        let queries = tokens.heads() * tokens.tokens();
        self.grid == tokens.grid && self.places.len() == queries * self.kept
    }

    /// Runs of the search: the maximum number of matches of a query.
    pub fn kept(&self) -> usize {
        self.kept
    }

    /// The matches of a query of a head: numbers of keys, in the order in which they were found.
    pub fn matches(&self, head: usize, query: usize) -> impl Iterator<Item = usize> + '_ {
        self.found(head * self.grid.len() + query)
            .map(|at| self.grid.token(at))
    }

    /// The keys around the matches of a query: each once, in ascending order.
    pub fn candidates(&self, head: usize, query: usize, radius: usize) -> Vec<usize> {
        let mut keys = Vec::new();
        self.collect(head * self.grid.len() + query, radius, &mut keys);
        keys
    }

    /// The places of the matches of the query `number`, counted over all heads.
    pub(super) fn found(&self, number: usize) -> impl Iterator<Item = At> + '_ {
        let places = &self.places[number * self.kept..(number + 1) * self.kept];
        places.iter().copied().filter(|at| *at != At::NONE)
    }

    /// The places of the runs before `run`.
    pub(super) fn earlier(&self, number: usize, run: usize) -> &[At] {
        &self.places[number * self.kept..][..run]
    }

    pub(super) fn set(&mut self, number: usize, run: usize, at: At) {
        self.places[number * self.kept + run] = at;
    }

    /// Replaces the content of `keys` by the keys around the matches of the query `number`.
    pub(super) fn collect(&self, number: usize, radius: usize, keys: &mut Vec<usize>) {
        keys.clear();
        for at in self.found(number) {
            self.grid.window(at, saturated(radius), keys);
        }
        keys.sort_unstable();
        keys.dedup();
    }
}

/// A distance on the map, capped at a value beyond the size of any map.
pub(super) fn saturated(distance: usize) -> i32 {
    distance.min(1 << 24) as i32
}

fn token(data: &[f32], number: usize, dim: usize) -> &[f32] {
    &data[number * dim..(number + 1) * dim]
}

/// The product of two vectors, summed in an order that does not depend on the machine.
fn dot(a: &[f32], b: &[f32]) -> f32 {
    const LANES: usize = 8;
    let mut sums = [0.0; LANES];
    let (a_chunks, b_chunks) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let rest = a_chunks.remainder().iter().zip(b_chunks.remainder());
    let rest: f32 = rest.map(|(a, b)| a * b).sum();
    for (a, b) in a_chunks.zip(b_chunks) {
        for (sum, (a, b)) in sums.iter_mut().zip(a.iter().zip(b)) {
            *sum += a * b;
        }
    }
    sums.iter().sum::<f32>() + rest
}
