//! The settings of clustered attention.

use super::super::draws::{Draws, Redraw};
use super::Clustered;
use crate::{AttentionError, Cost, Macs, MechanismConfig, ParamInit, Place, Ranged};

settings! {
    /// Clustered attention (Vyas et al., [Fast Transformers with Clustered Attention](https://arxiv.org/abs/2007.04825),
    /// NeurIPS 2020, section 3.2): every query gets the softmax attention of the mean query of its cluster,
    /// `S softmax(scale / temperature * mean(q) k^T) v`, where `S` marks the members of each cluster. A query is hashed to the
    /// sides of `bits` random planes on which it lies, and k-means by Hamming distance clusters the hashes, without a
    /// gradient. Tokens before the map attend densely. The authors' code gives a cluster that lost its members a random
    /// centroid, from a generator that cannot be seeded; here it keeps its centroid.
    pub struct ClusteredConfig {
        /// Clusters of queries, in every head of every image.
        pub clusters: usize = 100, range(min = 1);
        /// Random planes that hash a query before it is clustered.
        pub bits: usize = 32, range(min = 1, max = 63);
        /// Iterations: of the clustering (`clustered`), of the inverse (`nystrom`), of the search (`scram`).
        pub iterations: usize = 10, range(min = 0, max = 256);
        /// When random numbers are drawn again: `step` in training at every step, `never`.
        pub redraw: Redraw = Redraw::default();
        /// Seed of the random numbers of evaluation.
        pub seed: u64 = 0;
        /// Divisor of the scaled scores before the softmax. Beyond its range all scores are the same in 32 bits, or not
        /// finite.
        pub temperature: f64 = 1.0, range(min = 1e-6, max = 1e6);
    }
}

settings! {
    /// Improved clustered attention (Vyas et al.,
    /// [Fast Transformers with Clustered Attention](https://arxiv.org/abs/2007.04825), NeurIPS 2020, section 3.3): as
    /// `clustered`, but each query gives the `kept` best keys of its cluster exact weights, scaled to the sum of the weights
    /// that the cluster gives them. The other keys have the weights of the cluster.
    pub struct ClusteredImprovedConfig {
        /// The settings of `clustered`.
        #[serde(flatten)]
        pub clustering: ClusteredConfig = ClusteredConfig::default();
        /// Keys that a query, or its cluster, keeps.
        pub kept: usize = 32, range(min = 1);
    }
}

impl ClusteredConfig {
    fn fits_as(&self, kind: &'static str, place: &Place) -> Result<(), AttentionError> {
        place.without_bias(kind)?;
        let (clusters, queries) = (self.clusters, place.queries.saturating_sub(place.prefix));
        if queries > 0 && clusters > queries {
            return Err(AttentionError::misplaced(
                kind,
                format!("has `clusters` {clusters}, which is more than the {queries} tokens"),
                format!("set `clusters` to {queries} at most"),
            ));
        }
        Ok(())
    }

    pub(super) fn make(&self, kept: Option<usize>, init: &impl ParamInit) -> Clustered {
        Clustered {
            config: self.clone(),
            kept,
            draws: Draws::new(self.seed, init.path(), self.redraw),
        }
    }
}

impl MechanismConfig for ClusteredConfig {
    const KIND: &'static str = "clustered";

    type Mechanism = Clustered;

    fn fits(&self, place: &Place) -> Result<(), AttentionError> {
        self.fits_as(Self::KIND, place)
    }

    /// Hashes, the products by which hashes are compared and averaged, then two products of the centroids with the keys;
    /// those of the prefix are dense.
    fn cost(&self, place: &Place) -> Cost {
        let Place { keys, prefix, .. } = *place;
        let queries = place.queries.saturating_sub(prefix);
        let rows = self.clusters.min(queries) + prefix.min(place.queries);
        let hashes = queries * self.bits * place.dim();
        let assigned = queries * self.bits * self.clusters.min(queries) * place.heads;
        let comparisons = (2 * self.iterations + 1) * assigned;
        let products = 2 * rows * keys * place.dim();
        Cost::of_products(hashes + comparisons + products, keys)
    }

    fn init(&self, _place: &Place, init: &impl ParamInit) -> Clustered {
        self.make(None, init)
    }
}

impl MechanismConfig for ClusteredImprovedConfig {
    const KIND: &'static str = "clustered-improved";

    type Mechanism = Clustered;

    fn validate(&self) -> Result<(), AttentionError> {
        self.check_ranges()?;
        self.clustering.validate()
    }

    fn fits(&self, place: &Place) -> Result<(), AttentionError> {
        self.clustering.fits_as(Self::KIND, place)
    }

    /// Besides the cost of `clustered`, two products of every query with the keys that it keeps.
    fn cost(&self, place: &Place) -> Cost {
        let plain = self.clustering.cost(place);
        let queries = place.queries.saturating_sub(place.prefix);
        let exact = 2 * queries * self.kept.min(place.keys);
        Cost {
            macs: plain.macs + Macs::attention(exact * place.dim()),
            ..plain
        }
    }

    fn init(&self, _place: &Place, init: &impl ParamInit) -> Clustered {
        self.clustering.make(Some(self.kept), init)
    }
}
