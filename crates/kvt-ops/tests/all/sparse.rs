//! Attention that skips the dropped keys on the CPU, against the same with a bias of zeros, for which all products are
//! dense: output and gradients.

use burn::tensor::{Device, Tensor};
use kvt_ops::{AttentionSettings, attention};
use kvt_testing::devices::{tensor, values};
use kvt_testing::naive::draw;
use rayon::ThreadPoolBuilder;

/// Batch, heads, queries, keys, channels of a key and of a value.
type Shape = [usize; 6];

/// q, k, v and the gradient of the output. Every tenth key equals the one before it, so that scores tie.
fn numbers([batch, heads, queries, keys, dim, value_dim]: Shape) -> [Vec<f32>; 4] {
    let draw =
        |seed, tokens: usize, dim: usize| draw(seed, batch * heads * tokens * dim, 1001, 0.002);
    let mut k = draw(2, keys, dim);
    for head in k.chunks_mut(keys * dim) {
        for key in (10..keys).step_by(10) {
            head.copy_within((key - 1) * dim..key * dim, key * dim);
        }
    }
    [
        draw(1, queries, dim),
        k,
        draw(3, keys, value_dim),
        draw(4, queries, value_dim),
    ]
}

/// Output and gradients of q, k and v; with a bias of zeros if `dense`.
fn run(shape: Shape, inputs: &[Vec<f32>; 4], kept: usize, dense: bool) -> [Vec<f32>; 4] {
    let [batch, heads, queries, keys, dim, value_dim] = shape;
    let device = Device::flex().autodiff();
    let [q, k, v, probe] = [
        (queries, dim),
        (keys, dim),
        (keys, value_dim),
        (queries, value_dim),
    ];
    let given = |(tokens, dim), values: &Vec<f32>| -> Tensor<4> {
        tensor(values, [batch, heads, tokens, dim], &device)
    };
    let [q, k, v] =
        [(q, 0), (k, 1), (v, 2)].map(|(size, i)| given(size, &inputs[i]).require_grad());
    let settings = AttentionSettings {
        scale: 0.3,
        kept,
        flash: false,
    };
    let bias = dense.then(|| Tensor::zeros([1; 4], &device));
    let out = attention(q.clone(), k.clone(), v.clone(), bias, None, settings);
    let grads = (out.clone() * given(probe, &inputs[3])).sum().backward();
    let of = |x: Tensor<4>| values(x.grad(&grads).unwrap());
    [values(out), of(q), of(k), of(v)]
}

/// Within rounding of the numbers, which are about 1: with a single kept key the gradients of q and k are zero but for it.
fn assert_agree(case: &str, actual: &[Vec<f32>; 4], expected: &[Vec<f32>; 4]) {
    let results = actual.iter().zip(expected);
    for (what, (a, e)) in ["out", "q", "k", "v"].iter().zip(results) {
        assert_eq!(a.len(), e.len(), "{case}: {what}");
        for (i, (a, e)) in a.iter().zip(e).enumerate() {
            let difference = (a - e).abs();
            assert!(difference < 5e-6, "{case}: {what} {i}: {a} is not {e}");
        }
    }
}

#[test]
fn skipping_dropped_keys_changes_nothing_but_the_rounding() {
    for shape in [
        // Few images, whose gradients are summed in parts; and one for each thread.
        [1, 2, 197, 197, 64, 64],
        [9, 1, 65, 65, 32, 32],
        // Fewer queries than keys; values of another width; channels that fill one, two and four registers, and more.
        [2, 3, 5, 130, 16, 48],
        [1, 1, 70, 96, 80, 16],
        [3, 2, 33, 33, 16, 16],
        // One query; words of a set that are full and nearly empty.
        [1, 1, 1, 64, 32, 32],
        [2, 1, 3, 129, 32, 112],
        // More registers than a product sums at a time.
        [1, 2, 40, 130, 144, 160],
    ] {
        let keys = shape[3];
        let inputs = numbers(shape);
        for kept in [
            1,
            2,
            keys / 16,
            keys / 8,
            keys / 4,
            keys / 4 + 1,
            keys / 2,
            keys,
        ] {
            let kept = kept.max(1);
            let case = format!("{shape:?}, {kept} kept");
            let [sparse, dense] = [false, true].map(|dense| run(shape, &inputs, kept, dense));
            assert_agree(&case, &sparse, &dense);
        }
    }
}

#[test]
fn undefined_rows_and_endless_scores_are_those_of_dense_products() {
    let shape = [1, 1, 40, 64, 16, 16];
    let mut inputs = numbers(shape);
    // A query with NaN, and one whose scores are all infinite or NaN.
    inputs[0][16 * 3] = f32::NAN;
    inputs[0][16 * 7] = f32::INFINITY;
    let [sparse, dense] = [false, true].map(|dense| run(shape, &inputs, 5, dense));
    for (what, (a, e)) in ["out", "q", "k", "v"].iter().zip(sparse.iter().zip(&dense)) {
        let undefined = |x: &[f32]| x.iter().map(|x| x.is_nan()).collect::<Vec<_>>();
        assert_eq!(undefined(a), undefined(e), "{what}");
        assert!(a.iter().any(|x| x.is_nan()), "{what}");
    }
}

/// A softmax over one key is 1 whatever its score, so no gradient reaches queries and keys, however large the scores are.
#[test]
fn one_kept_key_has_no_gradient_at_large_scores() {
    let shape = [1, 2, 64, 64, 64, 64];
    for factor in [100.0, 1000.0, 10_000.0] {
        let mut inputs = numbers(shape);
        for x in inputs[..2].iter_mut().flatten() {
            *x *= factor;
        }
        let [_, of_q, of_k, of_v] = run(shape, &inputs, 1, false);
        let all_are_zero = of_q.iter().chain(&of_k).all(|x| *x == 0.0);
        assert!(all_are_zero, "scores times {factor} squared");
        assert!(of_v.iter().any(|x| x.abs() > 0.1));
    }
}

/// Scores of -inf, and fewer others than are kept: the weights of two keys add up to 1.
#[test]
fn endless_scores_are_dropped() {
    let shape = [1, 1, 3, 64, 16, 16];
    let mut inputs = numbers(shape);
    inputs[0].iter_mut().for_each(|x| *x = x.abs() + 0.1);
    for key in (0..64).filter(|key| ![10, 40].contains(key)) {
        inputs[1][key * 16] = f32::NEG_INFINITY;
    }
    let [sparse, dense] = [false, true].map(|dense| run(shape, &inputs, 5, dense));
    assert!(sparse[0].iter().all(|x| x.is_finite()));
    for (a, e) in sparse[0].iter().zip(&dense[0]) {
        assert!((a - e).abs() < 5e-6, "{a} is not {e}");
    }
}

#[test]
fn no_queries_have_no_output() {
    let shape = [1, 1, 0, 64, 16, 16];
    let [out, of_q, of_k, of_v] = run(shape, &numbers(shape), 5, false);
    assert!(out.is_empty() && of_q.is_empty());
    assert_eq!([of_k, of_v], [vec![0.0; 64 * 16], vec![0.0; 64 * 16]]);
}

#[test]
fn the_number_of_threads_does_not_change_a_bit() {
    for shape in [[1, 3, 130, 130, 32, 32], [7, 2, 70, 70, 16, 16]] {
        let inputs = numbers(shape);
        let results = [1, 5].map(|threads| {
            let pool = ThreadPoolBuilder::new()
                .num_threads(threads)
                .build()
                .unwrap();
            pool.install(|| run(shape, &inputs, 9, false))
        });
        assert_eq!(results[0], results[1], "{shape:?}");
    }
}
