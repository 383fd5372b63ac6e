//! Stochastic depth: a residual branch is dropped for some samples (Huang et al., 2016).

use burn::tensor::{DType, Device, Tensor, TensorData};
use kvt_ops::Phase;
use rand::RngExt;

/// The factors of the residual branch of each sample in training, `[batch]`: 0 with probability `rate`, else
/// `1 / (1 - rate)`. `None` in evaluation and at rate 0.
///
/// The numbers are drawn on the host from the phase's key: the same key drops the same samples on every
/// backend.
pub fn drop_path(rate: f64, phase: Phase, batch: usize, device: &Device) -> Option<Tensor<1>> {
    let Phase::Train(key) = phase else {
        return None;
    };
    if rate <= 0.0 {
        return None;
    }
    let keep = 1.0 - rate;
    let mut rng = key.rng();
    let scale: Vec<f32> = (0..batch)
        .map(|_| {
            let kept = rng.random::<f64>() < keep;
            if kept { (1.0 / keep) as f32 } else { 0.0 }
        })
        .collect();
    let data = TensorData::new(scale, [batch]);
    Some(Tensor::from_data(data, (device, DType::F32)))
}

/// The rates of a stack of `depth` blocks: linear from 0 in the first to `rate` in the last.
pub fn drop_path_rates(rate: f64, depth: usize) -> impl Iterator<Item = f64> {
    let last = depth.saturating_sub(1).max(1) as f64;
    (0..depth).map(move |block| rate * block as f64 / last)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use kvt_ops::{Key, Phase};

    use super::*;

    fn scales(rate: f64, key: u64, batch: usize) -> Vec<f32> {
        let phase = Phase::Train(Key::new(key));
        let scale = drop_path(rate, phase, batch, &Device::flex());
        scale.unwrap().into_data().try_to_vec().unwrap()
    }

    #[test]
    fn is_nothing_in_evaluation_and_at_rate_zero() {
        let device = Device::flex();
        assert!(drop_path(0.9, Phase::Eval, 16, &device).is_none());
        let train = Phase::Train(Key::new(1));
        assert!(drop_path(0.0, train, 16, &device).is_none());
    }

    #[test]
    fn drops_samples_and_scales_the_rest() {
        let batch = 4000;
        let mut kept = 0;
        for scale in scales(0.25, 3, batch) {
            if scale != 0.0 {
                assert!((scale - 4.0 / 3.0).abs() < 1e-6);
                kept += 1;
            }
        }
        // Six standard deviations of a binomial with p = 0.75.
        assert!((kept as f64 - 3000.0).abs() < 6.0 * (batch as f64 * 0.75 * 0.25).sqrt());
    }

    #[test]
    fn the_key_decides_which_samples_are_dropped() {
        assert_eq!(scales(0.5, 1, 64), scales(0.5, 1, 64));
        assert_ne!(scales(0.5, 1, 64), scales(0.5, 2, 64));
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
