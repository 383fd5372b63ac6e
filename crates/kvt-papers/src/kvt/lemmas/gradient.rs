//! Lemma 1: the gradients of an attention output with respect to its projections.

use burn::tensor::{Device, Tensor, TensorData};
use kvt_attention::{Neighbors, Score, SoftmaxAttention, attend};
use kvt_ops::Key;

use super::{Curve, normal};
use crate::ReproduceError;
use kvt_train::analysis::Moments;
use kvt_train::error::TrainError;
use kvt_train::knn_vote::read;

/// As in `scripts/reference/lemmas.py`.
const TOKENS: usize = 7;
const DIM: usize = 4;
const KEPT: usize = 3;
const QUERY: usize = 2;
/// Variances are compared on this many draws for each draw on which gradients are compared.
const MORE: usize = 10;

/// The results.
pub(super) struct Found {
    /// For each kind of attention: errors of the closed forms for `W_Q` and `W_K`, and the smaller error of equation 15.
    pub(super) errors: Vec<(&'static str, [f64; 3])>,
    /// Trace of the variance divided by its trace with all keys, for each k.
    pub(super) curve: Curve,
    /// The number of draws, out of `of`, in which k-NN attention has the larger trace.
    pub(super) larger: usize,
    pub(super) of: usize,
}

/// Tokens and projections, row by row.
struct Drawn {
    x: Vec<f64>,
    w_q: Vec<f64>,
    w_k: Vec<f64>,
    w_v: Vec<f64>,
}

pub(super) fn compute(draws: usize) -> Result<Found, ReproduceError> {
    let mut errors = vec![("dense", [0.0; 3]), ("k-NN", [0.0; 3])];
    let mut ratios = [Moments::default(); TOKENS];
    let (mut larger, of) = (0, MORE * draws);
    for draw in 0..of {
        let drawn = Drawn::of(Key::new(draw as u64).named("lemma 1"));
        let whole = trace(&drawn.variance(&drawn.weights(TOKENS)));
        for (kept, ratios) in (1..).zip(&mut ratios) {
            let own = trace(&drawn.variance(&drawn.weights(kept)));
            ratios.extend([own / whole]);
            larger += usize::from(kept == KEPT && own > whole);
        }
        if draw < draws {
            for ((_, worst), kept) in errors.iter_mut().zip([TOKENS, KEPT]) {
                for (worst, error) in worst.iter_mut().zip(drawn.errors(kept)?) {
                    *worst = error.max(*worst);
                }
            }
        }
    }
    let points = (1u32..).zip(&ratios);
    let curve = Curve {
        lemma: 1,
        quantity: "trace_ratio",
        title: "trace of Var, k-NN / dense",
        x: "k of 7 keys",
        points: points
            .filter_map(|(kept, ratios)| Some((f64::from(kept), ratios.estimate()?)))
            .collect(),
    };
    Ok(Found {
        errors,
        curve,
        larger,
        of,
    })
}

impl Drawn {
    fn of(key: Key) -> Self {
        let scaled = |name: &str, rows: usize, scale: f64| -> Vec<f64> {
            let all = normal(key.named(name), rows * DIM).into_iter();
            // Rounded to f32, so that both sides see the same numbers.
            all.map(|x| f64::from((scale * x) as f32)).collect()
        };
        Self {
            x: scaled("x", TOKENS, 1.0),
            w_q: scaled("w_q", DIM, 0.5),
            w_k: scaled("w_k", DIM, 0.5),
            w_v: scaled("w_v", DIM, 0.5),
        }
    }

    fn token(&self, token: usize) -> &[f64] {
        &self.x[token * DIM..][..DIM]
    }

