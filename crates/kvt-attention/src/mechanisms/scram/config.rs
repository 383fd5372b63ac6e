//! Settings of SCRAM.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{PatchMatch, Scram};
use crate::mechanisms::Redraw;
use crate::mechanisms::draws::Draws;
use crate::{AttentionError, Cost, MechanismConfig, ParamInit, Place};

/// The keys that SCRAM searches for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ScramSearch {
    /// The best keys, wherever they are.
    #[default]
    Max,
    /// The best keys that are `separation` apart: modes of the attention.
    Mode,
}

settings! {
    /// Softmax attention over the keys that a random search finds, `softmax(scale / temperature * q k^T) v` over the
    /// windows of `radius` around the best `kept` keys of each query, every key once ([SCRAM,
    /// 2019](https://arxiv.org/abs/1905.10308), Algorithms 1 and 2). PatchMatch finds them: neighbours on the
    /// map pass their matches on to each other. Queries and keys must form one map. The class token has no place on it: its
    /// query attends to all keys, and its key is a candidate of every query.
    ///
    /// The gradient flows through scores and values of the keys that were found, as in k-NN attention, to which this is
    /// an approximation with `search = "max"` and `radius = 0`. The search runs on the CPU. It evaluates `kept * (1 +
    /// iterations * (17 + log2(side)))` scores of a query at most: more than there are keys, unless the map is large.
    ///
    /// The authors published no code. Where their text leaves room: neighbours are read as they were before an iteration,
    /// and their matches are moved back by the distance to them; what falls off the map is left out, random windows and
    /// `radius` are clipped at the border; a random start that an earlier run forbids counts as no match; distances are
    /// the larger of rows and columns.
    #[derive(Copy)]
    pub struct ScramConfig {
        /// Keys that a query, or its cluster, keeps.
        pub kept: usize = 8, range(min = 1, max = 1024);
        /// Which keys are searched: `max`, the best ones; `mode`, the best ones that are `separation` apart.
        pub search: ScramSearch = ScramSearch::Max;
        /// With `search = "mode"`, matches of a query are more rows or columns of the map apart than this.
        pub separation: usize = 4, range(min = 1, max = 1024);
        /// Radius of the windows around a token, in tokens of the map.
        pub radius: usize = 0, range(min = 0, max = 1024);
        /// Iterations: of the clustering (`clustered`), of the inverse (`nystrom`), of the search (`scram`).
        // By default the authors' number; the paper states no other setting.
        pub iterations: usize = 8, range(min = 1, max = 256);
        /// When random numbers are drawn again: `step` in training at every step, `never`.
        pub redraw: Redraw = Redraw::Step;
        /// Seed of the random numbers of evaluation.
        pub seed: u64 = 0;
        /// Divisor of the scaled scores before the softmax. Beyond its range all scores are the same in 32 bits, or not
        /// finite.
        pub temperature: f64 = 1.0, range(min = 1e-6, max = 1e6);
    }
}

impl ScramConfig {
    /// The search with these settings.
    pub fn patchmatch(&self) -> PatchMatch {
        PatchMatch {
            kept: self.kept,
            separation: match self.search {
                ScramSearch::Max => 0,
                ScramSearch::Mode => self.separation,
            },
            iterations: self.iterations,
        }
    }

    /// The maximum number of keys around the matches of a query.
    pub(super) fn slots(&self, tokens: usize) -> usize {
        let side = self.radius.saturating_mul(2).saturating_add(1);
        let window = side.saturating_mul(side);
        self.kept.saturating_mul(window).min(tokens)
    }
}

impl MechanismConfig for ScramConfig {
    const KIND: &'static str = "scram";

    type Mechanism = Scram;

    fn fits(&self, place: &Place) -> Result<(), AttentionError> {
        place.without_bias(Self::KIND)?;
        let misplaced = |reason, help: &str| AttentionError::misplaced(Self::KIND, reason, help);
        let Some([rows, columns]) = place.grid else {
            return Err(misplaced(
                "searches on a map, which the tokens do not form here".to_owned(),
                "use `dense` or `knn`, or say which `grid` they form",
            ));
        };
        let tokens = rows.saturating_mul(columns);
        let all = place.prefix.saturating_add(tokens);
        let Place { queries, keys, .. } = *place;
        if queries != all || (keys != 0 && keys != all) {
            return Err(misplaced(
                format!(
                    "searches keys on the map of the queries, but there are {queries} queries and {keys} keys on a map of {rows} x {columns}"
                ),
                "use `dense` or `knn`, or as many keys as queries (`kv_stride = 1`)",
            ));
        }
        if self.kept > tokens {
            return Err(misplaced(
                format!(
                    "keeps `kept` {} keys, more than the {tokens} tokens of the map",
                    self.kept
                ),
                "set `kept` to fewer",
            ));
        }
        Ok(())
    }

    /// At most the products of the search, and both products over the keys of the windows. The class token takes part
    /// in the latter, and its query is dense.
    fn cost(&self, place: &Place) -> Cost {
        let grid = place.grid.unwrap_or([place.queries, 1]);
        let tokens = grid[0].saturating_mul(grid[1]);
        let kept = self.slots(tokens).saturating_add(place.prefix);
        let products = self.patchmatch().products(grid);
        let of_a_query = products.saturating_add(kept.saturating_mul(2));
        let of_the_prefix = (2 * place.prefix).saturating_mul(place.keys);
        let all = tokens
            .saturating_mul(of_a_query)
            .saturating_add(of_the_prefix);
        Cost::of_products(all.saturating_mul(place.dim()), kept)
    }

    fn init(&self, _place: &Place, init: &impl ParamInit) -> Scram {
        Scram {
            config: *self,
            draws: Draws::new(self.seed, init.path(), self.redraw),
        }
    }
}
