//! Deterministic parameter-free projection: sparse features without random numbers.

use burn::module::Module;
use burn::tensor::activation::relu;
use burn::tensor::{DType, Tensor};

use super::features::{self, attend_features};
use crate::{AttentionError, Context, Cost, Mechanism, MechanismConfig, ParamInit, Place};

settings! {
    /// Attention by the deterministic parameter-free projection, `phi(q) (phi(k)^T v) / (phi(q) sum phi(k) + epsilon)`:
    /// the features of `x` are the products of the entries of `r = relu([x, -x])` with those 1, 2, .. `order` places
    /// away, around the end
    /// ([Linear Transformers Are Secretly Fast Weight Programmers, ICML 2021](https://arxiv.org/abs/2102.11174)).
    ///
    /// It does not approximate the softmax, and has no scale. A query none of whose features a key shares gets zeros. The
    /// authors add `epsilon` after a division by the root of `head_dim`. The paper's update of memories is for causal
    /// attention.
    #[derive(Copy)]
    pub struct DpfpConfig {
        /// Places up to which entries are multiplied with each other: each gives `2 * head_dim` features.
        pub order: usize = 3, range(min = 1, max = 1024);
        /// Added to denominators, so that none is zero.
        pub epsilon: f64 = 1e-5, range(min = 1e-12, max = 1.0);
    }
}

/// The module of [`DpfpConfig`].
#[derive(Module, Debug)]
pub struct Dpfp {
    #[module(skip)]
    config: DpfpConfig,
}

impl MechanismConfig for DpfpConfig {
    const KIND: &'static str = "dpfp";

    type Mechanism = Dpfp;

    fn fits(&self, place: &Place) -> Result<(), AttentionError> {
        place.without_scores(Self::KIND)?;
        let entries = 2 * place.head_dim;
        if self.order < entries {
            return Ok(());
        }
        let reason = format!(
            "has `order` {}, but the {entries} rectified entries of a head have no more than {} others",
            self.order,
            entries.saturating_sub(1)
        );
        let help = format!(
            "set `order` to {} or less",
            entries.saturating_sub(1).max(1)
        );
        Err(AttentionError::misplaced(Self::KIND, reason, help))
    }

    fn cost(&self, place: &Place) -> Cost {
        features::cost(place, 2 * place.head_dim * self.order)
    }

    fn init(&self, _place: &Place, _init: &impl ParamInit) -> Dpfp {
        Dpfp { config: *self }
    }
}

impl Mechanism for Dpfp {
    fn attend(&self, q: Tensor<4>, k: Tensor<4>, v: Tensor<4>, _: Context) -> Tensor<4> {
        let [phi_q, phi_k] = [q, k].map(|x| dpfp_features(x, self.config.order));
        attend_features(phi_q, phi_k, v, self.config.epsilon)
    }
}

/// `[batch, heads, token, 2 * head_dim * order]`, in f32.
fn dpfp_features(x: Tensor<4>, order: usize) -> Tensor<4> {
    let x = x.cast(DType::F32);
    let rectified = relu(Tensor::cat(vec![x.clone(), -x], 3));
    let shifted = |places: usize| rectified.clone().roll_dim(places, 3);
    let products = (1..=order).map(|places| rectified.clone() * shifted(places));
    Tensor::cat(products.collect(), 3)
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;
    use kvt_ops::Phase;
    use kvt_testing::devices::{tensor, values};

    use super::*;
    use crate::BurnInit;
    use crate::mechanisms::golden::{Golden, Outcome};

    #[test]
    fn dpfp_attention_is_that_of_pytorch() {
        for name in ["dpfp", "dpfp_order"] {
            let golden = Golden::read(name);
            let config = DpfpConfig {
                order: golden.setting("order") as usize,
                epsilon: golden.setting("epsilon"),
            };
            golden.check(1e-5, |inputs| {
                let (q, k, v) = (inputs.q.clone(), inputs.k.clone(), inputs.v.clone());
                let place = Place::new(0, 8, 1);
                let module = config.init(&place, &BurnInit::new(&inputs.device));
                Outcome::new(module.attend(q, k, v, place.context(Phase::Eval)))
            });
        }
    }

    /// The paper multiplies entry i by entry i + j, this code entry i by entry i - j: the same products in another
    /// order. The numbers are exact.
    #[test]
    fn features_are_the_products_of_the_paper() {
        let x = [1.0f32, -2.0, 3.0];
        let r = [1.0, 0.0, 3.0, 0.0, 2.0, 0.0];
        let features = dpfp_features(tensor(&x, [1, 1, 1, 3], &Device::flex()), 5);
        for (shift, ours) in (1..).zip(values(features).chunks(6)) {
            let paper: Vec<f32> = (0..6).map(|i| r[i] * r[(i + shift) % 6]).collect();
            let moved: Vec<f32> = (0..6).map(|i| ours[(i + shift) % 6]).collect();
            assert_eq!(moved, paper, "{shift}");
        }
    }

    #[test]
    fn a_query_that_shares_no_feature_with_a_key_gets_zeros_and_no_nan() {
        let device = Device::flex().autodiff();
        let q = tensor(&[1.0, 1.0], [1, 1, 1, 2], &device).require_grad();
        let k = tensor(&[-1.0, -1.0], [1, 1, 1, 2], &device);
        let v = tensor(&[3.0, 4.0], [1, 1, 1, 2], &device);
        let place = Place::new(1, 2, 1);
        let config = DpfpConfig {
            order: 1,
            ..DpfpConfig::default()
        };
        let module = config.init(&place, &BurnInit::new(&device));
        let out = module.attend(q.clone(), k, v, place.context(Phase::Eval));
        let gradient = q.grad(&out.clone().sum().backward()).map(values);
        assert_eq!(values(out), [0.0; 2]);
        let finite = |gradient: Vec<f32>| gradient.iter().all(|x| x.is_finite());
        assert!(gradient.is_some_and(finite));
    }

    #[test]
    fn more_features_than_there_are_products_are_refused() {
        let config = |order| DpfpConfig {
            order,
            ..DpfpConfig::default()
        };
        let place = Place::new(5, 12, 2);
        assert_eq!(config(11).fits(&place), Ok(()));
        let message = config(12).fits(&place).map_err(|error| error.to_string());
        let expected = "`kind = \"dpfp\"` has `order` 12, but the 12 rectified entries of a head have no more than \
                        11 others: set `order` to 11 or less";
        assert_eq!(message, Err(expected.to_owned()));
    }
}
