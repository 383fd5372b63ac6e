#![expect(clippy::unwrap_used, reason = "tests")]

use kvt_ops::{Key, Phase};
use kvt_testing::devices::{assert_close, values};

use super::super::golden::{Golden, Inputs, Outcome};
use super::super::testing::{assert_half_is_widened, context, numbers, qkv};
use super::*;
use crate::{BurnInit, Dropout, Macs, SoftmaxAttention};

fn config(factor: usize) -> InformerConfig {
    InformerConfig {
        factor,
        ..InformerConfig::default()
    }
}

fn made(config: &InformerConfig) -> Informer {
    let place = Place::new(33, 24, 3);
    config.init(&place, &BurnInit::new(&Device::flex()))
}

#[test]
fn same_as_pytorch() {
    for (name, official_mean) in [
        ("informer", false),
        ("informer_prefix", true),
        ("informer_cross", false),
    ] {
        let golden = Golden::read(name);
        let informer = made(&InformerConfig {
            official_mean,
            ..InformerConfig::default()
        });
        golden.check(1e-5, |inputs| {
            let Inputs { q, k, v, .. } = inputs;
            let (sample, shape) = golden.indices::<2>("sample");
            let sample = Tensor::from_data(TensorData::new(sample, shape), &inputs.device);
            let prefix = match name {
                "informer_prefix" => golden.setting("prefix") as usize,
                _ => 0,
            };
            let context = Context {
                prefix,
                ..context()
            };
            let chosen = golden.setting("chosen") as usize;
            let [q, k, v] = [q, k, v].map(Clone::clone);
            Outcome::new(informer.attend_sampled([q, k, v], &context, &sample, chosen))
        });
    }
}

#[test]
fn as_many_queries_as_tokens_are_dense_attention() {
    let [q, k, v] = qkv();
    let dense = SoftmaxAttention::dense();
    let expected = dense.attend(q.clone(), k.clone(), v.clone(), context());
    // ceil(ln 33) = 4.
    let all = made(&config(9)).attend(q.clone(), k.clone(), v.clone(), context());
    assert_eq!(all.into_data(), expected.clone().into_data());
    let some = made(&config(8)).attend(q, k, v, context());
    assert_ne!(some.into_data(), expected.into_data());
}

/// Which rows are not the mean of the values, by image and head.
fn chosen_rows(out: Tensor<4>, v: Tensor<4>) -> Vec<Vec<usize>> {
    let [batch, heads, queries, dim] = out.dims();
    let mean = values(v.mean_dim(2).expand([batch, heads, queries, dim]));
    let rows = values(out);
    let differs = |row: usize| {
        let span = row * dim..(row + 1) * dim;
        let mut pairs = rows[span.clone()].iter().zip(&mean[span]);
        pairs.any(|(a, b)| (a - b).abs() > 1e-5)
    };
    let heads = 0..batch * heads;
    heads
        .map(|head| {
            (0..queries)
                .filter(|row| differs(head * queries + row))
                .collect()
        })
        .collect()
}

#[test]
fn chosen_rows_are_dense_and_the_others_the_mean() {
    let [q, k, v] = qkv();
    let dense = SoftmaxAttention::dense().attend(q.clone(), k.clone(), v.clone(), context());
    let out = made(&config(2)).attend(q, k, v.clone(), context());
    let rows = chosen_rows(out.clone(), v);
    let (out, dense) = (values(out), values(dense));
    for (head, rows) in rows.iter().enumerate() {
        assert_eq!(rows.len(), 8);
        for row in rows {
            let span = (head * 33 + row) * 8..(head * 33 + row + 1) * 8;
            assert_close("row", &out[span.clone()], &dense[span], 1e-6);
        }
    }
}

