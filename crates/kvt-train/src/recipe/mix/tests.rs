#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::sync::LazyLock;

use burn::tensor::{Device, Tensor, TensorData};
use kvt_ops::Key;
use kvt_testing::devices::devices_of;
use safetensors::SafeTensors;

use super::draw::rect_around;
use super::*;
use crate::augment::{AugmentConfig, Normalization, Patch};
use crate::recipe::LossConfig;

const GOLDEN: &[u8] = include_bytes!("../../../tests/golden/mix.safetensors");
/// ImageNet's.
static NORMALIZATION: LazyLock<Normalization> =
    LazyLock::new(|| Normalization::from(&AugmentConfig::default()));
const IMAGES: usize = 6;
const SIZE: (usize, usize) = (9, 7);

fn floats(name: &str) -> Vec<f32> {
    let file = SafeTensors::deserialize(GOLDEN).unwrap();
    let tensor = file.tensor(name).unwrap();
    let (numbers, _) = tensor.data().as_chunks::<4>();
    numbers.iter().map(|b| f32::from_le_bytes(*b)).collect()
}

fn labels() -> Vec<u32> {
    let file = SafeTensors::deserialize(GOLDEN).unwrap();
    let tensor = file.tensor("labels").unwrap();
    let (numbers, _) = tensor.data().as_chunks::<8>();
    let numbers = numbers.iter().map(|b| i64::from_le_bytes(*b));
    numbers.map(|n| u32::try_from(n).unwrap()).collect()
}

/// The golden images in the format of a loader.
fn normalised(device: &Device) -> Tensor<4> {
    let file = SafeTensors::deserialize(GOLDEN).unwrap();
    let pixels = file.tensor("pixels").unwrap();
    let plane = SIZE.0 * SIZE.1;
    let level = |(place, level): (usize, &u8)| {
        let channel = place / plane % 3;
        let (mean, std) = (NORMALIZATION.mean[channel], NORMALIZATION.std[channel]);
        (f32::from(*level) / 255.0 - mean as f32) / std as f32
    };
    let values: Vec<f32> = pixels.data().iter().enumerate().map(level).collect();
    Tensor::from_data(TensorData::new(values, [IMAGES, 3, SIZE.0, SIZE.1]), device)
}

/// timm's draws.
fn drawn(name: &str) -> Mixing {
    let rows = floats(name);
    let (rows, _) = rows.as_chunks::<6>();
    let blends = rows.iter().map(|&[kind, own, top, left, height, width]| {
        let [top, left, height, width] = [top, left, height, width].map(|x| x as usize);
        match kind as usize {
            0 => Blend::Keep,
            1 => Blend::Mixup { own: own.into() },
            _ => Blend::CutMix {
                rect: Rect {
                    top,
                    left,
                    height,
                    width,
                },
            },
        }
    });
    Mixing(blends.collect())
}

#[track_caller]
fn assert_close(what: &str, found: &[f32], expected: &[f32], tolerance: f32) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (found, expected) in found.iter().zip(expected) {
        assert!(
            (found - expected).abs() <= tolerance,
            "{what}: {found}, not {expected}"
        );
    }
}

fn values<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data().try_to_vec().unwrap()
}

/// Both orders, all modes, mixup and CutMix in one batch, and halves that must be rounded to even.
#[test]
fn mixed_batches_are_timms() {
    for case in [
        "batch_mixup",
        "batch_cutmix",
        "batch_minmax",
        "pair_both",
        "elem_both",
        "elem_minmax",
        "batch_half",
    ] {
        for (label, device) in devices_of(case == "elem_both") {
            let device = device.autodiff();
            let images = normalised(&device);
            for order in ["float", "pixel"] {
                let name = |part: &str| format!("{order}_{case}.{part}");
                let mixing = drawn(&name("draws"));
                let found = match order {
                    "float" => mixing.images(images.clone()),
                    _ => mixing.pixels(images.clone(), &NORMALIZATION),
                };
                let expected = floats(&name("images"));
                let what = format!("{} on {label}", name("images"));
                // A GPU divides slightly less exactly; a pixel that is rounded differently is off by 0.017.
                let tolerance = if label == "flex" { 2e-6 } else { 1e-5 };
                assert_close(&what, &values(found), &expected, tolerance);
                let shares = mixing.own_shares(IMAGES, SIZE);
                let targets =
                    LossConfig::default().targets(labels().chunks(1), Some(&shares), 5, &device);
                let what = name("targets");
                assert_close(&what, &values(targets), &floats(&what), 1e-6);
            }
        }
    }
}

#[test]
fn rectangles_are_timms() {
    let rows = floats("boxes");
    let (rows, _) = rows.as_chunks::<9>();
    assert_eq!(rows.len(), 60);
    for row in rows {
        let [height, width, row_at, column_at, top, left, bottom, right] =
            [0, 1, 3, 4, 5, 6, 7, 8].map(|place: usize| row[place] as usize);
        let found = rect_around((row_at, column_at), (height, width), row[2].into(), false);
        let expected = Rect {
            top,
            left,
            height: bottom - top,
            width: right - left,
        };
        assert_eq!(found, expected, "{row:?}");
    }
}

