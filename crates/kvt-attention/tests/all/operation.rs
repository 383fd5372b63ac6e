//! Attention as one operation against a naive implementation in f64: forward and gradients over
//! shapes, numbers of neighbours and types.

use burn::tensor::{DType, Device, Tensor};
use kvt_attention::{Attention, Implementation, Neighbors, Score, attend, attend_unchecked};
use proptest::prelude::*;
use rayon::ThreadPoolBuilder;

use crate::devices::{assert_close, devices, tensor, values};

/// Sizes of a problem.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    /// Heads of the one image.
    heads: usize,
    queries: usize,
    keys: usize,
    dim: usize,
    value_dim: usize,
}

/// Inputs as `[1, heads, tokens, dim]`.
struct Inputs {
    sizes: Sizes,
    implementation: Implementation,
    q: Vec<f32>,
    k: Vec<f32>,
    v: Vec<f32>,
    /// The gradient of the output.
    probe: Vec<f32>,
}

impl Inputs {
    /// Queries and keys are small whole numbers: every product is exact in f32 too, scores tie all
    /// the time, and the selection must be the naive one to the last key.
    fn new(sizes: Sizes, seed: u64) -> Self {
        let mut state = seed.wrapping_mul(2) + 1;
        let mut draw = |len: usize, levels: u64, size: f32| -> Vec<f32> {
            (0..len)
                .map(|_| {
                    state = state
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1_442_695_040_888_963_407);
                    ((state >> 33) % levels) as f32 * size - (levels / 2) as f32 * size
                })
                .collect()
        };
        let Sizes {
            heads,
            queries,
            keys,
            dim,
            value_dim,
        } = sizes;
        Self {
            sizes,
            implementation: Implementation::Auto,
            q: draw(heads * queries * dim, 5, 1.0),
            k: draw(heads * keys * dim, 5, 1.0),
            v: draw(heads * keys * value_dim, 1001, 0.002),
            probe: draw(heads * queries * value_dim, 1001, 0.002),
        }
    }

    /// Output and gradients of q, k and v, sorting every row.
    fn naive(&self, scale: f64, kept: usize) -> [Vec<f32>; 4] {
        let Sizes {
            heads,
            queries,
            keys,
            dim,
            value_dim,
        } = self.sizes;
        let dot = |a: &[f32], b: &[f32]| -> f64 {
            a.iter()
                .zip(b)
                .map(|(a, b)| f64::from(*a) * f64::from(*b))
                .sum()
        };
        let mut out = vec![0.0; heads * queries * value_dim];
        let mut dq = vec![0.0; self.q.len()];
        let mut dk = vec![0.0; self.k.len()];
        let mut dv = vec![0.0; self.v.len()];
        for row in 0..heads * queries {
            let head = row / queries;
            let q = &self.q[row * dim..][..dim];
            let probe = &self.probe[row * value_dim..][..value_dim];
            let key = |i: usize| &self.k[(head * keys + i) * dim..][..dim];
            let value = |i: usize| &self.v[(head * keys + i) * value_dim..][..value_dim];
            // -0 becomes +0: the two are equal.
            let scores: Vec<f64> = (0..keys).map(|i| scale * dot(q, key(i)) + 0.0).collect();
            let mut order: Vec<usize> = (0..keys).collect();
            order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]).then(a.cmp(&b)));
            order.truncate(kept);
            let best = scores[order[0]];
            let sum: f64 = order.iter().map(|&i| (scores[i] - best).exp()).sum();
            let weights: Vec<(usize, f64)> = order
                .iter()
                .map(|&i| (i, (scores[i] - best).exp() / sum))
                .collect();
            let mean: f64 = weights.iter().map(|&(i, p)| p * dot(probe, value(i))).sum();
            for (i, p) in weights {
                let ds = scale * p * (dot(probe, value(i)) - mean);
                for c in 0..value_dim {
                    out[row * value_dim + c] += p * f64::from(value(i)[c]);
                    dv[(head * keys + i) * value_dim + c] += p * f64::from(probe[c]);
                }
                for c in 0..dim {
                    dq[row * dim + c] += ds * f64::from(key(i)[c]);
                    dk[(head * keys + i) * dim + c] += ds * f64::from(q[c]);
                }
            }
        }
        [out, dq, dk, dv].map(|x| x.into_iter().map(|x| x as f32).collect())
    }

    fn run(&self, scale: f64, kept: usize, device: &Device, dtype: DType) -> [Vec<f32>; 4] {
        let Sizes {
            heads,
            queries,
            keys,
            dim,
            value_dim,
        } = self.sizes;
        let device = device.clone().autodiff();
        let leaf = |data: &[f32], tokens, dim| {
            tensor(data, [1, heads, tokens, dim], &device)
                .cast(dtype)
                .require_grad()
        };
        let (q, k, v) = (
            leaf(&self.q, queries, dim),
            leaf(&self.k, keys, dim),
            leaf(&self.v, keys, value_dim),
        );
        let attention = Attention {
            implementation: self.implementation,
            ..Attention::knn(Neighbors::count(kept).unwrap())
        };
        let (a, b, c) = (q.clone(), k.clone(), v.clone());
        let out = attend(a, b, c, Score::default(), scale, &attention, None).unwrap();
        let probe = tensor(&self.probe, [1, heads, queries, value_dim], &device).cast(dtype);
        let grads = (out.clone() * probe).sum().backward();
        [
            values(out),
            values(q.grad(&grads).unwrap()),
            values(k.grad(&grads).unwrap()),
            values(v.grad(&grads).unwrap()),
        ]
    }

    /// With values that a type can hold.
    fn rounded(mut self, dtype: DType) -> Self {
        for data in [&mut self.q, &mut self.k, &mut self.v, &mut self.probe] {
            *data = values(tensor(data, [data.len()], &Device::flex()).cast(dtype));
        }
        self
    }

    fn by(self, implementation: Implementation) -> Self {
        Self {
            implementation,
            ..self
        }
    }

    #[track_caller]
    fn check(&self, scale: f64, kept: usize, name: &str, device: &Device, dtype: DType) {
        let tolerance = match dtype {
            DType::F16 => 4e-3,
            DType::BF16 => 3e-2,
            _ => 2e-5,
        };
        let actual = self.run(scale, kept, device, dtype);
        let expected = self.naive(scale, kept);
        for (what, (actual, expected)) in ["out", "q", "k", "v"]
            .iter()
            .zip(actual.iter().zip(&expected))
        {
            let what = format!(
                "{name} {dtype:?}, {:?}, {:?}, k = {kept}: {what}",
                self.implementation, self.sizes
            );
            // A gradient may be nothing but rounding (one key has the weight 1, or two keys are nearly the
            // same), of terms of order one: compare with 1e-3 at least.
            let scale = expected.iter().fold(1e-3f32, |m, x| m.max(x.abs()));
            let worst = actual.iter().zip(expected).fold(0.0f32, |worst, (a, e)| {
                let difference = (a - e).abs() / scale;
                if difference <= worst {
                    worst
                } else {
                    difference
                }
            });
            assert!(worst <= tolerance, "{what}: relative error {worst}");
        }
    }
}

