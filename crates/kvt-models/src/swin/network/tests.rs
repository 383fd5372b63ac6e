#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;

use burn::tensor::{Device, TensorData};
use kvt_attention::{AttentionConfig, Neighbors};
use kvt_ops::Key;

use super::super::table;
use super::*;
use crate::family::common::CommonConfig;
use crate::family::families::ModelConfig;
use crate::family::stages::StagesConfig;
use crate::model::Model;
use crate::network::Network;
use crate::weights::{Layout, LoadOptions, Outcome, StateDict};

/// Maps of 8 x 8 tokens in four windows, and of 4 x 4 in one.
fn small() -> SwinConfig {
    SwinConfig {
        common: CommonConfig {
            in_chans: 2,
            num_classes: 5,
            mlp_ratio: 2.5,
            ..CommonConfig::imagenet(16)
        },
        patch_size: 2,
        embed_dim: 6,
        window_size: 4,
        stages: StagesConfig {
            depth: vec![2, 1],
            num_heads: vec![1, 2],
            attention: vec![AttentionConfig::dense(); 2],
        },
    }
}

fn build(config: SwinConfig, device: &Device, seed: u64) -> Model {
    let config = ModelConfig::Swin(config);
    config.init(device, Key::new(seed)).unwrap()
}

fn images(device: &Device) -> Tensor<4> {
    let pixels: Vec<f32> = (0..3 * 2 * 256)
        .map(|i| (i * 29 % 97) as f32 / 48.0 - 1.0)
        .collect();
    Tensor::from_data(TensorData::new(pixels, [3, 2, 16, 16]), device)
}

#[test]
fn the_summary_counts_the_built_modules_parameters() {
    let no_bias = SwinConfig {
        common: CommonConfig {
            qkv_bias: false,
            ..small().common
        },
        ..small()
    };
    let padded = SwinConfig {
        common: CommonConfig {
            img_size: 20.into(),
            ..small().common
        },
        stages: StagesConfig {
            depth: vec![2, 2, 1],
            num_heads: vec![1, 2, 2],
            attention: vec![AttentionConfig::dense(); 3],
        },
        ..small()
    };
    let one_window = SwinConfig {
        window_size: 20,
        ..small()
    };
    for config in [small(), no_bias, padded, one_window] {
        let model = build(config.clone(), &Device::flex(), 1);
        assert_eq!(config.summary().params, model.num_params());
    }
}

#[test]
fn parameters_have_timms_names_and_layout() {
    let model = build(small(), &Device::flex(), 1);
    let names: BTreeSet<String> = model.parameters().into_iter().map(|p| p.name).collect();
    let mut expected: BTreeSet<String> = [
        "patch_embed.proj.weight",
        "patch_embed.proj.bias",
        "patch_embed.norm.weight",
        "patch_embed.norm.bias",
        "layers.1.downsample.norm.weight",
        "layers.1.downsample.norm.bias",
        "layers.1.downsample.reduction.weight",
        "norm.weight",
        "norm.bias",
        "head.fc.weight",
        "head.fc.bias",
    ]
    .map(str::to_owned)
    .into();
    for (stage, block) in [(0, 0), (0, 1), (1, 0)] {
        let block = format!("layers.{stage}.blocks.{block}");
        expected.insert(format!("{block}.attn.relative_position_bias_table"));
        for layer in [
            "norm1",
            "attn.qkv",
            "attn.proj",
            "norm2",
            "mlp.fc1",
            "mlp.fc2",
        ] {
            expected.insert(format!("{block}.{layer}.weight"));
            expected.insert(format!("{block}.{layer}.bias"));
        }
    }
    assert_eq!(names, expected);

    let weights = StateDict::from_model(&model).unwrap();
    assert_eq!(weights.len(), expected.len());
    let shape = |name: &str| weights.get(name).unwrap().shape().to_vec();
    assert_eq!(shape("patch_embed.proj.weight"), [6, 2, 2, 2]);
    assert_eq!(shape("layers.0.blocks.1.attn.qkv.weight"), [18, 6]);
    assert_eq!(shape("layers.1.downsample.reduction.weight"), [12, 24]);
    assert_eq!(
        shape("layers.1.blocks.0.attn.relative_position_bias_table"),
        [49, 2]
    );
    assert_eq!(shape("head.fc.weight"), [5, 12]);
}

#[test]
fn tables_of_relative_positions_do_not_decay() {
    let model = build(small(), &Device::flex(), 1);
    for parameter in model.parameters() {
        let weight = parameter.name.ends_with(".weight") && !parameter.name.contains("norm");
        assert_eq!(model.decays(&parameter), weight, "{}", parameter.name);
    }
}

