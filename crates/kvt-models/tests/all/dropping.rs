//! What training drops of the attention.

use std::num::NonZeroUsize;

use burn::tensor::{Device, Tensor, TensorData};
use kvt_attention::{AttentionConfig, Implementation, KnnConfig, Neighbors};
use kvt_models::{Model, ModelConfig, ModelOverrides};
use kvt_ops::{Key, Phase};

const SIDE: usize = 16;

fn small(overrides: ModelOverrides) -> ModelOverrides {
    ModelOverrides {
        img_size: Some(SIDE),
        num_classes: Some(3),
        ..overrides
    }
}

/// The smallest of each family.
fn families() -> [(&'static str, ModelOverrides); 4] {
    let one = ModelOverrides {
        patch_size: Some(4),
        embed_dim: vec![12],
        depth: vec![1],
        num_heads: vec![2],
        ..ModelOverrides::default()
    };
    let two = ModelOverrides {
        embed_dim: vec![4, 8],
        depth: vec![1, 1],
        num_heads: vec![1, 2],
        ..ModelOverrides::default()
    };
    [
        ("deit_tiny_patch16_224", one),
        (
            "swin_tiny_patch4_window7_224",
            ModelOverrides {
                patch_size: Some(2),
                window_size: Some(4),
                embed_dim: vec![4],
                ..two.clone()
            },
        ),
        (
            "pit_s_224",
            ModelOverrides {
                patch_size: Some(4),
                patch_stride: Some(4),
                ..two.clone()
            },
        ),
        (
            "cvt_13",
            ModelOverrides {
                patch_stride: Some(4),
                ..two
            },
        ),
    ]
}

fn build(name: &str, overrides: &ModelOverrides) -> Model {
    let config = ModelConfig::by_name(name).unwrap();
    let config = config.with(overrides).unwrap();
    config.init(&Device::flex(), Key::new(1)).unwrap()
}

fn logits(model: &Model, phase: Phase) -> Vec<f32> {
    let pixels: Vec<f32> = (0..2 * 3 * SIDE * SIDE)
        .map(|i| (i * 29 % 97) as f32 / 48.0 - 1.0)
        .collect();
    let images = TensorData::new(pixels, [2, 3, SIDE, SIDE]);
    let images = Tensor::from_data(images, &Device::flex());
    let logits = model.forward(images, phase).into_data();
    logits.try_to_vec().unwrap()
}

fn train(key: u64) -> Phase {
    Phase::Train(Key::new(key))
}

#[test]
fn attention_dropout_follows_the_key_and_spares_evaluation() {
    let by = |implementation| {
        AttentionConfig::Knn(KnnConfig {
            implementation,
            ..KnnConfig::new(Neighbors::Count(NonZeroUsize::new(3).unwrap()))
        })
    };
    for (name, overrides) in families() {
        for attention in [
            AttentionConfig::dense(),
            by(Implementation::Auto),
            by(Implementation::Masked),
            by(Implementation::Gathered),
        ] {
            let model = |attn_drop| {
                let overrides = ModelOverrides {
                    attn_drop: Some(attn_drop),
                    attention: vec![attention.clone()],
                    ..small(overrides.clone())
                };
                build(name, &overrides)
            };
            let (plain, dropping) = (model(0.0), model(0.5));
            let what = format!("{name}, {attention:?}");
            assert_eq!(
                logits(&plain, Phase::Eval),
                logits(&dropping, Phase::Eval),
                "{what}"
            );
            assert_eq!(logits(&plain, train(1)), logits(&plain, train(2)), "{what}");
            let dropped = logits(&dropping, train(1));
            assert_ne!(dropped, logits(&plain, train(1)), "{what}");
            assert_ne!(dropped, logits(&dropping, train(2)), "{what}");
            assert_eq!(dropped, logits(&dropping, train(1)), "{what}");
        }
    }
}
