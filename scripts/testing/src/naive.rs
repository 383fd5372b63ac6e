//! Attention by its definition, in f64 and by sorting every row: the reference for the implementations.

/// Sizes of a problem.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Images of the batch.
    pub images: usize,
    /// Heads of an image.
    pub heads: usize,
    /// Queries of a head.
    pub queries: usize,
    /// Keys of a head.
    pub keys: usize,
    /// Numbers of a query or key.
    pub dim: usize,
    /// Numbers of a value.
    pub value_dim: usize,
}

/// Inputs as `[images, heads, tokens, dim]`.
#[derive(Clone, Debug)]
pub struct Inputs {
    /// Sizes of the tensors.
    pub sizes: Sizes,
    /// Queries.
    pub q: Vec<f32>,
    /// Keys.
    pub k: Vec<f32>,
    /// Values.
    pub v: Vec<f32>,
    /// Added to the scores of all images, `[1, heads, queries, keys]`.
    pub bias: Option<Vec<f32>>,
    /// The gradient of the output.
    pub probe: Vec<f32>,
}

/// The results of [`Inputs::solve`], in its order; the last is empty without a bias.
pub const NAMES: [&str; 5] = ["out", "q", "k", "v", "bias"];

/// Random whole numbers of so many `levels` around 0, times `size`.
pub fn draw(seed: u64, len: usize, levels: u64, size: f32) -> Vec<f32> {
    let mut state = seed.wrapping_mul(2) + 1;
    (0..len)
        .map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            ((state >> 33) % levels) as f32 * size - (levels / 2) as f32 * size
        })
        .collect()
}

/// The indices of the `k` largest of a row without NaN, in descending order; of equal values the lower index
/// comes first.
pub fn best(row: &[f64], k: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..row.len()).collect();
    // -0 becomes +0: the two are equal.
    order.sort_by(|&a, &b| (row[b] + 0.0).total_cmp(&(row[a] + 0.0)).then(a.cmp(&b)));
    order.truncate(k);
    order
}

/// The dot product in f64.
pub fn dot(a: &[f32], b: &[f32]) -> f64 {
    let pairs = a.iter().zip(b);
    pairs.map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
}

/// The largest difference, relative to the largest expected magnitude or to 1e-2: a gradient may consist of
/// rounding errors of sums of order one and more (one key has the weight 1, or two keys are nearly equal). NaN if there
/// is one.
///
/// # Panics
/// If the lengths differ.
pub fn worst(actual: &[f32], expected: &[f32]) -> f32 {
    assert_eq!(actual.len(), expected.len());
    let scale = expected.iter().fold(1e-2f32, |m, x| m.max(x.abs()));
    let differences = actual.iter().zip(expected).map(|(a, e)| (a - e).abs());
    differences.fold(0.0, |worst, difference| {
        let difference = difference / scale;
        if difference <= worst {
            worst
        } else {
            difference
        }
    })
}

impl Inputs {
    /// Queries and keys are small whole numbers: products are exact in f32 too, scores tie often, and every
    /// implementation must select the same keys.
    pub fn new(sizes: Sizes, seed: u64) -> Self {
        let Sizes {
            images,
            heads,
            queries,
            keys,
            dim,
            value_dim,
        } = sizes;
        let draw = |part, tokens, dim, levels, size| {
            let len = images * heads * tokens * dim;
            draw(seed.wrapping_mul(5).wrapping_add(part), len, levels, size)
        };
        Self {
            sizes,
            q: draw(0, queries, dim, 5, 1.0),
            k: draw(1, keys, dim, 5, 1.0),
            v: draw(2, keys, value_dim, 1001, 0.002),
            bias: None,
            probe: draw(3, queries, value_dim, 1001, 0.002),
        }
    }

    /// The output and the gradients of q, k, v and the bias.
    pub fn solve(&self, scale: f64, kept: usize) -> [Vec<f32>; 5] {
        let Sizes {
            heads,
            queries,
            keys,
            dim,
            value_dim,
            ..
        } = self.sizes;
        let mut out = vec![0.0; self.probe.len()];
        let [mut dq, mut dk, mut dv] = [&self.q, &self.k, &self.v].map(|x| vec![0.0; x.len()]);
        let mut dbias = vec![0.0; self.bias.as_ref().map_or(0, Vec::len)];
        for (row, probe) in self.probe.chunks(value_dim).enumerate() {
            let head = row / queries;
            let q = &self.q[row * dim..][..dim];
            let key = |i: usize| &self.k[(head * keys + i) * dim..][..dim];
            let value = |i: usize| &self.v[(head * keys + i) * value_dim..][..value_dim];
            // The same row of another image has the same bias.
            let row_bias = row % (heads * queries) * keys;
            let bias = |i: usize| {
                self.bias
                    .as_ref()
                    .map_or(0.0, |x| f64::from(x[row_bias + i]))
            };
            let scores: Vec<f64> = (0..keys)
                .map(|i| scale * dot(q, key(i)) + bias(i))
                .collect();
            let order = best(&scores, kept);
            let weight = |i: usize| (scores[i] - scores[order[0]]).exp();
            let sum: f64 = order.iter().map(|&i| weight(i)).sum();
            let weights: Vec<(usize, f64)> = order.iter().map(|&i| (i, weight(i) / sum)).collect();
            let mean: f64 = weights.iter().map(|&(i, p)| p * dot(probe, value(i))).sum();
            for (i, p) in weights {
                let dscore = p * (dot(probe, value(i)) - mean);
                for c in 0..value_dim {
                    out[row * value_dim + c] += p * f64::from(value(i)[c]);
                    dv[(head * keys + i) * value_dim + c] += p * f64::from(probe[c]);
                }
                for c in 0..dim {
                    dq[row * dim + c] += scale * dscore * f64::from(key(i)[c]);
                    dk[(head * keys + i) * dim + c] += scale * dscore * f64::from(q[c]);
                }
                if let Some(dbias) = dbias.get_mut(row_bias + i) {
                    *dbias += dscore;
                }
            }
        }
        [out, dq, dk, dv, dbias].map(|x| x.into_iter().map(|x: f64| x as f32).collect())
    }
}
