//! Pyramids against the dense networks in Python, and the weights of other repositories.
//!
//! Files in `golden/dense` have weights of a backbone, under the names of the repository that their metadata say, images
//! of several sizes, the maps of each after its norm (large ones as a sketch), and gradients of `sum(map * probe)` over
//! the maps of one size.

use std::path::Path;

use burn::tensor::{DType, Device, Tensor, TensorData};
use kvt_attention::Implementation;
use kvt_models::dense::{DenseKind, DenseWeights, Pyramid, WindowPadding, read_dense};
use kvt_models::weights::{Outcome, StateDict, WeightsError};
use kvt_models::{Ask, Backbone, ModelConfig, ModelOverrides, Parameter, Precision, names};
use kvt_ops::{Key, Phase};

use crate::cases::{config, files_in, folder, metadata};
use crate::golden::{Golden, gradient_of, named_after};

/// As `PLACES` in `scripts/reference/dense_swin.py`.
const PLACES: [usize; 4] = [0, 2, 1, 3];

#[test]
fn swin_is_mmsegmentations() {
    compare_family("swin_");
}

#[test]
fn twins_is_mmsegmentations() {
    compare_family("twins_");
}

/// A software driver takes minutes for each: `KVT_GPU_CASES` asks for them by `all` or the beginning of `dense_swin` or `dense_twins`.
#[test]
fn swin_is_the_same_on_a_gpu() {
    compare_on_gpu("swin_knn_share_seen");
}

#[test]
fn twins_is_the_same_on_a_gpu() {
    compare_on_gpu("twins_knn_share_hidden");
}

fn compare_on_gpu(case: &str) {
    if !kvt_testing::asks_for(&format!("dense_{case}")) {
        return;
    }
    let Some((_, device)) = kvt_testing::devices::gpu() else {
        return;
    };
    let device = device.autodiff();
    for path in files_in(&folder().join("dense"), case) {
        compare(&path, Implementation::Auto, &device);
    }
}

fn compare_family(family: &str) {
    let device = Device::flex().autodiff();
    for path in files_in(&folder().join("dense"), family) {
        for implementation in [
            Implementation::Auto,
            Implementation::Masked,
            Implementation::Gathered,
        ] {
            compare(&path, implementation, &device);
        }
    }
}

fn compare(path: &Path, implementation: Implementation, device: &Device) {
    let mut golden = Golden::new(path, implementation, device);
    let padding = serde_json::from_value(metadata(path)["padding"].clone()).unwrap();
    let config = config(path, implementation);
    let pyramid = Pyramid::new(&config, padding, device, Key::new(0)).unwrap();
    let weights = named_after(&golden.tensors, "weights.");
    let DenseWeights { state, .. } = read_dense(weights, &config).unwrap();
    let (pyramid, report) = pyramid.load(&state, DenseKind::Network).unwrap();
    let matched = report.names(Outcome::Matched).count();
    assert_eq!(matched, report.rows.len(), "{}: {report}", path.display());

    let sizes: Vec<String> = named_after(&golden.tensors, "images.")
        .iter()
        .map(|(size, _)| size.to_owned())
        .collect();
    assert!(!sizes.is_empty());
    for size in sizes {
        let tensor = |name: String| {
            let data = golden.tensors.get(&name)?.clone();
            Some(Tensor::<4>::from_data(data, device))
        };
        let images = tensor(format!("images.{size}")).unwrap().require_grad();
        let probes: Option<Vec<_>> = (0..4)
            .map(|stage| tensor(format!("probe.{size}.{stage}")))
            .collect();
        let [_, _, height, width] = images.dims();
        pyramid.check_size([height, width]).unwrap();
        let maps = pyramid.forward(images.clone(), Phase::Eval);
        assert_eq!(maps.len(), 4);
        let channels: Vec<usize> = maps.iter().map(|map| map.dims()[1]).collect();
        assert_eq!(channels, pyramid.channels());
        for (stage, map) in maps.iter().enumerate() {
            let sketched = format!("map_sketch.{size}.{stage}");
            if golden.tensors.get(&sketched).is_some() {
                golden.compare_sketch(&sketched, &map.to_data());
            } else {
                golden.compare(&format!("maps.{size}.{stage}"), map.to_data());
            }
        }
        if let Some(probes) = probes {
            let products = maps.into_iter().zip(probes);
            let sums = products.map(|(map, probe)| (map * probe).sum());
            let grads = sums.reduce(|a, b| a + b).unwrap().backward();
            if golden.tensors.get("grad_sketch.images").is_some() {
                let of_images = images.grad(&grads).unwrap().into_data();
                golden.compare_sketch("grad_sketch.images", &of_images);
                compare_gradients(&mut golden, &pyramid, &grads);
            }
        }
    }
    golden.finish();
}

