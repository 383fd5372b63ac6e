//! Images of another size than the configured one, square or not.

use burn::tensor::{Device, Tensor, TensorData};
use kvt_models::weights::{LoadOptions, StateDict};
use kvt_models::{Ask, Backbone, Model, ModelConfig, ModelError, ModelOverrides, Network};
use kvt_ops::{Key, Phase};

use crate::small::{SIDE, assert_close, configs, images, values};

fn models() -> Vec<Model> {
    let configs = configs(&ModelOverrides::default()).into_iter();
    let models = configs.map(|config| config.init(&Device::flex(), Key::new(1)).unwrap());
    models.collect()
}

/// The numbers of an array with two of its axes exchanged.
fn swapped(data: &TensorData, shape: &[usize], a: usize, b: usize) -> Vec<f32> {
    let data: Vec<f32> = data.try_to_vec().unwrap();
    let mut to = shape.to_vec();
    to.swap(a, b);
    let place = |mut index: usize| {
        let mut places = vec![0; to.len()];
        for axis in (0..to.len()).rev() {
            places[axis] = index % to[axis];
            index /= to[axis];
        }
        places.swap(a, b);
        let steps = places.iter().zip(shape);
        steps.fold(0, |sum, (place, size)| sum * size + place)
    };
    (0..data.len()).map(|i| data[place(i)]).collect()
}

/// The kernel of the soft split before a weight of a T2T-ViT.
fn unfolded(name: &str) -> Option<usize> {
    let name = name.strip_prefix("tokens_to_token.")?;
    let reads = |layer| {
        ["attn.qkv.weight", "norm1.weight", "norm1.bias"]
            .iter()
            .any(|weight| name == format!("{layer}.{weight}"))
    };
    match name {
        _ if reads("attention1") => Some(7),
        "project.weight" => Some(3),
        _ => reads("attention2").then_some(3),
    }
}

/// The weights of the model for mirrored images, whose rows are columns: kernels and positions are mirrored, and
/// layers that read 2 x 2 tokens exchange the second and the third.
fn mirrored(weights: &StateDict) -> StateDict {
    let tnt = weights.get("pixel_pos").is_some();
    let is_volo = weights.get("aux_head.weight").is_some();
    let mirror = |name: &str, data: &TensorData| {
        let shape = data.shape().to_vec();
        match *shape.as_slice() {
            // VOLO's positions.
            [1, _, _, _] if is_volo && name == "pos_embed" => swapped(data, &shape, 1, 2),
            // VOLO's weights of windows: `[heads, 3 x 3 queries, 3 x 3 keys, in]`.
            [outputs, ..] if is_volo && name.contains(".attn.attn.") => {
                let inputs = shape.get(1).copied().unwrap_or(1);
                let shape = [outputs / 81, 3, 3, 3, 3, inputs];
                let queries = swapped(data, &shape, 1, 2);
                swapped(&TensorData::new(queries, shape), &shape, 3, 4)
            }
            // Kernels `[out, in, rows, columns]`, and PiT's positions.
            [_, _, _, _] => swapped(data, &shape, 2, 3),
            [1, tokens, dim] if name == "pos_embed" || name == "patch_pos" => {
                let (side, data) = ((tokens - 1).isqrt(), data.try_to_vec::<f32>().unwrap());
                let (class, patches) = data.split_at(dim);
                let patches = TensorData::new(patches.to_vec(), [side, side, dim]);
                [class.to_vec(), swapped(&patches, &[side, side, dim], 0, 1)].concat()
            }
            [places, heads] if name.ends_with("relative_position_bias_table") => {
                let side = places.isqrt();
                swapped(data, &[side, side, heads], 0, 1)
            }
            // The concatenated pixels of a patch in TNT, each of 6 numbers.
            [out, inputs] if tnt && name.ends_with("proj.weight") && inputs % 24 == 0 => {
                swapped(data, &[out, 2, 2, inputs / 4], 1, 2)
            }
            [inputs] if tnt && name.contains("norm1_proj") => {
                swapped(data, &[2, 2, inputs / 4], 0, 1)
            }
            // `[out, in * kernel * kernel]` and `[in * kernel * kernel]`, unfolded.
            [.., inputs] if unfolded(name).is_some() => {
                let kernel = unfolded(name).unwrap();
                let rest = shape.iter().product::<usize>() / kernel.pow(2);
                assert_eq!(inputs % kernel.pow(2), 0);
                swapped(data, &[rest, kernel, kernel], 1, 2)
            }
            // `[out, 4 * in]`: columns of 2, and rows of 2.
            [out, inputs] if name.ends_with("reduction.weight") => {
                swapped(data, &[out, 2, 2, inputs / 4], 1, 2)
            }
            [inputs] if name.contains("downsample.norm") => {
                swapped(data, &[2, 2, inputs / 4], 0, 1)
            }
            _ => data.try_to_vec().unwrap(),
        }
    };
    let weights = weights.iter().map(|(name, data)| {
        let shape = data.shape().to_vec();
        (name.to_owned(), TensorData::new(mirror(name, data), shape))
    });
    weights.collect()
}

