use burn::tensor::Device;
use kvt_ops::Key;
use kvt_testing::devices::{assert_close, tensor, values};

use super::*;
use crate::BurnInit;
use crate::mechanisms::features::unbiased::{Drawn, HEAD_DIM, dot, worst_z};
use crate::mechanisms::features::{attend_features, gaussian};
use crate::mechanisms::golden::{Golden, Outcome};

fn module(temperature: f64, epsilon: f64) -> Favor {
    let config = FavorConfig {
        temperature,
        epsilon,
        ..FavorConfig::default()
    };
    config.init(&Place::new(0, 8, 1), &BurnInit::new(&Device::flex()))
}

#[test]
fn favor_attention_is_that_of_pytorch() {
    let golden = Golden::read("favor");
    let module = module(golden.setting("temperature"), golden.setting("epsilon"));
    golden.check(1e-5, |inputs| {
        let (q, k, v) = (inputs.q.clone(), inputs.k.clone(), inputs.v.clone());
        let omega = inputs.golden.tensor("omega", &inputs.device);
        let scale = (q.dims()[3] as f64).powf(-0.5);
        Outcome::new(module.attend_by([q, k, v], omega, scale))
    });
}

/// The features of the paper, including the factor that cancels for queries.
fn features(x: Tensor<4>, omega: Tensor<4>) -> Tensor<4> {
    waves(x.clone(), omega) * half_square(x).exp()
}

/// `E[phi(q) phi(k)] = exp(q k)`. Sine and cosine of `omega x` and `-omega x` have the same products, so biased signs
/// are harmless here.
#[test]
fn products_of_features_estimate_the_exponential_without_bias() {
    let product = |q, k, omega: Tensor<4>| {
        let [phi_q, phi_k] = [q, k].map(|x| features(x, omega.clone()));
        phi_q.matmul(phi_k.swap_dims(2, 3))
    };
    let size = 0.5 * (HEAD_DIM as f32).powf(-0.25);
    for drawn in [Drawn::Independent, Drawn::Orthogonal, Drawn::Signed] {
        let z = worst_z(drawn, size, |q, k| dot(q, k).exp(), product);
        assert!(z < 4.0, "{drawn:?}: {z}");
    }
}

#[test]
fn what_is_left_out_cancels() {
    let device = Device::flex();
    let draw = |name: &str, rows| {
        let numbers = gaussian(Key::new(3).named(name), rows, 8, false);
        tensor(&numbers, [1, 1, rows, 8], &device)
    };
    let (q, k, v, omega) = (
        draw("q", 5) * 0.5,
        draw("k", 7) * 0.5,
        draw("v", 7),
        draw("omega", 64),
    );
    let out = module(1.0, 1e-6).attend_by([&q, &k, &v].map(Clone::clone), omega.clone(), 1.0);
    let whole = attend_features(features(q, omega.clone()), features(k, omega), v, 0.0);
    assert_close("favor", &values(out), &values(whole), 1e-5);
}

/// `exp(|k|^2 / 2)` overflows f32: the longest keys get all weight, and the others none.
#[test]
fn long_keys_do_not_overflow() {
    let device = Device::flex();
    let q = tensor(&[1.0, 0.5], [1, 1, 1, 2], &device);
    let k = tensor(&[1.0, 2.0, 20.0, 0.0, 0.0, 1.0], [1, 1, 3, 2], &device);
    let v = tensor(&[5.0, 7.0, 11.0], [1, 1, 3, 1], &device);
    let omega = tensor(&[0.1, 0.2, -0.1, 0.1], [1, 1, 2, 2], &device);
    let out = module(1.0, 1e-6).attend_by([q, k, v], omega, 1.0);
    assert_close("longest", &values(out), &[7.0], 1e-5);
}