/// Gradients of parameters have the names and the order of the weights in the file.
fn compare_gradients(golden: &mut Golden<'_>, pyramid: &Pyramid, grads: &burn::tensor::Gradients) {
    let parameters = pyramid.parameters();
    let mut compared = 0;
    for (name, _) in named_after(&golden.tensors, "weights.").iter() {
        let is_sketched = golden.tensors.get(&format!("grad_sketch.{name}")).is_some();
        if !is_sketched && golden.tensors.get(&format!("grad.{name}")).is_none() {
            continue;
        }
        let (own, merges) = own_name(name);
        let parameter = parameters.iter().find(|parameter| parameter.name == own);
        let parameter = parameter.unwrap_or_else(|| panic!("no `{own}` for `{name}`"));
        let mut gradient = gradient_of(pyramid, parameter, grads).unwrap();
        if merges {
            gradient = unfolded(&gradient);
        }
        if is_sketched {
            golden.compare_sketch(&format!("grad_sketch.{name}"), &gradient);
        } else {
            golden.compare(&format!("grad.{name}"), gradient);
        }
        compared += 1;
    }
    assert!(2 * compared > parameters.len(), "{compared} gradients");
}

/// Our name of a weight of MMSegmentation's Swin, and whether the order of its last dimension is another. Others have our
/// names.
fn own_name(name: &str) -> (String, bool) {
    let Some(rest) = name.strip_prefix("backbone.stages.") else {
        return (
            name.replace("patch_embed.projection", "patch_embed.proj"),
            false,
        );
    };
    let (stage, rest) = rest.split_once('.').unwrap();
    let stage: usize = stage.parse().unwrap();
    if rest.starts_with("downsample.") {
        return (format!("backbone.layers.{}.{rest}", stage + 1), true);
    }
    let rest = rest
        .replace("attn.w_msa.", "attn.")
        .replace("ffn.layers.0.0.", "mlp.fc1.")
        .replace("ffn.layers.1.", "mlp.fc2.");
    (format!("backbone.layers.{stage}.{rest}"), false)
}

/// The last dimension by (channel, place) instead of (place, channel).
fn unfolded(data: &TensorData) -> TensorData {
    let values: Vec<f32> = data.try_to_vec().unwrap();
    let width = *data.shape().last().unwrap();
    let rows = values.chunks_exact(width).flat_map(|row| {
        let channels = width / 4;
        (0..width).map(move |to| row[PLACES[to % 4] * channels + to / 4])
    });
    TensorData::new(rows.collect(), data.shape().clone())
}

/// A model of two channels per head, with windows of `window` x `window` tokens.
fn small(name: &str, window: usize, depth: [usize; 4]) -> ModelConfig {
    let swin = name.starts_with("swin");
    let overrides = ModelOverrides {
        img_size: Some(32.into()),
        patch_size: swin.then_some(2),
        strides: (!swin).then(|| vec![2, 2, 2, 2]),
        embed_dim: Some(if swin {
            4.into()
        } else {
            vec![4, 4, 8, 8].into()
        }),
        num_heads: Some(vec![1, 2, 2, 4].into()),
        depth: Some(depth.to_vec().into()),
        window_size: Some(window.into()),
        sr_ratio: (!swin).then(|| vec![4, 2, 1, 1].into()),
        num_classes: Some(3),
        ..ModelOverrides::default()
    };
    let config = ModelConfig::by_name(name).unwrap();
    config.with(&overrides).unwrap()
}

const SWIN: &str = "swin_tiny_patch4_window7_224";
const TWINS: &str = "twins_svt_small";

fn pyramid(config: &ModelConfig, seed: u64) -> Pyramid {
    let padding = WindowPadding::Seen;
    Pyramid::new(config, padding, &Device::flex(), Key::new(seed)).unwrap()
}

fn images(height: usize, width: usize) -> Tensor<4> {
    let pixels: Vec<f32> = (0..2 * 3 * height * width)
        .map(|i| (i * 29 % 97) as f32 / 48.0 - 1.0)
        .collect();
    let shape = [2, 3, height, width];
    Tensor::from_data(TensorData::new(pixels, shape), &Device::flex())
}

