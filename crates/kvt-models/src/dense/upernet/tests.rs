//! Heads and network: names, counts, starts, dropout, files, half types.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;

use burn::tensor::{DType, Device, Tensor, TensorData};
use kvt_ops::{Key, Phase};
use kvt_testing::devices::{assert_close, devices, error, tensor, values};

use super::*;
use crate::dense::{Pyramid, WindowPadding, state};
use crate::layers::Init;
use crate::weights::{Outcome, StateDict, WeightsError};
use crate::{ModelConfig, ModelOverrides, Network, Parameter, Precision};

mod golden;

const MAPS: [usize; 4] = [4, 8, 16, 32];

fn config() -> UperNetConfig {
    UperNetConfig {
        num_classes: 3,
        channels: 6,
        pool_scales: vec![1, 2, 3, 6],
        dropout: 0.1,
        aux_stage: 3,
        aux_channels: 5,
    }
}

fn head(device: &Device, config: &UperNetConfig) -> UperHead {
    UperHead::new(&Init::new(device, Key::new(1)), &MAPS, config)
}

fn network(device: &Device) -> UperNet {
    let overrides = ModelOverrides {
        img_size: Some(64.into()),
        embed_dim: Some(4.into()),
        depth: Some(vec![1, 1, 1, 1].into()),
        num_heads: Some(vec![1, 1, 2, 2].into()),
        window_size: Some(2.into()),
        num_classes: Some(7),
        ..ModelOverrides::default()
    };
    let model = ModelConfig::by_name("swin_tiny_patch4_window7_224").unwrap();
    let model = model.with(&overrides).unwrap();
    let pyramid = Pyramid::new(&model, WindowPadding::Seen, device, Key::new(2)).unwrap();
    UperNet::new(pyramid, &config(), device, Key::new(4)).unwrap()
}

/// Different numbers in no order.
fn numbers<const D: usize>(shape: [usize; D], device: &Device) -> Tensor<D> {
    let count = shape.iter().product();
    let number = |i: usize| (i * 7919 % 2003) as f32 / 500.0 - 2.0;
    tensor(&(0..count).map(number).collect::<Vec<_>>(), shape, device)
}

/// Maps of images of `[16 height, 16 width]` pixels at strides 4 to 32, rounded up.
fn maps(batch: usize, [height, width]: [usize; 2], device: &Device) -> Vec<Tensor<4>> {
    let map = |(at, channels): (usize, &usize)| {
        let [height, width] = [height, width].map(|side| side.div_ceil(1 << at));
        numbers([batch, *channels, height, width], device)
    };
    MAPS.iter().enumerate().map(map).collect()
}

/// Parameters of a convolution and its batch norm.
fn conv_module(inputs: usize, outputs: usize, kernel: usize) -> usize {
    inputs * outputs * kernel * kernel + 2 * outputs
}

/// Parameters of both heads, from the list of their convolutions.
fn head_params(maps: [usize; 4], config: &UperNetConfig) -> [usize; 2] {
    let (width, classes) = (config.channels, config.num_classes);
    let scales = config.pool_scales.len();
    let of_maps = maps[..3]
        .iter()
        .map(|map| conv_module(*map, width, 1) + conv_module(width, width, 3));
    let decode = scales * conv_module(maps[3], width, 1)
        + conv_module(maps[3] + scales * width, width, 3)
        + of_maps.sum::<usize>()
        + conv_module(4 * width, width, 3)
        + (width + 1) * classes;
    let aux = config.aux_channels;
    [decode, conv_module(maps[2], aux, 3) + (aux + 1) * classes]
}

fn count(parameters: &[Parameter]) -> usize {
    let sizes = parameters.iter().map(|x| x.shape.iter().product::<usize>());
    sizes.sum()
}

