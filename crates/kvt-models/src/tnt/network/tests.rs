#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;

use burn::module::Module as _;
use burn::tensor::{Device, TensorData};
use kvt_attention::AttentionConfig;
use kvt_ops::Key;

use super::*;
use crate::family::FamilyConfig as _;
use crate::family::common::CommonConfig;
use crate::family::families::ModelConfig;
use crate::layers::drop_path;
use crate::network::Network;
use crate::testing::{build, images, logits};
use crate::weights::{Layout, LoadOptions, Outcome, StateDict, identify};

fn small(legacy: bool) -> TntConfig {
    TntConfig {
        common: CommonConfig {
            in_chans: 2,
            num_classes: 5,
            mlp_ratio: 2.5,
            qkv_bias: false,
            ..CommonConfig::imagenet(16)
        },
        patch_size: 8,
        embed_dim: 12,
        depth: 2,
        num_heads: 3,
        inner_dim: 6,
        inner_num_heads: 2,
        inner_stride: 4,
        legacy,
        attention: [AttentionConfig::dense(), AttentionConfig::dense()],
    }
}

#[test]
fn the_summary_counts_the_built_modules_parameters() {
    for legacy in [false, true] {
        for qkv_bias in [false, true] {
            let config = TntConfig {
                common: CommonConfig {
                    qkv_bias,
                    ..small(legacy).common
                },
                ..small(legacy)
            };
            let model = build(config.clone(), 1);
            let summary = config.summary();
            assert_eq!(summary.params, model.num_params());
            let inner = ["norm_in", "attn_in", "norm_mlp_in", "mlp_in"];
            let mut counted = [0, 0];
            for parameter in model.parameters() {
                let mut parts = parameter.name.split('.');
                if parts.next() == Some("blocks") {
                    let part = parts.nth(1).unwrap();
                    let stage = usize::from(!inner.contains(&part));
                    counted[stage] += parameter.shape.iter().product::<usize>();
                }
            }
            let params: Vec<usize> = summary.stages.iter().map(|stage| stage.params).collect();
            assert_eq!(params, counted);
        }
    }
}

#[test]
fn parameters_have_timms_names_and_layout() {
    for legacy in [false, true] {
        let model = build(small(legacy), 1);
        let names: BTreeSet<String> = model.parameters().into_iter().map(|p| p.name).collect();
        let mut expected: BTreeSet<String> = ["cls_token", "patch_pos", "pixel_pos"]
            .map(str::to_owned)
            .into();
        let mut layer = |name: &str, bias: bool| {
            expected.insert(format!("{name}.weight"));
            if bias {
                expected.insert(format!("{name}.bias"));
            }
        };
        for name in [
            "pixel_embed.proj",
            "norm1_proj",
            "proj",
            "norm2_proj",
            "norm",
            "head",
        ] {
            layer(name, true);
        }
        for block in ["blocks.0", "blocks.1"] {
            for name in [
                "norm_in",
                "attn_in.proj",
                "norm_mlp_in",
                "mlp_in.fc1",
                "mlp_in.fc2",
                "norm1_proj",
                "norm_out",
                "attn_out.proj",
                "norm_mlp",
                "mlp.fc1",
                "mlp.fc2",
            ] {
                layer(&format!("{block}.{name}"), true);
            }
            for name in ["attn_in.qk", "attn_in.v", "attn_out.qk", "attn_out.v"] {
                layer(&format!("{block}.{name}"), false);
            }
            layer(&format!("{block}.proj"), legacy);
            if !legacy {
                layer(&format!("{block}.norm2_proj"), true);
            }
        }
        assert_eq!(names, expected);

        let weights = StateDict::from_model(&model).unwrap();
        let shape = |name: &str| weights.get(name).unwrap().shape().to_vec();
        assert_eq!(shape("patch_pos"), [1, 5, 12]);
        assert_eq!(shape("pixel_pos"), [1, 6, 2, 2]);
        assert_eq!(shape("pixel_embed.proj.weight"), [6, 2, 7, 7]);
        assert_eq!(shape("blocks.1.attn_in.qk.weight"), [12, 6]);
        assert_eq!(shape("blocks.1.mlp_in.fc1.weight"), [24, 6]);
        assert_eq!(shape("blocks.1.mlp.fc1.weight"), [30, 12]);
        assert_eq!(shape("blocks.1.proj.weight"), [12, 24]);
        let normed = if legacy { 6 } else { 24 };
        assert_eq!(shape("blocks.1.norm1_proj.bias"), [normed]);
    }
}

#[test]
fn tokens_and_positions_do_not_decay() {
    let model = build(small(false), 1);
    let parameters = model.parameters().into_iter();
    let kept: BTreeSet<String> = parameters
        .filter(|parameter| parameter.shape.len() > 1 && !model.decays(parameter))
        .map(|parameter| parameter.name)
        .collect();
    let expected = ["cls_token", "patch_pos", "pixel_pos"].map(str::to_owned);
    assert_eq!(kept, expected.into());
}

