//! Parts by themselves, by hand where that can be.

use burn::module::Param;
use kvt_ops::roi_align;
use kvt_testing::devices::assert_close;

use super::*;
use crate::dense::boxes::{Coder, Proposal};
use crate::dense::mask_rcnn::anchors::Anchors;
use crate::dense::mask_rcnn::box_head::BoxOutput;
use crate::dense::mask_rcnn::losses::{of_anchors, of_masks, of_regions};
use crate::dense::mask_rcnn::mask_head::Doubling;
use crate::dense::mask_rcnn::outline::outline;
use crate::dense::mask_rcnn::paste::{interpolated, place};
use crate::dense::mask_rcnn::regions::align;
use crate::dense::mask_rcnn::targets::{AnchorTargets, RegionTargets};
use crate::dense::state;
use crate::layers::Init;

/// Rows of 0 and 1.
fn bits(inside: &[bool], width: usize) -> Vec<String> {
    let rows = inside.chunks(width);
    rows.map(|row| row.iter().map(|x| if *x { '1' } else { '0' }).collect())
        .collect()
}

/// mmdetection's `BitmapMasks.crop_and_resize`: ones in rows 2 to 7 and columns 3 to 8 of 12 x 12, but for a corner of 2 x 2.
#[test]
fn outlines_are_mmdetections() {
    let inside = |row: usize, column: usize| {
        (2..8).contains(&row) && (3..9).contains(&column) && !(row < 4 && column < 5)
    };
    let corners = [2.0, 1.0, 10.0, 9.0];
    let expected = ["0010", "0111", "1111", "0110"];
    // The whole image, and the surroundings of the object.
    for [top, left, height, width] in [[0, 0, 12, 12], [2, 3, 6, 6], [1, 3, 8, 7]] {
        let rows = top..top + height;
        let pixels = rows.flat_map(|row| (left..left + width).map(move |column| (row, column)));
        let mask = ObjectMask {
            top,
            left,
            height,
            width,
            inside: pixels.map(|(row, column)| inside(row, column)).collect(),
        };
        assert_eq!(mask.inside.iter().filter(|x| **x).count(), 32);
        assert!(mask.contains(4, 3) && !mask.contains(2, 3) && !mask.contains(0, 0));
        let found = outline(&mask, corners, [12, 12], 4);
        assert_eq!(bits(&found, 4), expected);
    }
}

#[test]
fn a_mask_that_fills_its_box_is_whole_and_pastes_to_the_box() {
    let (corners, mask) = filled(3, 5, 20, 9);
    let whole = outline(&mask, corners, [30, 40], MASK_SIDE);
    assert_eq!(whole, vec![true; MASK_SIDE * MASK_SIDE]);
    assert_eq!(
        paste(&[1.0; MASK_SIDE * MASK_SIDE], corners, [30, 40]),
        mask
    );
    // A box beside the object, one beyond the image and one without an area.
    for corners in [
        [25.0, 16.0, 35.0, 28.0],
        [50.0, 50.0, 60.0, 60.0],
        [4.0, 6.0, 4.0, 9.0],
        [f32::NAN, 6.0, 9.0, 9.0],
    ] {
        let covered = outline(&mask, corners, [30, 40], MASK_SIDE);
        assert!(covered.iter().all(|inside| !inside), "{corners:?}");
    }
    let empty = paste(
        &[1.0; MASK_SIDE * MASK_SIDE],
        [4.0, 6.0, 4.0, 9.0],
        [30, 40],
    );
    assert!(!empty.inside.contains(&true));
}

