#![expect(clippy::unwrap_used, reason = "tests")]

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use image::imageops;
use kvt_ops::Key;
use serde_json::Value;

use super::*;
use crate::augment::{AugmentConfig, CropMode, EraseMode, Interpolation, Preset, Transform, ops};
use crate::{ImageLimits, decode_bytes};

const ALPHA: ImageLimits = ImageLimits {
    alpha: true,
    ..ImageLimits::of(1 << 20)
};

/// Written by `scripts/reference/channels.py` with Pillow and timm.
fn golden() -> Value {
    serde_json::from_str(include_str!("../../tests/golden/channels.json")).unwrap()
}

fn bytes(value: &Value) -> Vec<u8> {
    STANDARD.decode(value.as_str().unwrap()).unwrap()
}

fn file(golden: &Value, name: &str) -> Raster {
    let files = golden["files"].as_array().unwrap();
    let file = files.iter().find(|file| file["name"] == name).unwrap();
    decode_bytes(&bytes(&file["file"]), ALPHA).unwrap().into()
}

/// The settings that leave levels as they are, as shares of 255.
fn levels(channels: usize) -> AugmentConfig {
    AugmentConfig {
        preset: Preset::None,
        crop_mode: CropMode::Squash,
        crop_pct: 1.0,
        hflip: 0.0,
        mean: vec![0.0; channels],
        std: vec![1.0; channels],
        ..AugmentConfig::default()
    }
}

/// The levels that a model of so many channels gets, `[height, width, channels]` as Pillow's bytes.
fn seen(transform: &Transform, image: Raster) -> Vec<u8> {
    let (height, width) = transform.size();
    let (plane, channels) = (height * width, transform.channels());
    let out = transform.apply(image, Key::new(3)).unwrap().pixels;
    let level = |at: usize| (255.0 * out[at % channels * plane + at / channels]).round() as u8;
    (0..out.len()).map(level).collect()
}

#[test]
fn files_become_pillows_grey_and_rgba() {
    let golden = golden();
    let files = golden["files"].as_array().unwrap();
    assert_eq!(files.len(), 7);
    for case in files {
        let side = |at: usize| case["size"][at].as_u64().unwrap() as usize;
        for (channels, mode) in [(1, "L"), (4, "RGBA")] {
            let size = (side(1), side(0));
            let transform = Transform::evaluation(&levels(channels), size).unwrap();
            let found = seen(&transform, file(&golden, case["name"].as_str().unwrap()));
            assert_eq!(found, bytes(&case[mode]), "{} {mode}", case["name"]);
        }
        let plain = decode_bytes(&bytes(&case["file"]), ImageLimits::default()).unwrap();
        assert_eq!(plain.alpha, None);
    }
}

/// Colours within two levels of Pillow's, as those of other images; a pixel of little alpha tells less of its colour.
#[test]
fn colours_that_are_not_seen_do_not_show_after_a_resize() {
    let golden = golden();
    let cases = golden["resized"].as_array().unwrap();
    assert_eq!(cases.len(), 12);
    for case in cases {
        let side = |at: usize| case["size"][at].as_u64().unwrap() as usize;
        let channels = if case["mode"] == "L" { 1 } else { 4 };
        let config = AugmentConfig {
            interpolation: match case["filter"].as_str().unwrap() {
                "bicubic" => Interpolation::Bicubic,
                _ => Interpolation::Bilinear,
            },
            ..levels(channels)
        };
        for transform in [Transform::evaluation, Transform::train] {
            let transform = transform(&config, (side(1), side(0))).unwrap();
            let found = seen(&transform, file(&golden, "rgba"));
            let expected = bytes(&case["pixels"]);
            assert_eq!(found.len(), expected.len());
            let pixels = found.chunks(channels).zip(expected.chunks(channels));
            for (found, expected) in pixels {
                let alpha = expected
                    .get(3)
                    .map_or(1.0, |alpha| f64::from(*alpha) / 255.0);
                for (channel, (a, b)) in found.iter().zip(expected).enumerate() {
                    let weight = if channel == 3 { 1.0 } else { alpha };
                    let difference = f64::from(a.abs_diff(*b)) * weight;
                    assert!(difference <= 4.5, "{case}: {found:?} {expected:?}");
                }
            }
        }
    }
}

/// Within the level that operations on floats may differ.
fn close(found: &[u8], expected: &[u8], name: &str) {
    assert_eq!(found.len(), expected.len(), "{name}");
    let differences = found.iter().zip(expected).map(|(a, b)| a.abs_diff(*b));
    let worst = differences.max();
    assert!(worst <= Some(1), "{name}: {worst:?}");
}