    /// The attention weights of the query, from a sort of all scores.
    fn weights(&self, kept: usize) -> [f64; TOKENS] {
        let project = |token: usize, w: &[f64]| -> Vec<f64> {
            let column = |j: usize| -> f64 {
                let row = self.token(token).iter().enumerate();
                row.map(|(i, x)| x * w[i * DIM + j]).sum()
            };
            (0..DIM).map(column).collect()
        };
        let query = project(QUERY, &self.w_q);
        let score = |token: usize| -> f64 {
            let key = project(token, &self.w_k);
            let product: f64 = query.iter().zip(&key).map(|(q, k)| q * k).sum();
            product / (DIM as f64).sqrt()
        };
        let scores: Vec<f64> = (0..TOKENS).map(score).collect();
        let mut order: Vec<usize> = (0..TOKENS).collect();
        order.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]));
        let mut weights = [0.0; TOKENS];
        for &token in order.iter().take(kept) {
            weights[token] = (scores[token] - scores[order[0]]).exp();
        }
        let sum: f64 = weights.iter().sum();
        weights.map(|weight| weight / sum)
    }

    /// `sum_t a_t x_t^T x_t - m^T m`, row by row.
    fn variance(&self, weights: &[f64; TOKENS]) -> [f64; DIM * DIM] {
        let mean = |i: usize| -> f64 {
            let terms = weights.iter().enumerate();
            terms.map(|(t, weight)| weight * self.token(t)[i]).sum()
        };
        std::array::from_fn(|place| {
            let (i, j) = (place / DIM, place % DIM);
            let terms = weights.iter().enumerate();
            let square = terms.map(|(t, weight)| weight * self.token(t)[i] * self.token(t)[j]);
            square.sum::<f64>() - mean(i) * mean(j)
        })
    }

    /// The largest differences between the closed forms and the gradients that kvt computes.
    fn errors(&self, kept: usize) -> Result<[f64; 3], ReproduceError> {
        let variance = self.variance(&self.weights(kept));
        let root = (DIM as f64).sqrt();
        let sum = |term: &dyn Fn(usize) -> f64| (0..DIM).map(term).sum::<f64>();
        // `Var W_V`
        let spread = |i: usize, c: usize| sum(&|m| variance[i * DIM + m] * self.w_v[m * DIM + c]);
        let own = self.token(QUERY);
        let mut worst = [0.0f64; 3];
        let mut scaled = 0.0f64;
        for c in 0..DIM {
            let [by_query, by_key] = self.gradients(c, kept)?;
            for (i, j) in (0..DIM).flat_map(|i| (0..DIM).map(move |j| (i, j))) {
                let through = |w: &[f64]| own[i] * sum(&|m| w[m * DIM + j] * spread(m, c));
                let projected = sum(&|m| own[m] * self.w_q[m * DIM + j]);
                let (query, key) = (by_query[i * DIM + j], by_key[i * DIM + j]);
                let printed = through(&self.w_q);
                let errors = [
                    through(&self.w_k) / root - query,
                    projected * spread(i, c) / root - key,
                    printed - key,
                ];
                for (worst, error) in worst.iter_mut().zip(errors) {
                    *worst = worst.max(error.abs());
                }
                scaled = scaled.max((printed / root - key).abs());
            }
        }
        // Equation 15 with or without `1 / sqrt(d)`, whichever is closer.
        worst[2] = worst[2].min(scaled);
        Ok(worst)
    }

    /// kvt's gradients of an output of the query with respect to `W_Q` and `W_K`, `[i][j]` each.
    fn gradients(&self, output: usize, kept: usize) -> Result<[Vec<f64>; 2], ReproduceError> {
        let device = Device::flex().autodiff();
        let matrix = |values: &[f64]| {
            let rows = values.len() / DIM;
            let values: Vec<f32> = values.iter().map(|x| *x as f32).collect();
            Tensor::<2>::from_data(TensorData::new(values, [rows, DIM]), &device)
        };
        let x = matrix(&self.x);
        let [w_q, w_k] = [&self.w_q, &self.w_k].map(|w| matrix(w).require_grad());
        let head = |x: Tensor<2>| x.unsqueeze::<4>();
        let out = attend(
            head(x.clone().narrow(0, QUERY, 1).matmul(w_q.clone())),
            head(x.clone().matmul(w_k.clone())),
            head(x.matmul(matrix(&self.w_v))),
            Score::default(),
            (DIM as f64).powf(-0.5),
            &SoftmaxAttention::knn(Neighbors::count(kept).unwrap_or(Neighbors::All)),
            None,
        )?;
        let gradients = out.narrow(3, output, 1).sum().backward();
        let mut found = [Vec::new(), Vec::new()];
        for (found, parameter) in found.iter_mut().zip([w_q, w_k]) {
            let gradient = parameter.grad(&gradients).ok_or(TrainError::NoGradient)?;
            *found = read(gradient)?.into_iter().map(f64::from).collect();
        }
        Ok(found)
    }
}

fn trace(matrix: &[f64; DIM * DIM]) -> f64 {
    (0..DIM).map(|i| matrix[i * DIM + i]).sum()
}
