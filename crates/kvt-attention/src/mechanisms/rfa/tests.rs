#![expect(clippy::unwrap_used, reason = "tests")]

use burn::tensor::Device;
use kvt_ops::Phase;
use kvt_testing::devices::{tensor, values};

use super::*;
use crate::BurnInit;
use crate::mechanisms::features::unbiased::{Drawn, dot, worst_z};
use crate::mechanisms::golden::{Golden, Outcome};

#[test]
fn random_feature_attention_is_that_of_pytorch() {
    let golden = Golden::read("rfa");
    let config = RfaConfig {
        tau: golden.setting("tau"),
        epsilon: golden.setting("epsilon"),
        ..RfaConfig::default()
    };
    golden.check(1e-5, |inputs| {
        let (q, k, v) = (inputs.q.clone(), inputs.k.clone(), inputs.v.clone());
        let tensor = |name| inputs.golden.tensor(name, &inputs.device);
        let sigma = inputs.golden.tensor::<3>("sigma", &inputs.device);
        let mut module = config.init(&Place::new(0, 24, 3), &BurnInit::new(&inputs.device));
        module.sigma = Param::from_tensor(sigma);
        let out = module.attend_by(q, k, v, tensor("omega"));
        Outcome::new(out).learned("sigma", module.sigma.val())
    });
}

/// `E[phi(q) phi(k)] = exp((cos(q, k) - 1) / tau^2)`.
#[test]
fn products_of_features_estimate_the_exponential_of_cosines_without_bias() {
    const TAU: f64 = 0.8;
    let product = |q, k, omega: Tensor<4>| {
        let [phi_q, phi_k] = [q, k].map(|x| waves(unit(x), omega.clone() / TAU));
        phi_q.matmul(phi_k.swap_dims(2, 3))
    };
    let kernel = |q: &[f32], k: &[f32]| {
        let cosine = dot(q, k) / (dot(q, q) * dot(k, k)).sqrt();
        ((cosine - 1.0) / TAU.powi(2)).exp()
    };
    for drawn in [Drawn::Independent, Drawn::Orthogonal] {
        let z = worst_z(drawn, 1.0, kernel, product);
        assert!(z < 4.0, "{drawn:?}: {z}");
    }
}

/// The initial tokens of a model may be zero.
#[test]
fn zero_vectors_have_gradients() {
    let device = Device::flex().autodiff();
    let place = Place::new(2, 4, 2);
    let module = RfaConfig::default().init(&place, &BurnInit::new(&device));
    let q = tensor(
        &[0.0, 0.0, 1.0, 2.0, 0.0, 0.0, 3.0, 1.0],
        [1, 2, 2, 2],
        &device,
    )
    .require_grad();
    let v = tensor(&[1.0, 2.0, 3.0, 4.0], [1, 2, 2, 1], &device);
    let out = module.attend(q.clone(), q.clone(), v, place.context(Phase::Eval));
    let gradients = out.clone().sum().backward();
    for x in [values(out), values(q.grad(&gradients).unwrap())] {
        assert!(x.iter().all(|x| x.is_finite()), "{x:?}");
    }
}

/// Widths start at 1, one for every channel.
#[test]
fn widths_are_a_parameter() {
    let place = Place::new(5, 12, 3);
    let module = RfaConfig::default().init(&place, &BurnInit::new(&Device::flex()));
    assert_eq!(module.sigma.dims(), [3, 1, 4]);
    assert_eq!(values(module.sigma.val()), [1.0; 12]);
}

#[test]
fn heads_have_their_own_directions() {
    let device = Device::flex();
    let place = Place::new(3, 4, 2);
    let module = RfaConfig::default().init(&place, &BurnInit::new(&device));
    let x = tensor(&[0.3, 1.0, -0.5, 0.2, 1.0, 2.0], [1, 1, 3, 2], &device).expand([1, 2, 3, 2]);
    let out = module.attend(x.clone(), x.clone(), x, place.context(Phase::Eval));
    assert_ne!(
        values(out.clone().narrow(1, 0, 1)),
        values(out.narrow(1, 1, 1))
    );
}
