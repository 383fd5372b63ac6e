//! Attention as one operation against a naive implementation in f64: forward and gradients over
//! shapes, numbers of neighbours and types.

use burn::tensor::{Device, Tensor};
use kvt_attention::{Implementation, Neighbors, Score, SoftmaxAttention, attend, attend_unchecked};
use proptest::prelude::*;

use crate::compare::{Case, neighbors};
use crate::devices::{assert_close, devices_of, tensor, values};
use crate::naive::{Inputs, Sizes};

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
        let sizes = Sizes { images: 1, heads, queries, keys, dim, value_dim };
        let inputs = Inputs::new(sizes, seed);
        for kept in neighbors(keys) {
            Case::new(kept).check(&inputs, "flex", &Device::flex());
        }
    }
}

#[test]
fn long_rows_agree_with_sorting_on_the_cpu() {
    for (keys, dim) in [(784, 64), (3136, 33), (5000, 7)] {
        let sizes = Sizes {
            images: 1,
            heads: 1,
            queries: 70,
            keys,
            dim,
            value_dim: dim,
        };
        let inputs = Inputs::new(sizes, keys as u64);
        for kept in neighbors(keys) {
            Case::new(kept).check(&inputs, "flex", &Device::flex());
        }
    }
}

#[test]
fn every_device_agrees_with_sorting() {
    let shape = |queries, keys, dim, value_dim| Sizes {
        images: 1,
        heads: 3,
        queries,
        keys,
        dim,
        value_dim,
    };
    for sizes in [shape(5, 9, 4, 4), shape(17, 65, 8, 5)] {
        for implementation in [Implementation::Auto, Implementation::Flash] {
            let inputs = Inputs::new(sizes, 3);
            // Sizes for the kernels of `Flash` are below; the products of the other are Burn's.
            let few = sizes.keys == 65 && implementation == Implementation::Auto;
            for (name, device) in devices_of(few) {
                for kept in neighbors(sizes.keys) {
                    let case = Case::new(kept).by(implementation);
                    case.check(&inputs, name, &device);
                }
            }
        }
    }
}

/// Sizes that divide the threads of a workgroup in every way: one row or many, columns that are few, not a power of
/// two, or as many as there are threads, rows too long for shared memory, and values of more numbers than there are threads. On a
/// GPU by default with dropped keys, and once without; the longest rows only where they are asked for. Vectors of two numbers are in `images.rs`.
#[test]
fn flash_agrees_with_sorting_at_every_size() {
    for (queries, keys, dim, value_dim) in [
        (1, 1, 1, 1),
        (33, 129, 24, 64),
        (20, 257, 3, 127),
        (3, 3136, 32, 16),
        (2, 7000, 64, 64),
        (2, 3, 1, 129),
    ] {
        let sizes = Sizes {
            images: 1,
            heads: 2,
            queries,
            keys,
            dim,
            value_dim,
        };
        let inputs = Inputs::new(sizes, 7);
        for kept in [1, keys.div_ceil(3), keys] {
            let few = keys == 129 || keys < 7000 && kept < keys;
            for (name, device) in devices_of(few) {
                let case = Case::new(kept).by(Implementation::Flash);
                case.check(&inputs, name, &device);
            }
        }
    }
}

/// The saved values of a row must give its probabilities to the last digits, however large its scores are: two tied
/// keys share a row evenly.
#[test]
fn large_scores_lose_nothing() {
    for implementation in [Implementation::Fused, Implementation::Flash] {
        // Only the kernels compute probabilities from saved values.
        for (name, device) in devices_of(implementation == Implementation::Flash) {
            let device = device.autodiff();
            let attention = SoftmaxAttention {
                implementation,
                ..SoftmaxAttention::knn(Neighbors::count(2).unwrap())
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

/// A row without finite scores spoils the gradients of its query and of all keys, but of no other query.
#[test]
fn broken_rows_spoil_what_they_touch() {
    for implementation in [Implementation::Fused, Implementation::Flash] {
        // Of the other, `knn_softmax` is the only kernel, which has tests of its own for such rows.
        for (name, device) in devices_of(implementation == Implementation::Flash) {
            let device = device.autodiff();
            for bad in [f32::NAN, f32::INFINITY] {
                let attention = SoftmaxAttention {
                    implementation,
                    ..SoftmaxAttention::knn(Neighbors::count(2).unwrap())
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

/// More workgroups than one dimension of a dispatch can have.
#[test]
fn many_heads_agree_with_sorting() {
    let sizes = Sizes {
        images: 1,
        heads: 70_000,
        queries: 1,
        keys: 2,
        dim: 1,
        value_dim: 1,
    };
    for implementation in [Implementation::Auto, Implementation::Flash] {
        let inputs = Inputs::new(sizes, 9);
        // Products are Burn's.
        for (name, device) in devices_of(implementation == Implementation::Flash) {
            let case = Case::new(1).by(implementation);
            case.check(&inputs, name, &device);
        }
    }
}

#[test]
#[should_panic(expected = "have mismatched shapes")]
fn modules_are_told_what_does_not_fit() {
    let device = Device::flex();
    let q = Tensor::<4>::ones([1, 1, 4, 8], &device);
    let k = Tensor::<4>::ones([1, 1, 6, 4], &device);
    let attention = SoftmaxAttention::dense();
    let _ = attend_unchecked(q, k.clone(), k, Score::default(), 1.0, &attention, None);
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
    let attention = SoftmaxAttention::knn(Neighbors::count(4).unwrap());
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

/// One tensor as queries, keys and values: its three gradients add up. Empty tensors are accepted too.
#[test]
fn one_tensor_may_be_all_three_and_empty() {
    let device = Device::flex().autodiff();
    let attention = SoftmaxAttention::knn(Neighbors::count(2).unwrap());
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
