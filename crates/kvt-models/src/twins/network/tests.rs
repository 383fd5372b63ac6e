#![expect(clippy::unwrap_used, reason = "tests")]

use std::cell::RefCell;
use std::collections::BTreeSet;

use burn::tensor::{Device, TensorData};
use kvt_attention::{AttentionConfig, KnnConfig, Neighbors, Selection};
use kvt_ops::Key;

use super::*;
use crate::family::common::CommonConfig;
use crate::family::families::{AnyBackbone, ModelConfig};
use crate::family::stages::StagesConfig;
use crate::layers::SelfAttention as _;
use crate::model::Model;
use crate::network::Network;
use crate::observe::{BlockIndex, Observer, Point, Prefix};
use crate::testing::count;
use crate::weights::{LoadOptions, StateDict, WeightsError};

/// Maps of 8 x 8 tokens in four windows, and of 4 x 4 in one.
fn small() -> TwinsConfig {
    TwinsConfig {
        common: CommonConfig {
            in_chans: 2,
            num_classes: 5,
            mlp_ratio: 2.5,
            ..CommonConfig::imagenet(16)
        },
        strides: vec![2, 2],
        embed_dim: vec![6, 8],
        window_size: vec![4, 4],
        sr_ratio: vec![2, 1],
        stages: StagesConfig::dense(&[2, 3], &[1, 2]),
    }
}

fn build(config: TwinsConfig, seed: u64) -> Model {
    let config = ModelConfig::Twins(config);
    config.init(&Device::flex(), Key::new(seed)).unwrap()
}

fn images(side: usize) -> Tensor<4> {
    let pixels: Vec<f32> = (0..3 * 2 * side * side)
        .map(|i| (i * 29 % 97) as f32 / 48.0 - 1.0)
        .collect();
    Tensor::from_data(TensorData::new(pixels, [3, 2, side, side]), &Device::flex())
}

#[test]
fn the_summary_counts_the_built_modules_parameters() {
    let no_bias = TwinsConfig {
        common: CommonConfig {
            qkv_bias: false,
            ..small().common
        },
        ..small()
    };
    let single = TwinsConfig {
        stages: StagesConfig::dense(&[1, 1], &[1, 2]),
        ..small()
    };
    for config in [small(), no_bias, single] {
        let model = build(config.clone(), 1);
        let summary = config.summary();
        assert_eq!(summary.params, model.num_params());
        for (stage, summary) in summary.stages.into_iter().enumerate() {
            let lists = ["patch_embeds", "blocks", "pos_block"].map(|l| format!("{l}.{stage}."));
            let params = count(&model, &lists.each_ref().map(String::as_str));
            assert_eq!(summary.params, params, "{stage}");
        }
    }
}

#[test]
fn parameters_have_timms_names_and_layout() {
    let model = build(small(), 1);
    let names: BTreeSet<String> = model.parameters().into_iter().map(|p| p.name).collect();
    let mut expected = BTreeSet::new();
    let mut layer = |name: &str| {
        expected.insert(format!("{name}.weight"));
        expected.insert(format!("{name}.bias"));
    };
    for name in ["norm", "head"] {
        layer(name);
    }
    for stage in 0..2 {
        layer(&format!("patch_embeds.{stage}.proj"));
        layer(&format!("patch_embeds.{stage}.norm"));
        layer(&format!("pos_block.{stage}.proj.0"));
    }
    for (stage, block) in [(0, 0), (0, 1), (1, 0), (1, 1), (1, 2)] {
        let block_name = format!("blocks.{stage}.{block}");
        for name in ["norm1", "attn.proj", "norm2", "mlp.fc1", "mlp.fc2"] {
            layer(&format!("{block_name}.{name}"));
        }
        let attention: &[&str] = match (stage, block) {
            (0, 1) => &["q", "kv", "sr", "norm"],
            // With a ratio of 1 nothing is sub-sampled.
            (1, 1) => &["q", "kv"],
            _ => &["qkv"],
        };
        for name in attention {
            layer(&format!("{block_name}.attn.{name}"));
        }
    }
    assert_eq!(names, expected);

    let weights = StateDict::from_model(&model).unwrap();
    assert_eq!(weights.len(), expected.len());
    let shape = |name: &str| weights.get(name).unwrap().shape().to_vec();
    assert_eq!(shape("patch_embeds.0.proj.weight"), [6, 2, 2, 2]);
    assert_eq!(shape("patch_embeds.1.proj.weight"), [8, 6, 2, 2]);
    assert_eq!(shape("pos_block.1.proj.0.weight"), [8, 1, 3, 3]);
    assert_eq!(shape("blocks.0.1.attn.sr.weight"), [6, 6, 2, 2]);
    assert_eq!(shape("blocks.0.1.attn.kv.weight"), [12, 6]);
    assert_eq!(shape("blocks.1.2.attn.qkv.weight"), [24, 8]);
}

