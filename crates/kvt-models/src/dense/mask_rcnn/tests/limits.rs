//! What is decided at a limit, and what is drawn.

use kvt_ops::Phase;

use super::*;
use crate::dense::boxes::Proposal;
use crate::dense::mask_rcnn::anchors::Anchors;
use crate::dense::mask_rcnn::targets::{AnchorTargets, RegionTargets};

/// The numbers of mmdetection's `configs/_base_/models/mask-rcnn_r50_fpn.py`.
#[test]
fn defaults_are_mmdetections() {
    let config = MaskRcnnConfig::default();
    let train = [config.train_per_level, config.train_proposals];
    let test = [config.test_per_level, config.test_proposals];
    assert_eq!([train, test], [[2000, 1000], [1000, 1000]]);
    assert_eq!((config.anchors, config.anchors_fraction), (256, 0.5));
    assert_eq!((config.regions, config.regions_fraction), (512, 0.25));
    assert_eq!([config.score, config.iou], [0.05, 0.5]);
    assert_eq!(config.detections, 100);
}

/// Which anchors and regions of an image are drawn depends on the key and on the image's number in the batch.
#[test]
fn every_image_draws_its_own() {
    let anchors = Anchors::new(&[[16, 16], [8, 8], [4, 4], [2, 2], [1, 1]]);
    let all = objects();
    let anchors_of = |image: usize, seed: u64| -> Vec<usize> {
        let mut targets = AnchorTargets::default();
        targets.add(image, &anchors, &all[0], &config(), Key::new(seed));
        let first = image * anchors.boxes.len();
        targets.negative.iter().map(|place| place - first).collect()
    };
    // Rows at the left of both objects: background, of which 14 are drawn.
    let proposal = |row: u8| Proposal {
        corners: [0.0, f32::from(row), 3.0, f32::from(row) + 1.0],
        score: 0.5,
    };
    let proposals: Vec<Proposal> = (0..60).map(proposal).collect();
    let regions_of = |image: usize, seed: u64| -> Vec<Corners> {
        let mut targets = RegionTargets::default();
        targets.add(image, &proposals, &all[0], &config(), Key::new(seed));
        assert_eq!((targets.positive.len(), targets.regions.len()), (2, 16));
        targets
            .regions
            .iter()
            .map(|region| region.corners)
            .collect()
    };
    assert_eq!(anchors_of(1, 3), anchors_of(1, 3));
    assert_eq!(regions_of(1, 3), regions_of(1, 3));
    for (image, seed) in [(0, 3), (1, 4)] {
        assert_ne!(anchors_of(image, seed), anchors_of(1, 3));
        assert_ne!(regions_of(image, seed), regions_of(1, 3));
    }
}

/// Of the same maps another key draws other anchors and other regions.
#[test]
fn losses_depend_on_the_key() {
    let device = Device::flex();
    let network = network(&device, config());
    let maps = network.maps(numbers([2, 3, 64, 64], &device), Phase::Eval);
    let losses = |seed| {
        let losses = network.losses_of_maps(&maps, &objects(), Key::new(seed));
        losses.unwrap().all.map(values)
    };
    let ([anchors, _, regions, ..], [other_anchors, _, other_regions, ..]) = (losses(7), losses(8));
    assert_ne!(anchors, other_anchors);
    assert_ne!(regions, other_regions);
}

/// A network whose last layers are zeros: three classes and the background have a quarter each, and boxes stay as they are. A score must
/// exceed the limit; of equal ones the first region's first class is the best, and no class suppresses another.
#[test]
fn equal_scores_are_in_order_and_exceed_the_limit() {
    let device = Device::flex();
    let saved = network(&device, config()).state_dict().unwrap();
    let zeroed = saved.iter().map(|(name, data)| {
        let is_last = name.contains("fc_cls") || name.contains("fc_reg");
        let shape = data.shape().to_vec();
        let zeros = vec![0f32; shape.iter().product()];
        let data = if is_last {
            TensorData::new(zeros, shape)
        } else {
            data.clone()
        };
        (name.to_owned(), data)
    });
    let zeroed: StateDict = zeroed.collect();
    let found = |score: f64| {
        let config = MaskRcnnConfig {
            score,
            detections: 6,
            ..config()
        };
        let (network, _) = network(&device, config).load_state_dict(&zeroed).unwrap();
        let frame = Frame {
            size: [64, 64],
            original: [64, 64],
        };
        let found = network.detect(numbers([1, 3, 64, 64], &device), &[frame]);
        found.unwrap().swap_remove(0)
    };
    assert!(found(0.25).is_empty());
    let all = found(0.249);
    let scores: Vec<f32> = all.iter().map(|one| one.score).collect();
    assert_eq!(scores, [0.25; 6]);
    let labels: Vec<usize> = all.iter().map(|one| one.label).collect();
    assert_eq!(labels, [0, 1, 2, 0, 1, 2]);
    assert_eq!(all[0].corners, all[2].corners);
    assert_ne!(all[2].corners, all[3].corners);
}

/// An object in the last corner of an image of 20 x 20 pixels, which is padded to 32 x 32, its mask too: torchvision's RoIAlign, by which
/// mmdetection cuts masks, is at least 0.5 in 780 of 784 bins, and in 783 without the padding.
#[test]
fn outlines_see_the_padding_of_their_image() {
    let (corners, mask) = filled(13, 13, 7, 7);
    let of = Objects {
        size: [20, 20],
        all: vec![Object {
            corners,
            label: 0,
            mask,
        }],
    };
    let mut targets = RegionTargets::default();
    targets.add(0, &[], &of, &config(), Key::new(1));
    let covered = targets.masks.iter().filter(|inside| **inside);
    assert_eq!((targets.masks.len(), covered.count()), (784, 780));
}

/// A probability of one half is inside, as in mmdetection: between the centres of a mask of halves, and fading to zero around them.
#[test]
fn a_half_is_inside() {
    let found = paste(&[0.5; 4], [1.0, 1.0, 5.0, 5.0], [7, 7]);
    let inside: Vec<bool> = (0..16).map(|at| [5, 6, 9, 10].contains(&at)).collect();
    assert_eq!(found.inside, inside);
}
