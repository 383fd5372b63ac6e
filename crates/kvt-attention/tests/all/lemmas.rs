//! The paper's lemmas as numbers. Lemma 1 against PyTorch's autograd; Lemmas 2 and 3, which are about
//! scaling, redone with our attention on the constructions of `scripts/reference/lemmas.py`.

use burn::tensor::{Device, Tensor};
use kvt_attention::{Attention, Key, Neighbors, Score, attend};
use serde_json::Value;

use crate::devices::{assert_close, devices, tensor, values};

fn golden() -> Value {
    serde_json::from_str(include_str!("../golden/lemmas.json")).unwrap()
}

fn flat(value: &Value) -> Vec<f32> {
    match value {
        Value::Array(items) => items.iter().flat_map(flat).collect(),
        number => vec![number.as_f64().unwrap() as f32],
    }
}

/// A matrix as one head of one image, `[1, 1, rows, columns]`.
fn head(x: Tensor<2>) -> Tensor<4> {
    let [rows, columns] = x.dims();
    x.reshape([1, 1, rows, columns])
}

/// Lemma 1: the derivatives of one output with respect to W_Q and W_K, dense and k-NN.
#[test]
fn lemma_1_derivatives_match_pytorch() {
    let golden = &golden()["lemma_1"];
    let size = |name: &str| golden[name].as_u64().unwrap() as usize;
    let (n, d, k, query) = (size("n"), size("d"), size("k"), size("query"));
    for (name, device) in devices() {
        let device = device.autodiff();
        let matrix = |name: &str, rows| tensor(&flat(&golden[name]), [rows, d], &device);
        let x = matrix("x", n);
        for (kind, neighbors) in [
            ("dense", Neighbors::All),
            ("knn", Neighbors::count(k).unwrap()),
        ] {
            let expected = &golden[kind];
            for output in 0..d {
                let w_q = matrix("w_q", d).require_grad();
                let w_k = matrix("w_k", d).require_grad();
                let out = attend(
                    head(x.clone().narrow(0, query, 1).matmul(w_q.clone())),
                    head(x.clone().matmul(w_k.clone())),
                    head(x.clone().matmul(matrix("w_v", d))),
                    Score::default(),
                    (d as f64).powf(-0.5),
                    &Attention::knn(neighbors),
                    None,
                )
                .unwrap()
                .narrow(3, output, 1)
                .sum();
                let grads = out.backward();
                for (parameter, golden) in [(w_q, "d_wq"), (w_k, "d_wk")] {
                    // Stored as [i][j][output].
                    let all = flat(&expected[golden]);
                    let one: Vec<f32> = all.iter().skip(output).step_by(d).copied().collect();
                    let actual = values(parameter.grad(&grads).unwrap());
                    assert_close(&format!("{name} {kind} {golden}"), &actual, &one, 1e-5);
                }
            }
        }
    }
}

/// The closed form of the k-NN gradient is that of dense attention, with the variance over the kept
/// keys. The paper's printed form for W_K is another one.
#[test]
fn the_printed_gradient_for_w_k_is_wrong() {
    let golden = &golden()["lemma_1"];
    for kind in ["dense", "knn"] {
        let error = |name: &str| golden[kind][name].as_f64().unwrap();
        assert!(error("closed_wq_error") < 1e-12 && error("closed_wk_error") < 1e-12);
        assert!(error("printed_wk_error") > 0.1 && error("printed_wk_scaled_error") > 0.1);
    }
}