#[test]
fn operations_on_grey_and_on_rgba_are_pillows() {
    let golden = golden();
    let mut grey = file(&golden, "rgb").rgb;
    ops::grayscale(&mut grey);
    let rgba = file(&golden, "rgba");
    let act = |image: &RgbImage, name: &str| {
        let mut image = image.clone();
        match name {
            "autocontrast" => ops::autocontrast(&mut image),
            "equalize" => ops::equalize(&mut image),
            "invert" => ops::invert(&mut image),
            "posterize" => ops::posterize(&mut image, 3),
            "solarize" => ops::solarize(&mut image, 100),
            "sharpness" => ops::sharpness(&mut image, 1.6),
            "brightness" => ops::brightness(&mut image, 1.6),
            "contrast" => ops::contrast(&mut image, 1.6),
            "color" => ops::color(&mut image, 1.6),
            _ => ops::hue(&mut image, 0.3),
        }
        image
    };
    let of_grey = golden["grey"].as_object().unwrap();
    assert_eq!(of_grey.len(), 10);
    for (name, expected) in of_grey {
        let repeated: Vec<u8> = bytes(expected)
            .iter()
            .flat_map(|&level| [level; 3])
            .collect();
        close(act(&grey, name).as_raw(), &repeated, name);
    }
    let of_rgba = golden["rgba"].as_object().unwrap();
    assert_eq!(of_rgba.len(), 3);
    for (name, expected) in of_rgba {
        let image = act(&rgba.rgb, name);
        let alpha = rgba.alpha.as_ref().unwrap().pixels();
        let pixels = image.pixels().zip(alpha);
        let found = pixels.flat_map(|(Rgb([r, g, b]), alpha)| [*r, *g, *b, alpha.0[0]]);
        close(&found.collect::<Vec<u8>>(), &bytes(expected), name);
    }
}

#[test]
fn each_channel_gets_timms_mean_and_deviation() {
    for case in golden()["normalization"].as_array().unwrap() {
        let channels = case["channels"].as_u64().unwrap() as usize;
        let mut config = AugmentConfig::default();
        config.adapt_to(channels);
        let list = |values: &Value| -> Vec<f64> {
            let values = values.as_array().unwrap().iter();
            values.map(|value| value.as_f64().unwrap()).collect()
        };
        assert_eq!(config.mean, list(&case["adapted"][0]));
        assert_eq!(config.std, list(&case["adapted"][1]));
    }
    let one = vec![0.5];
    let mut config = AugmentConfig {
        mean: one.clone(),
        std: one,
        ..AugmentConfig::default()
    };
    config.adapt_to(3);
    assert_eq!((config.mean, config.std), (vec![0.5; 3], vec![0.5; 3]));
}

/// A flip, a crop into the border and an erased rectangle are in all channels at the same places.
#[test]
fn alpha_goes_with_its_colours() {
    let golden = golden();
    let image = file(&golden, "rgba");
    let size = (9, 13);
    let config = |hflip: f64| AugmentConfig {
        preset: Preset::Cifar,
        padding: 3,
        hflip,
        ..levels(4)
    };
    let straight = seen(
        &Transform::train(&config(0.0), size).unwrap(),
        image.clone(),
    );
    let flipped = seen(
        &Transform::train(&config(1.0), size).unwrap(),
        image.clone(),
    );
    let picture = |bytes| image::RgbaImage::from_raw(13, 9, bytes).unwrap();
    assert_eq!(
        imageops::flip_horizontal(&picture(straight.clone())),
        picture(flipped)
    );
    let mut whole = image::RgbaImage::new(19, 15);
    let pixels = image
        .rgb
        .enumerate_pixels()
        .zip(image.alpha.as_ref().unwrap().pixels());
    for ((x, y, Rgb([r, g, b])), alpha) in pixels {
        whole.put_pixel(x + 3, y + 3, image::Rgba([*r, *g, *b, alpha.0[0]]));
    }
    let straight = picture(straight);
    let crop = |at: u32| imageops::crop_imm(&whole, at % 7, at / 7, 13, 9).to_image();
    assert!((0..49).any(|at| crop(at) == straight));

    let erased = AugmentConfig {
        erase: 1.0,
        erase_mode: EraseMode::Const,
        mean: vec![2.0; 4],
        ..levels(4)
    };
    let transform = Transform::train(&erased, size).unwrap();
    let out = transform.apply(image, Key::new(1)).unwrap().pixels;
    let (first, others) = out.split_at(9 * 13);
    assert!(first.contains(&0.0) && first.iter().any(|value| *value < 0.0));
    for channel in others.chunks(9 * 13) {
        assert!(
            first
                .iter()
                .zip(channel)
                .all(|(a, b)| (*a == 0.0) == (*b == 0.0))
        );
    }
}

#[test]
fn channels_that_cannot_be_are_refused() {
    let error = |change: &dyn Fn(&mut AugmentConfig)| {
        let mut config = levels(4);
        change(&mut config);
        Transform::train(&config, (8, 8)).unwrap_err().to_string()
    };
    let auto = error(&|config| config.auto = "rand-m9".to_owned());
    for part in [
        "`augment.auto`",
        "`--set augment.auto=`",
        "`model.in_chans = 4`",
    ] {
        assert!(auto.contains(part), "{auto}");
    }
    let two = error(&|config| config.mean = vec![0.0; 2]);
    assert!(two.contains("augment.mean"), "{two}");
    let other = error(&|config| config.std = vec![1.0]);
    assert!(other.contains("augment.std"), "{other}");
}