/// The published counts of UPerNet with Swin-T on ADE20K, by a formula that is that of the small heads.
#[test]
fn counts_are_those_of_mmsegmentation() {
    let small = config();
    let device = Device::flex();
    let decode = state::parameters(&head(&device, &small), "");
    let init = Init::new(&device, Key::new(1));
    let auxiliary = state::parameters(&FcnHead::new(&init, MAPS[2], &small), "");
    assert_eq!(
        [count(&decode), count(&auxiliary)],
        head_params(MAPS, &small)
    );

    let maps = [96, 192, 384, 768];
    let ade = UperNetConfig {
        num_classes: 150,
        channels: 512,
        aux_channels: 256,
        ..small
    };
    let [decode, auxiliary] = head_params(maps, &ade);
    assert_eq!([decode, auxiliary], [31_497_366, 923_798]);
    let swin = ModelConfig::by_name("swin_tiny_patch4_window7_224").unwrap();
    // Without the classifier and its norm, with four norms.
    let classifier = 769 * 1000 + 2 * 768;
    let norms: usize = maps.iter().map(|channels| 2 * channels).sum();
    let backbone = swin.summary().params - classifier + norms;
    assert_eq!(backbone, 27_520_698);
    assert_eq!(backbone + decode + auxiliary, 59_941_862);

    let network = network(&device);
    let model = network.pyramid.backbone.parameters();
    let unused = model.iter().filter(|parameter| {
        ["norm.", "head."]
            .iter()
            .any(|part| parameter.name.starts_with(part))
    });
    let unused: Vec<Parameter> = unused.cloned().collect();
    assert_eq!(unused.len(), 4);
    let norms: usize = MAPS.iter().map(|channels| 2 * channels).sum();
    let expected =
        count(&model) - count(&unused) + norms + head_params(MAPS, &config()).iter().sum::<usize>();
    assert_eq!(count(&network.parameters()), expected);
    let frozen: Vec<_> = unused.iter().map(|parameter| parameter.id).collect();
    assert_eq!(network.pyramid.frozen(), frozen);
}

#[test]
fn names_are_those_of_mmsegmentation() {
    let mut expected = BTreeMap::new();
    let mut module = |name: &str, inputs: usize, outputs: usize, kernel: usize| {
        let weight = vec![outputs, inputs, kernel, kernel];
        expected.insert(format!("{name}.conv.weight"), weight);
        for part in ["weight", "bias", "running_mean", "running_var"] {
            expected.insert(format!("{name}.bn.{part}"), vec![outputs]);
        }
    };
    for scale in 0..4 {
        module(&format!("decode_head.psp_modules.{scale}.1"), 32, 6, 1);
    }
    module("decode_head.bottleneck", 32 + 4 * 6, 6, 3);
    for (map, channels) in MAPS[..3].iter().enumerate() {
        module(&format!("decode_head.lateral_convs.{map}"), *channels, 6, 1);
        module(&format!("decode_head.fpn_convs.{map}"), 6, 6, 3);
    }
    module("decode_head.fpn_bottleneck", 24, 6, 3);
    module("auxiliary_head.convs.0", 16, 5, 3);
    for (name, channels) in [("decode_head", 6), ("auxiliary_head", 5)] {
        expected.insert(format!("{name}.conv_seg.weight"), vec![3, channels, 1, 1]);
        expected.insert(format!("{name}.conv_seg.bias"), vec![3]);
    }
    let network = network(&Device::flex());
    let state = network.state_dict().unwrap();
    let is_of_head = |name: &str| name.starts_with("decode_head") || name.starts_with("aux");
    let found: BTreeMap<String, Vec<usize>> = state
        .iter()
        .filter(|(name, _)| is_of_head(name))
        .map(|(name, data)| (name.to_owned(), data.shape().to_vec()))
        .collect();
    assert_eq!(found, expected);
    for stage in 0..4 {
        assert!(state.get(&format!("backbone.norm{stage}.weight")).is_some());
    }
    // Running statistics are saved and not trained.
    let of_file: Vec<&str> = state.iter().map(|(name, _)| name).collect();
    let mut trained: Vec<String> = network.parameters().into_iter().map(|x| x.name).collect();
    trained.sort();
    let running = |name: &&&str| !name.contains(".running_");
    assert_eq!(
        trained,
        of_file.iter().filter(running).copied().collect::<Vec<_>>()
    );
    assert!(of_file.len() > trained.len());
}