fn neighbors(keys: usize) -> Vec<usize> {
    let mut all = vec![1, 2, keys / 2, keys.saturating_sub(1), keys, keys + 1];
    all.retain(|k| *k > 0);
    all.dedup();
    all
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn agrees_with_sorting_on_the_cpu(
        heads in 1usize..4,
        queries in 1usize..140,
        keys in 1usize..300,
        dim in 1usize..40,
        value_dim in 1usize..40,
        seed in any::<u64>(),
    ) {
        let inputs = Inputs::new(Sizes { heads, queries, keys, dim, value_dim }, seed);
        for kept in neighbors(keys) {
            inputs.check(0.25, kept, "flex", &Device::flex(), DType::F32);
        }
    }
}

#[test]
fn long_rows_agree_with_sorting_on_the_cpu() {
    for (keys, dim) in [(784, 64), (3136, 33), (5000, 7)] {
        let sizes = Sizes {
            heads: 1,
            queries: 70,
            keys,
            dim,
            value_dim: dim,
        };
        let inputs = Inputs::new(sizes, keys as u64);
        for kept in neighbors(keys) {
            inputs.check(0.25, kept, "flex", &Device::flex(), DType::F32);
        }
    }
}

#[test]
fn every_device_agrees_with_sorting() {
    let shape = |queries, keys, dim, value_dim| Sizes {
        heads: 3,
        queries,
        keys,
        dim,
        value_dim,
    };
    for sizes in [shape(5, 9, 4, 4), shape(17, 65, 8, 5)] {
        for implementation in [Implementation::Auto, Implementation::Flash] {
            let inputs = Inputs::new(sizes, 3).by(implementation);
            for (name, device) in devices() {
                for kept in neighbors(sizes.keys) {
                    inputs.check(0.25, kept, name, &device, DType::F32);
                }
            }
        }
    }
}

