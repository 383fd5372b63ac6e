#![expect(clippy::unwrap_used, reason = "tests")]

use burn::tensor::{Device, Int, TensorData};
use kvt_ops::{Key, Phase};
use kvt_testing::devices::{assert_close, tensor, values};

use super::super::golden::{Golden, Outcome};
use super::super::testing::{assert_half_is_widened, context, qkv};
use super::*;
use crate::{
    BurnInit, Dropout, Macs, MechanismConfig, Place, Score, SoftmaxAttention, attend_unchecked,
};

fn config(clusters: usize) -> ClusteredConfig {
    ClusteredConfig {
        clusters,
        ..ClusteredConfig::default()
    }
}

/// Plain, or improved with `kept` keys.
fn made(clusters: usize, kept: Option<usize>) -> Clustered {
    config(clusters).make(kept, &BurnInit::new(&Device::flex()))
}

fn dense(q: &Tensor<4>, k: &Tensor<4>, v: &Tensor<4>) -> Vec<f32> {
    let [q, k, v] = [q, k, v].map(Clone::clone);
    values(SoftmaxAttention::dense().attend(q, k, v, context()))
}

/// The marks of given clusters, `[2, 3, 33, clusters]`.
fn marks(clusters: usize, of: impl Fn(usize) -> usize) -> Tensor<4, Bool> {
    let marks = (0..2 * 3 * 33 * clusters).map(|i| of(i / clusters) == i % clusters);
    let marks = TensorData::new(marks.collect::<Vec<bool>>(), [2, 3, 33, clusters]);
    Tensor::from_data(marks, &Device::flex())
}

/// Attention for given clusters, plain or improved.
fn grouped(
    kept: Option<usize>,
    qkv: [&Tensor<4>; 3],
    groups: Tensor<4, Bool>,
    context: &Context,
) -> Tensor<4> {
    let clustered = made(1, kept);
    let [q, k, v] = qkv.map(Clone::clone);
    clustered.attend_grouped([q, k, v], groups, &clustered.weighing(context))
}

#[test]
fn same_as_pytorch() {
    for name in [
        "clustered",
        "clustered_prefix",
        "clustered-improved",
        "clustered-improved_prefix",
    ] {
        let golden = Golden::read(name);
        let setting = |key| golden.setting(key) as usize;
        let kept = name.contains("improved").then(|| setting("kept"));
        let prefix = if name.ends_with("prefix") {
            setting("prefix")
        } else {
            0
        };
        golden.check(1e-5, |inputs| {
            let planes = inputs.golden.tensor("planes", &inputs.device);
            let (start, shape) = inputs.golden.indices::<1>("start");
            let start = Tensor::from_data(TensorData::new(start, shape), &inputs.device);
            let context = context();
            let clustered = made(1, kept);
            let [q, k, v] = [&inputs.q, &inputs.k, &inputs.v].map(Clone::clone);
            let weighing = clustered.weighing(&context);
            let out = weighing.after_prefix(prefix, [q, k, v], |[q, k, v]| {
                let groups = assign(q.clone(), planes, start, setting("iterations"));
                clustered.attend_grouped([q, k, v], groups, &weighing)
            });
            Outcome::new(out)
        });
    }
}

#[test]
fn clusters_of_one_query_are_dense_attention() {
    let [q, k, v] = qkv();
    let expected = dense(&q, &k, &v);
    for (kept, tolerance) in [
        (None, 1e-6),
        (Some(1), 2e-6),
        (Some(4), 2e-6),
        (Some(32), 2e-6),
    ] {
        let own = marks(33, |row| row % 33);
        let out = grouped(kept, [&q, &k, &v], own, &context());
        assert_close(
            &format!("kept {kept:?}"),
            &values(out),
            &expected,
            tolerance,
        );
    }
}

