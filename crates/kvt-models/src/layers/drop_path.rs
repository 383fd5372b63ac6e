//! Stochastic depth: a residual branch is dropped for some samples (Huang et al., 2016).

use burn::tensor::{Tensor, TensorData};
use kvt_ops::Phase;
use rand::RngExt;

/// Drops a residual branch per sample with probability `rate` while training, and divides the kept
/// samples by the probability of being kept. The identity in evaluation and at rate 0.
///
/// The mask is drawn on the host from the phase's key: the same key drops the same samples on every
/// backend.
///
/// # Shapes
///
/// `[batch, ...]` to the same; the mask is `[batch, 1, ...]`.
pub fn drop_path<const D: usize>(x: Tensor<D>, rate: f64, phase: Phase) -> Tensor<D> {
    let Phase::Train(key) = phase else { return x };
    if !drops_paths(rate, phase) {
        return x;
    }
    let keep = 1.0 - rate;
    let batch = x.dims()[0];
    let mut rng = key.rng();
    let mask: Vec<f32> = (0..batch)
        .map(|_| {
            let kept = rng.random::<f64>() < keep;
            if kept { (1.0 / keep) as f32 } else { 0.0 }
        })
        .collect();
    let mut shape = [1; D];
    shape[0] = batch;
    let mask = Tensor::from_data(TensorData::new(mask, shape), (&x.device(), x.dtype()));
    x * mask
}

/// Whether [`drop_path`] is not the identity.
pub fn drops_paths(rate: f64, phase: Phase) -> bool {
    rate > 0.0 && phase != Phase::Eval
}

/// The rates of a stack of `depth` blocks: linear from 0 in the first to `rate` in the last.
pub fn drop_path_rates(rate: f64, depth: usize) -> impl Iterator<Item = f64> {
    let last = depth.saturating_sub(1).max(1) as f64;
    (0..depth).map(move |block| rate * block as f64 / last)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use burn::tensor::{Device, Tensor};
    use kvt_ops::{Key, Phase};

    use super::*;

    fn ones(batch: usize) -> Tensor<3> {
        Tensor::ones([batch, 2, 3], &Device::flex())
    }

    #[test]
    fn is_the_identity_in_evaluation_and_at_rate_zero() {
        let expected = ones(16).into_data();
        assert_eq!(drop_path(ones(16), 0.9, Phase::Eval).into_data(), expected);
        let train = Phase::Train(Key::new(1));
        assert_eq!(drop_path(ones(16), 0.0, train).into_data(), expected);
        for (rate, phase) in [(0.9, Phase::Eval), (0.0, train)] {
            assert!(!drops_paths(rate, phase));
        }
        assert!(drops_paths(0.9, train));
    }

    #[test]
    fn drops_whole_samples_and_scales_the_rest() {
        let batch = 4000;
        let out = drop_path(ones(batch), 0.25, Phase::Train(Key::new(3)));
        let values = out.into_data().try_to_vec::<f32>().unwrap();
        let mut kept = 0;
        for sample in values.chunks(6) {
            assert!(sample.iter().all(|value| *value == sample[0]));
            if sample[0] != 0.0 {
                assert!((sample[0] - 4.0 / 3.0).abs() < 1e-6);
                kept += 1;
            }
        }
        // Six standard deviations of a binomial with p = 0.75.
        assert!((kept as f64 - 3000.0).abs() < 6.0 * (batch as f64 * 0.75 * 0.25).sqrt());
    }

    #[test]
    fn the_key_decides_which_samples_are_dropped() {
        let run = |key| drop_path(ones(64), 0.5, Phase::Train(key)).into_data();
        assert_eq!(run(Key::new(1)), run(Key::new(1)));
        assert_ne!(run(Key::new(1)), run(Key::new(2)));
    }

    #[test]
    fn rates_grow_linearly() {
        let rates: Vec<f64> = drop_path_rates(0.3, 4).collect();
        for (rate, expected) in rates.iter().zip([0.0, 0.1, 0.2, 0.3]) {
            assert!((rate - expected).abs() < 1e-12);
        }
        assert_eq!(drop_path_rates(0.3, 1).collect::<Vec<_>>(), [0.0]);
    }
}
