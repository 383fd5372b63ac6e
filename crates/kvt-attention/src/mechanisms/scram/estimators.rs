//! Estimates of dense attention from samples around the modes that a search found (section 4.2.2 of the paper). For
//! evaluation and figures: no layer trains with them.

use std::f64::consts::TAU;

use kvt_ops::Key;
use rand::{Rng, RngExt};
use rayon::prelude::*;

use super::fields::{At, Fields, Grid, Tokens};
use crate::AttentionError;

/// Dense attention of some heads, to be estimated from samples: `softmax(scale * q k^T) v`, with the modes of its
/// weights.
#[derive(Clone, Copy, Debug)]
pub struct Estimator<'a> {
    tokens: Tokens<'a>,
    values: &'a [f32],
    value_dim: usize,
    scale: f64,
    modes: &'a Fields,
}

/// The distribution from which importance sampling draws keys: with probability `alpha` from normalised Gaussians
/// around the modes, all equally likely, else uniform (equation 17).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Proposal {
    /// Share of the Gaussians, in [0, 1].
    pub alpha: f64,
    /// Their standard deviation, in tokens of the map.
    pub length: f64,
}

/// The result of self-normalised importance sampling, for the queries of all heads.
#[derive(Clone, Debug, PartialEq)]
pub struct Samples {
    /// The estimated output, `[head, query, value_dim]`.
    pub output: Vec<f64>,
    /// Its variance by the delta method, `[head, query, value_dim]`.
    pub variance: Vec<f64>,
    /// The effective number of samples, `[head, query]`.
    pub effective: Vec<f64>,
}

/// The result of Metropolis-Hastings chains.
#[derive(Clone, Debug, PartialEq)]
pub struct Chains {
    /// The estimated output, the mean over chains and steps, `[head, query, value_dim]`.
    pub output: Vec<f64>,
    /// Share of the proposed steps that were accepted.
    pub acceptance: f64,
}

/// The result for one query: output, variance, effective samples or accepted steps.
struct Estimate {
    output: Vec<f64>,
    variance: Vec<f64>,
    count: f64,
}

impl<'a> Estimator<'a> {
    /// `scale` includes the temperature; `values` are `[head, token, value_dim]`.
    ///
    /// # Errors
    /// If there are not as many values as keys, or the modes are not of these tokens.
    pub fn new(
        tokens: Tokens<'a>,
        values: &'a [f32],
        scale: f64,
        modes: &'a Fields,
    ) -> Result<Self, AttentionError> {
        let keys = tokens.heads() * tokens.tokens();
        if keys == 0 || !values.len().is_multiple_of(keys) || !modes.are_of(&tokens) {
            return Err(AttentionError::Setting(
                "values must be [head, token, value_dim], and modes those of the same queries: search the tokens that are given",
            ));
        }
        Ok(Self {
            tokens,
            values,
            value_dim: values.len() / keys,
            scale,
            modes,
        })
    }

    /// Self-normalised importance sampling with `samples` samples per query (equations 12 to 16): `sum_t w_t v_t` for
    /// keys drawn from the proposal `r`, with `w_t = exp(a_t) / r_t` normalised to a sum of 1.
    ///
    /// The estimate is consistent, and biased by about `1 / samples`. Memory grows with `side^2` and the samples, not
    /// with queries times keys.
    ///
    /// # Errors
    /// A share outside [0, 1], a length that is not positive, or zero samples.
    pub fn importance(
        &self,
        proposal: Proposal,
        samples: usize,
        key: Key,
    ) -> Result<Samples, AttentionError> {
        let Proposal { alpha, length } = proposal;
        if !(0.0..=1.0).contains(&alpha) || length <= 0.0 || !length.is_finite() || samples == 0 {
            return Err(AttentionError::Setting(
                "importance sampling needs `alpha` in [0, 1], a positive `length` and at least one sample",
            ));
        }
        let grid = self.tokens.grid();
        let mixture = Mixture {
            alpha,
            axes: grid.0.map(|side| Axis::new(side, length)),
            grid,
        };
        let estimates = self.of_queries(|number| self.sample(number, &mixture, samples, key));
        let mut all = Samples {
            output: Vec::new(),
            variance: Vec::new(),
            effective: Vec::new(),
        };
        for estimate in estimates {
            all.output.extend(estimate.output);
            all.variance.extend(estimate.variance);
            all.effective.push(estimate.count);
        }
        Ok(all)
    }

