//! Dropout of attention weights and of other activations, drawn on the host from a key.

use burn::tensor::{Shape, Tensor, TensorData};
use rand::Rng;
use rayon::prelude::*;

use kvt_ops::{Key, Phase};

/// Weights per stream of random numbers. A constant, so that the draw does not depend on the number of threads.
const BLOCK: usize = 1 << 14;

/// Dropout: a weight is zeroed with `probability`, else divided by `1 - probability`.
#[derive(Clone, Copy, Debug)]
pub struct Dropout {
    /// In `[0, 1)`.
    pub probability: f64,
    /// Where the draw comes from.
    pub key: Key,
}

impl Dropout {
    /// The attention dropout of a module: none in evaluation, and none at probability 0.
    pub fn in_phase(phase: Phase, probability: f64) -> Option<Self> {
        let Phase::Train(key) = phase else {
            return None;
        };
        (probability > 0.0).then(|| Self {
            probability,
            key: key.named("attn_drop"),
        })
    }

    /// The same dropout from another stream, for a mechanism that drops weights in several places.
    pub(crate) fn named(self, place: &str) -> Self {
        Self {
            key: self.key.named(place),
            ..self
        }
    }

    /// As [`apply`](Self::apply), where there is dropout.
    pub fn apply_any<const D: usize>(dropout: Option<Self>, weights: Tensor<D>) -> Tensor<D> {
        match dropout {
            Some(dropout) => dropout.apply(weights),
            None => weights,
        }
    }

    /// The weights, `[batch, heads, query, key]` or of any other shape, with some of them dropped. The same ones are
    /// dropped on every device, whatever else draws random numbers.
    #[must_use]
    pub fn apply<const D: usize>(self, weights: Tensor<D>) -> Tensor<D> {
        let shape = Shape::from(weights.dims());
        let factors = TensorData::new(self.factors(shape.num_elements()), shape);
        let factors = Tensor::<D>::from_data(factors, (&weights.device(), weights.dtype()));
        weights * factors
    }

    /// The factors that `len` weights are multiplied with.
    fn factors(self, len: usize) -> Vec<f32> {
        let kept = 1.0 - self.probability;
        let factor = (1.0 / kept) as f32;
        // A uniform 32-bit number below this level keeps its weight.
        let level = (kept * (u64::from(u32::MAX) + 1) as f64).round() as u64;
        let mut factors = vec![0.0; len];
        let blocks = factors.par_chunks_mut(BLOCK).enumerate();
        blocks.for_each(|(number, block)| {
            let mut rng = self.key.child(number as u64).rng();
            for x in block {
                if u64::from(rng.next_u32()) < level {
                    *x = factor;
                }
            }
        });
        factors
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn factors(probability: f64, key: u64, len: usize) -> Vec<f32> {
        let key = Key::new(key);
        Dropout { probability, key }.factors(len)
    }

    /// Over several streams, the last of them partial.
    #[test]
    fn weights_are_dropped_at_the_rate_that_is_asked_for() {
        for probability in [0.0, 0.1, 0.5, 0.9] {
            let len = 5 * BLOCK + 77;
            let factors = factors(probability, 3, len);
            let kept = factors.iter().filter(|x| **x > 0.0).count() as f64;
            let expected = len as f64 * (1.0 - probability);
            // Six standard deviations of a binomial.
            let bound = 6.0 * (expected * probability).sqrt();
            assert!((kept - expected).abs() <= bound, "{probability}: {kept}");
            let value = 1.0 / (1.0 - probability);
            let right = |x: &f32| *x == 0.0 || (f64::from(*x) - value).abs() < 1e-6 * value;
            assert!(factors.iter().all(right), "{probability}");
        }
    }

    /// Different streams and different keys are independent: half of their factors agree.
    #[test]
    fn streams_and_keys_have_nothing_in_common() {
        let all = [factors(0.5, 1, 3 * BLOCK), factors(0.5, 2, 3 * BLOCK)].concat();
        let blocks: Vec<&[f32]> = all.chunks(BLOCK).collect();
        for (i, a) in blocks.iter().enumerate() {
            for b in &blocks[..i] {
                let equal = a.iter().zip(*b).filter(|(a, b)| a == b).count() as f64;
                let bound = 6.0 * (BLOCK as f64 * 0.25).sqrt();
                assert!((equal - BLOCK as f64 / 2.0).abs() < bound, "{equal}");
            }
        }
    }
}
