#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;

use burn::tensor::{Device, TensorData};
use kvt_attention::AttentionConfig;
use kvt_ops::Key;

use super::*;
use crate::family::FamilyConfig as _;
use crate::family::common::CommonConfig;
use crate::family::families::{AnyBackbone, ModelConfig};
use crate::model::Model;
use crate::network::Network;
use crate::testing::count;
use crate::weights::{LoadOptions, Outcome, StateDict, WeightsError};

fn transformer() -> T2tConfig {
    T2tConfig {
        common: CommonConfig {
            in_chans: 2,
            num_classes: 5,
            mlp_ratio: 2.5,
            qkv_bias: false,
            ..CommonConfig::imagenet(16)
        },
        tokens_type: TokensType::Transformer {
            attention: [AttentionConfig::dense(), AttentionConfig::dense()],
        },
        strides: [2, 2, 1],
        token_dim: 6,
        embed_dim: 12,
        depth: 3,
        num_heads: 3,
        attention: AttentionConfig::dense(),
    }
}

fn performer(drop: f64) -> T2tConfig {
    T2tConfig {
        tokens_type: TokensType::Performer { drop },
        ..transformer()
    }
}

fn build(config: T2tConfig, device: &Device) -> Model {
    ModelConfig::T2t(config).init(device, Key::new(1)).unwrap()
}

fn images(side: usize, device: &Device) -> Tensor<4> {
    let count = 3 * 2 * side * side;
    let pixels: Vec<f32> = (0..count)
        .map(|i| (i * 29 % 97) as f32 / 48.0 - 1.0)
        .collect();
    Tensor::from_data(TensorData::new(pixels, [3, 2, side, side]), device)
}

fn logits(model: &Model, phase: Phase) -> Vec<f32> {
    let images = images(model.config().img_size().side(), &Device::flex());
    model
        .forward(images, phase)
        .into_data()
        .try_to_vec()
        .unwrap()
}

fn state(model: &Model) -> StateDict {
    StateDict::from_model(model).unwrap()
}

fn values(state: &StateDict, name: &str) -> Vec<f32> {
    state.get(name).unwrap().try_to_vec().unwrap()
}

#[test]
fn the_summary_counts_the_built_modules_parameters() {
    for config in [transformer(), performer(0.1)] {
        for qkv_bias in [false, true] {
            let mut config = config.clone();
            config.common.qkv_bias = qkv_bias;
            let model = build(config.clone(), &Device::flex());
            let summary = config.summary();
            assert_eq!(summary.params, count(&model, &[""]));
            for stage in summary.stages {
                let name = format!("{}.", stage.name);
                assert_eq!(stage.params, count(&model, &[&name]));
            }
        }
    }
}

#[test]
fn parameters_have_the_originals_names_and_layout() {
    let layers: [(T2tConfig, &[&str], &[&str]); 2] = [
        (
            transformer(),
            &["attn.proj", "mlp.fc1", "mlp.fc2"],
            &["attn.qkv.weight"],
        ),
        (performer(0.1), &["kqv", "proj", "mlp.0", "mlp.2"], &[]),
    ];
    for (config, with_bias, weights) in layers {
        let model = build(config, &Device::flex());
        let mut expected: BTreeSet<String> = ["cls_token".to_owned()].into();
        let mut layer = |name: &str| {
            expected.insert(format!("{name}.weight"));
            expected.insert(format!("{name}.bias"));
        };
        for name in ["norm", "head", "tokens_to_token.project"] {
            layer(name);
        }
        for attention in ["tokens_to_token.attention1", "tokens_to_token.attention2"] {
            for name in ["norm1", "norm2"].iter().chain(with_bias) {
                layer(&format!("{attention}.{name}"));
            }
        }
        for block in 0..3 {
            for name in ["norm1", "attn.proj", "norm2", "mlp.fc1", "mlp.fc2"] {
                layer(&format!("blocks.{block}.{name}"));
            }
        }
        for block in 0..3 {
            expected.insert(format!("blocks.{block}.attn.qkv.weight"));
        }
        for attention in ["tokens_to_token.attention1", "tokens_to_token.attention2"] {
            expected.extend(weights.iter().map(|name| format!("{attention}.{name}")));
        }
        let names: BTreeSet<String> = model.parameters().into_iter().map(|p| p.name).collect();
        assert_eq!(names, expected);

        // State that is saved, but not trained.
        let state = state(&model);
        let saved: BTreeSet<String> = state.iter().map(|(name, _)| name.to_owned()).collect();
        let fixed: Vec<&String> = saved.difference(&names).collect();
        let shape = |name: &str| state.get(name).unwrap().shape().to_vec();
        assert_eq!(shape("pos_embed"), [1, 17, 12]);
        assert_eq!(shape("tokens_to_token.project.weight"), [12, 54]);
        if weights.is_empty() {
            let w = [1, 2].map(|i| format!("tokens_to_token.attention{i}.w"));
            assert_eq!(fixed, ["pos_embed", &w[0], &w[1]]);
            assert_eq!(shape(&w[0]), [3, 6]);
            assert_eq!(shape("tokens_to_token.attention2.kqv.weight"), [18, 54]);
        } else {
            assert_eq!(fixed, ["pos_embed"]);
            let qkv = "tokens_to_token.attention1.attn.qkv.weight";
            assert_eq!(shape(qkv), [18, 98]);
        }
    }
}

