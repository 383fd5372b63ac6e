#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::{BTreeMap, BTreeSet};

use burn::tensor::{Device, TensorData};
use kvt_attention::{AttentionConfig, Neighbors};
use kvt_ops::Key;

use super::*;
use crate::family::common::CommonConfig;
use crate::family::families::AnyBackbone;
use crate::network::Network;
use crate::testing::{build, count, images, logits};
use crate::weights::StateDict;

fn small() -> VoloConfig {
    VoloConfig {
        common: CommonConfig {
            in_chans: 2,
            num_classes: 5,
            mlp_ratio: 2.5,
            qkv_bias: false,
            ..CommonConfig::imagenet(24)
        },
        strides: [1, 4],
        stem_dim: 4,
        embed_dim: vec![6, 12, 12],
        depth: vec![1, 2, 2],
        num_heads: vec![2, 3, 4],
        attention: vec![AttentionConfig::dense(); 2],
        class_attention: AttentionConfig::dense(),
    }
}

#[test]
fn the_summary_counts_the_built_modules_parameters() {
    for qkv_bias in [false, true] {
        let config = VoloConfig {
            common: CommonConfig {
                qkv_bias,
                ..small().common
            },
            ..small()
        };
        let model = build(config.clone(), 1);
        let summary = config.summary();
        assert_eq!(summary.params, count(&model, &[""]));
        for stage in summary.stages {
            let own = format!("{}.", stage.name);
            let leading = match stage.name.as_str() {
                "network.2" => "network.1.",
                _ => &own,
            };
            assert_eq!(stage.params, count(&model, &[&own, leading]));
        }
    }
}

#[test]
fn parameters_have_timms_names_and_layout() {
    let model = build(small(), 1);
    let names: BTreeSet<String> = model.parameters().into_iter().map(|p| p.name).collect();
    let mut expected: BTreeSet<String> = ["cls_token", "pos_embed"].map(str::to_owned).into();
    let mut statistics = BTreeSet::new();
    for (conv, norm) in [(0, 1), (3, 4), (6, 7)] {
        expected.insert(format!("patch_embed.conv.{conv}.weight"));
        for part in ["weight", "bias"] {
            expected.insert(format!("patch_embed.conv.{norm}.{part}"));
        }
        for part in ["running_mean", "running_var"] {
            statistics.insert(format!("patch_embed.conv.{norm}.{part}"));
        }
    }
    let mut layer = |name: &str, bias: bool| {
        expected.insert(format!("{name}.weight"));
        if bias {
            expected.insert(format!("{name}.bias"));
        }
    };
    for name in [
        "patch_embed.proj",
        "network.1.proj",
        "norm",
        "head",
        "aux_head",
    ] {
        layer(name, true);
    }
    let blocks = [
        ("network.0.0", "v"),
        ("network.2.0", "qkv"),
        ("network.2.1", "qkv"),
        ("network.3.0", "qkv"),
        ("network.3.1", "qkv"),
        ("post_network.0", "kv"),
        ("post_network.1", "kv"),
    ];
    for (block, projection) in blocks {
        layer(&format!("{block}.attn.{projection}"), false);
        for name in ["norm1", "attn.proj", "norm2", "mlp.fc1", "mlp.fc2"] {
            layer(&format!("{block}.{name}"), true);
        }
        match projection {
            "v" => layer(&format!("{block}.attn.attn"), true),
            "kv" => layer(&format!("{block}.attn.q"), false),
            _ => {}
        }
    }
    assert_eq!(names, expected);

    let weights = StateDict::from_model(&model).unwrap();
    let saved: BTreeSet<String> = weights.iter().map(|(name, _)| name.to_owned()).collect();
    assert_eq!(saved, expected.union(&statistics).cloned().collect());
    let shape = |name: &str| weights.get(name).unwrap().shape().to_vec();
    assert_eq!(shape("patch_embed.conv.0.weight"), [4, 2, 7, 7]);
    assert_eq!(shape("patch_embed.conv.6.weight"), [4, 4, 3, 3]);
    assert_eq!(shape("patch_embed.proj.weight"), [6, 4, 4, 4]);
    assert_eq!(shape("network.0.0.attn.attn.weight"), [2 * 81, 6]);
    assert_eq!(shape("network.1.proj.weight"), [12, 6, 2, 2]);
    assert_eq!(shape("post_network.0.attn.kv.weight"), [24, 12]);
    assert_eq!(shape("pos_embed"), [1, 3, 3, 12]);
    assert_eq!(shape("aux_head.weight"), [5, 12]);
}

#[test]
fn what_timm_leaves_out_does_not_decay() {
    let model = build(small(), 1);
    for parameter in model.parameters() {
        let expected = parameter.name.ends_with(".weight") && parameter.shape.len() > 1;
        assert_eq!(model.decays(&parameter), expected, "{}", parameter.name);
    }
}