#[test]
fn positions_do_not_decay() {
    let model = build(small(), 1);
    for parameter in model.parameters() {
        let name = parameter.name.as_str();
        let decays = name.ends_with(".weight")
            && !["norm", "pos_block"].iter().any(|part| name.contains(part));
        assert_eq!(model.decays(&parameter), decays, "{name}");
    }
}

/// Convolutions by their fan-out, linear layers with a small deviation, biases zero.
#[test]
fn weights_start_as_in_the_original() {
    let config = TwinsConfig {
        embed_dim: vec![96, 128],
        ..small()
    };
    let weights = StateDict::from_model(&build(config, 1)).unwrap();
    for (name, std) in [
        // sqrt(2 / (kernel^2 * out / groups)).
        ("pos_block.0.proj.0.weight", (2f32 / 9.0).sqrt()),
        ("patch_embeds.1.proj.weight", (2f32 / (4.0 * 128.0)).sqrt()),
        ("blocks.0.1.attn.sr.weight", (2f32 / (4.0 * 96.0)).sqrt()),
        ("blocks.0.1.attn.kv.weight", 0.02),
        ("blocks.1.0.attn.qkv.weight", 0.02),
    ] {
        let values: Vec<f32> = weights.get(name).unwrap().try_to_vec().unwrap();
        let mean_square = values.iter().map(|x| x * x).sum::<f32>() / values.len() as f32;
        let found = mean_square.sqrt();
        assert!((found / std - 1.0).abs() < 0.1, "{name}: {found} for {std}");
    }
    for (name, data) in weights.iter().filter(|(name, _)| name.ends_with(".bias")) {
        let values: Vec<f32> = data.try_to_vec().unwrap();
        assert!(values.iter().all(|x| *x == 0.0), "{name}");
    }
}

#[test]
fn dropout_and_drop_path_change_training_only() {
    let plain = build(small(), 1);
    let run = |model: &Model, phase| model.forward(images(16), phase).into_data();
    let train = |seed| Phase::Train(Key::new(seed));
    let expected = run(&plain, Phase::Eval);
    assert_eq!(run(&plain, train(1)), expected);
    let with = |change: &dyn Fn(&mut CommonConfig)| {
        let mut config = small();
        change(&mut config.common);
        build(config, 1)
    };
    let dropping = with(&|common| common.drop_path = 0.8);
    let AnyBackbone::Twins(twins) = &dropping.backbone else {
        unreachable!()
    };
    let rates = twins.blocks.iter().flatten().map(|block| block.drop_path);
    for (rate, expected) in rates.zip([0.0, 0.2, 0.4, 0.6, 0.8]) {
        assert!((rate - expected).abs() < 1e-12, "{rate}");
    }
    for dropping in [dropping, with(&|common| common.attn_drop = 0.5)] {
        assert_eq!(run(&dropping, Phase::Eval), expected);
        assert_ne!(run(&dropping, train(1)), expected);
        assert_eq!(run(&dropping, train(1)), run(&dropping, train(1)));
        assert_ne!(run(&dropping, train(1)), run(&dropping, train(2)));
    }
}

/// In windows, and on the whole map.
#[test]
fn both_attentions_drop_weights() {
    let mut config = small();
    config.common.attn_drop = 0.5;
    let size = config.stages().next().unwrap();
    let device = Device::flex();
    let init = Init::new(&device, Key::new(1));
    let tokens = images(16)
        .narrow(1, 0, 1)
        .reshape([3, 4, 64])
        .swap_dims(1, 2)
        .repeat_dim(2, 2)
        .narrow(2, 0, 6);
    for block in [0, 1] {
        let attention = GroupedAttention::new(&init, &size, block);
        let mix = |phase| {
            let pass = Ask::default().pass(0, [8, 8], phase);
            attention.mix(tokens.clone(), pass).into_data()
        };
        let train = |seed| mix(Phase::Train(Key::new(seed)));
        assert_ne!(train(1), mix(Phase::Eval), "{block}");
        assert_ne!(train(1), train(2), "{block}");
        assert_eq!(train(1), train(1), "{block}");
    }
}

