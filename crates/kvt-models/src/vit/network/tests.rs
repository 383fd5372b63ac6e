#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;

use burn::tensor::{Device, TensorData};
use kvt_attention::{AttentionConfig, Place};
use kvt_ops::Key;

use super::*;
use crate::error::ModelError;
use crate::family::FamilyConfig as _;
use crate::family::common::CommonConfig;
use crate::family::families::ModelConfig;
use crate::model::Model;
use crate::network::Network;
use crate::vit::VitOptions;

fn small(distilled: bool) -> VitConfig {
    VitConfig {
        common: CommonConfig {
            in_chans: 2,
            num_classes: 5,
            mlp_ratio: 2.5,
            ..CommonConfig::imagenet(16)
        },
        patch_size: 4,
        embed_dim: 12,
        depth: 3,
        num_heads: 3,
        distilled,
        options: VitOptions::DEIT,
        attention: AttentionConfig::dense(),
    }
}

fn build(config: VitConfig, device: &Device) -> Model {
    ModelConfig::Vit(config).init(device, Key::new(1)).unwrap()
}

fn images(device: &Device) -> Tensor<4> {
    let pixels: Vec<f32> = (0..3 * 2 * 256)
        .map(|i| (i * 29 % 97) as f32 / 48.0 - 1.0)
        .collect();
    Tensor::from_data(TensorData::new(pixels, [3, 2, 16, 16]), device)
}

#[test]
fn the_summary_counts_the_built_modules_parameters() {
    for distilled in [false, true] {
        for qkv_bias in [false, true] {
            let config = VitConfig {
                common: CommonConfig {
                    qkv_bias,
                    ..small(distilled).common
                },
                ..small(distilled)
            };
            let model = build(config.clone(), &Device::flex());
            assert_eq!(config.summary().params, model.num_params());
        }
    }
}

#[test]
fn parameters_have_timms_names_and_layout() {
    let model = build(small(true), &Device::flex());
    let names: BTreeSet<String> = model.parameters().into_iter().map(|p| p.name).collect();
    let mut expected: BTreeSet<String> = [
        "cls_token",
        "dist_token",
        "pos_embed",
        "patch_embed.proj.weight",
        "patch_embed.proj.bias",
        "norm.weight",
        "norm.bias",
        "head.weight",
        "head.bias",
        "head_dist.weight",
        "head_dist.bias",
    ]
    .map(str::to_owned)
    .into();
    for block in 0..3 {
        for layer in [
            "norm1",
            "attn.qkv",
            "attn.proj",
            "norm2",
            "mlp.fc1",
            "mlp.fc2",
        ] {
            expected.insert(format!("blocks.{block}.{layer}.weight"));
            expected.insert(format!("blocks.{block}.{layer}.bias"));
        }
    }
    assert_eq!(names, expected);

    let shape = |name: &str| {
        let parameters = model.parameters();
        parameters
            .into_iter()
            .find(|p| p.name == name)
            .unwrap()
            .shape
    };
    assert_eq!(shape("blocks.0.attn.qkv.weight"), [36, 12]);
    assert_eq!(shape("blocks.2.mlp.fc1.weight"), [30, 12]);
    assert_eq!(shape("head.weight"), [5, 12]);
    assert_eq!(shape("pos_embed"), [1, 18, 12]);
    assert_eq!(shape("patch_embed.proj.weight"), [12, 2, 4, 4]);
}

#[test]
fn parameters_carry_the_ids_of_their_gradients() {
    let model = build(small(false), &Device::flex().autodiff());
    let ids: BTreeSet<u64> = model.parameters().into_iter().map(|p| p.id.val()).collect();
    let of_module: BTreeSet<u64> = burn::module::list_param_ids(&model)
        .into_iter()
        .map(|id| id.val())
        .collect();
    assert_eq!(ids, of_module);
}

#[test]
fn a_distilled_model_predicts_the_mean_of_its_heads() {
    let device = Device::flex();
    let model = build(small(true), &device);
    let heads = model.forward_heads(images(&device), Phase::Eval);
    let class = heads.class.into_data().try_to_vec::<f32>().unwrap();
    let distillation = heads
        .distillation
        .unwrap()
        .into_data()
        .try_to_vec::<f32>()
        .unwrap();
    assert_ne!(class, distillation);
    let mean = model.forward(images(&device), Phase::Eval);
    assert_eq!(mean.dims(), [3, 5]);
    let mean = mean.into_data().try_to_vec::<f32>().unwrap();
    for ((mean, class), distillation) in mean.iter().zip(class).zip(distillation) {
        assert!((mean - (class + distillation) / 2.0).abs() < 1e-6);
    }
}

#[test]
fn images_of_another_shape_are_refused() {
    let model = build(small(false), &Device::flex());
    assert_eq!(model.check_input([7, 2, 16, 16]), Ok(()));
    for dims in [[7, 3, 16, 16], [7, 2, 16, 20], [7, 2, 8, 8]] {
        assert_eq!(
            model.check_input(dims),
            Err(ModelError::InputShape {
                found: dims,
                in_chans: 2,
                img_size: 16.into()
            })
        );
    }
}

#[test]
fn attention_knows_where_it_stands() {
    for (distilled, tokens) in [(false, 17), (true, 18)] {
        let mut config = small(distilled);
        config.common.attn_drop = 0.25;
        let place = Place {
            queries: tokens,
            keys: tokens,
            heads: 3,
            head_dim: 4,
            prefix: tokens - 16,
            grid: Some([4, 4]),
            bias: false,
            mask: false,
            dropout: 0.25,
            softmax_only: None,
        };
        assert_eq!(config.blocks().place, place);
    }
}
