//! The network: names, counts, starts, targets, losses, files, detections.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;

use burn::tensor::{DType, Device, Tensor, TensorData};
use kvt_ops::{Key, Object, ObjectMask, Region};
use kvt_testing::devices::{error, tensor, values};

use super::*;
use crate::dense::boxes::Corners;
use crate::dense::{Pyramid, WindowPadding};
use crate::weights::{Outcome, StateDict, WeightsError};
use crate::{ModelConfig, ModelError, ModelOverrides, Network, Precision};

mod golden;
mod limits;
mod parts;

const MAPS: [usize; 4] = [4, 8, 16, 32];

fn config() -> MaskRcnnConfig {
    MaskRcnnConfig {
        num_classes: 3,
        channels: 6,
        hidden: 10,
        anchors: 64,
        regions: 16,
        ..MaskRcnnConfig::default()
    }
}

fn pyramid(device: &Device) -> Pyramid {
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
    Pyramid::new(&model, WindowPadding::Seen, device, Key::new(2)).unwrap()
}

fn network(device: &Device, config: MaskRcnnConfig) -> MaskRcnn {
    MaskRcnn::new(pyramid(device), config, device, Key::new(4)).unwrap()
}

/// Different numbers in no order.
fn numbers<const D: usize>(shape: [usize; D], device: &Device) -> Tensor<D> {
    let count = shape.iter().product();
    let number = |i: usize| (i * 7919 % 2003) as f32 / 500.0 - 2.0;
    tensor(&(0..count).map(number).collect::<Vec<_>>(), shape, device)
}

/// An object that fills a box of whole pixels.
fn filled(left: usize, top: usize, width: usize, height: usize) -> (Corners, ObjectMask) {
    let [x1, y1, x2, y2] = [left, top, left + width, top + height].map(|x| x as f32);
    let mask = ObjectMask {
        top,
        left,
        height,
        width,
        inside: vec![true; width * height],
    };
    ([x1, y1, x2, y2], mask)
}

fn objects() -> Vec<Objects> {
    let of = |(corners, mask): (Corners, ObjectMask), label: usize| Object {
        corners,
        label,
        mask,
    };
    let two = Objects {
        size: [64, 60],
        all: vec![of(filled(4, 8, 30, 20), 2), of(filled(20, 20, 40, 41), 0)],
    };
    let none = Objects {
        size: [50, 64],
        ..Objects::default()
    };
    vec![two, none]
}

#[test]
fn counts_and_names_are_those_of_mmdetection() {
    let device = Device::flex();
    let network = network(&device, config());
    let mut expected = BTreeMap::new();
    let mut layer = |name: String, weight: &[usize], outputs: usize| {
        expected.insert(format!("{name}.weight"), weight.to_vec());
        expected.insert(format!("{name}.bias"), vec![outputs]);
    };
    for (map, channels) in MAPS.into_iter().enumerate() {
        layer(
            format!("neck.lateral_convs.{map}.conv"),
            &[6, channels, 1, 1],
            6,
        );
        layer(format!("neck.fpn_convs.{map}.conv"), &[6, 6, 3, 3], 6);
        layer(
            format!("roi_head.mask_head.convs.{map}.conv"),
            &[6, 6, 3, 3],
            6,
        );
    }
    layer("rpn_head.rpn_conv".to_owned(), &[6, 6, 3, 3], 6);
    layer("rpn_head.rpn_cls".to_owned(), &[3, 6, 1, 1], 3);
    layer("rpn_head.rpn_reg".to_owned(), &[12, 6, 1, 1], 12);
    let bbox = |name: &str| format!("roi_head.bbox_head.{name}");
    layer(bbox("shared_fcs.0"), &[10, 6 * 49], 10);
    layer(bbox("shared_fcs.1"), &[10, 10], 10);
    layer(bbox("fc_cls"), &[4, 10], 4);
    layer(bbox("fc_reg"), &[12, 10], 12);
    layer("roi_head.mask_head.upsample".to_owned(), &[6, 6, 2, 2], 6);
    layer(
        "roi_head.mask_head.conv_logits".to_owned(),
        &[3, 6, 1, 1],
        3,
    );

    let saved = network.state_dict().unwrap();
    let of_heads = saved
        .iter()
        .filter(|(name, _)| !name.starts_with("backbone."));
    let found: BTreeMap<String, Vec<usize>> = of_heads
        .map(|(name, data)| (name.to_owned(), data.shape().to_vec()))
        .collect();
    assert_eq!(found, expected);
    let mut trained: Vec<String> = network.parameters().into_iter().map(|x| x.name).collect();
    trained.sort();
    let of_file: Vec<&str> = saved.iter().map(|(name, _)| name).collect();
    assert_eq!(trained, of_file);

    let maps = [16, 8, 4, 2].map(|side| [side, side]);
    let maps: Vec<[usize; 3]> = MAPS
        .iter()
        .zip(maps)
        .map(|(c, [h, w])| [*c, h, w])
        .collect();
    let sizes = found.values().map(|shape| shape.iter().product::<usize>());
    let (params, _) = config().cost(maps.try_into().unwrap());
    assert_eq!(sizes.sum::<usize>(), params);
}