    /// Metropolis-Hastings: one chain from each mode, whose steps are Gaussian of standard deviation `deviation`,
    /// rounded to tokens. A step off the map is rejected, since moving it to the border would make the proposal
    /// asymmetric. There is no burn-in: chains are meant to stay near their modes, so the mean weighs the modes
    /// equally.
    ///
    /// # Errors
    /// A deviation that is not positive, or zero steps.
    pub fn metropolis(
        &self,
        steps: usize,
        deviation: f64,
        key: Key,
    ) -> Result<Chains, AttentionError> {
        if deviation <= 0.0 || !deviation.is_finite() || steps == 0 {
            return Err(AttentionError::Setting(
                "a chain needs a positive deviation of its steps and at least one step",
            ));
        }
        let estimates = self.of_queries(|number| self.chains(number, steps, deviation, key));
        let mut all = Chains {
            output: Vec::new(),
            acceptance: 0.0,
        };
        let queries = estimates.len() as f64;
        for estimate in estimates {
            all.output.extend(estimate.output);
            all.acceptance += estimate.count / queries;
        }
        Ok(all)
    }

    fn of_queries(&self, estimate: impl Fn(usize) -> Estimate + Send + Sync) -> Vec<Estimate> {
        let queries = self.tokens.heads() * self.tokens.tokens();
        (0..queries).into_par_iter().map(estimate).collect()
    }

    /// The scaled product of a query with a key.
    fn score(&self, number: usize, key: usize) -> f64 {
        let count = self.tokens.tokens();
        let product = self.tokens.product(number / count, number % count, key);
        self.scale * f64::from(product)
    }

    /// The value of a key of the query's head.
    fn value(&self, number: usize, key: usize) -> &'a [f32] {
        let count = self.tokens.tokens();
        let token = number / count * count + key;
        &self.values[token * self.value_dim..][..self.value_dim]
    }

    fn sample(&self, number: usize, mixture: &Mixture, samples: usize, key: Key) -> Estimate {
        let mut rng = key.child(number as u64).rng();
        let modes: Vec<At> = self.modes.found(number).collect();
        let drawn: Vec<usize> = (0..samples)
            .map(|_| mixture.draw(&modes, &mut rng))
            .collect();
        // Logarithms, so that no weight overflows.
        let logarithm = |&key: &usize| self.score(number, key) - mixture.density(&modes, key).ln();
        let mut weights: Vec<f64> = drawn.iter().map(logarithm).collect();
        let largest = weights.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        for weight in &mut weights {
            *weight = (*weight - largest).exp();
        }
        let sum: f64 = weights.iter().sum();
        let (mut output, mut variance) = (vec![0.0; self.value_dim], vec![0.0; self.value_dim]);
        let mut squares = 0.0;
        for (weight, &key) in weights.iter_mut().zip(&drawn) {
            *weight /= sum;
            squares += *weight * *weight;
            for (output, value) in output.iter_mut().zip(self.value(number, key)) {
                *output += *weight * f64::from(*value);
            }
        }
        for (weight, &key) in weights.iter().zip(&drawn) {
            let values = self.value(number, key).iter().zip(&output);
            for (variance, (value, output)) in variance.iter_mut().zip(values) {
                *variance += (weight * (f64::from(*value) - output)).powi(2);
            }
        }
        Estimate {
            output,
            variance,
            count: 1.0 / squares,
        }
    }

    fn chains(&self, number: usize, steps: usize, deviation: f64, key: Key) -> Estimate {
        let mut rng = key.child(number as u64).rng();
        let grid = self.tokens.grid();
        let (mut chains, mut taken) = (0.0, 0.0);
        let mut output = vec![0.0; self.value_dim];
        for mode in self.modes.found(number) {
            chains += 1.0;
            let mut at = mode;
            let mut score = self.score(number, grid.token(at));
            for _ in 0..steps {
                let next = at.moved(normal_pair(&mut rng).map(|x| (x * deviation).round() as i32));
                let level: f64 = rng.random();
                if grid.contains(next) {
                    let proposed = self.score(number, grid.token(next));
                    if level.ln() < proposed - score {
                        (at, score) = (next, proposed);
                        taken += 1.0;
                    }
                }
                for (output, value) in output.iter_mut().zip(self.value(number, grid.token(at))) {
                    *output += f64::from(*value);
                }
            }
        }
        let all = chains * steps as f64;
        output.iter_mut().for_each(|output| *output /= all);
        Estimate {
            output,
            variance: Vec::new(),
            count: taken / all,
        }
    }
}

