//! Dropout of attention weights, and drop path of the branches.

use std::num::NonZeroUsize;

use burn::tensor::{Device, Tensor, TensorData};
use kvt_attention::{AttentionConfig, Implementation, KnnConfig, Neighbors};
use kvt_models::{Model, ModelConfig, ModelOverrides};
use kvt_ops::{Key, Phase};

use crate::small::{SIDE, build, configs, families, small};

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
                    attention: Some(attention.clone()),
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

#[test]
fn drop_path_follows_the_key_and_spares_evaluation() {
    let with = |drop_path| {
        configs(&ModelOverrides {
            drop_path: Some(drop_path),
            ..ModelOverrides::default()
        })
    };
    for (plain, dropping) in with(0.0).into_iter().zip(with(0.5)) {
        // A new model for each pass, with initial running statistics.
        let run = |config: &ModelConfig, phase| {
            let model = config.init(&Device::flex(), Key::new(1)).unwrap();
            logits(&model, phase)
        };
        let what = plain.name();
        assert_eq!(
            run(&plain, Phase::Eval),
            run(&dropping, Phase::Eval),
            "{what}"
        );
        assert_eq!(run(&plain, train(1)), run(&plain, train(2)), "{what}");
        let dropped = run(&dropping, train(1));
        assert_ne!(dropped, run(&plain, train(1)), "{what}");
        // One key in sixteen may drop the same few branches.
        let differs = (2..6).any(|key| dropped != run(&dropping, train(key)));
        assert!(differs, "{what}");
        assert_eq!(dropped, run(&dropping, train(1)), "{what}");
    }
}