/// Sizes that share out the units of a cube in every way: rows that are alone or many, columns that
/// are few, no power of two, or as many as there are units, and rows too long to be held.
#[test]
fn flash_agrees_with_sorting_at_every_size() {
    for (queries, keys, dim, value_dim) in [
        (1, 1, 1, 1),
        (33, 129, 24, 64),
        (20, 257, 3, 127),
        (3, 3136, 32, 16),
        (2, 7000, 64, 64),
    ] {
        let sizes = Sizes {
            heads: 2,
            queries,
            keys,
            dim,
            value_dim,
        };
        let inputs = Inputs::new(sizes, 7).by(Implementation::Flash);
        for (name, device) in devices() {
            for kept in [1, keys.div_ceil(3), keys] {
                inputs.check(0.25, kept, name, &device, DType::F32);
            }
        }
    }
}

/// What is saved of a row must tell its probabilities to the last digits, however large its scores
/// are: two keys that tie share a row evenly.
#[test]
fn large_scores_lose_nothing() {
    for (name, device) in devices() {
        let device = device.autodiff();
        for implementation in [Implementation::Fused, Implementation::Flash] {
            let attention = Attention {
                implementation,
                ..Attention::knn(Neighbors::count(2).unwrap())
            };
            let q = tensor(&[1000.0], [1, 1, 1, 1], &device).require_grad();
            let k = tensor(&[1000.0, 999.0, 1000.0], [1, 1, 3, 1], &device).require_grad();
            let v = tensor(&[1.0, 5.0, 3.0], [1, 1, 3, 1], &device).require_grad();
            let (a, b, c) = (q.clone(), k.clone(), v.clone());
            let out = attend(a, b, c, Score::default(), 1.0, &attention, None).unwrap();
            let grads = out.clone().sum().backward();
            let grad = |x: &Tensor<4>| values(x.grad(&grads).unwrap());
            let what = format!("{name} {implementation:?}");
            assert_eq!(values(out), [2.0], "{what}");
            assert_eq!(grad(&v), [0.5, 0.0, 0.5], "{what}");
            // P * (dP - sum(P * dP)) = 0.5 * (1 - 2) and 0.5 * (3 - 2).
            assert_eq!(grad(&k), [-500.0, 0.0, 500.0], "{what}");
            assert_eq!(grad(&q), [0.0], "{what}");
        }
    }
}

/// A row without a value spoils the gradients of its query and of all keys, and no other query's.
#[test]
fn broken_rows_spoil_what_they_touch() {
    for (name, device) in devices() {
        let device = device.autodiff();
        for implementation in [Implementation::Fused, Implementation::Flash] {
            for bad in [f32::NAN, f32::INFINITY] {
                let attention = Attention {
                    implementation,
                    ..Attention::knn(Neighbors::count(2).unwrap())
                };
                let q = tensor(&[1.0, bad, 2.0], [1, 1, 3, 1], &device).require_grad();
                let k = tensor(&[1.0, 2.0, 3.0, 4.0], [1, 1, 4, 1], &device).require_grad();
                let v = tensor(&[1.0, 2.0, 3.0, 5.0], [1, 1, 4, 1], &device).require_grad();
                let (a, b, c) = (q.clone(), k.clone(), v.clone());
                let out = attend(a, b, c, Score::default(), 1.0, &attention, None).unwrap();
                let grads = out.clone().sum().backward();
                let broken = |x: Tensor<4>| -> Vec<bool> {
                    values(x).iter().map(|value| value.is_nan()).collect()
                };
                let what = format!("{name} {implementation:?} {bad}");
                let one = [false, true, false];
                assert_eq!(broken(out), one, "{what}");
                assert_eq!(broken(q.grad(&grads).unwrap()), one, "{what}");
                assert_eq!(broken(k.grad(&grads).unwrap()), [true; 4], "{what}");
                assert_eq!(broken(v.grad(&grads).unwrap()), [true; 4], "{what}");
            }
        }
    }
}

/// More cubes than one dimension of a grid may have.
#[test]
fn many_heads_agree_with_sorting() {
    let sizes = Sizes {
        heads: 70_000,
        queries: 1,
        keys: 2,
        dim: 1,
        value_dim: 1,
    };
    for implementation in [Implementation::Auto, Implementation::Flash] {
        let inputs = Inputs::new(sizes, 9).by(implementation);
        for (name, device) in devices() {
            inputs.check(0.25, 1, name, &device, DType::F32);
        }
    }
}

#[test]
#[should_panic(expected = "do not fit together")]
fn modules_are_told_what_does_not_fit() {
    let device = Device::flex();
    let q = Tensor::<4>::ones([1, 1, 4, 8], &device);
    let k = Tensor::<4>::ones([1, 1, 6, 4], &device);
    let attention = Attention::dense();
    let _ = attend_unchecked(q, k.clone(), k, Score::default(), 1.0, &attention, None);
}