#[test]
fn what_the_original_leaves_out_does_not_decay() {
    for config in [transformer(), performer(0.1)] {
        let model = build(config, &Device::flex());
        let parameters = model.parameters().into_iter();
        let (decaying, others): (Vec<_>, Vec<_>) = parameters.partition(|p| model.decays(p));
        let large: Vec<&str> = others
            .iter()
            .filter(|p| p.shape.len() > 1)
            .map(|p| p.name.as_str())
            .collect();
        assert_eq!(large, ["cls_token"]);
        assert!(decaying.iter().all(|p| p.name.ends_with(".weight")));
        assert!(others.iter().any(|p| p.name.ends_with("norm1.weight")));
    }
}

/// `sin` and `cos` of `p / 10000^(j / d)` for even j: the first positions by hand. Random features are orthogonal
/// rows of length `sqrt(features)`.
#[test]
fn fixed_entries_start_as_the_originals() {
    let state = state(&build(performer(0.1), &Device::flex()));
    let positions = values(&state, "pos_embed");
    assert_eq!(positions[..12], [0.0, 1.0].repeat(6));
    let second = 10000f64.powf(-2.0 / 12.0);
    let expected = [1f64.sin(), 1f64.cos(), second.sin(), second.cos()];
    for (found, expected) in positions[12..].iter().zip(expected) {
        assert!((f64::from(*found) - expected).abs() < 1e-7, "{found}");
    }
    let w = values(&state, "tokens_to_token.attention1.w");
    let rows: Vec<&[f32]> = w.chunks_exact(6).collect();
    for (i, a) in rows.iter().enumerate() {
        for (j, b) in rows.iter().enumerate() {
            let product: f32 = a.iter().zip(*b).map(|(a, b)| a * b).sum();
            let expected = if i == j { 3.0 } else { 0.0 };
            assert!((product - expected).abs() < 1e-5, "{i} {j}: {product}");
        }
    }
    let other = values(&state, "tokens_to_token.attention2.w");
    assert_ne!(w, other);
}

#[test]
fn drop_path_is_for_training_and_the_blocks() {
    let plain = build(transformer(), &Device::flex());
    let mut config = transformer();
    config.common.drop_path = 0.9;
    let dropping = build(config, &Device::flex());
    let AnyBackbone::T2t(t2t) = &dropping.backbone else {
        unreachable!()
    };
    let rates: Vec<f64> = t2t.blocks.iter().map(|block| block.drop_path).collect();
    assert_eq!(rates, [0.0, 0.45, 0.9]);

    let train = |seed| Phase::Train(Key::new(seed));
    assert_eq!(logits(&dropping, Phase::Eval), logits(&plain, Phase::Eval));
    assert_eq!(logits(&plain, train(1)), logits(&plain, Phase::Eval));
    assert_ne!(logits(&dropping, train(1)), logits(&plain, train(1)));
    assert_eq!(logits(&dropping, train(1)), logits(&dropping, train(1)));
    assert_ne!(logits(&dropping, train(1)), logits(&dropping, train(2)));
}

