#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;

use burn::tensor::Device;
use kvt_attention::AttentionConfig;
use kvt_ops::Key;

use super::*;
use crate::family::FamilyConfig as _;
use crate::family::common::CommonConfig;
use crate::family::families::{AnyBackbone, ModelConfig};
use crate::model::Model;
use crate::network::Network;
use crate::testing::{count, logits};
use crate::weights::{LoadOptions, Outcome, StateDict};

fn small() -> SoVitConfig {
    SoVitConfig {
        common: CommonConfig {
            in_chans: 2,
            num_classes: 5,
            mlp_ratio: 2.5,
            qkv_bias: false,
            ..CommonConfig::imagenet(16)
        },
        strides: [2, 1, 1],
        embed_dim: 12,
        depth: 3,
        num_heads: 3,
        cov_dims: [6, 4],
        head_drop: 0.0,
        attention: AttentionConfig::dense(),
    }
}

fn build(config: SoVitConfig, seed: u64, device: &Device) -> Model {
    let config = ModelConfig::SoVit(config);
    config.init(device, Key::new(seed)).unwrap()
}

fn values(weights: &StateDict, name: &str) -> Vec<f32> {
    weights.get(name).unwrap().try_to_vec().unwrap()
}

#[test]
fn the_summary_counts_the_built_modules_parameters() {
    for qkv_bias in [false, true] {
        for strides in [[2, 1, 1], [2, 2, 2], [1, 1, 3]] {
            let config = SoVitConfig {
                common: CommonConfig {
                    qkv_bias,
                    ..small().common
                },
                strides,
                ..small()
            };
            let model = build(config.clone(), 1, &Device::flex());
            assert_eq!(config.summary().params, count(&model, &[""]), "{strides:?}");
        }
    }
}

#[test]
fn parameters_have_the_originals_names_and_layout() {
    let model = build(small(), 1, &Device::flex());
    let names: BTreeSet<String> = model.parameters().into_iter().map(|p| p.name).collect();
    let mut expected = BTreeSet::new();
    let mut add = |name: &str, parts: &[&str]| {
        expected.extend(parts.iter().map(|part| format!("{name}{part}")));
    };
    let (both, weight): (&[&str], &[&str]) = (&[".weight", ".bias"], &[".weight"]);
    add("cls_token", &[""]);
    add("norm", both);
    let mut norms = Vec::new();
    let tokens = "visual_tokens.tokens";
    add(&format!("{tokens}.stem.0"), both);
    add(&format!("{tokens}.transition"), both);
    for stage in 0..3 {
        let stage = format!("{tokens}.stage.{stage}");
        for number in 1..4 {
            add(&format!("{stage}.conv{number}"), weight);
            norms.push(format!("{stage}.bn{number}"));
        }
    }
    // The other bottlenecks change neither channels nor size.
    add(&format!("{tokens}.stage.0.downsample.0"), weight);
    norms.push(format!("{tokens}.stage.0.downsample.1"));
    for block in 0..3 {
        let block = format!("blocks.{block}");
        add(&format!("{block}.attn.qkv"), weight);
        for name in ["norm1", "attn.proj", "norm2", "mlp.fc1", "mlp.fc2"] {
            add(&format!("{block}.{name}"), both);
        }
    }
    for number in 0..2 {
        let block = format!("classifier.representation.conv_dr_block.{number}");
        add(&format!("{block}.0"), weight);
        norms.push(format!("{block}.1"));
    }
    add("classifier.normalization", weight);
    add("classifier.visual_fc", both);
    add("classifier.cls_fc", both);
    for norm in &norms {
        add(norm, both);
    }
    assert_eq!(names, expected);

    let weights = StateDict::from_model(&model).unwrap();
    let saved: BTreeSet<String> = weights.iter().map(|(name, _)| name.to_owned()).collect();
    let statistics = norms.iter().flat_map(|norm| {
        [".running_mean", ".running_var"].map(|statistic| format!("{norm}{statistic}"))
    });
    expected.extend(statistics);
    expected.insert("pos_embed".to_owned());
    assert_eq!(saved, expected);

    let shape = |name: &str| weights.get(name).unwrap().shape().to_vec();
    assert_eq!(shape("visual_tokens.tokens.stem.0.weight"), [64, 2, 3, 3]);
    assert_eq!(
        shape("visual_tokens.tokens.stage.1.conv1.weight"),
        [64, 256, 1, 1]
    );
    assert_eq!(
        shape("visual_tokens.tokens.transition.weight"),
        [12, 256, 1, 1]
    );
    assert_eq!(shape("pos_embed"), [1, 17, 12]);
    assert_eq!(
        shape("classifier.representation.conv_dr_block.1.0.weight"),
        [4, 12, 1, 1]
    );
    assert_eq!(shape("classifier.normalization.weight"), [6]);
    assert_eq!(shape("classifier.visual_fc.weight"), [5, 24]);
    assert_eq!(shape("classifier.cls_fc.weight"), [5, 12]);
}