/// As mmengine's constructor decides with the recipe's keys: biases decay.
#[test]
fn decay_is_decided_by_name() {
    let network = network(&Device::flex(), config());
    let all = network.parameters();
    let find = |name: &str| all.iter().find(|x| x.name == name).unwrap();
    for (name, decays, by_family) in [
        ("backbone.layers.0.blocks.0.attn.qkv.bias", true, false),
        ("backbone.layers.0.blocks.0.norm2.bias", false, false),
        ("backbone.norm2.weight", false, false),
        ("neck.fpn_convs.1.conv.weight", true, true),
        ("rpn_head.rpn_cls.bias", true, false),
        ("roi_head.mask_head.upsample.weight", true, true),
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
    assert_eq!(
        layer("neck.lateral_convs.0.conv.bias") + 1,
        network.pyramid.backbone.layers()
    );
    assert_eq!(network.pyramid.frozen().len(), 4);
}

/// The losses of all parts reach all parameters; an image without objects takes part.
#[test]
fn every_parameter_is_trained() {
    let device = Device::flex().autodiff();
    let network = network(&device, config());
    let images = numbers([2, 3, 64, 64], &device);
    let losses = network
        .losses(images.clone(), &objects(), Key::new(7))
        .unwrap();
    let numbers: Vec<f32> = losses.all.clone().into_iter().flat_map(values).collect();
    assert!(
        numbers.iter().all(|loss| loss.is_finite() && *loss > 0.0),
        "{numbers:?}"
    );
    let again = network.losses(images, &objects(), Key::new(7)).unwrap();
    assert_eq!(values(losses.total()), values(again.total()));

    let grads = losses.total().backward();
    let found = golden::gradients(&network, &grads);
    for parameter in network.parameters() {
        let grad = &found[&parameter.id.val()];
        assert!(grad.iter().all(|x| x.is_finite()), "{}", parameter.name);
    }
}

#[test]
fn images_without_objects_have_no_losses_of_boxes_and_masks() {
    let device = Device::flex().autodiff();
    let network = network(&device, config());
    let [_, none]: [Objects; 2] = objects().try_into().unwrap();
    let images = numbers([1, 3, 64, 64], &device);
    let losses = network.losses(images, &[none], Key::new(7)).unwrap();
    let [_, rpn_box, class, boxes, mask] = losses.all.clone();
    for loss in [rpn_box, boxes, mask] {
        assert_eq!(values(loss), [0.0]);
    }
    assert!(values(class)[0] > 0.0);
    losses.total().backward();
}

/// The losses of objects that were changed.
fn losses_of(change: fn(&mut Vec<Objects>)) {
    let device = Device::flex();
    let mut objects = objects();
    change(&mut objects);
    let images = numbers([2, 3, 64, 64], &device);
    drop(network(&device, config()).losses(images, &objects, Key::new(7)));
}

#[test]
#[should_panic(expected = "as many sizes as images")]
fn objects_are_of_each_image() {
    losses_of(|all| all.truncate(1));
}

#[test]
#[should_panic(expected = "an image of [65, 64] pixels in a batch of 64 x 64")]
fn images_are_within_their_batch() {
    losses_of(|all| all[1].size = [65, 64]);
}

#[test]
#[should_panic(expected = "an object of class 3 of 3")]
fn objects_are_of_a_class() {
    losses_of(|all| all[0].all[1].label = 3);
}

#[test]
#[should_panic(expected = "an object without an area: [3.0, 3.0, 3.0, 9.0]")]
fn objects_have_an_area() {
    losses_of(|all| all[0].all[0].corners = [3.0, 3.0, 3.0, 9.0]);
}

/// A detection is in its image, of a class, above the score, and has a mask.
#[test]
fn detections_are_within_the_original_image() {
    let device = Device::flex();
    let config = MaskRcnnConfig {
        score: 0.1,
        detections: 5,
        ..config()
    };
    let network = network(&device, config);
    let frames = [([64, 48], [128, 48]), ([50, 64], [25, 64])];
    let frames = frames.map(|(size, original)| Frame { size, original });
    let found = network.detect(numbers([2, 3, 64, 64], &device), &frames);
    let found = found.unwrap();
    assert_eq!(found.len(), 2);
    for (found, frame) in found.iter().zip(&frames) {
        assert_eq!(found.len(), 5);
        assert!(found.is_sorted_by(|a, b| a.score >= b.score));
        let [height, width] = frame.original.map(|side| side as f32 + 1e-3);
        for detection in found {
            let [x1, y1, x2, y2] = detection.corners;
            assert!(0.0 <= x1 && x1 < x2 && x2 <= width, "{detection:?}");
            assert!(0.0 <= y1 && y1 < y2 && y2 <= height, "{detection:?}");
            assert!(detection.label < 3 && detection.score > 0.1);
            assert_eq!(detection.mask.len(), MASK_SIDE * MASK_SIDE);
            let bitmap = paste(&detection.mask, detection.corners, frame.original);
            assert!(bitmap.top + bitmap.height <= frame.original[0]);
            assert!(bitmap.left + bitmap.width <= frame.original[1]);
        }
    }
}

#[test]
fn a_saved_network_is_loaded_and_another_refused() {
    let device = Device::flex();
    let saved = network(&device, config()).state_dict().unwrap();
    let mut given = saved.clone();
    let other = TensorData::new(vec![0f32; 3], [3]);
    given.insert("roi_head.other", other.clone());
    given.insert("backbone.head.fc.weight", other);
    let fresh = || MaskRcnn::new(pyramid(&device), config(), &device, Key::new(99)).unwrap();
    assert_ne!(fresh().state_dict().unwrap(), saved);
    let (loaded, unused) = fresh().load_state_dict(&given).unwrap();
    assert_eq!(unused, ["roi_head.other"]);
    assert_eq!(loaded.state_dict().unwrap(), saved);

    let name = "roi_head.mask_head.upsample.weight";
    let missing: StateDict = saved
        .iter()
        .filter(|(other, _)| *other != name)
        .map(|(name, data)| (name.to_owned(), data.clone()))
        .collect();
    let error = fresh().load_state_dict(&missing).unwrap_err();
    assert!(
        error.to_string().contains(&format!("`{name}` is missing")),
        "{error}"
    );
    let mut misshapen = saved;
    let name = "neck.fpn_convs.2.conv.bias";
    misshapen.insert(name, TensorData::new(vec![0f32; 9], [9]));
    let error = fresh().load_state_dict(&misshapen).unwrap_err();
    let WeightsError::Incompatible { report, .. } = &error else {
        unreachable!("{error}");
    };
    assert_eq!(
        report.names(Outcome::Mismatched).collect::<Vec<_>>(),
        [name]
    );
}

/// Levels and logits are f32 in every precision, near those of f32.
#[test]
fn heads_multiply_in_half_types() {
    let device = Device::flex();
    let maps: Vec<Tensor<4>> = MAPS
        .into_iter()
        .zip([16, 8, 4, 2])
        .map(|(channels, side)| numbers([2, channels, side, side], &device))
        .collect();
    let run = |precision: Precision| {
        let pyramid = pyramid(&device).with_precision(precision);
        let network = MaskRcnn::new(pyramid, config(), &device, Key::new(4)).unwrap();
        let (levels, _) = network.look(&maps);
        let mut all: Vec<Vec<f32>> = levels.iter().cloned().map(values).collect();
        assert!(levels.iter().all(|level| level.dtype() == DType::F32));
        let region = Region {
            image: 1,
            corners: [3.0, 4.0, 50.0, 40.0],
        };
        let boxes = network.classify(&levels, &[region]);
        let masks = network.outline(&levels, &[region]);
        assert_eq!(boxes.logits.dtype(), DType::F32);
        assert_eq!(masks.dtype(), DType::F32);
        all.extend([values(boxes.logits), values(masks)]);
        all
    };
    let expected = run(Precision::F32);
    for (precision, tolerance) in [(Precision::Bf16, 0.1), (Precision::F16, 0.02)] {
        for (found, expected) in run(precision).iter().zip(&expected) {
            let difference = error(found, expected);
            assert!(difference > 0.0 && difference < tolerance, "{difference}");
        }
    }
}

#[test]
fn sizes_that_describe_no_network_are_refused() {
    let refused = |change: fn(&mut MaskRcnnConfig)| {
        let mut config = config();
        change(&mut config);
        config.validate().unwrap_err()
    };
    let zero = |field| ModelError::OutOfRange {
        field,
        value: 0.0,
        expected: "at least 1",
    };
    assert_eq!(refused(|x| x.num_classes = 0), zero("num_classes"));
    assert_eq!(refused(|x| x.hidden = 0), zero("hidden"));
    assert_eq!(refused(|x| x.test_proposals = 0), zero("test_proposals"));
    assert_eq!(refused(|x| x.train_per_level = 0), zero("train_per_level"));
    let text = |error: ModelError| error.to_string();
    assert!(text(refused(|x| x.iou = 1.5)).starts_with("`iou` is 1.5"));
    assert!(text(refused(|x| x.score = f64::NAN)).starts_with("`score` is NaN"));
    let error = text(refused(|x| x.regions_fraction = -0.5));
    assert!(error.starts_with("`regions_fraction` is -0.5"));
    assert_eq!(MaskRcnnConfig::default().validate(), Ok(()));
}