#[test]
fn members_that_are_equal_lose_nothing() {
    let [q, k, v] = qkv();
    let group = |row: usize| (row * 7 + row / 5) % 5;
    // Every query is replaced by the query whose index is its cluster.
    let rows: Vec<i64> = (0..2 * 3 * 33 * 8).map(|i| group(i / 8) as i64).collect();
    let rows = Tensor::<4, Int>::from_data(TensorData::new(rows, [2, 3, 33, 8]), &Device::flex());
    let q = q.gather(2, rows);
    let expected = dense(&q, &k, &v);
    for kept in [None, Some(6)] {
        let groups = marks(5, group);
        let out = grouped(kept, [&q, &k, &v], groups, &context());
        assert_close(&format!("{kept:?}"), &values(out), &expected, 2e-6);
    }
}

/// Any clusters, one of them without members: they do not matter if all keys are kept, and do if fewer are.
#[test]
fn improved_with_all_keys_is_dense_attention() {
    let [q, k, v] = qkv();
    let expected = dense(&q, &k, &v);
    let group = |row: usize| (row * 7 + row / 5) % 5;
    let run = |kept| {
        let groups = marks(6, group);
        let out = grouped(kept, [&q, &k, &v], groups, &context());
        values(out)
    };
    assert_close("all", &run(Some(33)), &expected, 2e-6);
    assert_close("more", &run(Some(40)), &expected, 2e-6);
    // The selection itself, which the mechanism skips if all keys are kept.
    let [all_q, all_k, all_v] = [&q, &k, &v].map(Clone::clone);
    let weighing = made(1, None).weighing(&context());
    let selected = improved([all_q, all_k, all_v], marks(6, group), 33, &weighing);
    assert_close("selected", &values(selected), &expected, 2e-6);
    let distance = |out: Vec<f32>| {
        let pairs = out.iter().zip(&expected);
        pairs
            .map(|(a, b)| f64::from((a - b).powi(2)))
            .sum::<f64>()
            .sqrt()
    };
    let [plain, few, many] = [None, Some(8), Some(24)].map(|kept| distance(run(kept)));
    // The more keys have exact weights, the closer the result is to dense attention.
    assert!(
        plain > few && few > many && many > 1.0,
        "{plain} {few} {many}"
    );
}

/// The clusters of one-dimensional queries, with planes that divide the line into the hashes 000, 100, 110, 111.
fn line(positions: &[f32], start: &[i64], iterations: usize) -> Vec<usize> {
    let device = Device::flex();
    let q = tensor(positions, [1, 1, positions.len(), 1], &device);
    let planes = tensor(&[1.0, 1.0, 1.0, 2.0, 1.0, 3.0], [3, 2], &device);
    let shape = [start.len()];
    let start = Tensor::from_data(TensorData::new(start.to_vec(), shape), &device);
    let groups = assign(q, planes, start, iterations);
    let clusters = shape[0];
    let marks: Vec<bool> = groups.into_data().iter::<bool>().collect();
    marks
        .chunks(clusters)
        .map(|row| {
            assert_eq!(row.iter().filter(|mark| **mark).count(), 1);
            row.iter().position(|mark| *mark).unwrap()
        })
        .collect()
}

#[test]
fn clusters_by_hand() {
    // Hashes 000, 000, 100, 110, 111, 111. From 000 and 111: 100 is nearer to the first, 110 to the second.
    let positions = [0.0, 0.5, 1.5, 2.5, 3.5, 4.0];
    assert_eq!(line(&positions, &[0, 5], 0), [0, 0, 0, 1, 1, 1]);
    assert_eq!(line(&positions, &[0, 5], 4), [0, 0, 0, 1, 1, 1]);
    // From 000 and 100: 110 and 111 join 100, whose centroid becomes 111 (bits 4, 3, 2 of 4: the last is a tie, so
    // 110). Then 100 is as near to 000 as to 110 and goes to the first.
    assert_eq!(line(&positions, &[0, 2], 0), [0, 0, 1, 1, 1, 1]);
    assert_eq!(line(&positions, &[0, 2], 1), [0, 0, 0, 1, 1, 1]);
    // The order of clusters decides ties.
    assert_eq!(line(&positions, &[2, 0], 1), [1, 1, 0, 0, 0, 0]);
    // Two clusters that start alike: the second gets no members, keeps its centroid and takes 000 when the first has
    // moved.
    let positions = [0.0, 2.5, 2.5, 2.5];
    assert_eq!(line(&positions, &[0, 0], 0), [0, 0, 0, 0]);
    assert_eq!(line(&positions, &[0, 0], 1), [1, 0, 0, 0]);
}