/// As mmengine's constructor decides with the recipe's keys: biases and batch norms decay.
#[test]
fn decay_is_decided_by_name() {
    let network = network(&Device::flex());
    let all = network.parameters();
    let find = |name: &str| all.iter().find(|x| x.name == name).unwrap();
    for (name, decays, by_family) in [
        ("backbone.layers.0.blocks.0.attn.qkv.weight", true, true),
        ("backbone.layers.0.blocks.0.attn.qkv.bias", true, false),
        ("backbone.layers.0.blocks.0.mlp.fc1.bias", true, false),
        ("backbone.layers.0.blocks.0.norm2.bias", false, false),
        ("backbone.layers.1.downsample.norm.weight", false, false),
        (
            "backbone.layers.0.blocks.0.attn.relative_position_bias_table",
            false,
            false,
        ),
        ("backbone.patch_embed.norm.weight", false, false),
        ("backbone.norm2.weight", false, false),
        ("decode_head.fpn_convs.1.conv.weight", true, true),
        ("decode_head.fpn_convs.1.bn.weight", true, false),
        ("decode_head.conv_seg.bias", true, false),
        ("auxiliary_head.convs.0.bn.bias", true, false),
    ] {
        let parameter = find(name);
        let found = (
            network.pyramid.decays_by_name(parameter),
            network.pyramid.decays(parameter),
        );
        assert_eq!(found, (decays, by_family), "{name}");
    }
    let layer = |name: &str| network.pyramid.layer(find(name));
    assert_eq!(layer("backbone.patch_embed.proj.weight"), 0);
    let layers = network.pyramid.backbone.layers();
    assert_eq!(layer("decode_head.conv_seg.bias") + 1, layers);
    assert_eq!(layer("backbone.norm2.weight") + 1, layers);
    let block = layer("backbone.layers.0.blocks.0.attn.qkv.weight");
    assert!((1..layers - 1).contains(&block), "{block}");
}

/// Means and standard deviations of a head's weights, on a head that is wide enough to tell.
#[test]
fn a_head_starts_as_in_mmsegmentation() {
    let config = UperNetConfig {
        channels: 32,
        num_classes: 40,
        ..config()
    };
    let head = head(&Device::flex(), &config);
    let state = state::state_dict(&head, "").unwrap();
    let values = |name: &str| -> Vec<f32> { state.get(name).unwrap().try_to_vec().unwrap() };
    for (name, std) in [
        ("psp_modules.2.1.conv.weight", (2.0f32 / 32.0).sqrt()),
        ("fpn_convs.0.conv.weight", (2.0f32 / (9.0 * 32.0)).sqrt()),
        ("fpn_bottleneck.conv.weight", (2.0f32 / (9.0 * 32.0)).sqrt()),
        ("conv_seg.weight", 0.01),
    ] {
        let values = values(name);
        let found = (values.iter().map(|x| x * x).sum::<f32>() / values.len() as f32).sqrt();
        // Six standard deviations of a standard deviation.
        let spread = 6.0 / (2.0 * values.len() as f32).sqrt();
        assert!(
            (found / std - 1.0).abs() < spread,
            "{name}: {found}, not {std}"
        );
    }
    assert_eq!(values("conv_seg.bias"), [0.0; 40]);
    assert_eq!(values("bottleneck.bn.weight"), [1.0; 32]);
    assert_eq!(values("bottleneck.bn.running_var"), [1.0; 32]);
}

/// A network with other weights becomes the same as the one that was saved; what files have besides is passed over or named.
#[test]
fn a_saved_network_is_loaded() {
    let device = Device::flex();
    let network = network(&device);
    let train = Phase::Train(Key::new(5));
    let images = numbers([2, 3, 64, 64], &device);
    // Other running statistics than those of the start.
    network.forward(images.clone(), train);
    let saved = network.state_dict().unwrap();
    let mut given = saved.clone();
    let one = || TensorData::new(vec![7i64], [1]);
    given.insert("decode_head.bottleneck.bn.num_batches_tracked", one());
    given.insert("backbone.norm.weight", TensorData::new(vec![0f32; 3], [3]));
    given.insert(
        "backbone.head.fc.weight",
        TensorData::new(vec![0f32; 3], [3]),
    );
    given.insert("decode_head.other", TensorData::new(vec![0f32; 3], [3]));
    given.insert("backbone.other", TensorData::new(vec![0f32; 3], [3]));

    let other = other_network(&device);
    assert_ne!(other.state_dict().unwrap(), saved);
    let (loaded, unused) = other.load_state_dict(&given).unwrap();
    assert_eq!(unused, ["backbone.other", "decode_head.other"]);
    assert_eq!(loaded.state_dict().unwrap(), saved);
    let logits = |network: &UperNet| network.forward(images.clone(), Phase::Eval).main;
    assert_eq!(values(logits(&loaded)), values(logits(&network)));
}

fn other_network(device: &Device) -> UperNet {
    let network = network(device);
    UperNet::new(network.pyramid, &config(), device, Key::new(99)).unwrap()
}