/// mmdetection's `_do_paste_mask`.
#[test]
fn pasted_probabilities_are_mmdetections() {
    let (mask, corners) = ([0.0, 0.2, 0.8, 1.0], [1.0, 1.0, 5.0, 5.0]);
    for (row, expected) in [
        (3, [0.15, 0.45, 0.65, 0.75, 0.60, 0.20, 0.0]),
        (4, [0.15, 0.45, 0.6375, 0.7125, 0.5625, 0.1875, 0.0]),
    ] {
        for (column, expected) in expected.into_iter().enumerate() {
            let at = [row, column].map(|pixel| place(pixel, [1.0, 5.0], 2));
            let found = interpolated(&mask, 2, at);
            assert!((found - expected).abs() < 1e-6, "{row} {column}: {found}");
        }
    }
    let found = paste(&mask, corners, [7, 7]);
    assert_eq!(
        [found.top, found.left, found.height, found.width],
        [1, 1, 4, 4]
    );
    assert_eq!(bits(&found.inside, 4), ["0000", "0000", "0111", "0111"]);
    // Cut at the border of the image.
    let cut = paste(&mask, corners, [4, 4]);
    assert_eq!(bits(&cut.inside, 3), ["000", "000", "011"]);
}

/// Two inputs and one output by hand: each pixel becomes four.
#[test]
fn doubling_is_a_transposed_convolution() {
    let device = Device::flex();
    let mut layer = Doubling::new(&Init::new(&device, Key::new(1)), [2, 1]);
    let weight = [1.0, 2.0, 3.0, 4.0, 100.0, 0.0, 0.0, -100.0];
    layer.weight = Param::from_tensor(tensor(&weight, [2, 1, 2, 2], &device));
    layer.bias = Param::from_tensor(tensor(&[0.5], [1], &device));
    let x = tensor(&[1.0, 10.0, 2.0, 0.0], [1, 2, 1, 2], &device);
    let out = layer.forward(x);
    assert_eq!(out.dims(), [1, 1, 2, 4]);
    let expected = [201.5, 2.5, 10.5, 20.5, 3.5, -195.5, 30.5, 40.5];
    assert_eq!(values(out), expected);
}

/// Sides that do not divide, as of an image whose last patches are dropped or padded.
#[test]
fn levels_have_the_sizes_of_the_maps_and_a_half() {
    let device = Device::flex();
    let fpn = Fpn::new(&Init::new(&device, Key::new(1)), &MAPS, 6);
    let sizes = [[17, 23], [9, 12], [5, 6], [3, 3]];
    let maps = MAPS.into_iter().zip(sizes);
    let maps: Vec<Tensor<4>> = maps
        .map(|(channels, [height, width])| numbers([2, channels, height, width], &device))
        .collect();
    let levels = fpn.forward(&maps, Precision::F32);
    let found: Vec<[usize; 4]> = levels.iter().map(Tensor::dims).collect();
    let expected = [[17, 23], [9, 12], [5, 6], [3, 3], [2, 2]];
    assert_eq!(found, expected.map(|[height, width]| [2, 6, height, width]));
    let coarsest = values(levels[3].clone());
    let every_second = coarsest.chunks(9).flat_map(|x| [x[0], x[2], x[6], x[8]]);
    assert_eq!(values(levels[4].clone()), every_second.collect::<Vec<_>>());
}

#[test]
fn anchors_of_a_place_follow_each_other() {
    let device = Device::flex();
    let level = |height: usize, width: usize| {
        [3, 12].map(|channels| numbers([2, channels, height, width], &device))
    };
    let [second_logits, second_deltas] = level(1, 2);
    let output = RpnOutput::of([level(2, 3), level(1, 2)].into_iter());
    assert_eq!(output.logits.dims(), [2, 24]);
    assert_eq!(output.deltas.dims(), [2, 24, 4]);
    assert_eq!(output.sizes, [[2, 3], [1, 2]]);
    // Image 1, level 1, column 1, anchor 2.
    let (logits, deltas) = (values(output.logits), values(output.deltas));
    let at = 24 + 18 + 3 + 2;
    assert_eq!(logits[at], values(second_logits)[(3 + 2) * 2 + 1]);
    let own = values(second_deltas);
    let expected: Vec<f32> = (8..12).map(|of| own[(12 + of) * 2 + 1]).collect();
    assert_eq!(deltas[at * 4..at * 4 + 4], expected);
}

