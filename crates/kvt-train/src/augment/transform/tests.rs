#![expect(clippy::unwrap_used, reason = "tests")]

use image::imageops;

use super::*;
use crate::augment::Crop;
use crate::augment::resize::cut;

const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/augment/");

fn load(name: &str) -> RgbImage {
    image::open(format!("{FIXTURES}{name}.png"))
        .unwrap()
        .into_rgb8()
}

fn settings(preset: Preset) -> AugmentConfig {
    AugmentConfig {
        preset,
        mean: [0.0; 3],
        std: [1.0; 3],
        hflip: 0.0,
        ..AugmentConfig::default()
    }
}

fn eval(size: (usize, usize), crop_pct: f64, interpolation: Interpolation) -> Transform {
    let config = AugmentConfig {
        crop_pct,
        interpolation,
        ..settings(Preset::Imagenet)
    };
    Transform::evaluation(&config, size).unwrap()
}

fn apply(transform: &Transform, image: RgbImage, key: u64) -> Vec<f32> {
    let (h, w) = transform.size();
    let mut out = vec![f32::NAN; 3 * h * w];
    transform.apply(image, Key::new(key), &mut out).unwrap();
    out
}

fn worst(a: &RgbImage, b: &RgbImage) -> u8 {
    assert_eq!(a.dimensions(), b.dimensions());
    a.iter()
        .zip(b.iter())
        .map(|(a, b)| a.abs_diff(*b))
        .max()
        .unwrap()
}

#[test]
fn resize_and_crop_agree_with_torchvision() {
    for (name, interpolation) in [
        ("bicubic", Interpolation::Bicubic),
        ("bilinear", Interpolation::Bilinear),
    ] {
        let transform = eval((16, 16), 0.875, interpolation);
        let (image, _) = transform.pixels(load("source"), Key::new(0)).unwrap();
        let difference = worst(&image, &load(&format!("eval_{name}")));
        assert!(difference <= 2, "eval {name}: {difference}");
        let crop = Crop {
            left: 3,
            top: 5,
            width: 20,
            height: 10,
        };
        let image = resize(cut(load("source"), crop), (16, 16), transform.filter).unwrap();
        let difference = worst(&image, &load(&format!("crop_{name}")));
        assert!(difference <= 2, "crop {name}: {difference}");
    }
}

#[test]
fn evaluation_geometry() {
    // 500 x 375, 224 / 0.875 = 256: the shorter side 256, the longer int(256 * 500 / 375) = 341.
    assert_eq!(cover((500, 375), (224, 224), 0.875), (341, 256));
    assert_eq!(cover((375, 500), (224, 224), 0.875), (256, 341));
    // 224 / 0.9 = 248.9 -> 248.
    assert_eq!(cover((100, 100), (224, 224), 0.9), (248, 248));
    // A target twice as wide as high: the width fits, the height has to spare.
    assert_eq!(cover((100, 100), (200, 100), 1.0), (200, 200));
    assert_eq!(cover((400, 100), (200, 100), 1.0), (400, 100));
}

#[test]
fn images_of_the_right_size_are_untouched_and_normalised() {
    let image = load("crop_bicubic");
    let mut by_hand = settings(Preset::None);
    by_hand.mean = [0.5, 0.25, 0.0];
    by_hand.std = [0.5, 0.25, 2.0];
    let out = apply(
        &Transform::train(&by_hand, (16, 16)).unwrap(),
        image.clone(),
        0,
    );
    let Rgb([r, g, b]) = *image.get_pixel(3, 2);
    let at = 2 * 16 + 3;
    assert_eq!(out[at], (f32::from(r) / 255.0 - 0.5) / 0.5);
    assert_eq!(out[256 + at], (f32::from(g) / 255.0 - 0.25) / 0.25);
    assert_eq!(out[512 + at], f32::from(b) / 255.0 / 2.0);

    let (same, _) = eval((16, 16), 1.0, Interpolation::Bicubic)
        .pixels(image.clone(), Key::new(0))
        .unwrap();
    assert_eq!(same, image);
}

#[test]
fn flips_as_often_as_told_and_exactly() {
    let image = load("crop_bicubic");
    let flipped = imageops::flip_horizontal(&image);
    let plain = Transform::train(&settings(Preset::None), (16, 16)).unwrap();
    let (straight, mirrored) = (apply(&plain, image.clone(), 0), apply(&plain, flipped, 0));
    let quarter = AugmentConfig {
        hflip: 0.25,
        ..settings(Preset::None)
    };
    let transform = Transform::train(&quarter, (16, 16)).unwrap();
    let mut count = 0;
    for key in 0..2000 {
        let out = apply(&transform, image.clone(), key);
        assert!(out == straight || out == mirrored);
        count += u32::from(out == mirrored);
    }
    // Four standard deviations: sqrt(2000 * 0.25 * 0.75) = 19.4.
    assert!(count.abs_diff(500) < 78, "{count}");
}