fn config(mode: MixMode) -> MixConfig {
    MixConfig {
        mixup: 0.8,
        cutmix: 1.0,
        prob: 0.75,
        switch_prob: 0.25,
        mode,
        ..MixConfig::default()
    }
}

/// The frequencies of no mixing, mixup and CutMix, and the first two moments of the own weights, over many keys.
#[test]
fn draws_follow_their_laws() {
    let size = (64, 48);
    let count = 20_000;
    let config = config(MixMode::Elem);
    let Mixing(blends) = draw(&config, count, size, Key::new(3));
    assert_eq!(blends.len(), count);
    let mut own = Vec::new();
    let mut rects = Vec::new();
    for blend in blends {
        match blend {
            Blend::Keep => {}
            Blend::Mixup { own: share } => own.push(share),
            Blend::CutMix { rect } => {
                assert!(rect.top + rect.height <= size.0 && rect.left + rect.width <= size.1);
                rects.push(rect);
            }
        }
    }
    // Five standard deviations for each frequency.
    let share = |found: usize, expected: f64| {
        let sd = (expected * (1.0 - expected) / count as f64).sqrt();
        assert!(
            (found as f64 / count as f64 - expected).abs() < 5.0 * sd,
            "{found}"
        );
    };
    share(own.len(), 0.75 * 0.75);
    share(rects.len(), 0.75 * 0.25);
    // Beta(a, a) has mean 1/2 and variance 1 / (4 (2a + 1)).
    let mean = own.iter().sum::<f64>() / own.len() as f64;
    let variance = own.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / own.len() as f64;
    let expected = 1.0 / (4.0 * 2.6);
    assert!(
        (mean - 0.5).abs() < 5.0 * (expected / own.len() as f64).sqrt(),
        "{mean}"
    );
    assert!((variance - expected).abs() < 0.05 * expected, "{variance}");
    // Uniform centres: rectangles are not biased to a side.
    let lean = |start: fn(&Rect) -> usize, len: fn(&Rect) -> usize, side: usize| {
        let middle = |rect: &Rect| start(rect) as f64 + len(rect) as f64 / 2.0;
        let mean = rects.iter().map(middle).sum::<f64>() / rects.len() as f64;
        assert!((mean / side as f64 - 0.5).abs() < 0.02, "{mean} of {side}");
    };
    lean(|rect| rect.top, |rect| rect.height, size.0);
    lean(|rect| rect.left, |rect| rect.width, size.1);
}

#[test]
fn one_draw_for_a_batch_and_one_for_a_pair() {
    let (size, key) = ((8, 8), Key::new(1));
    let batches = (0..200).map(|n| draw(&config(MixMode::Batch), 4, size, key.child(n)));
    let batches: Vec<Mixing> = batches.collect();
    assert!(batches.iter().all(|mixing| mixing.0.len() == 1));
    assert!(batches.iter().any(|mixing| *mixing != batches[0]));
    for images in [6, 7] {
        let Mixing(blends) = draw(&config(MixMode::Pair), images, size, key);
        let back: Vec<Blend> = blends.iter().rev().copied().collect();
        assert_eq!((blends.len(), &back), (images, &blends));
        if images % 2 == 1 {
            assert_eq!(blends[images / 2], Blend::Keep);
        }
    }
    // The draws of an image depend only on its key and position.
    let draws = |images| draw(&config(MixMode::Elem), images, size, key).0;
    assert_eq!(draws(9)[..5], draws(5));
}

/// The middle image is its own partner: neither it nor its target changes.
#[test]
fn an_odd_batch_keeps_its_middle() {
    let device = Device::flex();
    let images: Vec<f32> = (0..3 * 3 * 4 * 4).map(|x| x as f32).collect();
    let images = Tensor::<4>::from_data(TensorData::new(images, [3, 3, 4, 4]), &device);
    for blend in [
        Blend::Mixup { own: 0.75 },
        Blend::CutMix {
            rect: rect_around((1, 2), (4, 4), 0.5, false),
        },
    ] {
        let mixed = Mixing(vec![blend]).images(images.clone());
        let [before, after] = [&images, &mixed].map(|t| values(t.clone().narrow(0, 1, 1)));
        assert_eq!(after, before);
        assert_ne!(values(mixed), values(images.clone()));
    }
    let config = LossConfig {
        label_smoothing: 0.0,
        ..LossConfig::default()
    };
    let targets = config.targets([0, 1, 2].chunks(1), Some(&[0.75; 3]), 3, &device);
    let expected = [0.75, 0.0, 0.25, 0.0, 1.0, 0.0, 0.25, 0.0, 0.75];
    assert_eq!(values(targets), expected);
}