/// All keys sampled once: the choice is by the maximum above the mean of all scores, worked out on the host.
#[test]
fn with_all_keys_sampled_the_choice_is_by_maximum_above_mean() {
    let [q, k, v] = qkv();
    let every = Tensor::<1, Int>::arange(0..33, &Device::flex());
    let every = every.reshape([1, 33]).expand([33, 33]);
    let out =
        made(&config(1)).attend_sampled([&q, &k, &v].map(Clone::clone), &context(), &every, 5);
    let scores = values(q.matmul(k.swap_dims(2, 3)));
    let rows = chosen_rows(out, v);
    for (head, rows) in rows.iter().enumerate() {
        let prominence = |row: usize| {
            let scores = &scores[(head * 33 + row) * 33..(head * 33 + row + 1) * 33];
            let mean = scores.iter().sum::<f32>() / 33.0;
            scores.iter().fold(f32::MIN, |max, x| max.max(*x)) - mean
        };
        let mut order: Vec<usize> = (0..33).collect();
        order.sort_by(|a, b| prominence(*b).total_cmp(&prominence(*a)));
        order.truncate(5);
        order.sort_unstable();
        assert_eq!(*rows, order);
    }
}

#[test]
fn of_equal_queries_the_first_are_chosen_and_the_prefix_always() {
    let [q, k, v] = qkv();
    // All queries are equal and have the same sample, so all rank alike.
    let q = q.narrow(2, 0, 1).expand([2, 3, 33, 8]);
    let sample = Tensor::<2, Int>::zeros([33, 4], &Device::flex());
    let informer = made(&config(1));
    let rows = |q: Tensor<4>, prefix| {
        let context = Context {
            prefix,
            ..context()
        };
        let out = informer.attend_sampled([q, k.clone(), v.clone()], &context, &sample, 4);
        chosen_rows(out, v.clone())
    };
    for rows in rows(q.clone(), 0) {
        assert_eq!(rows, [0, 1, 2, 3]);
    }
    // A prefix that exceeds the number of chosen queries.
    for rows in rows(q, 6) {
        assert_eq!(rows, [0, 1, 2, 3, 4, 5]);
    }
    // With only one sampled key, no score is above the mean. Divided by the number of all keys, the mean is another
    // one, under which small scores stand out.
    let mut official = informer.clone();
    official.config.official_mean = true;
    let ones = Tensor::<4>::ones([2, 3, 33, 8], &Device::flex());
    let falling = Tensor::<1, Int>::arange(0..33, &Device::flex())
        .float()
        .mul_scalar(-1.0);
    let q = ones.clone() * falling.reshape([1, 1, 33, 1]);
    let one = Tensor::<2, Int>::zeros([33, 40], &Device::flex());
    let ranked = |informer: &Informer| informer.prominence(q.clone(), ones.clone(), &one);
    assert!(values(ranked(&informer)).iter().all(|x| x.abs() < 1e-3));
    // Row i has 40 scores of -8 i: -8 i + 40 * 8 i / 33.
    let expected: Vec<f32> = (0..33)
        .map(|i| 8.0 * i as f32 * (40.0 / 33.0 - 1.0))
        .collect();
    assert_close(
        "official",
        &values(ranked(&official))[..33],
        &expected,
        1e-5,
    );
}

#[test]
fn a_prefix_is_chosen_before_all_others() {
    let [q, k, v] = qkv();
    let context = Context {
        prefix: 2,
        ..context()
    };
    let out = made(&config(2)).attend(q, k, v.clone(), context);
    for rows in chosen_rows(out, v) {
        assert_eq!(rows.len(), 8);
        assert_eq!(rows[..2], [0, 1]);
    }
}

/// The result does not depend on the blocks of queries.
#[test]
fn long_sequences_are_ranked_block_by_block() {
    let queries = 2 * BLOCK + 5;
    let [q, k] = [4, 5].map(|seed| numbers([1, 2, queries, 4], seed));
    let informer = made(&config(1));
    let device = Device::flex();
    let sample = informer.sample([queries, queries], Phase::Eval, &device);
    let whole = values(informer.prominence(q.clone(), k.clone(), &sample));
    for row in [0, BLOCK - 1, BLOCK, 2 * BLOCK + 4] {
        let (q, sample) = (
            q.clone().narrow(2, row, 1),
            sample.clone().narrow(0, row, 1),
        );
        let one = values(informer.prominence(q, k.clone(), &sample));
        for head in 0..2 {
            assert_eq!(one[head], whole[head * queries + row]);
        }
    }
}