#[test]
fn padded_crops_are_shifts_with_black_borders() {
    let image = load("crop_bicubic");
    let transform = Transform::train(&settings(Preset::Cifar), (16, 16)).unwrap();
    let mut seen = std::collections::BTreeSet::new();
    for key in 0..1500 {
        let (out, _) = transform.pixels(image.clone(), Key::new(key)).unwrap();
        let shifted = |dx: i64, dy: i64| {
            let mut wanted = RgbImage::new(16, 16);
            imageops::replace(&mut wanted, &image, dx, dy);
            wanted == out
        };
        let place = (0..81)
            .map(|i| (i % 9 - 4, i / 9 - 4))
            .find(|&(dx, dy)| shifted(dx, dy));
        seen.insert(place.unwrap());
    }
    // All 9 x 9 places; one is missed with probability 81 * (80 / 81)^1500 < 1e-6.
    assert_eq!(seen.len(), 81);
}

#[test]
fn the_key_decides() {
    let transform = Transform::train(&settings(Preset::Imagenet), (16, 12)).unwrap();
    let image = load("source");
    assert_eq!(transform.size(), (16, 12));
    let out = apply(&transform, image.clone(), 1);
    assert!(out.iter().all(|v| v.is_finite()));
    assert_eq!(out, apply(&transform, image.clone(), 1));
    assert_ne!(out, apply(&transform, image, 2));
}

#[test]
fn senseless_settings_are_refused() {
    let good = settings(Preset::Imagenet);
    let bad = |set: &dyn Fn(&mut AugmentConfig)| {
        let mut config = good.clone();
        set(&mut config);
        config
    };
    for (bad, size, key) in [
        (bad(&|c| c.scale = [0.5, 0.1]), (16, 16), "augment.scale"),
        (bad(&|c| c.ratio = [0.0, 1.0]), (16, 16), "augment.ratio"),
        (bad(&|c| c.hflip = f64::NAN), (16, 16), "augment.hflip"),
        (bad(&|c| c.std = [1.0, 0.0, 1.0]), (16, 16), "augment.std"),
        (bad(&|c| c.padding = 70_000), (16, 16), "augment.padding"),
        (good.clone(), (0, 16), "model.img_size"),
    ] {
        let error = Transform::train(&bad, size).unwrap_err();
        assert!(
            matches!(&error, AugmentError::Setting { key: found, .. } if found == key),
            "{error}"
        );
    }
    let transform = Transform::train(&settings(Preset::Imagenet), (16, 16)).unwrap();
    let error = transform
        .apply(load("source"), Key::new(0), &mut [0.0; 5])
        .unwrap_err();
    assert!(matches!(
        error,
        AugmentError::Output {
            found: 5,
            expected: 768
        }
    ));
}

/// Crop and flip come from draws of their own: of the images cut far left, or far up, half are flipped.
#[test]
fn the_flip_does_not_follow_the_crop() {
    // Each pixel has its place.
    let image = RgbImage::from_fn(16, 16, |x, y| Rgb([x as u8, y as u8, 0]));
    let mut flipping = settings(Preset::Cifar);
    flipping.hflip = 0.5;
    let transform = Transform::train(&flipping, (16, 16)).unwrap();
    // Images and flips, of those cut left of the middle, and of those cut above it.
    let mut counts = [[0.0; 2]; 2];
    for key in 0..2000 {
        let out = apply(&transform, image.clone(), key);
        let level =
            |channel: usize, column: usize| (out[(channel * 16 + 8) * 16 + column] * 255.0).round();
        let flipped = level(0, 7) > level(0, 8);
        // Without a crop column 7 is in its place, or in that of column 8, and so is row 8.
        let left = level(0, if flipped { 8 } else { 7 }) < 7.0;
        let up = level(1, 8) < 8.0;
        for (count, counts_here) in counts.iter_mut().zip([left, up]) {
            count[0] += f64::from(u8::from(counts_here));
            count[1] += f64::from(u8::from(counts_here && flipped));
        }
    }
    for [images, flips] in counts {
        // Four of nine places, and one in two; six standard deviations.
        assert!((images - 2000.0 * 4.0 / 9.0).abs() < 6.0 * 22.3, "{images}");
        assert!(
            (flips - images / 2.0).abs() < 6.0 * images.sqrt() / 2.0,
            "{flips} of {images}"
        );
    }
}