/// Only one-dimensional parameters are exempt: the original names no exclusion, so the class token decays.
#[test]
fn the_class_token_decays() {
    let model = build(small(), 1, &Device::flex());
    for parameter in model.parameters() {
        let expected = parameter.shape.len() > 1;
        assert_eq!(model.decays(&parameter), expected, "{}", parameter.name);
        if parameter.name == "cls_token" {
            assert!(expected);
        }
    }
}

/// The distributions of the original's constructors, by their standard deviations or bounds.
#[test]
fn weights_start_as_the_originals() {
    let config = SoVitConfig {
        embed_dim: 96,
        cov_dims: [64, 48],
        ..small()
    };
    let weights = StateDict::from_model(&build(config, 1, &Device::flex())).unwrap();
    let deviation = |name: &str| {
        let values = values(&weights, name);
        let squares = values.iter().map(|x| f64::from(*x).powi(2));
        (squares.sum::<f64>() / values.len() as f64).sqrt()
    };
    for (name, expected) in [
        ("blocks.0.attn.qkv.weight", 0.02),
        ("classifier.visual_fc.weight", 0.02),
        // Kaiming initialisation by outputs: sqrt(2 / 64) and sqrt(2 / 48).
        (
            "classifier.representation.conv_dr_block.0.0.weight",
            0.176_777,
        ),
        (
            "classifier.representation.conv_dr_block.1.0.weight",
            0.204_124,
        ),
        // PyTorch's default, uniform within 1 / sqrt(256).
        ("visual_tokens.tokens.transition.weight", 0.036_084),
    ] {
        let found = deviation(name);
        assert!((found / expected - 1.0).abs() < 0.05, "{name}: {found}");
    }
    let found = deviation("classifier.normalization.weight");
    assert!((0.7..1.4).contains(&found), "{found}");
    let zero = |name: &str| values(&weights, name).iter().all(|x| *x == 0.0);
    assert!(zero("classifier.visual_fc.bias") && zero("blocks.1.mlp.fc1.bias"));
    assert!(!zero("visual_tokens.tokens.stem.0.bias"));
}

/// sin and cos of `p / 10000^(2 floor(j / 2) / dim)`; position 0 is the class token's.
#[test]
fn positions_are_a_sinusoid_and_not_trained() {
    let model = build(small(), 1, &Device::flex().autodiff());
    assert!(model.parameters().iter().all(|p| p.name != "pos_embed"));
    let positions = values(&StateDict::from_model(&model).unwrap(), "pos_embed");
    for (position, row) in positions.chunks_exact(12).enumerate() {
        for (j, found) in row.iter().enumerate() {
            let angle = position as f64 / 10000f64.powf((j / 2 * 2) as f64 / 12.0);
            let expected = if j % 2 == 0 { angle.sin() } else { angle.cos() };
            let difference = (f64::from(*found) - expected).abs();
            assert!(difference < 1e-6, "{position}, {j}: {found}");
        }
    }
}

