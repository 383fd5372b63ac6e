#![expect(clippy::unwrap_used, reason = "tests")]

use image::imageops;

use super::fit::{contain, cover};
use super::*;
use crate::augment::auto::golden::{Golden, difference};
use crate::augment::resize::cut;
use crate::augment::{ColorJitter, Crop, CropMode, EraseMode, Interpolation};

const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/augment/");

fn load(name: &str) -> RgbImage {
    image::open(format!("{FIXTURES}{name}.png"))
        .unwrap()
        .into_rgb8()
}

fn settings(preset: Preset) -> AugmentConfig {
    AugmentConfig {
        preset,
        mean: vec![0.0; 3],
        std: vec![1.0; 3],
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
    let found = transform.apply(image, Key::new(key)).unwrap();
    assert_eq!(found.size, transform.size());
    found.pixels
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
        let image = transform.pixels(load("source"), Key::new(0)).unwrap();
        let difference = worst(&image.rgb, &load(&format!("eval_{name}")));
        assert!(difference <= 2, "eval {name}: {difference}");
        let crop = Crop {
            left: 3,
            top: 5,
            width: 20,
            height: 10,
        };
        let image = resize(cut(load("source"), crop), (16, 16), transform.filter(None)).unwrap();
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
    // A target twice as wide as high: the width fits, and the height has a surplus.
    assert_eq!(cover((100, 100), (200, 100), 1.0), (200, 200));
    assert_eq!(cover((400, 100), (200, 100), 1.0), (400, 100));
    // 96 x 64 / 0.875 = 109 x 73, and 375 x 109 / 500 = 81.75, which is rounded, as 500 x 109 / 375 = 145.3; a square truncates.
    assert_eq!(cover((500, 375), (96, 64), 0.875), (109, 82));
    assert_eq!(cover((375, 500), (96, 64), 0.875), (109, 145));
    assert_eq!(cover((500, 375), (64, 96), 0.875), (145, 109));
    assert_eq!(cover((96, 64), (96, 64), 0.875), (110, 73));
    assert_eq!(cover((375, 500), (96, 64), 0.9), (106, 141));
    assert_eq!(cover((375, 500), (96, 64), 1.15), (83, 111));
    // 65 x 64 / 2 = 32 x 32, a square: 32 x 500 / 375 = 42.67.
    assert_eq!(cover((500, 375), (65, 64), 2.0), (42, 32));
    assert_eq!(contain((500, 375), (96, 64), 0.875), (97, 73));
    assert_eq!(contain((375, 500), (96, 64), 0.875), (55, 73));
    // VOLO-D5: 224 / 1.15 = 194.
    assert_eq!(cover((500, 375), (224, 224), 1.15), (258, 194));
    // The longer side fits: 375 / (500 / 224) = 168; a line of pixels keeps a width of one.
    assert_eq!(contain((500, 375), (224, 224), 1.0), (224, 168));
    assert_eq!(contain((1, 4000), (224, 224), 1.0), (1, 224));
    assert_eq!(cover((3, 3), (1, 1), 2.0), (1, 1));
}

/// An image that is not resized loses the same on both sides: (100 - 96) / 2 = 2 columns and (66 - 64) / 2 = 1 row.
#[test]
fn a_rectangle_is_cut_from_the_centre() {
    let image = RgbImage::from_fn(100, 70, |x, y| Rgb([x as u8, y as u8, 0]));
    // The width fits, since 100 / 96 < 70 / 64; 70 x 96 / 100 = 67.2.
    let transform = eval((64, 96), 1.0, Interpolation::Bicubic);
    assert_eq!(transform.fitted((100, 70)), (96, 67));
    let squashed = AugmentConfig {
        crop_pct: 0.96,
        crop_mode: CropMode::Squash,
        ..settings(Preset::Imagenet)
    };
    // 64 / 0.96 = 66.7 and 96 / 0.96 = 100.
    let squashed = Transform::evaluation(&squashed, (64, 96)).unwrap();
    assert_eq!(squashed.fitted((100, 70)), (100, 66));
    let as_large = imageops::crop_imm(&image, 0, 0, 100, 66).to_image();
    let cut = squashed.pixels(as_large, Key::new(0)).unwrap();
    let corners = [(0, 0), (95, 63)].map(|(x, y)| cut.rgb.get_pixel(x, y).0);
    assert_eq!(corners, [[2, 1, 0], [97, 64, 0]]);
    let train = Transform::train(&settings(Preset::Imagenet), (64, 96))
        .unwrap()
        .pixels(image, Key::new(1))
        .unwrap();
    assert_eq!(train.rgb.dimensions(), (96, 64));
}

#[derive(serde::Deserialize)]
struct FitCase {
    crop_mode: CropMode,
    crop_pct: f64,
}

#[test]
fn crop_modes_agree_with_timm() {
    let golden = Golden::open();
    let cases: Vec<FitCase> = golden.list("fits");
    assert!(cases.len() >= 8);
    for (index, case) in cases.into_iter().enumerate() {
        let config = AugmentConfig {
            crop_mode: case.crop_mode,
            crop_pct: case.crop_pct,
            mean: golden.fill().map(|level| f64::from(level) / 255.0).to_vec(),
            ..settings(Preset::Imagenet)
        };
        let transform = Transform::evaluation(&config, (16, 16)).unwrap();
        let image = transform.pixels(golden.chained(), Key::new(0)).unwrap();
        let expected = golden.image(&format!("fits.{index}"));
        let (worst, differing) = difference(&image.rgb, &expected);
        // The resize is within two levels of Pillow's; a misplaced border would differ greatly.
        assert!(
            worst <= 2 && differing < 100,
            "{index}: {worst}, {differing}"
        );
    }
}

/// All steps together are still a function of image and key, on any thread.
#[test]
fn the_whole_recipe_depends_on_nothing_but_the_key() {
    let config = AugmentConfig {
        auto: "rand-m9-mstd0.5-inc1-t3aw".to_owned(),
        color_jitter: 0.4,
        interpolation: Interpolation::Random,
        vflip: 0.5,
        erase: 0.5,
        erase_mode: EraseMode::Pixel,
        erase_count: 2,
        ..AugmentConfig::default()
    };
    let transform = Transform::train(&config, (16, 16)).unwrap();
    let image = load("source");
    let all = || -> Vec<Vec<f32>> {
        (0..24)
            .map(|key| apply(&transform, image.clone(), key))
            .collect()
    };
    let expected = all();
    std::thread::scope(|scope| {
        let workers = [scope.spawn(all), scope.spawn(all)];
        for worker in workers {
            assert_eq!(worker.join().unwrap(), expected);
        }
    });
    assert!(expected.iter().flatten().all(|value| value.is_finite()));
    // The same in reverse order: an image does not depend on those before it.
    for key in (0..24).rev() {
        assert_eq!(
            apply(&transform, image.clone(), key),
            expected[key as usize]
        );
    }
}

/// Adding other steps does not change the draws of crop and flips: an image keeps its position.
#[test]
fn steps_do_not_disturb_each_others_draws() {
    let base = AugmentConfig {
        hflip: 0.5,
        ..settings(Preset::Imagenet)
    };
    let plain = Transform::train(&base, (16, 16)).unwrap();
    let nothing = Transform::train(&base, (16, 16))
        .unwrap()
        .with_steps(vec![Step::Grayscale { prob: 0.0 }]);
    let erased = Transform::train(
        &AugmentConfig {
            erase: 1.0,
            erase_mode: EraseMode::Const,
            ..base.clone()
        },
        (16, 16),
    )
    .unwrap();
    let image = load("source");
    for key in 0..40 {
        let expected = apply(&plain, image.clone(), key);
        assert_eq!(apply(&nothing, image.clone(), key), expected);
        let unerased = erased.clone().without_erasing();
        assert_eq!(apply(&unerased, image.clone(), key), expected);
        // Erased values are 0, which is the mean; the others do not change.
        let found = apply(&erased, image.clone(), key);
        assert!(
            found
                .iter()
                .zip(&expected)
                .all(|(found, value)| *found == 0.0 || found == value)
        );
        assert_ne!(found, expected);
    }
    // Evaluation does not use random numbers.
    let config = AugmentConfig {
        erase: 1.0,
        auto: "rand-m9".to_owned(),
        vflip: 1.0,
        ..base
    };
    let evaluation = Transform::evaluation(&config, (16, 16)).unwrap();
    assert_eq!(
        apply(&evaluation, image.clone(), 0),
        apply(&evaluation, image, 1)
    );
}

#[test]
fn vertical_flips_are_exact_and_as_frequent_as_told() {
    let image = load("crop_bicubic");
    let plain = Transform::train(&settings(Preset::None), (16, 16)).unwrap();
    let straight = apply(&plain, image.clone(), 0);
    let turned = apply(&plain, imageops::flip_vertical(&image), 0);
    let both = apply(&plain, imageops::rotate180(&image), 0);
    let config = AugmentConfig {
        vflip: 0.25,
        ..settings(Preset::None)
    };
    let transform = Transform::train(&config, (16, 16)).unwrap();
    let count = (0..1000)
        .filter(|key| {
            let out = apply(&transform, image.clone(), *key);
            assert!(out == straight || out == turned);
            out == turned
        })
        .count();
    // Six standard deviations of 13.7.
    assert!(count.abs_diff(250) < 82, "{count}");
    let config = AugmentConfig {
        vflip: 1.0,
        hflip: 1.0,
        ..settings(Preset::None)
    };
    let flips = Transform::train(&config, (16, 16)).unwrap();
    assert_eq!(apply(&flips, image.clone(), 0), both);
    // With a step behind them, the result is the same.
    let flips = flips.with_steps(vec![Step::Solarize {
        prob: 1.0,
        threshold: 256,
    }]);
    assert_eq!(apply(&flips, image, 0), both);
}

#[test]
fn a_random_filter_is_each_of_the_two() {
    let of = |interpolation| {
        let config = AugmentConfig {
            interpolation,
            ..settings(Preset::Imagenet)
        };
        Transform::train(&config, (16, 16)).unwrap()
    };
    let [bicubic, bilinear, random] = [
        Interpolation::Bicubic,
        Interpolation::Bilinear,
        Interpolation::Random,
    ]
    .map(of);
    let image = load("source");
    let count = (0..200)
        .filter(|key| {
            let out = apply(&random, image.clone(), *key);
            let is_bilinear = out == apply(&bilinear, image.clone(), *key);
            assert!(is_bilinear || out == apply(&bicubic, image.clone(), *key));
            is_bilinear
        })
        .count();
    assert!(count.abs_diff(100) < 43, "{count}");
    let evaluated = |interpolation| apply(&eval((16, 16), 0.875, interpolation), image.clone(), 3);
    assert_eq!(
        evaluated(Interpolation::Random),
        evaluated(Interpolation::Bicubic)
    );
}

/// timm's rule: with an automatic augmentation that is not 3-Augment, the jitter is skipped.
#[test]
fn jitter_is_dropped_beside_auto() {
    for (auto, color_jitter, kinds) in [
        ("", 0.0, ""),
        ("", 0.3, "j"),
        ("rand-m9-mstd0.5-inc1", 0.3, "a"),
        ("augmix", 0.3, "a"),
        ("3a", 0.3, "aj"),
        ("3a", 0.0, "a"),
        ("rand-m9-t3a", 0.3, "aj"),
    ] {
        let config = AugmentConfig {
            auto: auto.to_owned(),
            color_jitter,
            ..settings(Preset::Imagenet)
        };
        let steps = Transform::train(&config, (16, 16)).unwrap().steps;
        let found: String = steps
            .iter()
            .map(|step| match step {
                Step::Auto(_) => 'a',
                Step::Jitter { jitter, prob } => {
                    assert_eq!((*jitter, *prob), (ColorJitter::uniform(0.3), 1.0));
                    'j'
                }
                _ => '?',
            })
            .collect();
        assert_eq!(found, kinds, "{auto} {color_jitter}");
    }
}

#[test]
fn images_of_the_right_size_are_untouched_and_normalised() {
    let image = load("crop_bicubic");
    let mut by_hand = settings(Preset::None);
    by_hand.mean = vec![0.5, 0.25, 0.0];
    by_hand.std = vec![0.5, 0.25, 2.0];
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

    let same = eval((16, 16), 1.0, Interpolation::Bicubic)
        .pixels(image.clone(), Key::new(0))
        .unwrap();
    assert_eq!(same.rgb, image);
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
        let out = transform.pixels(image.clone(), Key::new(key)).unwrap();
        let shifted = |dx: i64, dy: i64| {
            let mut wanted = RgbImage::new(16, 16);
            imageops::replace(&mut wanted, &image, dx, dy);
            wanted == out.rgb
        };
        let place = (0..81)
            .map(|i| (i % 9 - 4, i / 9 - 4))
            .find(|&(dx, dy)| shifted(dx, dy));
        seen.insert(place.unwrap());
    }
    // All 9 x 9 positions; one is missed with probability 81 * (80 / 81)^1500 < 1e-6.
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
        (
            bad(&|c| c.std = vec![1.0, 0.0, 1.0]),
            (16, 16),
            "augment.std",
        ),
        (bad(&|c| c.padding = 70_000), (16, 16), "augment.padding"),
        (
            bad(&|c| c.auto = "rand-x1".to_owned()),
            (16, 16),
            "augment.auto",
        ),
        (bad(&|c| c.erase_count = 0), (16, 16), "augment.erase_count"),
        (good.clone(), (0, 16), "model.img_size"),
    ] {
        let error = Transform::train(&bad, size).unwrap_err();
        assert!(
            matches!(&error, AugmentError::Setting { key: found, .. } if found == key),
            "{error}"
        );
    }
}