#[test]
fn evaluation_draws_alike_and_training_by_step() {
    let [q, k, v] = qkv();
    let informer = made(&config(2));
    let device = Device::flex();
    let run = |phase| {
        let context = Context { phase, ..context() };
        let out = informer.attend(q.clone(), k.clone(), v.clone(), context);
        values(out)
    };
    assert_eq!(run(Phase::Eval), run(Phase::Eval));
    let steps = [1, 2].map(|step| run(Phase::Train(Key::new(step))));
    assert_ne!(steps[0], steps[1]);
    // The result of an image does not depend on its batch.
    let one = [&q, &k, &v].map(|x| x.clone().narrow(0, 1, 1));
    let [q1, k1, v1] = one;
    let alone = values(informer.attend(q1, k1, v1, context()));
    assert_eq!(alone, run(Phase::Eval)[alone.len()..]);

    let sample = informer.sample([40, 21], Phase::Eval, &device);
    // ceil(ln 21) = 4.
    assert_eq!(sample.dims(), [40, 8]);
    let mut seen = [0; 21];
    for index in sample.into_data().iter::<i64>() {
        seen[index as usize] += 1;
    }
    assert!(seen.iter().all(|count| *count > 0));
    let other = made(&InformerConfig {
        seed: 1,
        ..config(2)
    });
    let draw = |informer: &Informer| informer.sample([9, 9], Phase::Eval, &device).into_data();
    assert_ne!(draw(&informer), draw(&other));
}

/// Weights are dropped only for the chosen queries.
#[test]
fn dropout_drops_weights_of_the_chosen() {
    let [q, k, v] = qkv();
    let informer = made(&config(2));
    let dropout = Some(Dropout {
        probability: 0.5,
        key: Key::new(1),
    });
    let plain = informer.attend(q.clone(), k.clone(), v.clone(), context());
    let dropped = Context {
        dropout,
        ..context()
    };
    let dropped = informer.attend(q, k, v.clone(), dropped);
    assert_eq!(
        chosen_rows(plain.clone(), v.clone()),
        chosen_rows(dropped.clone(), v)
    );
    assert_ne!(values(plain), values(dropped));
}

#[test]
fn half_types_are_widened() {
    assert_half_is_widened(&made(&config(2)), &context());
}

#[test]
fn the_temperature_divides_scores() {
    let [q, k, v] = qkv();
    let sharp = made(&InformerConfig {
        temperature: 0.5,
        ..config(2)
    });
    let twice = Context {
        scale: 2.0 * context().scale,
        ..context()
    };
    let [a, b] = [(sharp, context()), (made(&config(2)), twice)].map(|(informer, context)| {
        values(informer.attend(q.clone(), k.clone(), v.clone(), context))
    });
    assert_close("temperature", &a, &b, 1e-6);
}

#[test]
fn numbers_are_taken_by_the_logarithm_and_costs_follow() {
    // ln 65 = 4.17, ln 20 = 2.9957, ln 21 = 3.04.
    for (factor, tokens, expected) in [
        (5, 65, 25),
        (5, 20, 15),
        (5, 21, 20),
        (5, 4, 4),
        (3, 1, 1),
        (5, 0, 0),
        (usize::MAX, 9, 9),
    ] {
        assert_eq!(taken(factor, tokens), expected, "{factor} {tokens}");
    }
    let place = Place {
        keys: 21,
        ..Place::new(65, 24, 3)
    };
    // 65 queries are ranked on 20 keys each, 25 attend to 21.
    let cost = config(5).cost(&place);
    assert_eq!(cost.macs, Macs::attention((65 * 20 + 2 * 25 * 21) * 24));
    assert_eq!((cost.params, cost.kept), (0, 21));
    // All 4 queries attend, without a ranking.
    let cost = config(5).cost(&Place::new(4, 24, 3));
    assert_eq!(cost.macs, Macs::attention(2 * 4 * 4 * 24));
}

#[test]
fn what_makes_no_sense_is_refused() {
    assert!(config(0).validate().is_err());
    let cold = InformerConfig {
        temperature: 0.0,
        ..config(1)
    };
    assert!(cold.validate().is_err());
    assert!(config(1).validate().is_ok());
    let place = Place::new(0, 24, 3);
    assert!(config(1).fits(&place).is_ok());
    let dropped = Place {
        dropout: 0.1,
        ..place
    };
    assert!(config(1).fits(&dropped).is_ok());
    let biased = Place {
        bias: true,
        ..place
    };
    let message = config(1).fits(&biased).unwrap_err().to_string();
    assert!(message.contains("`kind = \"informer\"`"), "{message}");
}