fn bits(map: &Tensor<4>) -> Vec<u32> {
    let values: Vec<f32> = map.to_data().try_to_vec().unwrap();
    values.into_iter().map(f32::to_bits).collect()
}

/// Where all maps divide into windows and no single window is shifted, the order makes no difference; elsewhere it does.
#[test]
fn a_classifier_of_whole_windows_gives_the_same_maps() {
    let phase = Phase::Eval;
    let ask = Ask {
        maps: true,
        ..Ask::default()
    };
    let larger = ModelOverrides {
        img_size: Some(48.into()),
        ..ModelOverrides::default()
    };
    for (name, size) in [(SWIN, 48), (SWIN, 40), (TWINS, 48)] {
        let config = small(name, 3, [2, 3, 2, 1]).with(&larger).unwrap();
        let model = config.init(&Device::flex(), Key::new(5)).unwrap();
        let weights = StateDict::from_model(&model).unwrap();
        let DenseWeights { state, kind } = read_dense(weights.clone(), &config).unwrap();
        assert_eq!(kind, DenseKind::Classifier);
        let (pyramid, report) = pyramid(&config, 6).load(&state, kind).unwrap();
        // Norms of maps are new, and nothing is left over: neither the head nor the last norm.
        assert_eq!(report.names(Outcome::Reset).count(), 8, "{report}");
        assert_eq!(report.names(Outcome::Unused).count(), 0, "{report}");
        let maps = |backbone: &kvt_models::Model| {
            let maps = backbone
                .backbone
                .features(images(size, size), &ask, phase)
                .maps;
            maps.iter().map(bits).collect::<Vec<_>>()
        };
        let same = maps(&model) == maps(&pyramid.backbone);
        assert_eq!(same, size == 48, "{name} at {size}");
    }
}

/// Weights, statistics of nothing, and names that are official.
#[test]
fn a_pyramid_is_saved_and_loaded() {
    for (name, norm) in [
        (SWIN, "backbone.norm3.bias"),
        (TWINS, "backbone.norm_list.3.bias"),
    ] {
        let config = small(name, 3, [2, 1, 2, 1]);
        let from = pyramid(&config, 1);
        let mut state = from.state_dict().unwrap();
        let names: Vec<String> = from.parameters().into_iter().map(|p| p.name).collect();
        assert_eq!(state.len(), names.len());
        assert!(names.iter().all(|name| state.get(name).is_some()));
        assert!(names.iter().any(|name| name == norm));
        assert!(
            !names
                .iter()
                .any(|name| name.starts_with("backbone.norm.") || name.contains("head"))
        );
        // The norms start with the same numbers everywhere.
        let channels = *from.channels().last().unwrap();
        state.insert(norm, TensorData::new(vec![0.5f32; channels], [channels]));
        let (to, _) = pyramid(&config, 2)
            .load(&state, DenseKind::Network)
            .unwrap();
        assert_eq!(to.state_dict().unwrap(), state);
        // A classifier and the last norm.
        assert_eq!(to.frozen().len(), 4);

        let without: StateDict = state.into_iter().filter(|(name, _)| name != norm).collect();
        let error = pyramid(&config, 2).load(&without, DenseKind::Network);
        let error = error.unwrap_err().to_string();
        assert!(error.contains(norm), "{error}");
        assert!(
            pyramid(&config, 2)
                .load(&without, DenseKind::Classifier)
                .is_ok()
        );
    }
}

/// Swin with four norms: 27,520,698 parameters, counted by PyTorch.
#[test]
fn the_parameters_are_the_published_ones() {
    let config = ModelConfig::by_name(SWIN).unwrap();
    let count = |parameter: &Parameter| parameter.shape.iter().product::<usize>();
    let parameters = pyramid(&config, 1).parameters();
    assert_eq!(parameters.iter().map(count).sum::<usize>(), 27_520_698);
}

#[test]
fn only_models_with_four_maps_have_a_pyramid() {
    for name in names() {
        let config = ModelConfig::by_name(&name).unwrap();
        let dense = config.dense(WindowPadding::Seen);
        let has_one = name.starts_with("swin") || name.starts_with("twins");
        assert_eq!(dense.is_ok(), has_one, "{name}");
        if let Err(error) = dense {
            let error = error.to_string();
            assert!(error.contains(&name) && error.contains("map"), "{error}");
        }
    }
    let overrides = ModelOverrides {
        depth: Some(vec![2, 2, 2].into()),
        num_heads: Some(vec![3, 6, 12].into()),
        ..ModelOverrides::default()
    };
    let three = ModelConfig::by_name(SWIN)
        .unwrap()
        .with(&overrides)
        .unwrap();
    let error = three.dense(WindowPadding::Seen).unwrap_err().to_string();
    assert!(error.contains("3 maps"), "{error}");
}

