#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;

use burn::tensor::Device;
use kvt_attention::AttentionConfig;
use kvt_ops::Key;

use super::*;
use crate::family::common::CommonConfig;
use crate::network::Network;
use crate::testing::{build, count, logits};
use crate::weights::{Layout, LoadOptions, Outcome, StateDict};

fn small() -> VisformerConfig {
    VisformerConfig {
        common: CommonConfig {
            in_chans: 2,
            num_classes: 5,
            mlp_ratio: 2.5,
            qkv_bias: false,
            ..CommonConfig::imagenet(16)
        },
        init_channels: 6,
        strides: [2, 2, 1, 2],
        embed_dim: [8, 12, 16],
        depth: [2, 1, 2],
        num_heads: [3, 2],
        attention: [AttentionConfig::dense(), AttentionConfig::dense()],
    }
}

#[test]
fn the_summary_counts_the_built_modules_parameters() {
    for strides in [[2, 2, 1, 2], [0, 2, 1, 2]] {
        let config = VisformerConfig { strides, ..small() };
        let model = build(config.clone(), 1);
        let summary = config.summary();
        assert_eq!(summary.params, count(&model, &[""]));
        for (i, stage) in (1..).zip(summary.stages) {
            let modules = ["stage", "patch_embed", "pos_embed"].map(|name| format!("{name}{i}"));
            let params = count(&model, &modules.each_ref().map(String::as_str));
            assert_eq!(stage.params, params, "{}", stage.name);
        }
    }
}

#[test]
fn parameters_have_timms_names_and_layout() {
    let weights = StateDict::from_model(&build(small(), 1)).unwrap();
    let names: BTreeSet<String> = weights.iter().map(|(name, _)| name.to_owned()).collect();
    let mut expected: BTreeSet<String> = [
        "pos_embed1",
        "pos_embed2",
        "pos_embed3",
        "stem.0.weight",
        "head.weight",
        "head.bias",
    ]
    .map(str::to_owned)
    .into();
    let mut norm = |name: &str| {
        for part in ["weight", "bias", "running_mean", "running_var"] {
            expected.insert(format!("{name}.{part}"));
        }
    };
    for name in [
        "stem.1",
        "patch_embed1.norm",
        "patch_embed2.norm",
        "patch_embed3.norm",
        "norm",
    ] {
        norm(name);
    }
    for block in ["stage1.0", "stage1.1", "stage2.0", "stage3.0", "stage3.1"] {
        norm(&format!("{block}.norm2"));
        if !block.starts_with("stage1") {
            norm(&format!("{block}.norm1"));
        }
    }
    for stage in 1..=3 {
        for part in ["weight", "bias"] {
            expected.insert(format!("patch_embed{stage}.proj.{part}"));
        }
    }
    for block in ["stage1.0", "stage1.1"] {
        for conv in ["conv1", "conv2", "conv3"] {
            expected.insert(format!("{block}.mlp.{conv}.weight"));
        }
    }
    for block in ["stage2.0", "stage3.0", "stage3.1"] {
        for conv in ["attn.qkv", "attn.proj", "mlp.conv1", "mlp.conv3"] {
            expected.insert(format!("{block}.{conv}.weight"));
        }
    }
    assert_eq!(names, expected);

    let shape = |name: &str| weights.get(name).unwrap().shape().to_vec();
    assert_eq!(shape("pos_embed1"), [1, 8, 4, 4]);
    assert_eq!(shape("pos_embed3"), [1, 16, 2, 2]);
    assert_eq!(shape("stem.0.weight"), [6, 2, 7, 7]);
    assert_eq!(shape("patch_embed1.proj.weight"), [8, 6, 2, 2]);
    assert_eq!(shape("stage1.0.mlp.conv2.weight"), [16, 2, 3, 3]);
    assert_eq!(shape("stage2.0.attn.qkv.weight"), [36, 12, 1, 1]);
    assert_eq!(shape("stage2.0.mlp.conv1.weight"), [30, 12, 1, 1]);
}

/// The original has no list of exclusions.
#[test]
fn positions_decay() {
    let model = build(small(), 1);
    for parameter in model.parameters() {
        let expected = parameter.shape.len() > 1;
        assert_eq!(model.decays(&parameter), expected, "{}", parameter.name);
    }
}

