#![expect(clippy::panic, reason = "tests")]

use image::RgbImage;

use super::*;
use crate::augment::auto::golden::{Golden, difference};

/// Calls a function by its name in Pillow or torchvision.
fn call(image: &RgbImage, name: &str, value: f64, sampling: Sampling) -> RgbImage {
    let mut out = image.clone();
    match name {
        "autocontrast" => autocontrast(&mut out),
        "equalize" => equalize(&mut out),
        "grayscale" => grayscale(&mut out),
        "sharpness" => sharpness(&mut out, value),
        "hue" => hue(&mut out, value),
        "blur" => gaussian_blur(&mut out, value),
        "blend" => {
            invert(&mut out);
            blend(image, &mut out, value as f32);
        }
        "rotate" => return rotate(image, value, sampling),
        other => panic!("{other}"),
    }
    out
}

#[test]
fn functions_are_exactly_as_pillow_has_them() {
    let golden = Golden::open();
    let cases: Vec<(String, String, f64, String)> = golden.list("calls");
    assert!(cases.len() >= 20);
    for (index, (image, name, value, filter)) in cases.into_iter().enumerate() {
        // Of the file, not of kvt.
        if filter == "nearest" {
            continue;
        }
        let sampling = Sampling {
            is_bilinear: filter == "bilinear",
            fill: golden.fill(),
        };
        let found = call(
            &golden.image(&format!("input.{image}")),
            &name,
            value,
            sampling,
        );
        let expected = golden.image(&format!("calls.{index}"));
        assert_eq!(
            difference(&found, &expected),
            (0, 0),
            "{name} {value} of {image}"
        );
    }
}

#[test]
fn posterize_keeps_from_none_to_all_bits() {
    let levels = || RgbImage::from_fn(256, 1, |x, _| image::Rgb([x as u8; 3]));
    let of = |bits| {
        let mut image = levels();
        posterize(&mut image, bits);
        image
    };
    assert!(of(0).iter().all(|value| *value == 0));
    assert!(
        of(1)
            .iter()
            .zip(levels().iter())
            .all(|(found, level)| *found == level / 128 * 128)
    );
    assert!(
        of(5)
            .iter()
            .zip(levels().iter())
            .all(|(found, level)| *found == level / 8 * 8)
    );
    assert_eq!(of(8), levels());
    assert_eq!(of(12), levels());
}

/// Moving by whole pixels loses only the pixels that leave the image, with any filter.
#[test]
fn whole_pixels_are_only_moved() {
    let image = Golden::open().image("input.square");
    let fill = [1, 2, 3];
    for is_bilinear in [true, false] {
        let matrix = [1.0, 0.0, 4.0, 0.0, 1.0, -2.0];
        let moved = affine(&image, matrix, Sampling { is_bilinear, fill });
        for (x, y, pixel) in moved.enumerate_pixels() {
            let source = (y >= 2)
                .then(|| image.get_pixel_checked(x + 4, y - 2))
                .flatten();
            assert_eq!(
                pixel.0,
                source.map_or(fill, |pixel| pixel.0),
                "{is_bilinear} {x} {y}"
            );
        }
    }
}

/// Blurring an image with a single colour does not change it; blurs preserve the mean.
#[test]
fn a_blur_keeps_the_mean() {
    let mut even = RgbImage::from_pixel(7, 5, image::Rgb([255, 128, 3]));
    let before = even.clone();
    gaussian_blur(&mut even, 9.5);
    assert_eq!(even, before);
    // Away from the border, the mean is preserved.
    let mut point = RgbImage::new(41, 41);
    point.put_pixel(20, 20, image::Rgb([255; 3]));
    gaussian_blur(&mut point, 1.0);
    let sum: u32 = point.pixels().map(|pixel| u32::from(pixel.0[0])).sum();
    assert!(sum.abs_diff(255) < 25, "{sum}");
    assert_eq!(point.get_pixel(19, 20), point.get_pixel(20, 21));
    assert_eq!(*point.get_pixel(30, 20), image::Rgb([0; 3]));
    let mut nothing = RgbImage::new(0, 0);
    gaussian_blur(&mut nothing, 1.0);
    assert_eq!(nothing.dimensions(), (0, 0));
}