/// Normal numbers of a key, by Box and Muller.
fn normal(key: Key, count: usize) -> Vec<f32> {
    use rand::RngExt;
    let mut rng = key.rng();
    (0..count)
        .map(|_| {
            let (u, v): (f64, f64) = (1.0 - rng.random::<f64>(), rng.random());
            ((-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()) as f32
        })
        .collect()
}

/// Lemma 2: 60 relevant tokens among 196. The error of the output is smallest where k is the number
/// of relevant ones: fewer average too little noise away, more let irrelevant tokens in.
#[test]
fn lemma_2_the_error_is_smallest_at_the_relevant_count() {
    let (n, d, relevant, draws) = (196, 32, 60, 40);
    let device = Device::flex();
    let counts = [1, 10, 40, 60, 80, 100, 150, 196];
    let mut errors = [0.0f64; 8];
    for draw in 0..draws {
        let mut x: Vec<f32> = normal(Key::new(draw).named("lemma 2"), n * d)
            .into_iter()
            .map(|z| z / 32f32.sqrt())
            .collect();
        for token in 0..n {
            let mean = if token < relevant {
                0
            } else {
                1 + (token - relevant) % 3
            };
            x[token * d + mean] += 2.0;
        }
        let x = tensor(&x, [1, 1, n, d], &device);
        for (error, &k) in errors.iter_mut().zip(&counts) {
            let out = attend(
                x.clone().narrow(2, 0, 1),
                x.clone(),
                x.clone(),
                Score::default(),
                (d as f64).powf(-0.5),
                &Attention::knn(Neighbors::count(k).unwrap()),
                None,
            );
            let mut out = values(out.unwrap());
            out[0] -= 2.0;
            let largest = out.iter().fold(0.0f32, |m, x| m.max(x.abs()));
            *error += f64::from(largest) / draws as f64;
        }
    }
    let best = counts[errors
        .iter()
        .enumerate()
        .min_by(|a, b| a.1.total_cmp(b.1))
        .unwrap()
        .0];
    assert_eq!(best, relevant, "{errors:?}");
    // A U: falling before, rising after.
    assert!(errors[..4].is_sorted_by(|a, b| a > b), "{errors:?}");
    assert!(errors[3..].is_sorted_by(|a, b| a < b), "{errors:?}");
    // The same sizes as the reference's own draws.
    for (error, expected) in errors.iter().zip(flat(&golden()["lemma_2"]["error"])) {
        assert!((error - f64::from(expected)).abs() < 0.05, "{errors:?}");
    }
}

/// Lemma 3: the share of keys that must be kept to keep all 8 relevant ones falls with the dimension.
#[test]
fn lemma_3_fewer_keys_are_needed_in_higher_dimensions() {
    let (n, relevant, draws) = (196, 8, 100);
    let device = Device::flex();
    let shares: Vec<f64> = [8usize, 16, 32, 64, 128]
        .map(|d| {
            let mut share = 0.0;
            for draw in 0..draws {
                let key = Key::new(draw).named("lemma 3").child(d as u64);
                let keys = normal(key.child(0), n * d);
                let noise = normal(key.child(1), d);
                let query: Vec<f32> = (0..d)
                    .map(|c| {
                        let sum: f32 = (0..relevant).map(|t| keys[t * d + c]).sum();
                        sum / relevant as f32 + 0.5 * noise[c]
                    })
                    .collect();
                share += needed_share(&query, &keys, relevant, &device) / draws as f64;
            }
            share
        })
        .to_vec();
    assert!(shares.is_sorted_by(|a, b| a > b), "{shares:?}");
}

/// The smallest share of keys for which k-NN attention keeps every relevant one, by bisection on k.
fn needed_share(query: &[f32], keys: &[f32], relevant: usize, device: &Device) -> f64 {
    let d = query.len();
    let n = keys.len() / d;
    let q = tensor(query, [1, 1, 1, d], device);
    let k = tensor(keys, [1, 1, n, d], device);
    // Values that show which keys were kept: one column per key.
    let v = Tensor::<2>::eye(n, device).reshape([1, 1, n, n]);
    let keeps_all = |count: usize| {
        let attention = Attention::knn(Neighbors::count(count).unwrap());
        // A small scale: the weights must not underflow.
        let out = attend(
            q.clone(),
            k.clone(),
            v.clone(),
            Score::default(),
            0.01,
            &attention,
            None,
        );
        values(out.unwrap())[..relevant]
            .iter()
            .all(|&weight| weight > 0.0)
    };
    let (mut low, mut high) = (relevant, n);
    while low < high {
        let middle = usize::midpoint(low, high);
        if keeps_all(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    low as f64 / n as f64
}
