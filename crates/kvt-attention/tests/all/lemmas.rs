//! The paper's lemmas as numbers. Lemma 1 against PyTorch's autograd; Lemmas 2 and 3, which are about
//! scaling, redone with our attention on the constructions of `scripts/reference/lemmas.py`.

use burn::tensor::{Device, Tensor};
use kvt_attention::{Neighbors, Score, SoftmaxAttention, attend};
use kvt_ops::Key;
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

/// The problem of Lemma 1.
struct Lemma1 {
    golden: Value,
    n: usize,
    d: usize,
    query: usize,
}

impl Lemma1 {
    fn new() -> Self {
        let golden = golden()["lemma_1"].clone();
        let size = |name: &str| golden[name].as_u64().unwrap() as usize;
        let (n, d, query) = (size("n"), size("d"), size("query"));
        Self {
            golden,
            n,
            d,
            query,
        }
    }

    /// Dense and k-NN attention, by their names among the golden numbers.
    fn kinds(&self) -> [(&'static str, Neighbors); 2] {
        let k = self.golden["k"].as_u64().unwrap() as usize;
        let knn = Neighbors::count(k).unwrap();
        [("dense", Neighbors::All), ("knn", knn)]
    }

    fn matrix(&self, name: &str, rows: usize, device: &Device) -> Tensor<2> {
        tensor(&flat(&self.golden[name]), [rows, self.d], device)
    }

    /// The output of the query from `v`, with projections `w_q` and `w_k`.
    fn attend(&self, w_q: Tensor<2>, w_k: Tensor<2>, v: Tensor<2>, kept: Neighbors) -> Tensor<4> {
        let x = self.matrix("x", self.n, &v.device());
        attend(
            head(x.clone().narrow(0, self.query, 1).matmul(w_q)),
            head(x.matmul(w_k)),
            head(v),
            Score::default(),
            (self.d as f64).powf(-0.5),
            &SoftmaxAttention::knn(kept),
            None,
        )
        .unwrap()
    }

    /// Our derivatives of an output with respect to W_Q and W_K, `[i][j]` each.
    fn derivatives(&self, output: usize, kept: Neighbors, device: &Device) -> [Vec<f32>; 2] {
        let device = device.clone().autodiff();
        let [w_q, w_k] =
            ["w_q", "w_k"].map(|name| self.matrix(name, self.d, &device).require_grad());
        let x = self.matrix("x", self.n, &device);
        let v = x.matmul(self.matrix("w_v", self.d, &device));
        let out = self.attend(w_q.clone(), w_k.clone(), v, kept);
        let grads = out.narrow(3, output, 1).sum().backward();
        [w_q, w_k].map(|parameter| values(parameter.grad(&grads).unwrap()))
    }
}

/// Lemma 1: the derivatives of one output with respect to W_Q and W_K, dense and k-NN.
#[test]
fn lemma_1_derivatives_match_pytorch() {
    let lemma = Lemma1::new();
    for (name, device) in devices() {
        for (kind, kept) in lemma.kinds() {
            for output in 0..lemma.d {
                let actual = lemma.derivatives(output, kept, &device);
                for (actual, golden) in actual.iter().zip(["d_wq", "d_wk"]) {
                    // Stored as [i][j][output].
                    let all = flat(&lemma.golden[kind][golden]);
                    let one: Vec<f32> = all.iter().skip(output).step_by(lemma.d).copied().collect();
                    assert_close(&format!("{name} {kind} {golden}"), actual, &one, 1e-5);
                }
            }
        }
    }
}

/// The closed form of the k-NN gradient is the one of dense attention, with the variance over the kept keys under
/// their weights. The paper's printed form for W_K differs.
#[test]
fn the_printed_gradient_for_w_k_is_wrong() {
    let lemma = Lemma1::new();
    let (n, d, query) = (lemma.n, lemma.d, lemma.query);
    let device = Device::flex();
    let [x, w_q, w_k, w_v] = ["x", "w_q", "w_k", "w_v"].map(|name| flat(&lemma.golden[name]));
    // Element (i, j) of a matrix.
    let at = |x: &[f32], i: usize, j: usize| f64::from(x[i * d + j]);
    let sum = |term: &dyn Fn(usize) -> f64| (0..d).map(term).sum::<f64>();
    let root = (d as f64).sqrt();
    for (kind, kept) in lemma.kinds() {
        let [a, b] = ["w_q", "w_k"].map(|name| lemma.matrix(name, d, &device));
        let weights = values(lemma.attend(a, b, Tensor::eye(n, &device), kept));
        let mean = |i: usize| -> f64 { (0..n).map(|t| f64::from(weights[t]) * at(&x, t, i)).sum() };
        let variance = |i: usize, j: usize| -> f64 {
            let square = |t: usize| f64::from(weights[t]) * at(&x, t, i) * at(&x, t, j);
            (0..n).map(square).sum::<f64>() - mean(i) * mean(j)
        };
        let through = |i: usize, c: usize| sum(&|m| variance(i, m) * at(&w_v, m, c));
        let mut printed_error = 0.0f64;
        for c in 0..d {
            let [d_wq, d_wk] = lemma.derivatives(c, kept, &device);
            for (i, j) in (0..d).flat_map(|i| (0..d).map(move |j| (i, j))) {
                let projected = sum(&|m| at(&x, query, m) * at(&w_q, m, j));
                let closed_wk = projected * through(i, c) / root;
                let closed = |w: &[f32]| at(&x, query, i) * sum(&|m| at(w, m, j) * through(m, c));
                let closed_wq = closed(&w_k) / root;
                assert!((closed_wq - at(&d_wq, i, j)).abs() < 1e-5, "{kind} W_Q");
                assert!((closed_wk - at(&d_wk, i, j)).abs() < 1e-5, "{kind} W_K");
                let error = (closed(&w_q) - at(&d_wk, i, j)).abs();
                printed_error = printed_error.max(error);
            }
        }
        // The same error as in PyTorch.
        let expected = lemma.golden[kind]["printed_wk_error"].as_f64().unwrap();
        assert!(
            expected > 0.1 && (printed_error - expected).abs() < 1e-4,
            "{kind}"
        );
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
                &SoftmaxAttention::knn(Neighbors::count(k).unwrap()),
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
    // Close to the errors of the reference, which has other draws.
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
        let attention = SoftmaxAttention::knn(Neighbors::count(count).unwrap());
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
