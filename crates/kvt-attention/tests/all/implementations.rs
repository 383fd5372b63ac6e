//! The implementations against each other, and the errors of [`attend`].

use burn::tensor::{Device, Tensor};
use kvt_attention::{
    AttentionError, Dropout, Implementation, Neighbors, Score, Selection, SoftmaxAttention, attend,
};
use kvt_ops::Key;

use crate::compare::bools;
use crate::devices::{assert_close, devices, devices_of, tensor, values};
use crate::naive::draw;

fn qkv(queries: usize, keys: usize, device: &Device) -> [Tensor<4>; 3] {
    let make = |tokens: usize, seed: usize| {
        let data: Vec<f32> = (0..2 * 3 * tokens * 8)
            .map(|i| (((i * 2_654_435_761 + seed * 97) % 10_007) as f32 / 5003.0 - 1.0) * 2.0)
            .collect();
        tensor(&data, [2, 3, tokens, 8], device)
    };
    [make(queries, 1), make(keys, 2), make(keys, 3)]
}

fn with(implementation: Implementation, neighbors: usize) -> SoftmaxAttention {
    SoftmaxAttention {
        implementation,
        ..SoftmaxAttention::knn(Neighbors::count(neighbors).unwrap())
    }
}

#[test]
fn implementations_agree_where_scores_tie() {
    for (name, device) in devices() {
        let [q, k, v] = qkv(5, 12, &device);
        // Every key twice: each score is tied, and only the order of indices distinguishes them.
        let k = Tensor::cat(vec![k.clone(), k], 2);
        let v = Tensor::cat(vec![v.clone(), v + 1.0], 2);
        let run = |implementation| {
            let attention = with(implementation, 7);
            values(
                attend(
                    q.clone(),
                    k.clone(),
                    v.clone(),
                    Score::default(),
                    0.35,
                    &attention,
                    None,
                )
                .unwrap(),
            )
        };
        let fused = run(Implementation::Fused);
        assert_close(name, &run(Implementation::Flash), &fused, 1e-6);
        assert_close(name, &run(Implementation::Masked), &fused, 1e-6);
        assert_close(name, &run(Implementation::Gathered), &fused, 1e-6);
    }
}

#[test]
fn hidden_keys_are_never_kept_before_visible_ones() {
    let hidden: Vec<bool> = (0..10).map(|i| i % 3 != 0).collect();
    // Dense attention to the visible keys: k = 4 keeps exactly those, k = 6 also reaches hidden ones.
    let visible =
        |x: Tensor<4>| Tensor::cat([0, 3, 6, 9].map(|i| x.clone().narrow(2, i, 1)).to_vec(), 2);
    let [q, k, v] = qkv(4, 10, &Device::flex());
    let (k, v, dense) = (visible(k), visible(v), SoftmaxAttention::dense());
    let expected = attend(q, k, v, Score::default(), 0.35, &dense, None);
    let expected = values(expected.unwrap());
    for selection in [Selection::DotProduct, Selection::Euclidean] {
        for implementation in [
            Implementation::Auto,
            Implementation::Masked,
            Implementation::Gathered,
        ] {
            // By distance, `Auto` is `Masked`.
            let is_new =
                (selection, implementation) != (Selection::Euclidean, Implementation::Auto);
            for neighbors in [4, 6, 10] {
                for (name, device) in devices_of(is_new && neighbors == 6) {
                    let attention = SoftmaxAttention {
                        selection,
                        ..with(implementation, neighbors)
                    };
                    let score = Score {
                        bias: None,
                        mask: Some(bools(&hidden, [1, 1, 1, 10], &device)),
                    };
                    let [q, k, v] = qkv(4, 10, &device);
                    let out = attend(q, k, v, score, 0.35, &attention, None);
                    assert_close(name, &values(out.unwrap()), &expected, 1e-5);
                }
            }
        }
    }
}

/// A NaN key spoils every row that sees it, even where ties leave no place for it among the kept.
#[test]
fn a_nan_is_never_dropped() {
    for (name, device) in devices() {
        let ones = Tensor::<4>::ones([1, 1, 3, 4], &device);
        let mut keys = vec![1.0; 6 * 4];
        keys[5 * 4..].fill(f32::NAN);
        let k = tensor(&keys, [1, 1, 6, 4], &device);
        let v = Tensor::<4>::ones([1, 1, 6, 4], &device);
        for implementation in [
            Implementation::Fused,
            Implementation::Flash,
            Implementation::Masked,
            Implementation::Gathered,
        ] {
            let attention = with(implementation, 2);
            let (q, k, v) = (ones.clone(), k.clone(), v.clone());
            let out = attend(q, k, v, Score::default(), 1.0, &attention, None).unwrap();
            let out = values(out);
            assert!(
                out.iter().all(|x| x.is_nan()),
                "{name} {implementation:?}: {out:?}"
            );
        }
    }
}