#[test]
fn sides_of_the_rectangle_are_between_the_two_shares() {
    let config = MixConfig {
        cutmix_minmax: Some([0.25, 0.75]),
        ..MixConfig::default()
    };
    let mut seen = [[false; 20]; 2];
    for number in 0..2_000 {
        match draw(&config, 2, (20, 12), Key::new(number)).0[..] {
            [Blend::CutMix { rect }] => {
                assert!(rect.top + rect.height <= 20 && rect.left + rect.width <= 12);
                seen[0][rect.height] = true;
                seen[1][rect.width] = true;
            }
            ref other => panic!("{other:?}"),
        }
    }
    let lengths = |seen: [bool; 20]| (0..20).filter(|&n| seen[n]).collect::<Vec<_>>();
    assert_eq!(lengths(seen[0]), (5..15).collect::<Vec<_>>());
    assert_eq!(lengths(seen[1]), (3..9).collect::<Vec<_>>());
    // If the two fractions are equal, there is one length; images of one pixel have a rectangle too.
    for (minmax, size) in [
        ([0.5, 0.5], (8, 8)),
        ([1.0, 1.0], (8, 8)),
        ([0.0, 1.0], (1, 1)),
    ] {
        let config = MixConfig {
            cutmix_minmax: Some(minmax),
            ..MixConfig::default()
        };
        assert!(matches!(
            draw(&config, 2, size, Key::new(0)).0[..],
            [Blend::CutMix { .. }]
        ));
    }
}

#[test]
fn off_means_off() {
    let key = Key::new(0);
    assert!(draw(&MixConfig::default(), 4, (8, 8), key).is_nothing());
    let mut config = config(MixMode::Elem);
    config.off_epoch = 2;
    assert_eq!(
        [0, 1, 2, 3].map(|e| config.is_on_in(e)),
        [true, true, false, false]
    );
    config.prob = 0.0;
    assert!(draw(&config, 64, (8, 8), key).is_nothing());
    // Extreme alphas still give numbers in [0, 1].
    for alpha in [1e-300, 1e-3, 1000.0] {
        config = MixConfig {
            mixup: alpha,
            mode: MixMode::Elem,
            ..MixConfig::default()
        };
        let mixing = draw(&config, 500, (8, 8), key);
        let shares = mixing.own_shares(500, (8, 8));
        assert!(
            shares.iter().all(|share| (0.0..=1.0).contains(share)),
            "{alpha}"
        );
    }
}

/// Compared with a loop over pixels; a later patch covers an earlier one, and other images do not change.
#[test]
fn patches_are_written_where_they_belong() {
    let device = Device::flex().autodiff();
    let patch = |top, left, height, width, first: f32| Patch {
        top,
        left,
        height,
        width,
        values: (0..3 * height * width).map(|n| first + n as f32).collect(),
    };
    let patches = [
        vec![],
        vec![patch(1, 2, 2, 3, 1000.0), patch(2, 0, 3, 4, 2000.0)],
        vec![],
        vec![patch(0, 0, 1, 1, 3000.0)],
        vec![],
    ];
    let mut expected: Vec<f32> = (0..5 * 3 * 5 * 6).map(|n| n as f32).collect();
    let images = TensorData::new(expected.clone(), [5, 3, 5, 6]);
    let images = Tensor::<4>::from_data(images, &device);
    for (number, patches) in patches.iter().enumerate() {
        for patch in patches {
            let mut values = patch.values.iter();
            for channel in 0..3 {
                for row in patch.top..patch.top + patch.height {
                    for column in patch.left..patch.left + patch.width {
                        let place = ((number * 3 + channel) * 5 + row) * 6 + column;
                        expected[place] = *values.next().unwrap();
                    }
                }
            }
        }
    }
    assert_eq!(values(write_patches(images.clone(), &patches)), expected);
    let none = vec![Vec::new(); 5];
    assert_eq!(values(write_patches(images.clone(), &none)), values(images));
}

/// A teacher gets the student's images in its own normalisation.
#[test]
fn images_are_converted_for_a_teacher() {
    let images = normalised(&Device::flex());
    let other = Normalization {
        mean: vec![0.5; 3],
        std: vec![0.5; 3],
    };
    let found = NORMALIZATION.convert(&other, images.clone());
    assert_close("converted", &values(found), &floats("converted"), 2e-6);
    let same = NORMALIZATION.convert(&NORMALIZATION, images.clone());
    assert_eq!(values(same), values(images));
}

/// 8-bit pixels are recovered exactly with any normalisation.
#[test]
fn normalisation_is_undone_to_the_level() {
    let device = Device::flex();
    for (mean, std) in [
        ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
        ([0.5; 3], [0.5; 3]),
        ([0.0, 0.9, -2.0], [1.0, 0.05, 3.0]),
    ] {
        let normalization = Normalization {
            mean: mean.to_vec(),
            std: std.to_vec(),
        };
        let levels: Vec<f32> = (0..3 * 256).map(|n| (n % 256) as f32).collect();
        let normal = levels.iter().enumerate().map(|(place, level)| {
            let channel = place / 256;
            (level / 255.0 - mean[channel] as f32) / std[channel] as f32
        });
        let data = TensorData::new(normal.collect::<Vec<f32>>(), [1, 3, 16, 16]);
        let images = Tensor::<4>::from_data(data, &device);
        assert_eq!(values(normalization.undo(images)), levels);
    }
}