#[test]
fn a_prefix_attends_densely() {
    let [q, k, v] = qkv();
    let expected = dense(&q, &k, &v);
    let context = Context {
        prefix: 2,
        ..context()
    };
    let clustered = made(3, None);
    let out = clustered.attend(q.clone(), k.clone(), v.clone(), context.clone());
    assert_eq!(out.dims(), [2, 3, 33, 8]);
    let (out, row) = (values(out), 33 * 8);
    for head in 0..6 {
        let span = head * row..head * row + 2 * 8;
        assert_close("prefix", &out[span.clone()], &expected[span], 1e-6);
    }
    // Three clusters: three different rows after the prefix, in every head.
    for head in out.chunks(row) {
        let mut rows: Vec<&[f32]> = head[2 * 8..].chunks(8).collect();
        rows.sort_by(|a, b| a.partial_cmp(b).unwrap());
        rows.dedup();
        assert!((2..=3).contains(&rows.len()), "{}", rows.len());
    }
    // Only the prefix, without a map.
    let alone = q.narrow(2, 0, 2);
    let out = values(clustered.attend(alone.clone(), k.clone(), v.clone(), context));
    assert_close("alone", &out, &dense(&alone, &k, &v), 1e-6);
}

/// More clusters than queries, if the number of queries is not known beforehand.
#[test]
fn there_are_as_many_clusters_as_queries_at_most() {
    let [q, k, v] = qkv();
    let clustered = ClusteredConfig {
        bits: 63,
        ..config(1000)
    };
    let clustered = clustered.make(None, &BurnInit::new(&Device::flex()));
    let out = clustered.attend(q, k, v, context());
    assert!(values(out).iter().all(|x| x.is_finite()));
}

#[test]
fn evaluation_draws_alike_and_training_by_step() {
    let [q, k, v] = qkv();
    let clustered = made(5, Some(4));
    let run = |phase| {
        let context = Context { phase, ..context() };
        values(clustered.attend(q.clone(), k.clone(), v.clone(), context))
    };
    assert_eq!(run(Phase::Eval), run(Phase::Eval));
    let steps = [1, 2].map(|step| run(Phase::Train(Key::new(step))));
    assert_ne!(steps[0], steps[1]);
    let [q1, k1, v1] = [&q, &k, &v].map(|x| x.clone().narrow(0, 1, 1));
    let alone = values(clustered.attend(q1, k1, v1, context()));
    assert_close("alone", &alone, &run(Phase::Eval)[alone.len()..], 1e-6);

    let device = Device::flex();
    let planes = values(draw_planes(Key::new(1), 63, 40, &device));
    let mean = planes.iter().sum::<f32>() / planes.len() as f32;
    let square = planes.iter().map(|x| x * x).sum::<f32>() / planes.len() as f32;
    // Five standard deviations of 2583 normal numbers.
    assert!(
        mean.abs() < 0.1 && (square - 1.0).abs() < 0.14,
        "{mean} {square}"
    );
    let start = draw_start(Key::new(1), 20, 21, &device).into_data();
    let mut start: Vec<i64> = start.iter::<i64>().collect();
    start.sort_unstable();
    start.dedup();
    assert_eq!(start.len(), 20);
    assert!(start.iter().all(|query| (0..21).contains(query)));
}