/// Regions of several levels come back in their order, each from its own level.
#[test]
fn regions_keep_their_order() {
    let device = Device::flex();
    let levels = [32, 16, 8, 4, 2].map(|side| numbers([2, 3, side, side], &device));
    let sides = [(0, 120.0), (1, 20.0), (1, 300.0), (0, 60.0), (1, 130.0)];
    let region = |(image, side): (usize, f32)| Region {
        image,
        corners: [3.0, 5.0, 3.0 + side, 5.0 + side],
    };
    let regions = sides.map(region);
    let found = values(align(&levels, &regions, 7));
    let expected = regions.iter().zip([1, 0, 2, 0, 1]);
    let expected = expected.flat_map(|(region, level): (&Region, usize)| {
        let scale = 1.0 / (4usize << level) as f32;
        values(roi_align(levels[level].clone(), &[*region], 7, scale))
    });
    assert_close("regions", &found, &expected.collect::<Vec<_>>(), 1e-6);
}

#[test]
fn losses_are_as_worked_by_hand() {
    let device = Device::flex();
    let output = RpnOutput {
        logits: tensor(&[0.0, 2.0, -1.0, 3.0], [2, 2], &device),
        deltas: tensor(&[0.5; 16], [2, 2, 4], &device),
        sizes: Vec::new(),
    };
    let targets = AnchorTargets {
        positive: vec![1],
        negative: vec![0, 2],
        deltas: vec![[0.5, 1.0, 0.0, 2.5]],
        divisor: 4,
    };
    let [class, boxes] = of_anchors(&output, &targets).map(|loss| values(loss)[0]);
    let soft = |x: f32| (1.0 + x.exp()).ln();
    let expected = (soft(-2.0) + soft(0.0) + soft(-1.0)) / 4.0;
    assert!((class - expected).abs() < 1e-6, "{class} {expected}");
    assert!((boxes - 3.0 / 4.0).abs() < 1e-6, "{boxes}");

    // Two regions, two classes: one of class 1, one of the background.
    let output = BoxOutput {
        logits: tensor(&[1.0, 2.0, 0.5, 0.0, 0.0, 3.0], [2, 3], &device),
        deltas: tensor(
            &[
                9.0, 9.0, 9.0, 9.0, 1.0, 2.0, 3.0, 4.0, 9.0, 9.0, 9.0, 9.0, 9.0, 9.0, 9.0, 9.0,
            ],
            [2, 2, 4],
            &device,
        ),
    };
    let region = Region {
        image: 0,
        corners: [0.0; 4],
    };
    let targets = RegionTargets {
        regions: vec![region; 2],
        labels: vec![1, 2],
        positive: vec![0],
        deltas: vec![[1.0, 0.0, 3.5, 4.0]],
        masks: vec![true, false, false, true],
    };
    let [class, boxes] = of_regions(&output, &targets).map(|loss| values(loss)[0]);
    let cross = |own: f32, all: [f32; 3]| all.iter().map(|x| x.exp()).sum::<f32>().ln() - own;
    let expected = (cross(2.0, [1.0, 2.0, 0.5]) + cross(3.0, [0.0, 0.0, 3.0])) / 2.0;
    assert!((class - expected).abs() < 1e-6, "{class} {expected}");
    assert!((boxes - 2.5 / 2.0).abs() < 1e-6, "{boxes}");
    let logits = [5.0, 5.0, 5.0, 5.0, 1.0, 2.0, -1.0, 0.0];
    let mask = values(of_masks(tensor(&logits, [1, 2, 2, 2], &device), &targets))[0];
    let expected = (soft(-1.0) + soft(2.0) + soft(-1.0) + soft(0.0)) / 4.0;
    assert!((mask - expected).abs() < 1e-6, "{mask} {expected}");
}