/// Crop and flip use separate draws: half of the images cropped far left, or far up, are flipped.
#[test]
fn the_flip_does_not_follow_the_crop() {
    // Each pixel encodes its position.
    let image = RgbImage::from_fn(16, 16, |x, y| Rgb([x as u8, y as u8, 0]));
    let mut flipping = settings(Preset::Cifar);
    flipping.hflip = 0.5;
    let transform = Transform::train(&flipping, (16, 16)).unwrap();
    // Images and flips: of those cropped left of the middle, and of those cropped above it.
    let mut counts = [[0.0; 2]; 2];
    for key in 0..2000 {
        let out = apply(&transform, image.clone(), key);
        let level =
            |channel: usize, column: usize| (out[(channel * 16 + 8) * 16 + column] * 255.0).round();
        let flipped = level(0, 7) > level(0, 8);
        // With a centred crop, column 7 is at its own position or that of column 8, and likewise row 8.
        let left = level(0, if flipped { 8 } else { 7 }) < 7.0;
        let up = level(1, 8) < 8.0;
        for (count, counts_here) in counts.iter_mut().zip([left, up]) {
            count[0] += f64::from(u8::from(counts_here));
            count[1] += f64::from(u8::from(counts_here && flipped));
        }
    }
    for [images, flips] in counts {
        // Four of nine positions, and one in two; six standard deviations.
        assert!((images - 2000.0 * 4.0 / 9.0).abs() < 6.0 * 22.3, "{images}");
        assert!(
            (flips - images / 2.0).abs() < 6.0 * images.sqrt() / 2.0,
            "{flips} of {images}"
        );
    }
}