#[test]
fn patches_are_merged_column_by_column() {
    // Odd, so that the last row and column meet zeros; two channels per token.
    let map: Vec<f32> = (0..9).flat_map(|i| [i as f32, 10.0 + i as f32]).collect();
    let map = Tensor::from_data(TensorData::new(map, [1, 3, 3, 2]), &Device::flex());
    let merged = merge(map);
    assert_eq!(merged.dims(), [1, 2, 2, 8]);
    // The map is 0 1 2 / 3 4 5 / 6 7 8.
    let expected = [
        [0.0, 10.0, 3.0, 13.0, 1.0, 11.0, 4.0, 14.0],
        [2.0, 12.0, 5.0, 15.0, 0.0, 0.0, 0.0, 0.0],
        [6.0, 16.0, 0.0, 0.0, 7.0, 17.0, 0.0, 0.0],
        [8.0, 18.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
    ];
    assert_eq!(
        merged.into_data().try_to_vec::<f32>().unwrap(),
        expected.concat()
    );
}

#[test]
fn dropout_and_drop_path_change_training_only() {
    let device = Device::flex();
    let plain = build(small(), &device, 1);
    let run = |model: &Model, phase| model.forward(images(&device), phase).into_data();
    let train = |seed| Phase::Train(Key::new(seed));
    let expected = run(&plain, Phase::Eval);
    assert_eq!(run(&plain, train(1)), expected);
    let drop_path = SwinConfig {
        common: CommonConfig {
            drop_path: 0.9,
            ..small().common
        },
        ..small()
    };
    let attn_drop = SwinConfig {
        common: CommonConfig {
            attn_drop: 0.5,
            ..small().common
        },
        ..small()
    };
    for config in [drop_path, attn_drop] {
        let dropping = build(config, &device, 1);
        assert_eq!(run(&dropping, Phase::Eval), expected);
        assert_ne!(run(&dropping, train(1)), expected);
        assert_eq!(run(&dropping, train(1)), run(&dropping, train(1)));
        assert_ne!(run(&dropping, train(1)), run(&dropping, train(2)));
    }
}

#[test]
fn a_trained_model_evaluates_without_autodiff() {
    // The mask and the index follow a model from device to device.
    let training = build(small(), &Device::flex().autodiff(), 1);
    let plain = build(small(), &Device::flex(), 1);
    let evaluated = training.valid();
    assert_eq!(
        evaluated
            .forward(images(&Device::flex()), Phase::Eval)
            .into_data(),
        plain
            .forward(images(&Device::flex()), Phase::Eval)
            .into_data()
    );
}

#[test]
fn every_stage_has_its_own_attention() {
    let device = Device::flex();
    let run = |neighbors: [Neighbors; 2]| {
        let config = SwinConfig {
            stages: StagesConfig {
                attention: neighbors.map(AttentionConfig::knn).to_vec(),
                ..small().stages
            },
            ..small()
        };
        let model = build(config, &device, 1);
        model.forward(images(&device), Phase::Eval).into_data()
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

#[test]
fn weights_load_under_the_originals_names() {
    let device = Device::flex();
    let source = build(small(), &device, 1);
    let timm = StateDict::from_model(&source).unwrap();
    assert_eq!(source.layout(&timm), Layout::Timm);
    let mut official = source.rename(&timm, Layout::Official);
    assert_eq!(source.layout(&official), Layout::Official);
    assert!(official.get("layers.0.downsample.norm.bias").is_some());
    assert!(official.get("head.weight").is_some());
    assert_eq!(source.rename(&official, Layout::Timm), timm);

    // The original saves tables that a model computes itself.
    let index = TensorData::zeros::<i64, _>([16, 16]);
    official.insert("layers.0.blocks.0.attn.relative_position_index", index);
    let target = build(small(), &device, 2);
    let (target, report) = target.load(&official, LoadOptions::default()).unwrap();
    assert_eq!(StateDict::from_model(&target).unwrap(), timm);
    assert_eq!(report.names(Outcome::Computed).count(), 1);
    assert_eq!(report.names(Outcome::Matched).count(), timm.len());
    assert_eq!(report.rows.len(), timm.len() + 1);
}

#[test]
fn tables_follow_the_window_size() {
    let device = Device::flex();
    let weights = StateDict::from_model(&build(small(), &device, 1)).unwrap();
    let larger = SwinConfig {
        common: CommonConfig {
            img_size: 24.into(),
            ..small().common
        },
        window_size: 6,
        ..small()
    };
    let (model, report) = build(larger, &device, 2)
        .load(&weights, LoadOptions::default())
        .unwrap();
    assert_eq!(report.names(Outcome::Resized).count(), 3);
    assert_eq!(report.names(Outcome::Matched).count(), weights.len() - 3);
    let name = "layers.0.blocks.1.attn.relative_position_bias_table";
    let resized = StateDict::from_model(&model).unwrap();
    let expected = table::resample(weights.get(name).unwrap(), 11).unwrap();
    assert_eq!(resized.get(name), Some(&expected));
}