#[test]
fn the_originals_names_are_understood() {
    let source = build(small(false), 1);
    let weights = StateDict::from_model(&source).unwrap();
    assert_eq!(source.layout(&weights), Layout::Timm);
    let mut official = source.rename(&weights, Layout::Official);
    for name in [
        "outer_pos",
        "patch_embed.proj.bias",
        "proj_norm1.weight",
        "blocks.0.inner_norm1.bias",
        "blocks.0.inner_attn.qk.weight",
        "blocks.0.inner_norm2.weight",
        "blocks.1.inner_mlp.fc1.weight",
        "blocks.1.proj_norm2.weight",
        "blocks.1.outer_norm1.weight",
        "blocks.1.outer_attn.v.weight",
        "blocks.1.outer_norm2.weight",
        "blocks.1.outer_mlp.fc2.bias",
        "head.weight",
    ] {
        assert!(official.get(name).is_some(), "{name}");
    }
    assert_eq!(source.rename(&official, Layout::Timm), weights);

    // Positions of pixels are tokens there: by hand, channel 5 of the pixel in row 1, column 0.
    let positions = official.get("inner_pos").unwrap();
    assert_eq!(positions.shape().to_vec(), [1, 4, 6]);
    let timm = weights
        .get("pixel_pos")
        .unwrap()
        .try_to_vec::<f32>()
        .unwrap();
    assert_eq!(
        positions.try_to_vec::<f32>().unwrap()[2 * 6 + 5],
        timm[5 * 4 + 2]
    );

    official.insert("outer_tokens", TensorData::zeros::<f32, _>([1, 4, 12]));
    assert_eq!(source.layout(&official), Layout::Official);
    let options = LoadOptions::default();
    let (target, report) = build(small(false), 2).load(&official, options).unwrap();
    let computed: Vec<&str> = report.names(Outcome::Computed).collect();
    assert_eq!(computed, ["outer_tokens"]);
    assert_eq!(StateDict::from_model(&target).unwrap(), weights);
}

/// The original's `outer_tokens` do not count.
#[test]
fn numbers_tell_the_model() {
    for name in ["tnt_s_patch16_224", "tnt_s_legacy_patch16_224"] {
        let config = ModelConfig::by_name(name).unwrap();
        let model = config.init(&Device::flex(), Key::new(1)).unwrap();
        let mut weights = model.rename(&StateDict::from_model(&model).unwrap(), Layout::Official);
        weights.insert("outer_tokens", TensorData::zeros::<f32, _>([1, 196, 384]));
        assert_eq!(identify(&weights).unwrap(), [name]);
    }
}

#[test]
fn positions_of_another_image_size_are_resized() {
    let source = build(small(false), 1);
    let weights = StateDict::from_model(&source).unwrap();
    let larger = TntConfig {
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
    assert_eq!(resized, ["patch_pos"]);
    let resized = StateDict::from_model(&target).unwrap();
    assert_eq!(
        resized.get("patch_pos").unwrap().shape().to_vec(),
        [1, 10, 12]
    );
    assert_eq!(logits(&target, Phase::Eval).shape().to_vec(), [3, 5]);
}

/// The pixels of a patch do not depend on its neighbours, except in a legacy model.
#[test]
fn a_patch_is_convolved_alone() {
    for legacy in [false, true] {
        let config = small(legacy);
        let device = Device::flex();
        let tnt = Tnt::new(&config, &Init::new(&device, Key::new(1)));
        let pixels = |images| {
            let pixels = tnt.pixel_embed.forward(images, tnt.pixel_pos.val());
            assert_eq!(pixels.dims(), [4, 4, 6]);
            let patches = pixels.chunk(4, 0).into_iter();
            patches.map(Tensor::into_data).collect::<Vec<_>>()
        };
        let image = images(1, 16, &device);
        let before = pixels(image.clone());
        // The top left patch: kernels of the others, which begin 3 pixels before them, reach into it.
        let zeros = Tensor::zeros([1, 2, 8, 8], &Device::flex());
        let after = pixels(image.slice_assign([0..1, 0..2, 0..8, 0..8], zeros));
        let changed: Vec<bool> = before.iter().zip(&after).map(|(b, a)| b != a).collect();
        assert_eq!(changed, [true, legacy, legacy, legacy]);
    }
}

/// The inner branches of single patches are dropped, not those of whole images.
#[test]
fn drop_path_draws_for_every_patch() {
    let config = TntConfig {
        common: CommonConfig {
            drop_path: 0.5,
            ..small(false).common
        },
        ..small(false)
    };
    let device = Device::flex();
    let tnt = Tnt::new(&config, &Init::new(&device, Key::new(1)));
    let key = Key::new(5);
    let phase = Phase::Train(key);
    let mask = drop_path(0.5, phase.named("drop_path1"), 40, &Device::flex()).unwrap();
    let input = images(15, 8, &device).reshape([80, 4, 6]).narrow(0, 0, 40);
    let pass = Ask::default().pass(INNER, [2, 2], phase);
    let evaluated = Pass {
        phase: Phase::Eval,
        ..pass
    };
    // The patches that do not change.
    let unchanged = |pass| {
        let output = tnt.blocks[1].inner.forward(input.clone(), pass);
        let pairs = input
            .clone()
            .chunk(40, 0)
            .into_iter()
            .zip(output.chunk(40, 0));
        let equal = pairs.map(|(before, after)| before.into_data() == after.into_data());
        equal.collect::<Vec<bool>>()
    };
    assert_eq!(unchanged(evaluated), [false; 40]);
    let unchanged = unchanged(pass);
    assert!(unchanged.contains(&true) && unchanged.contains(&false));
    let kept = mask.into_data().try_to_vec::<f32>().unwrap();
    for (unchanged, kept) in unchanged.into_iter().zip(kept) {
        assert!(!unchanged || kept == 0.0);
    }
}