/// Weights for another size bring their positions, which are resized; a file without them is complete.
#[test]
fn positions_of_another_size_are_resized() {
    let larger = |device| {
        let mut config = small();
        config.common.img_size = 32.into();
        build(config, 2, device)
    };
    let weights = StateDict::from_model(&build(small(), 1, &Device::flex())).unwrap();
    let (model, report) = larger(&Device::flex())
        .load(&weights, LoadOptions::default())
        .unwrap();
    let resized: Vec<&str> = report.names(Outcome::Resized).collect();
    assert_eq!(resized, ["pos_embed"]);
    let positions = values(&StateDict::from_model(&model).unwrap(), "pos_embed");
    assert_eq!(positions.len(), 65 * 12);
    assert_eq!(positions[..12], values(&weights, "pos_embed")[..12]);

    let own = values(&StateDict::from_model(&model).unwrap(), "pos_embed");
    let without = weights
        .iter()
        .filter(|(name, _)| *name != "pos_embed")
        .map(|(name, data)| (name.to_owned(), data.clone()));
    let (model, report) = model
        .load(&without.collect(), LoadOptions::default())
        .unwrap();
    let computed: Vec<&str> = report.names(Outcome::Computed).collect();
    assert_eq!(computed, ["pos_embed"]);
    assert_eq!(
        values(&StateDict::from_model(&model).unwrap(), "pos_embed"),
        own
    );
}

#[test]
fn drop_path_and_dropout_are_for_training() {
    let plain = build(small(), 1, &Device::flex());
    let mut config = small();
    config.common.drop_path = 0.9;
    let model = build(config, 1, &Device::flex());
    let AnyBackbone::SoVit(backbone) = &model.backbone else {
        unreachable!()
    };
    let rates: Vec<f64> = backbone.blocks.iter().map(|b| b.drop_path).collect();
    assert_eq!(rates, [0.0, 0.45, 0.9]);
    let head = SoVitConfig {
        head_drop: 0.5,
        ..small()
    };
    let train = |seed| Phase::Train(Key::new(seed));
    // Before training changes the running statistics.
    let expected = logits(&plain, Phase::Eval);
    for model in [model, build(head, 1, &Device::flex())] {
        assert_eq!(logits(&model, Phase::Eval), expected);
        assert_ne!(logits(&model, train(1)), logits(&plain, train(1)));
        assert_eq!(logits(&model, train(1)), logits(&model, train(1)));
        assert_ne!(logits(&model, train(1)), logits(&model, train(2)));
    }
}

/// If another number of classes is requested, the covariance stays.
#[test]
fn a_new_head_keeps_the_covariance() {
    let weights = StateDict::from_model(&build(small(), 1, &Device::flex())).unwrap();
    let mut config = small();
    config.common.num_classes = 7;
    let options = LoadOptions {
        reset_head: true,
        ..LoadOptions::default()
    };
    let (_, report) = build(config, 2, &Device::flex())
        .load(&weights, options)
        .unwrap();
    let mut reset: Vec<&str> = report.names(Outcome::Reset).collect();
    reset.sort_unstable();
    let layers = ["cls_fc", "visual_fc"];
    let expected =
        layers.map(|layer| ["bias", "weight"].map(|part| format!("classifier.{layer}.{part}")));
    assert_eq!(reset, expected.concat());
}

/// Layer-wise learning rates: the modules that make tokens are the first layer, and all of the head is the last.
#[test]
fn layers_end_with_the_whole_head() {
    let model = build(small(), 1, &Device::flex());
    assert_eq!(model.layers(), 5);
    let of = |name: &str| {
        let parameters = model.parameters().into_iter();
        let mut layers = parameters
            .filter(|p| p.name == name)
            .map(|p| model.layer(&p));
        layers.next().unwrap()
    };
    for (name, layer) in [
        ("cls_token", 0),
        ("visual_tokens.tokens.stage.2.conv1.weight", 0),
        ("blocks.0.norm1.weight", 1),
        ("blocks.2.mlp.fc2.bias", 3),
        ("norm.weight", 3),
        ("classifier.representation.conv_dr_block.0.0.weight", 4),
        ("classifier.normalization.weight", 4),
        ("classifier.visual_fc.weight", 4),
        ("classifier.cls_fc.bias", 4),
    ] {
        assert_eq!(of(name), layer, "{name}");
    }
}