#[test]
fn weights_start_as_timms_do() {
    let config = VoloConfig {
        embed_dim: vec![48, 96, 96],
        stem_dim: 32,
        ..small()
    };
    let weights = StateDict::from_model(&build(config, 1)).unwrap();
    let values = |name: &str| weights.get(name).unwrap().try_to_vec::<f32>().unwrap();
    let deviation = |values: &[f32]| {
        let squares: f32 = values.iter().map(|x| x * x).sum();
        (squares / values.len() as f32).sqrt()
    };
    // Truncated normal, except convolutions: uniform below `1 / sqrt(fan_in)`.
    for (name, expected) in [
        ("network.0.0.attn.attn.weight", 0.02),
        ("post_network.1.attn.kv.weight", 0.02),
        ("aux_head.weight", 0.02),
        ("pos_embed", 0.02),
        ("cls_token", 0.02),
        ("patch_embed.conv.3.weight", 1.0 / (3.0f32 * 288.0).sqrt()),
        ("network.1.proj.weight", 1.0 / (3.0f32 * 192.0).sqrt()),
    ] {
        let found = deviation(&values(name));
        assert!((found / expected - 1.0).abs() < 0.25, "{name}: {found}");
    }
    for name in ["network.0.0.attn.attn.bias", "head.bias", "aux_head.bias"] {
        assert!(values(name).iter().all(|b| *b == 0.0), "{name}");
    }
    assert!(values("network.1.proj.bias").iter().any(|b| *b != 0.0));
}

/// Outlookers count for the rates of the blocks after them, but drop nothing, nor does the class token.
#[test]
fn drop_path_is_for_training_and_the_transformer_blocks() {
    let plain = build(small(), 1);
    let dropping = VoloConfig {
        common: CommonConfig {
            drop_path: 0.8,
            ..small().common
        },
        ..small()
    };
    let dropping = build(dropping, 1);
    let AnyBackbone::Volo(volo) = &dropping.backbone else {
        unreachable!()
    };
    let rates = |blocks: &[Block<MultiHeadAttention>]| -> Vec<f64> {
        blocks.iter().map(|block| block.drop_path).collect()
    };
    assert_eq!(volo.outlookers[0].drop_path, 0.0);
    let found: Vec<f64> = volo.stages.iter().flat_map(|s| rates(s)).collect();
    for (found, expected) in found.iter().zip([0.2, 0.4, 0.6, 0.8]) {
        assert!((found - expected).abs() < 1e-12, "{found}");
    }

    let train = |seed| Phase::Train(Key::new(seed));
    assert_eq!(logits(&dropping, Phase::Eval), logits(&plain, Phase::Eval));
    assert_ne!(logits(&dropping, train(1)), logits(&plain, train(1)));
    assert_eq!(logits(&dropping, train(1)), logits(&dropping, train(1)));
    assert_ne!(logits(&dropping, train(1)), logits(&dropping, train(2)));
}

/// By hand from the outputs: the class token's logits, and half of the maximum over the tokens, class by class.
#[test]
fn a_prediction_adds_half_of_the_largest_token() {
    let model = build(small(), 1);
    let heads = model.forward_heads(images(3, 24, &Device::flex()), Phase::Eval);
    let values = |data: TensorData| data.try_to_vec::<f32>().unwrap();
    let class = values(heads.class.to_data());
    let aux = heads.aux.clone().unwrap();
    assert_eq!(aux.dims(), [3, 9, 5]);
    let aux = values(aux.into_data());
    let found = values(heads.mean().into_data());
    for (i, found) in found.iter().enumerate() {
        let (image, of) = (i / 5, i % 5);
        let of_tokens = (0..9).map(|token| aux[(image * 9 + token) * 5 + of]);
        let largest = of_tokens.fold(f32::MIN, f32::max);
        assert!((found - class[i] - 0.5 * largest).abs() < 1e-6, "{i}");
    }
    assert_eq!(found, values(logits(&model, Phase::Eval)));
}

/// The tokens do not see the class token, so its attention changes only its own output.
#[test]
fn class_attention_is_of_the_class_token_alone() {
    let heads = |class_attention| {
        let config = VoloConfig {
            class_attention,
            ..small()
        };
        let heads = build(config, 1).forward_heads(images(3, 24, &Device::flex()), Phase::Eval);
        (heads.class.into_data(), heads.aux.unwrap().into_data())
    };
    let dense = heads(AttentionConfig::dense());
    let knn = heads(AttentionConfig::knn(Neighbors::count(2).unwrap()));
    assert_ne!(dense.0, knn.0);
    assert_eq!(dense.1, knn.1);
}

#[test]
fn weights_of_another_size_and_counters_are_taken() {
    let mut weights = StateDict::from_model(&build(small(), 1)).unwrap();
    let counter = "patch_embed.conv.1.num_batches_tracked";
    weights.insert(counter, TensorData::new(vec![7i64], [1]));
    let large = VoloConfig {
        common: CommonConfig {
            img_size: 40.into(),
            ..small().common
        },
        ..small()
    };
    let (large, report) = build(large, 2)
        .load(&weights, crate::weights::LoadOptions::default())
        .unwrap();
    assert!(report.fits(), "{report}");
    let state: BTreeMap<_, _> = StateDict::from_model(&large).unwrap().into_iter().collect();
    assert_eq!(state["pos_embed"].shape().to_vec(), [1, 5, 5, 12]);
}
