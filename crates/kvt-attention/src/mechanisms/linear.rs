//! Linear attention: each feature is computed from one entry.

use burn::module::Module;
use burn::tensor::activation::relu;
use burn::tensor::{DType, Tensor};

use super::features::{self, attend_features};
use crate::{Context, Cost, Mechanism, MechanismConfig, ParamInit, Place};

settings! {
    /// Linear attention, `phi(q) (phi(k)^T v) / (phi(q) sum phi(k) + epsilon)` with `phi(x) = elu(x) + 1`
    /// ([Transformers are RNNs, ICML 2020](https://arxiv.org/abs/2006.16236), equations 5 and 7).
    ///
    /// It does not approximate the softmax, and has no scale: weights are products of positive features. As in the authors'
    /// code.
    #[derive(Copy)]
    pub struct LinearConfig {
        /// Added to denominators, so that none is zero.
        pub epsilon: f64 = 1e-6, range(min = 1e-12, max = 1.0);
    }
}

/// The module of [`LinearConfig`].
#[derive(Module, Debug)]
pub struct LinearAttention {
    #[module(skip)]
    config: LinearConfig,
}

impl MechanismConfig for LinearConfig {
    const KIND: &'static str = "linear";

    type Mechanism = LinearAttention;

    fn cost(&self, place: &Place) -> Cost {
        features::cost(place, place.head_dim)
    }

    fn init(&self, _place: &Place, _init: &impl ParamInit) -> LinearAttention {
        LinearAttention { config: *self }
    }
}

impl Mechanism for LinearAttention {
    fn attend(&self, q: Tensor<4>, k: Tensor<4>, v: Tensor<4>, _: Context) -> Tensor<4> {
        attend_features(elu_features(q), elu_features(k), v, self.config.epsilon)
    }
}

/// `elu(x) + 1`, in f32: `x + 1` for positive `x`, else `exp(x)`, which stays positive where `exp(x) - 1 + 1` is 0.
pub(super) fn elu_features(x: Tensor<4>) -> Tensor<4> {
    let x = x.cast(DType::F32);
    // Avoids the exponential of large numbers: its gradient would be infinite, and NaN where it is masked.
    x.clone().clamp_max(0.0).exp() + relu(x)
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;
    use kvt_ops::Phase;
    use kvt_testing::devices::{assert_close, tensor, values};

    use super::*;
    use crate::BurnInit;
    use crate::mechanisms::golden::{Golden, Outcome};

    #[test]
    fn linear_attention_is_that_of_pytorch() {
        for name in ["linear", "linear_long"] {
            let golden = Golden::read(name);
            let epsilon = golden.setting("epsilon");
            golden.check(1e-5, |inputs| {
                let (q, k, v) = (inputs.q.clone(), inputs.k.clone(), inputs.v.clone());
                let place = Place::new(0, 8, 1);
                let module = LinearConfig { epsilon }.init(&place, &BurnInit::new(&inputs.device));
                Outcome::new(module.attend(q, k, v, place.context(Phase::Eval)))
            });
        }
    }

    /// By hand, and where `exp(x) - 1 + 1` and its gradient leave the range of f32.
    #[test]
    fn features_are_positive_and_have_gradients_everywhere() {
        let device = Device::flex().autodiff();
        let x = [-80.0, -1.0, 0.0, 2.0, 200.0];
        let x = tensor(&x, [1, 1, 1, 5], &device).require_grad();
        let features = elu_features(x.clone());
        let gradient = x.grad(&features.clone().sum().backward());
        let below = [(-80.0f32).exp(), (-1.0f32).exp()];
        let features = values(features);
        assert!(features[0] > 0.0);
        let expected = [below[0], below[1], 1.0, 3.0, 201.0];
        assert_close("features", &features, &expected, 1e-6);
        let expected = [below[0], below[1], 1.0, 1.0, 1.0];
        let gradient = gradient.map(values).unwrap_or_default();
        assert_close("gradient", &gradient, &expected, 1e-6);
    }
}