/// Rows and columns are never confused: mirrored weights map mirrored images to the same logits and to mirrored maps.
/// The sizes include maps and windows that do not divide.
#[test]
fn a_mirrored_model_sees_mirrored_images() {
    let ask = Ask {
        maps: true,
        ..Ask::default()
    };
    for model in models() {
        let name = model.config().name();
        let weights = mirrored(&StateDict::from_model(&model).unwrap());
        let mirror = model.clone().load(&weights, LoadOptions::default());
        let (mirror, _) = mirror.unwrap();
        for size in [[SIDE, SIDE], [16, 24], [32, 16], [8, 20], [12, 8]] {
            let what = format!("{name} {size:?}");
            model.check_size(size).unwrap();
            let images = images(size, &Device::flex());
            let upright = model.backbone.features(images.clone(), &ask, Phase::Eval);
            let images = images.swap_dims(2, 3);
            let turned = mirror.backbone.features(images.clone(), &ask, Phase::Eval);
            for (upright, turned) in upright.maps.into_iter().zip(turned.maps) {
                assert_close(&values(turned.swap_dims(2, 3)), &values(upright), &what);
            }
            let logits = values(mirror.forward(images, Phase::Eval));
            let expected = model.forward(crate::small::images(size, &Device::flex()), Phase::Eval);
            assert_close(&logits, &values(expected), &what);
        }
    }
}

/// The images matter, not the configuration: a model that was made for other images gives the same results once it
/// has the weights. Positions and tables that depend on the size follow PyTorch's rule.
#[test]
fn a_model_takes_the_images_of_another() {
    for model in models() {
        let config = model.config();
        if config.name().starts_with("swin") {
            continue;
        }
        let larger = ModelOverrides {
            img_size: Some(24.into()),
            ..ModelOverrides::default()
        };
        let larger = config
            .clone()
            .with(&larger)
            .unwrap()
            .init(&Device::flex(), Key::new(2))
            .unwrap();
        let weights = StateDict::from_model(&model).unwrap();
        let (larger, _) = larger.load(&weights, LoadOptions::default()).unwrap();
        let images = || images([24, 24], &Device::flex());
        let expected = values(larger.forward(images(), Phase::Eval));
        let found = values(model.forward(images(), Phase::Eval));
        assert_close(&found, &expected, &config.name());
    }
}

/// Swin's windows do not change, so that a model for larger images has the same weights.
#[test]
fn a_swin_takes_the_images_of_another() {
    let swin = |img_size: usize| {
        let overrides = ModelOverrides {
            img_size: Some(img_size.into()),
            patch_size: Some(2),
            window_size: Some(2.into()),
            embed_dim: Some(4.into()),
            depth: Some(vec![2, 2].into()),
            num_heads: Some(vec![1, 2].into()),
            num_classes: Some(3),
            ..ModelOverrides::default()
        };
        let config = ModelConfig::by_name("swin_tiny_patch4_window7_224")
            .unwrap()
            .with(&overrides)
            .unwrap();
        config.init(&Device::flex(), Key::new(1)).unwrap()
    };
    let (small, large) = (swin(16), swin(20));
    let images = || images([20, 20], &Device::flex());
    let [small, large] = [small, large].map(|model| values(model.forward(images(), Phase::Eval)));
    assert_eq!(small, large);
}

#[test]
fn gradients_reach_interpolated_positions() {
    let device = Device::flex().autodiff();
    for config in configs(&ModelOverrides::default()) {
        let model = config.init(&device, Key::new(1)).unwrap();
        let logits = model.forward(images([8, 24], &device), Phase::Eval);
        let gradients = logits.powi_scalar(2).sum().backward();
        let mut count = WithGradient(&gradients, 0);
        burn::module::Module::visit(&model, &mut count);
        assert_eq!(count.1, model.parameters().len(), "{}", config.name());
    }
}

/// Counts the parameters that have a gradient.
struct WithGradient<'a>(&'a burn::tensor::Gradients, usize);

impl burn::module::ModuleVisitor for WithGradient<'_> {
    fn visit_float<const D: usize>(&mut self, param: &burn::module::Param<Tensor<D>>) {
        self.1 += usize::from(param.val().grad(self.0).is_some());
    }
}

#[test]
fn sizes_that_no_map_comes_from_are_refused() {
    for model in models() {
        let name = model.config().name();
        let refuse = |size| model.check_size(size).unwrap_err();
        assert!(
            matches!(
                refuse([16, 0]),
                ModelError::ImageSize {
                    height: 16,
                    width: 0,
                    ..
                }
            ),
            "{name}"
        );
        // All of its convolutions are padded.
        if name.starts_with("so_vit") {
            let expected = "images of 16 x 0 pixels do not fit So-ViT: expected at least 1 pixels on each side";
            assert_eq!(refuse([16, 0]).to_string(), expected);
            model.check_size([1, 16]).unwrap();
            continue;
        }
        let message = refuse([1, 16]).to_string();
        let expected = match name.split('_').next().unwrap() {
            "deit" => "ViT: expected multiples of the 4 pixels of a patch",
            "swin" => "Swin: expected multiples of the 2 pixels of a patch",
            // The stem makes four pixels of seven, and the embeddings one of four.
            "visformer" => "Visformer: expected at least 7 pixels on each side",
            "tnt" => "TNT: expected multiples of the 4 pixels of a patch",
            "pit" => "PiT: expected at least 4 pixels on each side",
            "twins" => "Twins: expected multiples of the 4 pixels of a patch",
            "t2t" => "T2T-ViT: expected multiples of the 4 pixels of a patch",
            "cvt" => "CvT: expected at least 3 pixels on each side",
            _ => "VOLO: expected at least 4 pixels on each side",
        };
        assert_eq!(
            message,
            format!("images of 1 x 16 pixels do not fit {expected}")
        );
    }
}
