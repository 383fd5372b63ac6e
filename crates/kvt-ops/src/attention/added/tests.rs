//! The composed attention with a bias and a mask, as on GPUs, against the CPU implementation; and the size of the saved tensor.

use burn::backend::{Flex, TensorMetadata};
use burn::tensor::{Shape, TensorData};

use super::*;
use crate::attention::{AttentionOps, AttentionSettings, composed};
use crate::cast::to_f32;
use crate::cpu::buffer::{tensor, values_of};
use kvt_testing::naive::{draw, worst};

type Floats = FloatTensor<Flex>;

const BATCH: usize = 2;
const HEADS: usize = 6;
const QUERIES: usize = 23;
const KEYS: usize = 17;

fn floats(seed: u64, shape: [usize; 4]) -> Floats {
    let data = draw(seed, shape.iter().product(), 1001, 0.004);
    tensor(data, Shape::new(shape))
}

fn inputs(queries: usize, keys: usize) -> ([Floats; 3], Floats) {
    let x = |seed, tokens, dim| floats(seed, [BATCH, HEADS, tokens, dim]);
    let inputs = [x(1, queries, 8), x(2, keys, 8), x(3, keys, 5)];
    (inputs, x(4, queries, 5))
}

fn mask(shape: [usize; 4]) -> FloatTensor<Flex> {
    let data = draw(9, shape.iter().product(), 3, 1.0);
    let hidden: Vec<bool> = data.iter().map(|x| *x > 0.0).collect();
    FloatTensor::<Flex>::from_data(TensorData::new(hidden, shape))
}

fn numbers(x: &Floats) -> Vec<f32> {
    values_of(&to_f32::<Flex>(x.clone()).to_contiguous()).to_vec()
}

const SETTINGS: AttentionSettings = AttentionSettings {
    scale: 0.5,
    kept: 5,
    flash: false,
};

/// All queries at once, some, or one at a time; with and without saved probabilities.
#[test]
fn blocks_of_queries_agree_with_the_cpu() {
    let biases = [
        [1, HEADS, QUERIES, KEYS],
        [BATCH, 3, QUERIES, KEYS],
        [1, 2, 1, KEYS],
        [1, 1, QUERIES, 1],
    ];
    let masks = [
        [1, 1, 1, KEYS],
        [BATCH, 2, QUERIES, KEYS],
        [1, 3, QUERIES, KEYS],
    ];
    for bias in biases {
        for mask_shape in masks {
            let (bias, mask) = (floats(5, bias), mask(mask_shape));
            let ([q, k, v], d_out) = inputs(QUERIES, KEYS);
            for given in [(true, true), (true, false), (false, true)] {
                let (with_bias, with_mask) = given;
                let added = Added::<Flex>::new(
                    with_bias.then(|| bias.clone()),
                    with_mask.then(|| mask.clone()),
                );
                let (out, saved) =
                    Flex::fused_attention(q.clone(), k.clone(), v.clone(), added.clone(), SETTINGS);
                let (dq, dk, dv, dbias) = Flex::fused_attention_backward(
                    q.clone(),
                    k.clone(),
                    v.clone(),
                    added.clone(),
                    saved,
                    d_out.clone(),
                    SETTINGS,
                );
                assert_eq!(dbias.is_some(), with_bias);
                let of_a_query = BATCH * HEADS * KEYS;
                for limit in [usize::MAX, of_a_query * 4, 1] {
                    let inputs = [q.clone(), k.clone(), v.clone()];
                    let (actual, saved) =
                        composed::forward::<Flex>(inputs.clone(), &added, SETTINGS, limit);
                    let (grads, bias_grad) = composed::backward::<Flex>(
                        inputs,
                        &added,
                        saved,
                        d_out.clone(),
                        SETTINGS,
                        limit,
                    );
                    assert_eq!(bias_grad.is_some(), with_bias);
                    let of_the_bias = bias_grad.zip(dbias.as_ref());
                    if let Some((bias_grad, _)) = &of_the_bias {
                        assert_eq!(bias_grad.shape(), bias.shape());
                    }
                    let [of_q, of_k, of_v] = grads;
                    let pairs = [(actual, &out), (of_q, &dq), (of_k, &dk), (of_v, &dv)];
                    let pairs = pairs.into_iter().chain(of_the_bias);
                    for (number, (actual, expected)) in pairs.enumerate() {
                        let (actual, expected) = (numbers(&actual), numbers(expected));
                        // With one bias value for all keys, the gradient is a sum that cancels to zero.
                        let floor = expected.iter().map(|x| x.abs()).fold(0.1, f32::max);
                        let [actual, expected] =
                            [actual, expected].map(|x| [x, vec![floor]].concat());
                        let worst = worst(&actual, &expected);
                        assert!(
                            worst < 2e-5,
                            "{:?} {mask_shape:?} {given:?} {limit}: {number} is off by {worst}",
                            bias.shape()
                        );
                    }
                }
            }
        }
    }
}

/// The CPU saves four numbers per row of any length; the composed attention saves nothing if there are many scores.
#[test]
fn saved_memory_does_not_grow_with_the_keys() {
    for keys in [16, 1024] {
        let ([q, k, v], _) = inputs(64, keys);
        let (bias, mask) = (floats(5, [1, 3, 64, keys]), mask([1, 2, 64, keys]));
        let added = Added::<Flex>::new(Some(bias), Some(mask));
        let inputs = [q.clone(), k.clone(), v.clone()];
        let (_, saved) = Flex::fused_attention(q, k, v, added.clone(), SETTINGS);
        assert_eq!(saved.shape().num_elements(), BATCH * HEADS * 64 * 4);
        let (_, saved) = composed::forward::<Flex>(inputs, &added, SETTINGS, 1000);
        assert_eq!(saved.shape().num_elements(), BATCH * HEADS * 8);
    }
}

/// Keys and values that no query sees have gradients of zero, not what was in memory before.
#[test]
fn no_queries_have_no_gradients() {
    let ([q, k, v], d_out) = inputs(0, KEYS);
    let added = Added::<Flex>::new(Some(floats(5, [1, 3, 0, KEYS])), None);
    let (_, saved) =
        Flex::fused_attention(q.clone(), k.clone(), v.clone(), added.clone(), SETTINGS);
    // Memory that the gradients would get.
    drop(std::hint::black_box(vec![
        1.0_f32;
        BATCH * HEADS * KEYS * (8 + 5)
    ]));
    let (_, dk, dv, dbias) = Flex::fused_attention_backward(q, k, v, added, saved, d_out, SETTINGS);
    assert_eq!(numbers(&dk), vec![0.0; BATCH * HEADS * KEYS * 8]);
    assert_eq!(numbers(&dv), vec![0.0; BATCH * HEADS * KEYS * 5]);
    let of_bias = dbias.map(|x| x.shape());
    assert_eq!(of_bias, Some(Shape::new([1, 3, 0, KEYS])));
}