/// The proposal of importance sampling on one map.
struct Mixture {
    alpha: f64,
    /// Rows and columns.
    axes: [Axis; 2],
    grid: Grid,
}

/// Gaussians along one side of the map, one around every place, each normalised on the map.
struct Axis {
    /// `[middle, place]`
    density: Vec<Vec<f64>>,
    /// The sums of the densities up to a place.
    cumulative: Vec<Vec<f64>>,
}

impl Mixture {
    /// Draws a key.
    fn draw(&self, modes: &[At], rng: &mut impl Rng) -> usize {
        if rng.random::<f64>() < self.alpha && !modes.is_empty() {
            let mode = modes[rng.random_range(0..modes.len() as u64) as usize];
            let place = [0, 1].map(|axis| self.axes[axis].draw(mode.0[axis], rng));
            return self.grid.token(At(place));
        }
        rng.random_range(0..self.grid.len() as u64) as usize
    }

    /// The probability of drawing a key.
    fn density(&self, modes: &[At], key: usize) -> f64 {
        let at = self.grid.at(key);
        let uniform = 1.0 / self.grid.len() as f64;
        if modes.is_empty() {
            return uniform;
        }
        let near = modes.iter().map(|mode| {
            let [row, column] = [0, 1].map(|axis| {
                let density = &self.axes[axis].density[mode.0[axis] as usize];
                density[at.0[axis] as usize]
            });
            row * column
        });
        let near = near.sum::<f64>() / modes.len() as f64;
        self.alpha * near + (1.0 - self.alpha) * uniform
    }
}

impl Axis {
    fn new(side: i32, length: f64) -> Self {
        let density = |middle: i32| {
            let gauss = |place: i32| (-0.5 * (f64::from(place - middle) / length).powi(2)).exp();
            let sum: f64 = (0..side).map(gauss).sum();
            (0..side).map(|place| gauss(place) / sum).collect()
        };
        let density: Vec<Vec<f64>> = (0..side).map(density).collect();
        let cumulative = |density: &Vec<f64>| {
            let sums = density.iter().scan(0.0, |sum, density| {
                *sum += density;
                Some(*sum)
            });
            sums.collect()
        };
        Self {
            cumulative: density.iter().map(cumulative).collect(),
            density,
        }
    }

    fn draw(&self, middle: i32, rng: &mut impl Rng) -> i32 {
        let sums = &self.cumulative[middle as usize];
        let level: f64 = rng.random();
        let place = sums.partition_point(|sum| *sum <= level);
        // Rounding may leave the last sum below 1.
        place.min(sums.len() - 1) as i32
    }
}

/// Two standard normal numbers (Box and Muller).
fn normal_pair(rng: &mut impl Rng) -> [f64; 2] {
    // From (0, 1], whose logarithm is finite.
    let radius = (-2.0 * (1.0 - rng.random::<f64>()).ln()).sqrt();
    let angle = TAU * rng.random::<f64>();
    [radius * angle.cos(), radius * angle.sin()]
}