/// Kaiming's normal initialisation by fan-out, which is not divided by the groups of a convolution.
#[test]
fn convolutions_start_as_in_the_original() {
    let wide = VisformerConfig {
        embed_dim: [64, 96, 128],
        ..small()
    };
    let weights = StateDict::from_model(&build(wide, 1)).unwrap();
    for (name, fan_out) in [
        ("stage1.0.mlp.conv2.weight", 128 * 9),
        ("stage2.0.attn.qkv.weight", 3 * 96),
        ("patch_embed2.proj.weight", 96),
        ("patch_embed3.proj.weight", 128 * 4),
    ] {
        let values = weights.get(name).unwrap().try_to_vec::<f32>().unwrap();
        let squares: f32 = values.iter().map(|value| value.powi(2)).sum();
        let found = (squares / values.len() as f32).sqrt();
        let expected = (2.0 / fan_out as f32).sqrt();
        assert!(
            (found / expected - 1.0).abs() < 0.05,
            "{name}: {found} for {expected}"
        );
    }
    let bias = weights.get("patch_embed3.proj.bias").unwrap();
    assert!(bias.try_to_vec::<f32>().unwrap().iter().all(|x| *x == 0.0));
}

#[test]
fn the_originals_names_are_understood() {
    let source = build(small(), 1);
    let weights = StateDict::from_model(&source).unwrap();
    assert_eq!(source.layout(&weights), Layout::Timm);
    let official = source.rename(&weights, Layout::Official);
    assert_eq!(source.layout(&official), Layout::Official);
    for name in [
        "stem.0.weight",
        "stem.1.bn.running_mean",
        "patch_embed2.norm.bn.bias",
        "patch_embed2.proj.bias",
        "stage1.1.norm2.bn.weight",
        "stage2.0.norm1.bn.running_var",
        "norm.bn.weight",
        "head.bias",
    ] {
        assert!(official.get(name).is_some(), "{name}");
    }
    assert_eq!(source.rename(&official, Layout::Timm), weights);

    let options = LoadOptions::default();
    let (target, report) = build(small(), 2).load(&official, options).unwrap();
    assert_eq!(report.names(Outcome::Matched).count(), report.rows.len());
    assert_eq!(StateDict::from_model(&target).unwrap(), weights);
}

#[test]
fn positions_of_another_image_size_are_resized() {
    let source = build(small(), 1);
    let weights = StateDict::from_model(&source).unwrap();
    let larger = VisformerConfig {
        common: CommonConfig {
            img_size: 24.into(),
            ..small().common
        },
        ..small()
    };
    let (target, report) = build(larger, 2)
        .load(&weights, LoadOptions::default())
        .unwrap();
    let resized: BTreeSet<&str> = report.names(Outcome::Resized).collect();
    assert_eq!(resized, ["pos_embed1", "pos_embed2", "pos_embed3"].into());
    let resized = StateDict::from_model(&target).unwrap();
    assert_eq!(
        resized.get("pos_embed3").unwrap().shape().to_vec(),
        [1, 16, 3, 3]
    );
    assert_eq!(logits(&target, Phase::Eval).shape().to_vec(), [3, 5]);
}

#[test]
fn running_statistics_are_state_but_no_parameters() {
    let model = build(small(), 1);
    let names = model.parameters().into_iter().map(|p| p.name);
    assert!(names.into_iter().all(|name| !name.contains("running_")));
    let before = StateDict::from_model(&model).unwrap();
    logits(&model, Phase::Eval);
    assert_eq!(StateDict::from_model(&model).unwrap(), before);
    logits(&model, Phase::Train(Key::new(1)));
    let after = StateDict::from_model(&model).unwrap();
    let moved = before
        .iter()
        .filter(|(name, data)| after.get(name) != Some(*data));
    let moved: Vec<&str> = moved.map(|(name, _)| name).collect();
    // Mean and variance of each of 13 norms.
    assert_eq!(moved.len(), 26, "{moved:?}");
    assert!(moved.iter().all(|name| name.contains(".running_")));
}

/// Requested blocks do not change the running statistics.
#[test]
fn blocks_are_given_by_the_norm_of_the_last() {
    let ask = Ask {
        blocks: 2,
        ..Ask::default()
    };
    let images = || Tensor::<4>::ones([2, 2, 16, 16], &Device::flex());
    let run = |ask| {
        let model = build(small(), 1);
        let features = model
            .backbone
            .features(images(), ask, Phase::Train(Key::new(1)));
        (features, StateDict::from_model(&model).unwrap())
    };
    let (asked, state) = run(&ask);
    let (plain, expected) = run(&Ask::default());
    assert_eq!(state, expected);
    assert_eq!(asked.blocks.len(), 2);
    let tokens = plain.tokens.into_data();
    assert_eq!(asked.blocks[1].to_data(), tokens);
    assert_eq!(asked.tokens.into_data(), tokens);
}
