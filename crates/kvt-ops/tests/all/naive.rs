//! Attention by its definition, in f64 and by sorting every row: what the implementations are compared
//! with, here and in the unit tests of the crate.

/// Sizes of a problem.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    pub(crate) images: usize,
    /// Heads of an image.
    pub(crate) heads: usize,
    pub(crate) queries: usize,
    pub(crate) keys: usize,
    pub(crate) dim: usize,
    pub(crate) value_dim: usize,
}

/// Inputs as `[images, heads, tokens, dim]`.
#[derive(Clone)]
pub(crate) struct Inputs {
    pub(crate) sizes: Sizes,
    pub(crate) q: Vec<f32>,
    pub(crate) k: Vec<f32>,
    pub(crate) v: Vec<f32>,
    /// Of all images, `[1, heads, queries, keys]`.
    pub(crate) bias: Option<Vec<f32>>,
    /// The gradient of the output.
    pub(crate) probe: Vec<f32>,
}

/// What [`Inputs::solve`] gives, in its order; the last only where there is a bias.
pub(crate) const NAMES: [&str; 5] = ["out", "q", "k", "v", "bias"];

/// Whole numbers around 0 of so many `levels`, times `size`.
pub(crate) fn draw(seed: u64, len: usize, levels: u64, size: f32) -> Vec<f32> {
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

/// The indices of the `k` largest of a row without NaN, the largest first, of equal ones the first.
pub(crate) fn best(row: &[f64], k: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..row.len()).collect();
    // -0 becomes +0: the two are equal.
    order.sort_by(|&a, &b| (row[b] + 0.0).total_cmp(&(row[a] + 0.0)).then(a.cmp(&b)));
    order.truncate(k);
    order
}

pub(crate) fn dot(a: &[f32], b: &[f32]) -> f64 {
    let pairs = a.iter().zip(b);
    pairs.map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
}

/// The largest difference, relative to the largest expected magnitude, or to 1e-3: a gradient may be
/// nothing but rounding, of terms of order one (one key has the weight 1, or two are nearly the same).
/// NaN where something is no number.
pub(crate) fn worst(actual: &[f32], expected: &[f32]) -> f32 {
    assert_eq!(actual.len(), expected.len());
    let scale = expected.iter().fold(1e-3f32, |m, x| m.max(x.abs()));
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
    /// Queries and keys are small whole numbers: every product is exact in f32 too, scores tie all
    /// the time, and the selection must be the naive one to the last key.
    pub(crate) fn new(sizes: Sizes, seed: u64) -> Self {
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

    /// Output and gradients of q, k, v and the bias.
    pub(crate) fn solve(&self, scale: f64, kept: usize) -> [Vec<f32>; 5] {
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