#[test]
fn a_file_that_does_not_fit_is_refused_by_name_and_shape() {
    let device = Device::flex();
    let saved = network(&device).state_dict().unwrap();
    let names = [
        "backbone.norm1.bias",
        "backbone.layers.0.blocks.0.norm1.weight",
        "decode_head.fpn_convs.2.bn.running_var",
        "auxiliary_head.conv_seg.weight",
    ];
    for name in names {
        let others = saved.iter().filter(|(other, _)| *other != name);
        let missing: StateDict = others
            .map(|(name, data)| (name.to_owned(), data.clone()))
            .collect();
        let error = network(&device).load_state_dict(&missing).unwrap_err();
        assert!(
            error.to_string().contains(&format!("`{name}` is missing")),
            "{error}"
        );

        let mut misshapen = saved.clone();
        misshapen.insert(name, TensorData::new(vec![0f32; 9], [9]));
        let error = network(&device).load_state_dict(&misshapen).unwrap_err();
        let WeightsError::Incompatible { report, .. } = &error else {
            unreachable!("{error}");
        };
        assert_eq!(
            report.names(Outcome::Mismatched).collect::<Vec<_>>(),
            [name]
        );
        assert!(error.to_string().contains("has shape [9]"), "{error}");

        let mut whole = saved.clone();
        whole.insert(name, saved.get(name).unwrap().clone().convert::<i64>());
        let error = network(&device).load_state_dict(&whole).unwrap_err();
        assert!(matches!(error, WeightsError::NotFloat { .. }), "{error}");
    }
}

/// The maps of the head are at strides 4 to 32, the auxiliary logits at 16, in training only.
#[test]
fn logits_have_the_size_of_their_maps() {
    let device = Device::flex();
    let network = network(&device);
    let images = numbers([2, 3, 64, 64], &device);
    let trained = network.forward(images.clone(), Phase::Train(Key::new(1)));
    assert_eq!(trained.main.dims(), [2, 3, 16, 16]);
    assert_eq!(trained.auxiliary.unwrap().dims(), [2, 3, 4, 4]);
    let evaluated = network.forward(images, Phase::Eval);
    assert!(evaluated.auxiliary.is_none());
}

/// Each channel of each image is dropped or scaled by `1 / 0.75` as a whole, as the key says.
#[test]
fn whole_channels_are_dropped() {
    let device = Device::flex();
    // Logits of one class are the sum of the channels: channel `c` of image `b` has a power of 2 of its own.
    let init = Init::new(&device, Key::new(1));
    let mut conv = layers::conv_seg(&init, 8, 1);
    conv.weight = burn::module::Param::from_tensor(Tensor::ones([1, 8, 1, 1], &device));
    let powers: Vec<f32> = (0..16).flat_map(|i| [(1 << (i % 8)) as f32; 6]).collect();
    let x = tensor(&powers, [2, 8, 2, 3], &device);
    let sums = |rate: f64, phase: Phase| values(layers::classify(&conv, x.clone(), rate, phase));
    assert_eq!(sums(0.25, Phase::Eval), [255.0; 12]);
    assert_eq!(sums(0.0, Phase::Train(Key::new(1))), [255.0; 12]);
    let (mut kept, runs) = (0, 200);
    let mut seen = std::collections::BTreeSet::new();
    for key in 0..runs {
        let phase = Phase::Train(Key::new(key));
        let sums_of_key = sums(0.25, phase);
        assert_eq!(sums_of_key, sums(0.25, phase));
        for image in sums_of_key.chunks(6) {
            assert!(image.iter().all(|x| *x == image[0]), "{image:?}");
            let which = (image[0] * 0.75).round() as u32;
            assert!((which as f32 / 0.75 - image[0]).abs() < 1e-3, "{image:?}");
            kept += which.count_ones();
            seen.insert(which);
        }
    }
    // Six standard deviations of a binomial.
    let draws = f64::from(runs as u32) * 16.0;
    let spread = 6.0 * (draws * 0.75 * 0.25).sqrt();
    assert!((f64::from(kept) - draws * 0.75).abs() < spread, "{kept}");
    assert!(seen.len() > 20, "{seen:?}");
}

