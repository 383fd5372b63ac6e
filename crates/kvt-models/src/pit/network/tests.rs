#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;

use burn::module::Module as _;
use kvt_attention::AttentionConfig;

use super::*;
use crate::family::common::CommonConfig;
use crate::family::stages::StagesConfig;
use crate::network::Network;
use crate::testing::{build, count, logits};
use crate::weights::{Layout, LoadOptions, Outcome, StateDict};

fn small(distilled: bool) -> PitConfig {
    PitConfig {
        common: CommonConfig {
            in_chans: 2,
            num_classes: 5,
            mlp_ratio: 2.5,
            ..CommonConfig::imagenet(18)
        },
        patch_size: 4,
        patch_stride: 2,
        embed_dim: vec![6, 12, 12],
        distilled,
        stages: StagesConfig {
            depth: vec![1, 2, 1],
            num_heads: vec![1, 2, 3],
            attention: vec![AttentionConfig::dense(); 3],
        },
    }
}

#[test]
fn the_summary_counts_the_built_modules_parameters() {
    for distilled in [false, true] {
        for qkv_bias in [false, true] {
            let config = PitConfig {
                common: CommonConfig {
                    qkv_bias,
                    ..small(distilled).common
                },
                ..small(distilled)
            };
            let model = build(config.clone(), 1);
            let summary = config.summary();
            assert_eq!(summary.params, model.num_params());
            for stage in summary.stages {
                let params = count(&model, &[&format!("{}.", stage.name)]);
                assert_eq!(stage.params, params, "{}", stage.name);
            }
        }
    }
}

#[test]
fn parameters_have_timms_names_and_layout() {
    let model = build(small(true), 1);
    let names: BTreeSet<String> = model.parameters().into_iter().map(|p| p.name).collect();
    let mut expected: BTreeSet<String> = ["pos_embed", "cls_token"].map(str::to_owned).into();
    let mut layer = |name: &str| {
        expected.insert(format!("{name}.weight"));
        expected.insert(format!("{name}.bias"));
    };
    for name in ["patch_embed.conv", "norm", "head", "head_dist"] {
        layer(name);
    }
    for stage in [1, 2] {
        layer(&format!("transformers.{stage}.pool.conv"));
        layer(&format!("transformers.{stage}.pool.fc"));
    }
    for block in [
        "transformers.0.blocks.0",
        "transformers.1.blocks.0",
        "transformers.1.blocks.1",
        "transformers.2.blocks.0",
    ] {
        for name in [
            "norm1",
            "attn.qkv",
            "attn.proj",
            "norm2",
            "mlp.fc1",
            "mlp.fc2",
        ] {
            layer(&format!("{block}.{name}"));
        }
    }
    assert_eq!(names, expected);

    let weights = StateDict::from_model(&model).unwrap();
    let shape = |name: &str| weights.get(name).unwrap().shape().to_vec();
    assert_eq!(shape("pos_embed"), [1, 6, 8, 8]);
    assert_eq!(shape("cls_token"), [1, 2, 6]);
    assert_eq!(shape("patch_embed.conv.weight"), [6, 2, 4, 4]);
    assert_eq!(shape("transformers.1.pool.conv.weight"), [12, 1, 3, 3]);
    assert_eq!(shape("transformers.1.pool.fc.weight"), [12, 6]);
    assert_eq!(shape("transformers.2.blocks.0.mlp.fc1.weight"), [30, 12]);
}

#[test]
fn linear_layers_start_as_pytorch_makes_them() {
    let weights = StateDict::from_model(&build(small(false), 1)).unwrap();
    let largest = |name: &str| {
        let values = weights.get(name).unwrap().try_to_vec::<f32>().unwrap();
        values
            .iter()
            .fold(0.0f32, |max, value| max.max(value.abs()))
    };
    for (name, fan_in) in [
        ("transformers.0.blocks.0.attn.qkv", 6.0f32),
        ("transformers.1.blocks.1.mlp.fc2", 30.0),
        ("transformers.2.pool.fc", 12.0),
        ("transformers.2.pool.conv", 9.0),
        ("head", 12.0),
    ] {
        for part in ["weight", "bias"] {
            let (largest, bound) = (largest(&format!("{name}.{part}")), fan_in.sqrt().recip());
            assert!(
                largest <= bound && largest > 0.6 * bound,
                "{name}.{part}: {largest} of {bound}"
            );
        }
    }
}

#[test]
fn tokens_and_positions_do_not_decay() {
    let model = build(small(true), 1);
    let parameters = model.parameters().into_iter();
    let kept: BTreeSet<String> = parameters
        .filter(|parameter| parameter.shape.len() > 1 && !model.decays(parameter))
        .map(|parameter| parameter.name)
        .collect();
    assert_eq!(kept, ["cls_token", "pos_embed"].map(str::to_owned).into());
}

#[test]
fn the_originals_names_are_understood() {
    let source = build(small(false), 1);
    let weights = StateDict::from_model(&source).unwrap();
    assert_eq!(source.layout(&weights), Layout::Timm);
    let official = source.rename(&weights, Layout::Official);
    assert_eq!(source.layout(&official), Layout::Official);
    assert!(official.get("pools.1.fc.bias").is_some());
    assert!(!official.iter().any(|(name, _)| name.contains(".pool.")));
    assert_eq!(source.rename(&official, Layout::Timm), weights);

    let options = LoadOptions::default();
    let (target, report) = build(small(false), 2).load(&official, options).unwrap();
    assert_eq!(report.names(Outcome::Matched).count(), report.rows.len());
    assert_eq!(StateDict::from_model(&target).unwrap(), weights);
}

#[test]
fn positions_of_another_image_size_are_resized() {
    let source = build(small(false), 1);
    let weights = StateDict::from_model(&source).unwrap();
    let larger = PitConfig {
        common: CommonConfig {
            img_size: 24.into(),
            ..small(false).common
        },
        ..small(false)
    };
    let (target, report) = build(larger, 2)
        .load(&weights, LoadOptions::default())
        .unwrap();
    let resized: Vec<&str> = report.names(Outcome::Resized).collect();
    assert_eq!(resized, ["pos_embed"]);
    let resized = StateDict::from_model(&target).unwrap();
    let shape = resized.get("pos_embed").unwrap().shape().to_vec();
    assert_eq!(shape, [1, 6, 11, 11]);
    assert_eq!(logits(&target, Phase::Eval).shape().to_vec(), [3, 5]);
}