#[test]
fn every_stage_has_its_own_attention() {
    let run = |neighbors: [Neighbors; 2]| {
        let mut config = small();
        config.stages.attention = neighbors.map(AttentionConfig::knn).to_vec();
        build(config, 1)
            .forward(images(16), Phase::Eval)
            .into_data()
    };
    let (all, few) = (Neighbors::All, Neighbors::count(2).unwrap());
    let results = [
        run([all, all]),
        run([few, all]),
        run([all, few]),
        run([few, few]),
    ];
    for (i, one) in results.iter().enumerate() {
        assert!(results[..i].iter().all(|other| other != one));
    }
}

/// Keeps the probabilities of the first block.
#[derive(Default)]
struct First(RefCell<Vec<f32>>);

impl Observer for First {
    fn wants(&self, place: BlockIndex, point: Point) -> bool {
        place == BlockIndex::default() && point == Point::Probabilities
    }

    fn tokens(&self, _: BlockIndex, _: Point, _: Tensor<3>, _: Prefix) {}

    fn probabilities(&self, _: BlockIndex, probabilities: Tensor<4>, _: Prefix) {
        let values = probabilities.into_data().try_to_vec().unwrap();
        *self.0.borrow_mut() = values;
    }
}

/// A map of 5 x 5 tokens in windows of 4 x 4: in the last window one token is not padding, in each of the two before
/// it four. If some keys are left out, padding is; if none is, padding has weight, as in timm.
#[test]
fn padding_is_no_neighbor() {
    let mut config = small();
    config.common.img_size = 10.into();
    config.strides = vec![2];
    config.embed_dim = vec![6];
    config.window_size = vec![4];
    config.sr_ratio = vec![2];
    config.stages = StagesConfig::dense(&[1], &[2]);
    let probabilities = |attention: AttentionConfig| {
        let attention = vec![attention];
        let mut config = config.clone();
        config.stages.attention = attention;
        let first = First::default();
        let ask = Ask {
            observer: Some(&first),
            ..Ask::default()
        };
        build(config, 1)
            .backbone
            .features(images(10), &ask, Phase::Eval);
        first.0.into_inner()
    };
    let knn = |selection, k| {
        AttentionConfig::Knn(KnnConfig {
            selection,
            ..KnnConfig::new(Neighbors::count(k).unwrap())
        })
    };
    // Whether a key of a window is padding.
    let is_padding = |window: usize, key: usize| {
        let (row, column) = (window / 2 * 4 + key / 4, window % 2 * 4 + key % 4);
        row > 4 || column > 4
    };
    // [3 images, 4 windows * 2 heads, 16, 16]
    let on_padding = |probabilities: &[f32]| {
        assert_eq!(probabilities.len(), 3 * 4 * 2 * 16 * 16);
        let places = probabilities.iter().enumerate();
        let padding = places.filter(|(place, _)| is_padding(place / (2 * 256) % 4, place % 16));
        padding.map(|(_, p)| *p).collect::<Vec<f32>>()
    };
    for selection in [Selection::DotProduct, Selection::Euclidean] {
        for k in [3, 15] {
            let found = probabilities(knn(selection, k));
            assert!(
                on_padding(&found).iter().all(|p| *p == 0.0),
                "{selection:?} {k}"
            );
            let rows = found.chunks_exact(16).map(|row| row.iter().sum::<f32>());
            assert!(rows.clone().all(|sum| (sum - 1.0).abs() < 1e-5));
        }
        let all = probabilities(knn(selection, 16));
        assert_eq!(all, probabilities(AttentionConfig::dense()));
        assert!(on_padding(&all).iter().all(|p| *p > 0.0));
    }
}

#[test]
fn weights_of_a_twins_without_windows_are_refused() {
    let model = build(small(), 1);
    let mut weights = StateDict::from_model(&model).unwrap();
    weights.insert(
        "blocks.0.0.attn.kv.weight",
        TensorData::zeros::<f32, _>([12, 6]),
    );
    let error = model.load(&weights, LoadOptions::default()).unwrap_err();
    assert!(
        matches!(&error, WeightsError::Variant { difference, .. } if difference.contains("PCPVT")),
        "{error}"
    );
}

#[test]
fn images_that_no_key_comes_from_are_refused() {
    let mut config = small();
    config.sr_ratio = vec![4, 2];
    let model = build(config, 1);
    for size in [[8, 8], [8, 20], [12, 36]] {
        assert_eq!(model.check_size(size), Ok(()));
    }
    let refuse = |size| model.check_size(size).unwrap_err().to_string();
    assert!(refuse([4, 16]).contains("Twins: expected at least 8 pixels on each side"));
    assert!(refuse([16, 18]).contains("Twins: expected multiples of the 4 pixels of a patch"));
    assert!(refuse([0, 16]).contains("multiples"));
}