#[test]
fn targets_are_of_the_own_image() {
    let config = MaskRcnnConfig {
        anchors: 1_000_000,
        ..config()
    };
    let anchors = Anchors::new(&[[16, 16], [8, 8], [4, 4], [2, 2], [1, 1]]);
    let count = anchors.boxes.len();
    assert_eq!(count, 3 * 341);
    let mut all = objects();
    // The second image ends after 32 rows, where anchors of the first image go on.
    all[1].size = [20, 64];
    let mut targets = AnchorTargets::default();
    for (image, objects) in all.iter().enumerate() {
        targets.add(image, &anchors, objects, &config, Key::new(3));
    }
    assert_eq!(targets.positive.len(), targets.deltas.len());
    assert!(targets.positive.iter().all(|place| *place < count));
    let of_second = targets.negative.iter().filter(|place| **place >= count);
    let within = 3 * (8 * 16 + 4 * 8 + 2 * 4 + 2 + 1);
    assert_eq!(of_second.count(), within);
    let sampled = targets.positive.len() + targets.negative.len();
    // At least one positive anchor counts for the second image.
    assert_eq!(targets.divisor, sampled + 1);

    let proposal = |corners: Corners| Proposal {
        corners,
        score: 0.5,
    };
    let proposals = [
        proposal([5.0, 8.0, 34.0, 28.0]),
        proposal([0.0, 40.0, 10.0, 60.0]),
    ];
    let mut targets = RegionTargets::default();
    targets.add(1, &proposals, &all[0], &config, Key::new(3));
    // Both objects, the proposal on the first, and the other.
    assert_eq!(targets.labels, [2, 0, 2, 3]);
    assert_eq!(targets.positive, [0, 1, 2]);
    assert!(targets.regions.iter().all(|region| region.image == 1));
    assert_eq!(targets.regions[2].corners, proposals[0].corners);
    assert_eq!(targets.deltas[1], [0.0; 4]);
    let expected = Coder::ROI.encode(&proposals[0].corners, &all[0].all[0].corners);
    assert_eq!(targets.deltas[2], expected);
    assert_eq!(targets.masks.len(), 3 * MASK_SIDE * MASK_SIDE);
    assert_eq!(targets.of_class(3).collect::<Vec<_>>(), [2, 3, 8]);
    assert_eq!(targets.positive_regions(), targets.regions[..3]);
}

/// Means of squares of a network's weights, on heads that are wide enough to tell.
#[test]
fn weights_start_as_in_mmdetection() {
    let device = Device::flex();
    let init = Init::new(&device, Key::new(1));
    let parts = [
        state::state_dict(&Fpn::new(&init, &MAPS, 32), "").unwrap(),
        state::state_dict(&RpnHead::new(&init, 32), "").unwrap(),
        state::state_dict(&BoxHead::new(&init, 8, 64, 20), "").unwrap(),
        state::state_dict(&MaskHead::new(&init, 16, 20), "").unwrap(),
    ];
    let all: StateDict = parts.into_iter().flatten().collect();
    let xavier = |inputs: f32, outputs: f32| (2.0 / (inputs + outputs)).sqrt();
    for (name, std) in [
        ("lateral_convs.3.conv.weight", xavier(32.0, 32.0)),
        ("fpn_convs.0.conv.weight", xavier(288.0, 288.0)),
        ("rpn_conv.weight", 0.01),
        ("rpn_reg.weight", 0.01),
        ("shared_fcs.0.weight", xavier(392.0, 64.0)),
        ("fc_cls.weight", 0.01),
        ("fc_reg.weight", 0.001),
        ("convs.2.conv.weight", (2.0f32 / 144.0).sqrt()),
        ("upsample.weight", (2.0f32 / 64.0).sqrt()),
        ("conv_logits.weight", (2.0f32 / 20.0).sqrt()),
    ] {
        let values: Vec<f32> = all.get(name).unwrap().try_to_vec().unwrap();
        let found = (values.iter().map(|x| x * x).sum::<f32>() / values.len() as f32).sqrt();
        // Six standard deviations of a standard deviation.
        let spread = 6.0 / (2.0 * values.len() as f32).sqrt();
        assert!(
            (found / std - 1.0).abs() < spread,
            "{name}: {found}, not {std}"
        );
    }
    for (name, data) in all.iter().filter(|(name, _)| name.ends_with("bias")) {
        let values: Vec<f32> = data.try_to_vec().unwrap();
        assert!(values.iter().all(|x| *x == 0.0), "{name}");
    }
}
