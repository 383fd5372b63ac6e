#![expect(clippy::unwrap_used, reason = "tests")]

use burn::tensor::Device;
use kvt_ops::Key;
use kvt_testing::devices::{assert_close, tensor, values};

use super::*;
use crate::BurnInit;
use crate::mechanisms::features::gaussian;
use crate::mechanisms::features::unbiased::{Drawn, HEAD_DIM, dot, worst_z};
use crate::mechanisms::golden::{Golden, Outcome};

fn module(temperature: f64, kernel_epsilon: f64) -> Performer {
    let config = PerformerConfig {
        temperature,
        kernel_epsilon,
        ..PerformerConfig::default()
    };
    config.init(&Place::new(0, 8, 1), &BurnInit::new(&Device::flex()))
}

#[test]
fn performer_attention_is_that_of_pytorch() {
    for name in ["performer", "performer_cross"] {
        let golden = Golden::read(name);
        let module = module(
            golden.setting("temperature"),
            golden.setting("kernel_epsilon"),
        );
        golden.check(1e-5, |inputs| {
            let (q, k, v) = (inputs.q.clone(), inputs.k.clone(), inputs.v.clone());
            let omega = inputs.golden.tensor("omega", &inputs.device);
            let scale = (q.dims()[3] as f64).powf(-0.5);
            Outcome::new(module.attend_by([q, k, v], &omega, scale))
        });
    }
}

/// `E[phi(q) phi(k)] = exp(q k)`. Biased signs are detected.
#[test]
fn products_of_features_estimate_the_exponential_without_bias() {
    let product = |q, k, omega: Tensor<4>| {
        let features = omega.dims()[2] as f64;
        let [phi_q, phi_k] = [q, k].map(|x| exponents(x, omega.clone()).exp());
        phi_q.matmul(phi_k.swap_dims(2, 3)) / features
    };
    // Half-size vectors times the root of the scale.
    let size = 0.5 * (HEAD_DIM as f32).powf(-0.25);
    let worst = |drawn| worst_z(drawn, size, |q, k| dot(q, k).exp(), product);
    for drawn in [Drawn::Independent, Drawn::Orthogonal] {
        let z = worst(drawn);
        assert!(z < 4.0, "{drawn:?}: {z}");
    }
    let biased = worst(Drawn::Signed);
    assert!(biased > 10.0, "{biased}");
}

/// Queries and keys so long that `exp(-|x|^2 / 2)` is 0 in f32, against f64: the subtracted constants cancel, and no
/// relevant feature vanishes in `kernel_epsilon`.
#[test]
fn long_vectors_keep_their_weights() {
    let (queries, keys, features, dim) = (4, 5, 6, 8);
    let draw = |name: &str, rows: usize| gaussian(Key::new(9).named(name), rows, dim, false);
    let omega = draw("omega", features);
    // Queries of several lengths, and keys that are all long and near each other: otherwise the shortest gets all the
    // weight.
    let q: Vec<f32> = draw("q", queries)
        .chunks(dim)
        .zip([0.5, 8.0, 16.0, 2.0])
        .flat_map(|(row, factor)| row.iter().map(move |x| factor * x))
        .collect();
    let middle = draw("middle", 1);
    let k: Vec<f32> = draw("k", keys)
        .iter()
        .zip(middle.iter().cycle())
        .map(|(x, middle)| 0.2 * x + 10.0 * middle)
        .collect();
    let v = draw("v", keys);
    let root = f64::powf(dim as f64, -0.25);
    let exponent = |x: &[f32], f: usize| {
        root * dot(x, &omega[f * dim..][..dim]) - 0.5 * root * root * dot(x, x)
    };
    let row = |x: &[f32], i: usize| -> Vec<f64> {
        (0..features)
            .map(|f| exponent(&x[i * dim..][..dim], f))
            .collect()
    };
    assert!((0..features).all(|f| exponent(&k[..dim], f) < -60.0));
    let mut expected = Vec::new();
    for i in 0..queries {
        let of_query = row(&q, i);
        // Logarithms of the weights of all pairs of keys and features.
        let of_keys: Vec<Vec<f64>> = (0..keys).map(|j| row(&k, j)).collect();
        let logs = of_keys
            .iter()
            .flat_map(|key| key.iter().zip(&of_query).map(|(a, b)| a + b));
        let largest = logs.fold(f64::NEG_INFINITY, f64::max);
        let weights: Vec<f64> = of_keys
            .iter()
            .map(|key| {
                key.iter()
                    .zip(&of_query)
                    .map(|(a, b)| (a + b - largest).exp())
                    .sum()
            })
            .collect();
        let total: f64 = weights.iter().sum();
        for c in 0..dim {
            let sum: f64 = weights
                .iter()
                .enumerate()
                .map(|(j, w)| w * f64::from(v[j * dim + c]))
                .sum();
            expected.push((sum / total) as f32);
        }
    }
    let device = Device::flex().autodiff();
    let q = tensor(&q, [1, 1, queries, dim], &device).require_grad();
    let k = tensor(&k, [1, 1, keys, dim], &device).require_grad();
    let v = tensor(&v, [1, 1, keys, dim], &device);
    let omega = tensor(&omega, [1, 1, features, dim], &device);
    let scale = (dim as f64).powf(-0.5);
    let out = module(1.0, 1e-12).attend_by([q.clone(), k.clone(), v], &omega, scale);
    let gradients = out.clone().powi_scalar(2).sum().backward();
    assert_close("long", &values(out), &expected, 1e-3);
    for x in [q, k] {
        let gradient = values(x.grad(&gradients).unwrap());
        assert!(gradient.iter().all(|x| x.is_finite()));
        assert!(gradient.iter().any(|x| *x != 0.0));
    }
}