/// Burn's cells against their definition, where they overlap, repeat and are one, with gradients.
#[test]
fn cells_are_pytorchs() {
    for ([height, width], scale) in [
        ([7, 5], 1),
        ([7, 5], 3),
        ([16, 10], 6),
        ([2, 3], 6),
        ([1, 4], 2),
    ] {
        let sides =
            |length: usize, at: usize| (at * length / scale)..((at + 1) * length).div_ceil(scale);
        // One case on the GPU: a software driver compiles each anew, for a minute.
        let places = if scale == 3 { usize::MAX } else { 1 };
        for (name, device) in devices().into_iter().take(places) {
            let device = device.autodiff();
            let x = numbers([2, 2, height, width], &device).require_grad();
            let out = burn::tensor::module::adaptive_avg_pool2d(x.clone(), [scale; 2]);
            let probe = numbers([2, 2, scale, scale], &device);
            let grads = (out.clone() * probe.clone()).sum().backward();
            let (x_values, probe) = (values(x.clone()), values(probe));
            let mut grad = vec![0.0; x_values.len()];
            let mut expected = Vec::new();
            for (place, probe) in probe.iter().enumerate() {
                let (map, row, column) = (
                    place / (scale * scale),
                    place / scale % scale,
                    place % scale,
                );
                let pixels: Vec<usize> = sides(height, row)
                    .flat_map(|y| sides(width, column).map(move |x| (y, x)))
                    .map(|(y, x)| (map * height + y) * width + x)
                    .collect();
                let share = 1.0 / pixels.len() as f32;
                expected.push(pixels.iter().map(|at| x_values[*at]).sum::<f32>() * share);
                for at in pixels {
                    grad[at] += probe * share;
                }
            }
            let case = format!("{name} {height} x {width} by {scale}");
            assert_close(&case, &values(out), &expected, 2e-6);
            assert_close(&case, &values(x.grad(&grads).unwrap()), &grad, 2e-6);
        }
    }
}

/// Logits are f32 in every precision, near those of f32, and the gradients are there.
#[test]
fn heads_multiply_in_half_types() {
    let device = Device::flex().autodiff();
    let config = UperNetConfig {
        dropout: 0.0,
        ..config()
    };
    let train = Phase::Train(Key::new(1));
    let run = |precision: Precision| {
        let head = head(&device, &config);
        let maps: Vec<Tensor<4>> = maps(2, [9, 12], &device)
            .into_iter()
            .map(Tensor::require_grad)
            .collect();
        let logits = head.forward(&maps, precision, train);
        assert_eq!(logits.dtype(), DType::F32);
        let grads = logits.clone().square().sum().backward();
        let of_map = maps[0].grad(&grads).unwrap();
        (values(logits), values(of_map))
    };
    let expected = run(Precision::F32);
    for (precision, tolerance) in [(Precision::Bf16, 0.05), (Precision::F16, 0.01)] {
        let found = run(precision);
        let differences = [error(&found.0, &expected.0), error(&found.1, &expected.1)];
        // Not the same numbers: products were in the half type.
        assert!(
            differences[0] > 0.0 && differences[0] < tolerance,
            "{differences:?}"
        );
        assert!(
            differences[1] > 0.0 && differences[1] < 4.0 * tolerance,
            "{differences:?}"
        );
    }
}

#[test]
fn sizes_that_describe_no_network_are_refused() {
    let refused = |config: UperNetConfig| config.validate(4).unwrap_err().to_string();
    let with = |change: fn(&mut UperNetConfig)| {
        let mut config = config();
        change(&mut config);
        config
    };
    for (change, expected) in [
        (with(|x| x.channels = 0), "`channels` is 0"),
        (with(|x| x.num_classes = 0), "`num_classes` is 0"),
        (with(|x| x.pool_scales = Vec::new()), "`pool_scales` is 0"),
        (with(|x| x.pool_scales = vec![1, 0]), "`pool_scales` is 0"),
        (with(|x| x.aux_channels = 0), "`aux_channels` is 0"),
        (with(|x| x.dropout = 1.0), "`dropout` is 1"),
        (with(|x| x.dropout = f64::NAN), "`dropout` is NaN"),
        (with(|x| x.aux_stage = 5), "`aux_stage` is 5"),
    ] {
        assert!(refused(change).starts_with(expected), "{expected}");
    }
    let none = UperNetConfig {
        aux_stage: 0,
        aux_channels: 0,
        ..config()
    };
    assert_eq!(none.validate(4), Ok(()));
}

#[test]
fn a_batch_norm_of_one_value_is_refused() {
    assert_eq!(
        config().check_batch(1),
        Err(ModelError::OneValue { images: 1 })
    );
    assert_eq!(config().check_batch(2), Ok(()));
    let coarse = UperNetConfig {
        pool_scales: vec![2, 3],
        ..config()
    };
    assert_eq!(coarse.check_batch(1), Ok(()));
}