/// Half types round what goes in, what comes out and, where scores and weights are tensors, these.
#[test]
fn half_types_agree_with_sorting() {
    for keys in [1, 9, 70] {
        let sizes = Sizes {
            heads: 2,
            queries: 33,
            keys,
            dim: 16,
            value_dim: 16,
        };
        for (dtype, implementation) in [
            (DType::F16, Implementation::Auto),
            (DType::F16, Implementation::Flash),
            (DType::BF16, Implementation::Auto),
        ] {
            let inputs = Inputs::new(sizes, 5).rounded(dtype).by(implementation);
            for (name, device) in devices() {
                // The shading language of WebGPU has no bf16, and some adapters lack f16.
                if !device.supports_dtype(dtype) {
                    assert_eq!(name, "wgpu", "{dtype:?}");
                    kvt_testing::skipped(&format!("the GPU adapter has no {dtype:?}"));
                    continue;
                }
                for kept in neighbors(keys) {
                    inputs.check(0.25, kept, name, &device, dtype);
                }
            }
        }
    }
}

/// One image is split into parts whose gradients are added: always the same ones.
#[test]
fn the_number_of_threads_does_not_change_a_bit() {
    let sizes = Sizes {
        heads: 2,
        queries: 300,
        keys: 211,
        dim: 24,
        value_dim: 24,
    };
    let inputs = Inputs::new(sizes, 11);
    let run = |threads| {
        let pool = ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .unwrap();
        pool.install(|| inputs.run(0.3, 50, &Device::flex(), DType::F32))
    };
    assert_eq!(run(1), run(5));
}

/// Inputs that are views: heads and tokens swapped, and a key that all heads share.
#[test]
fn views_are_read_where_they_lie() {
    let device = Device::flex();
    let data: Vec<f32> = (0..2 * 9 * 3 * 8)
        .map(|i| (i as f32 * 0.37).sin())
        .collect();
    let tokens_first = tensor(&data, [2, 9, 3, 8], &device);
    let view = tokens_first.swap_dims(1, 2);
    let copy = tensor(&values(view.clone()), [2, 3, 9, 8], &device);
    let shared = tensor(&data[..2 * 9 * 8], [2, 1, 9, 8], &device).expand([2, 3, 9, 8]);
    let shared_copy = tensor(&values(shared.clone()), [2, 3, 9, 8], &device);
    let attention = Attention::knn(Neighbors::count(4).unwrap());
    let run = |q: &Tensor<4>, k: &Tensor<4>| {
        let out = attend(
            q.clone(),
            k.clone(),
            q.clone(),
            Score::default(),
            0.4,
            &attention,
            None,
        );
        values(out.unwrap())
    };
    assert_eq!(run(&view, &shared), run(&copy, &shared_copy));
}

/// One tensor as queries, keys and values: its three gradients add up. Nothing at all is fine too.
#[test]
fn one_tensor_may_be_all_three_and_empty() {
    let device = Device::flex().autodiff();
    let attention = Attention::knn(Neighbors::count(2).unwrap());
    let plain = Score::default;
    let x = Tensor::<4>::from_data([[[[1.0f32, -1.0], [0.5, 2.0], [0.0, 1.0]]]], &device);
    let run = |q: &Tensor<4>, k: &Tensor<4>, v: &Tensor<4>| {
        attend(
            q.clone(),
            k.clone(),
            v.clone(),
            plain(),
            0.5,
            &attention,
            None,
        )
        .unwrap()
    };
    let same = x.clone().require_grad();
    let grads = run(&same, &same, &same).sum().backward();
    let parts = [0, 1, 2].map(|_| x.clone().detach().require_grad());
    let [q, k, v] = &parts;
    let separate = run(q, k, v).sum().backward();
    let sum = parts
        .iter()
        .map(|p| p.grad(&separate).unwrap())
        .reduce(|a, b| a + b);
    assert_close(
        "gradient",
        &values(same.grad(&grads).unwrap()),
        &values(sum.unwrap()),
        1e-6,
    );
    // No queries, and no images.
    let none = Tensor::zeros([1, 1, 0, 2], &device);
    assert_eq!(run(&none, &x, &x).dims(), [1, 1, 0, 2]);
    let none = Tensor::<4>::zeros([0, 1, 3, 2], &device).require_grad();
    let grads = run(&none, &none, &none).sum().backward();
    assert_eq!(none.grad(&grads).unwrap().dims(), [0, 1, 3, 2]);
}
