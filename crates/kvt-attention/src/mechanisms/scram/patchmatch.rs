//! PatchMatch: a search for the best keys of all queries of a map at once, in which neighbours help each other.

use kvt_ops::Key;
use rand::RngExt;
use rayon::prelude::*;

use super::fields::{At, Fields, Grid, Tokens, saturated};

/// Distances to the neighbours whose matches are tried, in this order.
const JUMPS: [i32; 4] = [8, 4, 2, 1];

/// Up, down, left, right.
const DIRECTIONS: [[i32; 2]; 4] = [[-1, 0], [1, 0], [0, -1], [0, 1]];

/// Minimum number of queries per parallel task.
const LEAST_QUERIES: usize = 64;

/// The settings of the search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PatchMatch {
    /// Runs of the search: keys that a query keeps.
    pub kept: usize,
    /// A key must be more rows or columns than this away from the keys that earlier runs found for its query; with 0
    /// it must only be a different key.
    pub separation: usize,
    /// Iterations of a run.
    pub iterations: usize,
}

/// The best key of a query so far.
#[derive(Clone, Copy, Debug)]
struct Match {
    at: At,
    score: f32,
    /// Whether the key keeps its distance from the matches of earlier runs, which a random start might not.
    valid: bool,
}

/// A query in one run.
struct Seeker<'a> {
    tokens: &'a Tokens<'a>,
    head: usize,
    query: usize,
    /// What earlier runs found.
    earlier: &'a [At],
    separation: i32,
}

impl PatchMatch {
    /// Searches for the `kept` best keys of every query, by dot product: Algorithm 1 of the paper, once for each of
    /// them.
    ///
    /// A run starts from random keys. In each iteration a query looks at its neighbours 8, 4, 2 and 1 rows or columns
    /// away: their matches, moved back by that distance, are offered to it. Then keys at random places around its match
    /// are offered, in windows that shrink from the whole map to the next token. An offer is taken where its product
    /// with the query is larger and it is far enough from the matches of earlier runs.
    ///
    /// Neighbours are read as they were before the iteration, so that the result depends neither on threads nor on
    /// the order of queries. Random numbers depend on `key`, the run, the iteration, the window and the query, but
    /// not on the head.
    pub fn search(self, tokens: &Tokens<'_>, key: Key) -> Fields {
        let mut fields = Fields::new(tokens, self.kept);
        let (grid, count) = (tokens.grid(), tokens.tokens());
        let queries = tokens.heads() * count;
        for run in 0..self.kept {
            let key = key.child(run as u64);
            let seeker = |number: usize| Seeker {
                tokens,
                head: number / count,
                query: number % count,
                earlier: fields.earlier(number, run),
                separation: saturated(self.separation),
            };
            let start = start(key.named("start"), grid);
            let all = || {
                let all = (0..queries).into_par_iter();
                all.with_min_len(LEAST_QUERIES)
            };
            let mut matches: Vec<Match> = all()
                .map(|number| seeker(number).start(start[number % count]))
                .collect();
            for iteration in 0..self.iterations {
                let windows = windows(key.named("windows").child(iteration as u64), grid);
                matches = all()
                    .map(|number| {
                        let (head, query) = (number / count, number % count);
                        let before = &matches[head * count..(head + 1) * count];
                        let offsets = windows.iter().map(|window| window[query]);
                        seeker(number).iterate(before, offsets)
                    })
                    .collect();
            }
            for (number, found) in matches.iter().enumerate() {
                if found.valid {
                    fields.set(number, run, found.at);
                }
            }
        }
        fields
    }

    /// The maximum number of products of one query: for the start, from neighbours, and in the windows.
    pub(super) fn products(self, grid: [usize; 2]) -> usize {
        let windows = radii(grid.into_iter().max().unwrap_or(0)).count();
        let iteration = JUMPS.len() * DIRECTIONS.len() + windows;
        let run = self.iterations.saturating_mul(iteration).saturating_add(1);
        self.kept.saturating_mul(run)
    }
}

impl Seeker<'_> {
    fn start(&self, at: At) -> Match {
        Match {
            at,
            score: self.score(at),
            valid: self.is_valid(at),
        }
    }

    fn iterate(&self, before: &[Match], offsets: impl Iterator<Item = [i32; 2]>) -> Match {
        let grid = self.tokens.grid();
        let (here, mut best) = (grid.at(self.query), before[self.query]);
        for jump in JUMPS {
            for direction in DIRECTIONS {
                let offset = direction.map(|step| step * jump);
                let neighbour = here.moved(offset);
                if grid.contains(neighbour) {
                    let found = before[grid.token(neighbour)].at;
                    self.offer(&mut best, found.moved(offset.map(|step| -step)));
                }
            }
        }
        for offset in offsets {
            let near = grid.clamp(best.at.moved(offset));
            self.offer(&mut best, near);
        }
        best
    }

    fn offer(&self, best: &mut Match, at: At) {
        // Neighbours that agree offer the current match.
        if at == best.at || !self.tokens.grid().contains(at) || !self.is_valid(at) {
            return;
        }
        let score = self.score(at);
        // A NaN wins, so that it reaches the output instead of hiding.
        let better = score > best.score || (score.is_nan() && !best.score.is_nan());
        if better || !best.valid {
            *best = Match {
                at,
                score,
                valid: true,
            };
        }
    }

    fn is_valid(&self, at: At) -> bool {
        let mut earlier = self.earlier.iter();
        earlier.all(|found| found.distance(at) > self.separation)
    }

    fn score(&self, at: At) -> f32 {
        let key = self.tokens.grid().token(at);
        self.tokens.product(self.head, self.query, key)
    }
}

/// A random key for every query.
pub(super) fn start(key: Key, grid: Grid) -> Vec<At> {
    let mut rng = key.rng();
    let tokens = grid.len() as u32;
    let draw = |_| grid.at(rng.random_range(0..tokens) as usize);
    (0..tokens).map(draw).collect()
}

/// For every window, the largest first, an offset for every query.
pub(super) fn windows(key: Key, grid: Grid) -> Vec<Vec<[i32; 2]>> {
    let Grid([rows, columns]) = grid;
    let radii: Vec<usize> = radii(rows.max(columns) as usize).collect();
    let windows = radii.into_par_iter().enumerate();
    let window = |(number, radius): (usize, usize)| {
        let mut rng = key.child(number as u64).rng();
        let radius = radius as i32;
        let mut draw = || rng.random_range(-radius..=radius);
        (0..grid.len()).map(|_| [draw(), draw()]).collect()
    };
    windows.map(window).collect()
}

/// Half sides of the windows: the longer side of the map, then halved down to 1.
fn radii(side: usize) -> impl Iterator<Item = usize> {
    std::iter::successors(Some(side), |radius| Some(radius / 2)).take_while(|radius| *radius > 0)
}