#[test]
fn images_have_any_size() {
    let swin = pyramid(&small(SWIN, 3, [2, 1, 1, 1]), 1);
    let twins = pyramid(&small(TWINS, 3, [2, 2, 2, 2]), 1);
    let sides = |pyramid: &Pyramid, height, width| {
        let maps = pyramid.forward(images(height, width), Phase::Eval);
        let sides = maps.iter().map(|map| [map.dims()[2], map.dims()[3]]);
        sides.collect::<Vec<_>>()
    };
    // Swin pads an image to whole patches of 2 x 2, and a map to an even size; Twins drops remainders.
    assert_eq!(sides(&swin, 21, 1), [[11, 1], [6, 1], [3, 1], [2, 1]]);
    assert_eq!(sides(&twins, 39, 17), [[19, 8], [9, 4], [4, 2], [2, 1]]);
    assert!(swin.check_size([0, 5]).is_err() && swin.check_size([1, 5]).is_ok());
    assert!(twins.check_size([16, 17]).is_ok());
    let error = twins.check_size([15, 64]).unwrap_err().to_string();
    assert!(error.contains("at least 16"), "{error}");
}

/// Maps are f32, though not those of f32.
#[test]
fn precision_reaches_the_backbone() {
    let maps = |precision| {
        let pyramid = pyramid(&small(SWIN, 3, [2, 1, 1, 1]), 1).with_precision(precision);
        pyramid.forward(images(24, 24), Phase::Eval)
    };
    let (whole, half) = (maps(Precision::F32), maps(Precision::Bf16));
    for (whole, half) in whole.iter().zip(&half) {
        assert_eq!(half.dtype(), DType::F32);
        let difference = (whole.clone() - half.clone())
            .abs()
            .max()
            .into_scalar::<f32>();
        assert!(difference > 0.0 && difference < 0.3, "{difference}");
    }
}

#[test]
fn weights_of_other_models_are_refused() {
    let config = small(SWIN, 4, [2, 1, 1, 1]);
    // Its last map has 2 x 2 tokens, and the classifier one window of that size.
    let classifier = |config: &ModelConfig| {
        let model = config.init(&Device::flex(), Key::new(5)).unwrap();
        StateDict::from_model(&model).unwrap()
    };
    let error = read_dense(classifier(&config), &config).unwrap_err();
    assert!(
        matches!(&error, WeightsError::Window { name, found: 2, expected: 4, hint }
            if name == "layers.3.blocks.0.attn.relative_position_bias_table"
                && hint.contains("images of at least 64 pixels")),
        "{error}"
    );
    // All of its windows have that size.
    let error = read_dense(classifier(&small(SWIN, 2, [2, 1, 1, 1])), &config).unwrap_err();
    assert!(
        matches!(&error, WeightsError::Window { found: 2, hint, .. } if hint == "set `window_size` to 2"),
        "{error}"
    );
    let error = read_dense(classifier(&small(TWINS, 2, [1; 4])), &config).unwrap_err();
    assert!(
        matches!(error, WeightsError::OtherFamily { found: "Twins", .. }),
        "{error}"
    );
    let deit = ModelConfig::by_name("deit_tiny_patch16_224").unwrap();
    let error = read_dense(StateDict::default(), &deit).unwrap_err();
    assert!(matches!(error, WeightsError::Model(_)), "{error}");
}

/// Heads are kept, counters and tables are not.
#[test]
fn a_network_is_told_by_its_head() {
    let config = small(SWIN, 2, [1; 4]);
    let mut state = pyramid(&config, 1).state_dict().unwrap();
    let weights = state.clone();
    let head = TensorData::new(vec![1.0f32], [1]);
    state.insert("decode_head.conv_seg.bias", head.clone());
    state.insert(
        "decode_head.bottleneck.bn.num_batches_tracked",
        head.clone(),
    );
    state.insert(
        "backbone.layers.0.blocks.0.attn.relative_position_index",
        head.clone(),
    );
    let read = read_dense(state, &config).unwrap();
    assert_eq!(read.kind, DenseKind::Network);
    let mut expected = weights;
    expected.insert("decode_head.conv_seg.bias", head);
    assert_eq!(read.state, expected);
}