/// A NaN or +inf in the bias spoils the row that holds it, and no other, whether the key is kept or not: a
/// ranking by distance does not see the bias.
#[test]
fn a_broken_bias_spoils_its_row_and_no_other() {
    // Each of the keys is broken for one query, and none for the last.
    let (keys, queries) = (6, 7);
    for (selection, implementation) in [
        (Selection::DotProduct, Implementation::Auto),
        (Selection::DotProduct, Implementation::Masked),
        (Selection::DotProduct, Implementation::Gathered),
        (Selection::Euclidean, Implementation::Masked),
        (Selection::Euclidean, Implementation::Gathered),
    ] {
        // The others are made of Burn's operations.
        for (name, device) in devices_of(implementation == Implementation::Auto) {
            let device = device.autodiff();
            let inputs = qkv(queries, keys, &device);
            for bad in [f32::NAN, f32::INFINITY] {
                let mut bias = vec![0.0; queries * keys];
                bias.iter_mut().step_by(keys + 1).for_each(|x| *x = bad);
                let score = Score {
                    bias: Some(tensor(&bias, [1, 1, queries, keys], &device)),
                    mask: None,
                };
                let attention = SoftmaxAttention {
                    selection,
                    ..with(implementation, 2)
                };
                let [q, k, v] = inputs.clone().map(Tensor::require_grad);
                let leaf = q.clone();
                let out = attend(q, k, v, score, 0.35, &attention, None).unwrap();
                let grads = out.clone().sum().backward();
                let what = format!("{name} {selection:?} {implementation:?} {bad}");
                for x in [out, leaf.grad(&grads).unwrap()] {
                    for (row, x) in values(x).chunks(8).enumerate() {
                        let whole = x.iter().all(|x| x.is_finite());
                        let broken = x.iter().all(|x| x.is_nan());
                        let spoilt = row % queries < keys;
                        assert!(if spoilt { broken } else { whole }, "{what}: {row} {x:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn euclidean_selection_is_the_dot_products_where_keys_have_one_norm() {
    for (name, device) in devices() {
        let [q, k, v] = qkv(6, 15, &device);
        let norm = k.clone().powf_scalar(2.0).sum_dim(3).sqrt();
        let k = k / norm;
        let run = |selection| {
            let attention = SoftmaxAttention {
                selection,
                ..with(Implementation::Masked, 5)
            };
            values(
                attend(
                    q.clone(),
                    k.clone(),
                    v.clone(),
                    Score::default(),
                    1.0,
                    &attention,
                    None,
                )
                .unwrap(),
            )
        };
        assert_close(
            name,
            &run(Selection::Euclidean),
            &run(Selection::DotProduct),
            1e-5,
        );
    }
}

#[test]
fn dropout_is_keyed_and_keeps_the_mean() {
    let device = Device::flex();
    let [q, k, _] = qkv(40, 60, &device);
    // Values of one: the output of a row is the sum of its weights.
    let v = Tensor::<4>::ones([2, 3, 60, 8], &device);
    let run = |key: u64| {
        let dropout = Some(Dropout {
            probability: 0.25,
            key: Key::new(key),
        });
        let attention = SoftmaxAttention::knn(Neighbors::fraction(0.5).unwrap());
        values(
            attend(
                q.clone(),
                k.clone(),
                v.clone(),
                Score::default(),
                0.1,
                &attention,
                dropout,
            )
            .unwrap(),
        )
    };
    let out = run(1);
    let mean = out.iter().sum::<f32>() / out.len() as f32;
    assert!((mean - 1.0).abs() < 0.02, "mean weight {mean}");
    assert!(out.iter().any(|x| (x - 1.0).abs() > 0.05));
    assert_eq!(out, run(1));
    assert_ne!(out, run(2));
}

#[test]
fn attention_over_strided_views() {
    for (name, device) in devices() {
        let x = tensor(&draw(1, 2 * 9 * 24, 1001, 0.002), [2, 9, 24], &device);
        let heads = |x: Tensor<3>| x.reshape([2, 9, 3, 8]).swap_dims(1, 2);
        let contiguous = |x: Tensor<4>| Tensor::<4>::from_data(x.into_data(), &device);
        let attention = with(Implementation::Auto, 4);
        let [a, b] = [heads(x.clone()), contiguous(heads(x))].map(|x| {
            attend(
                x.clone(),
                x.clone(),
                x,
                Score::default(),
                1.0,
                &attention,
                None,
            )
            .unwrap()
        });
        assert_close(name, &values(a), &values(b), 1e-6);
    }
}

#[test]
fn shapes_that_do_not_fit_are_named() {
    let device = Device::flex();
    let zeros = |shape| Tensor::<4>::zeros(shape, &device);
    let dense = SoftmaxAttention::dense();
    let run = |q, k, v, score, attention: &SoftmaxAttention| {
        attend(zeros(q), zeros(k), zeros(v), score, 1.0, attention, None).unwrap_err()
    };
    let error = run(
        [1, 2, 3, 4],
        [1, 2, 5, 8],
        [1, 2, 5, 4],
        Score::default(),
        &dense,
    );
    assert!(
        matches!(
            error,
            AttentionError::Shape {
                name: "k",
                expected: [1, 2, 5, 4],
                ..
            }
        ),
        "{error}"
    );
    let error = run(
        [1, 2, 3, 4],
        [1, 2, 5, 4],
        [1, 2, 6, 4],
        Score::default(),
        &dense,
    );
    assert!(
        matches!(
            error,
            AttentionError::Shape {
                name: "v",
                expected: [1, 2, 5, 4],
                ..
            }
        ),
        "{error}"
    );
    let bias = Score {
        bias: Some(zeros([1, 2, 3, 4])),
        mask: None,
    };
    let error = run([1, 2, 3, 4], [1, 2, 5, 4], [1, 2, 5, 4], bias, &dense);
    assert!(
        matches!(error, AttentionError::Broadcast { name: "bias", .. }),
        "{error}"
    );
    for attention in [
        SoftmaxAttention {
            temperature: 0.0,
            ..dense
        },
        SoftmaxAttention {
            selection: Selection::Euclidean,
            ..with(Implementation::Fused, 2)
        },
    ] {
        let error = run(
            [1, 2, 3, 4],
            [1, 2, 5, 4],
            [1, 2, 5, 4],
            Score::default(),
            &attention,
        );
        assert!(matches!(error, AttentionError::Setting(_)), "{error}");
    }
}
