//! The outputs of backbones on request.

use burn::tensor::{Device, Tensor};
use kvt_models::{Ask, Backbone, Features, Model, ModelOverrides, TokenMix};
use kvt_ops::{Key, Phase};

use crate::small::{SIDE, assert_close, configs, images, values};

fn models() -> Vec<(String, Model)> {
    let configs = configs(&ModelOverrides::default()).into_iter();
    let models = configs.map(|config| {
        let model = config.init(&Device::flex(), Key::new(1)).unwrap();
        (config.name(), model)
    });
    models.collect()
}

fn features(model: &Model, ask: &Ask<'_>) -> Features {
    let images = images([SIDE; 2], &Device::flex());
    model.backbone.features(images, ask, Phase::Eval)
}

/// Channels, rows and columns of the map of every stage, by hand.
fn expected_maps(name: &str) -> Vec<[usize; 3]> {
    match name.split('_').next().unwrap() {
        // Patches of 4 pixels.
        "deit" => vec![[12, 4, 4]],
        // Patches of 2 pixels, and a halving to twice the channels.
        "swin" => vec![[4, 8, 8], [8, 4, 4]],
        // Patches of 4 pixels, and a halving.
        "pit" => vec![[4, 4, 4], [8, 2, 2]],
        // Kernels of 7 pixels, padded by 2 and 4 apart, and a halving.
        "cvt" => vec![[4, 4, 4], [8, 2, 2]],
        // Patches of 4 pixels.
        "tnt" => vec![[12, 4, 4]],
        // Two halvings, none, and a third.
        "visformer" => vec![[8, 4, 4], [8, 4, 4], [8, 2, 2]],
        // Two halvings.
        "so" => vec![[12, 4, 4]],
        // Patches of 2 pixels, then of 2 tokens.
        "twins" => vec![[4, 8, 8], [8, 4, 4]],
        // Two halvings.
        "t2t" => vec![[6, 8, 8], [6, 4, 4], [12, 4, 4]],
        // Patches of 2 pixels, and a halving.
        "volo" => vec![[4, 8, 8], [8, 4, 4]],
        family => unreachable!("{family}"),
    }
}

#[test]
fn nothing_is_given_unasked() {
    for (name, model) in models() {
        let features = features(&model, &Ask::default());
        assert!(
            features.maps.is_empty() && features.blocks.is_empty(),
            "{name}"
        );
    }
}

#[test]
fn every_stage_gives_its_map() {
    let ask = Ask {
        maps: true,
        ..Ask::default()
    };
    for (name, model) in models() {
        let features = features(&model, &ask);
        let maps: Vec<_> = features.maps.iter().map(Tensor::dims).collect();
        let expected: Vec<_> = expected_maps(&name)
            .into_iter()
            .map(|[dim, rows, columns]| [2, dim, rows, columns])
            .collect();
        assert_eq!(maps, expected, "{name}");
        let plain = self::features(&model, &Ask::default());
        assert_eq!(values(features.tokens), values(plain.tokens), "{name}");
    }
}

/// The last map, normalised token by token, equals the output of the last block: norms start with a weight of one and
/// a bias of zero. Visformer's batch norms start with a mean of zero and a variance of one.
#[test]
fn the_last_map_is_the_last_block_before_the_norm() {
    let ask = Ask {
        maps: true,
        blocks: 2,
        ..Ask::default()
    };
    for (name, model) in models() {
        let features = features(&model, &ask);
        let map = features.maps.last().unwrap().clone();
        let [batch, dim, rows, columns] = map.dims();
        let tokens = map.reshape([batch, dim, rows * columns]).swap_dims(1, 2);
        let epsilon = match name.split('_').next() {
            Some("swin" | "cvt" | "t2t" | "tnt" | "so" | "visformer" | "volo") => 1e-5,
            _ => 1e-6,
        };
        let normalised: Vec<f32> = values(tokens)
            .chunks_exact(dim)
            .flat_map(|token| {
                let mean = token.iter().sum::<f32>() / dim as f32;
                let variance = token.iter().map(|x| (x - mean).powi(2)).sum::<f32>() / dim as f32;
                let (mean, variance) = if name.starts_with("visformer") {
                    (0.0, 1.0)
                } else {
                    (mean, variance)
                };
                token
                    .iter()
                    .map(move |x| (x - mean) / (variance + epsilon).sqrt())
            })
            .collect();
        assert_eq!(features.blocks.len(), 2, "{name}");
        let [earlier, last] = [0, 1].map(|i| features.blocks[i].clone());
        assert_ne!(values(earlier), values(last.clone()), "{name}");
        let patches = last.clone().narrow(1, features.prefix, rows * columns);
        assert_close(&values(patches), &normalised, &name);

        // The tokens that the classifier reads equal those of the last block, too.
        let read = features.tokens.dims()[1];
        let last = last.narrow(1, 0, read);
        assert_close(&values(features.tokens), &values(last), &name);
    }
}

#[test]
fn a_stage_gives_no_more_blocks_than_it_has() {
    let ask = Ask {
        blocks: 100,
        ..Ask::default()
    };
    for (name, model) in models() {
        let blocks = features(&model, &ask).blocks.len();
        let stages = model.config().summary().stages;
        assert_eq!(blocks, stages.last().unwrap().depth, "{name}");
    }
}

#[test]
fn the_head_makes_the_logits_of_the_features() {
    for (name, model) in models() {
        let logits = model
            .head
            .forward(features(&model, &Ask::default()), Phase::Eval);
        let expected = model.forward(images([SIDE; 2], &Device::flex()), Phase::Eval);
        assert_eq!(values(logits.mean()), values(expected), "{name}");
    }
}

/// Until positions are added, patches depend only on their own pixels: exchanging all patches of two images is the
/// same as exchanging the images.
#[test]
fn mixed_tokens_are_those_of_mixed_images() {
    let device = Device::flex();
    let exchange: &TokenMix<'_> = &|tokens, [rows, columns]| {
        assert_eq!(tokens.dims()[1], rows * columns);
        tokens.flip([0])
    };
    let keep: &TokenMix<'_> = &|tokens, _| tokens;
    for (name, model) in models() {
        let run = |mix, images| {
            let ask = Ask {
                mix,
                ..Ask::default()
            };
            values(model.backbone.features(images, &ask, Phase::Eval).tokens)
        };
        let images = || images([SIDE; 2], &device);
        let plain = run(None, images());
        assert_eq!(run(Some(keep), images()), plain, "{name}");
        let exchanged = run(Some(exchange), images());
        assert_ne!(exchanged, plain, "{name}");
        assert_close(&exchanged, &run(None, images().flip([0])), &name);
    }
}