#[test]
fn dropout_is_of_the_weights() {
    let [q, k, v] = qkv();
    let dropout = Dropout {
        probability: 0.25,
        key: Key::new(5),
    };
    let dropped = Context {
        dropout: Some(dropout),
        ..context()
    };
    let softmax = SoftmaxAttention::dense();
    let expected = attend_unchecked(
        q.clone(),
        k.clone(),
        v.clone(),
        Score::default(),
        dropped.scale,
        &softmax,
        Some(dropout),
    );
    let own = || marks(33, |row| row % 33);
    let run = |kept, ones: bool| {
        let v = if ones { v.ones_like() } else { v.clone() };
        values(grouped(kept, [&q, &k, &v], own(), &dropped))
    };
    assert_close("plain", &run(None, false), &values(expected), 1e-6);
    // Improved: with dropout, weights add up to one on average.
    let sums = run(Some(8), true);
    let mean = sums.iter().sum::<f32>() / sums.len() as f32;
    assert!((mean - 1.0).abs() < 0.05, "{mean}");
    assert!(sums.iter().any(|x| (x - 1.0).abs() > 0.1));
    // Weights of the kept and of the other keys are dropped.
    for kept in [1, 32] {
        assert!(run(Some(kept), true).iter().any(|x| (x - 1.0).abs() > 0.01));
    }
}

#[test]
fn half_types_are_widened() {
    for kept in [None, Some(4)] {
        assert_half_is_widened(&made(5, kept), &context());
    }
}

#[test]
fn the_temperature_divides_scores() {
    let [q, k, v] = qkv();
    let twice = Context {
        scale: 2.0 * context().scale,
        ..context()
    };
    for kept in [None, Some(4)] {
        let sharp = ClusteredConfig {
            temperature: 0.5,
            ..config(5)
        };
        let sharp = sharp.make(kept, &BurnInit::new(&Device::flex()));
        let a = sharp.attend(q.clone(), k.clone(), v.clone(), context());
        let b = made(5, kept).attend(q.clone(), k.clone(), v.clone(), twice.clone());
        assert_close("temperature", &values(a), &values(b), 1e-6);
    }
}

#[test]
fn costs_by_hand() {
    let place = Place {
        keys: 21,
        prefix: 1,
        ..Place::new(65, 24, 3)
    };
    // 64 queries have 32 bits, which in each of 3 heads are compared with those of 10 centroids 11 times and averaged 10
    // times; 10 centroids and the class token attend to 21 keys.
    let clustering = 64 * 32 * 24 + 21 * 64 * 32 * 10 * 3;
    let plain = Macs::attention(clustering + 2 * 11 * 21 * 24);
    let cost = config(10).cost(&place);
    assert_eq!((cost.macs, cost.params, cost.kept), (plain, 0, 21));
    // 64 queries have 6 exact keys each.
    let improved = |kept| ClusteredImprovedConfig {
        clustering: config(10),
        kept,
    };
    let exact = Macs::attention(2 * 64 * 6 * 24);
    assert_eq!(improved(6).cost(&place).macs, plain + exact);
    let all = Macs::attention(2 * 64 * 21 * 24);
    assert_eq!(improved(30).cost(&place).macs, plain + all);
}

#[test]
fn what_makes_no_sense_is_refused() {
    let bits = |bits| ClusteredConfig { bits, ..config(5) };
    let cold = ClusteredConfig {
        temperature: 0.0,
        ..config(5)
    };
    for config in [config(0), bits(0), bits(64), cold] {
        assert!(config.validate().is_err());
        let improved = ClusteredImprovedConfig {
            clustering: config,
            kept: 1,
        };
        assert!(improved.validate().is_err());
    }
    assert!(config(5).validate().is_ok() && bits(63).validate().is_ok());
    let improved = ClusteredImprovedConfig {
        clustering: config(5),
        kept: 0,
    };
    assert!(improved.validate().is_err());

    let place = Place {
        prefix: 1,
        ..Place::new(65, 24, 3)
    };
    assert!(config(64).fits(&place).is_ok());
    assert_eq!(
        config(65).fits(&place).unwrap_err().to_string(),
        "`kind = \"clustered\"` has `clusters` 65, which is more than the 64 tokens: \
         set `clusters` to 64 at most"
    );
    assert!(config(65).fits(&Place::new(0, 24, 3)).is_ok());
    let improved = ClusteredImprovedConfig {
        clustering: config(5),
        kept: 1,
    };
    let masked = Place {
        mask: true,
        ..place
    };
    let message = improved.fits(&masked).unwrap_err().to_string();
    assert!(
        message.contains("`kind = \"clustered-improved\"`"),
        "{message}"
    );
    assert!(config(5).fits(&masked).is_err());
}