#[test]
fn a_performer_drops_out_in_training_alone() {
    let [plain, dropping] = [0.0, 0.1].map(|drop| build(performer(drop), &Device::flex()));
    let train = |seed| Phase::Train(Key::new(seed));
    assert_eq!(logits(&dropping, Phase::Eval), logits(&plain, Phase::Eval));
    assert_eq!(logits(&plain, train(1)), logits(&plain, Phase::Eval));
    assert_ne!(logits(&dropping, train(1)), logits(&plain, train(1)));
    assert_eq!(logits(&dropping, train(1)), logits(&dropping, train(1)));
    assert_ne!(logits(&dropping, train(1)), logits(&dropping, train(2)));
    let ModelConfig::T2t(original) = ModelConfig::by_name("t2t_vit_7").unwrap() else {
        unreachable!()
    };
    let expected = TokensType::Performer { drop: 0.1 };
    assert_eq!(original.tokens_type, expected);
}

/// The values are zero here and both branches of a Performer constant, so that dropped numbers are visible.
#[test]
fn a_performer_drops_numbers_of_both_branches() {
    let device = Device::flex();
    let config = T2tConfig {
        strides: [2, 1, 1],
        ..performer(0.1)
    };
    let model = build(config, &device);
    let constants = [
        ("kqv.weight", 0.0),
        ("kqv.bias", 0.0),
        ("proj.weight", 0.0),
        ("proj.bias", 1.0),
        ("mlp.2.weight", 0.0),
        ("mlp.2.bias", 10.0),
    ];
    let weights = state(&model).into_iter().map(|(name, data)| {
        let found = constants
            .iter()
            .find(|(end, _)| name.starts_with("tokens_to_token.attention") && name.ends_with(end));
        let data = match found {
            Some((_, value)) => {
                let numbers = vec![*value; data.num_elements()];
                TensorData::new(numbers, data.shape().clone())
            }
            None => data,
        };
        (name, data)
    });
    let weights: StateDict = weights.collect();
    let (model, _) = model.load(&weights, LoadOptions::default()).unwrap();
    let ask = Ask {
        maps: true,
        ..Ask::default()
    };
    let phase = Phase::Train(Key::new(2));
    let features = model.backbone.features(images(16, &device), &ask, phase);
    let maps: Vec<Vec<f32>> = features.maps[..2]
        .iter()
        .map(|map| map.to_data().try_to_vec().unwrap())
        .collect();
    // The layers draw from different streams.
    assert_ne!(maps[0], maps[1]);
    for map in maps {
        assert_eq!(map.len(), 1152);
        let (mut found, total) = (0, map.len() as f64);
        for (value, share) in [(0.0, 0.01), (1.0, 0.09), (10.0, 0.09), (11.0, 0.81)] {
            let is_value = |x: &&f32| (**x - value / 0.9).abs() < 1e-5;
            let count = map.iter().filter(is_value).count();
            found += count;
            // Six standard deviations.
            let bound = 6.0 * (total * share * (1.0 - share)).sqrt();
            let difference = count as f64 - total * share;
            assert!(difference.abs() < bound, "{value}: {count}");
        }
        assert_eq!(found, map.len());
    }
}

/// Weights of another size: positions are interpolated, and other images of the same model use the same ones.
#[test]
fn positions_of_another_size_are_resized() {
    let small = build(performer(0.0), &Device::flex());
    let mut config = performer(0.0);
    config.common.img_size = 24.into();
    let large = build(config, &Device::flex());
    let own = values(&state(&large), "pos_embed");
    let (large, report) = large.load(&state(&small), LoadOptions::default()).unwrap();
    assert_eq!(
        report.names(Outcome::Resized).collect::<Vec<_>>(),
        ["pos_embed"]
    );
    // They are not recomputed.
    assert_ne!(values(&state(&large), "pos_embed"), own);
    let images = images(24, &Device::flex());
    let expected = small
        .forward(images, Phase::Eval)
        .into_data()
        .try_to_vec::<f32>()
        .unwrap();
    for (found, expected) in logits(&large, Phase::Eval).iter().zip(expected) {
        assert!((found - expected).abs() < 1e-5, "{found} {expected}");
    }
}

#[test]
fn weights_of_the_other_token_module_are_refused() {
    let [with_scores, without] =
        [transformer(), performer(0.1)].map(|config| build(config, &Device::flex()));
    let loaded = with_scores.load(&state(&without), LoadOptions::default());
    assert!(matches!(loaded, Err(WeightsError::Incompatible { .. })));
}
