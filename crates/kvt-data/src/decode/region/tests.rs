#![expect(clippy::unwrap_used, reason = "tests")]

use image::codecs::jpeg::{JpegEncoder, PixelDensity};
use image::{ExtendedColorType, Rgb};
use proptest::prelude::*;

use super::*;
use crate::decode_bytes;

const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/decode/");

/// A smooth image with edges.
fn picture(width: u32, height: u32) -> RgbImage {
    RgbImage::from_fn(width, height, |x, y| {
        let edge = if (x / 23 + y / 17) % 2 == 0 { 60 } else { 0 };
        Rgb([
            (x * 190 / width) as u8 + edge,
            (y * 190 / height) as u8 + edge,
            ((x + y) * 120 / (width + height)) as u8 + 30,
        ])
    })
}

/// 4:4:4, as written by the `image` crate.
fn encoded(image: &RgbImage) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = JpegEncoder::new_with_quality(&mut bytes, 92);
    encoder.set_pixel_density(PixelDensity::dpi(72));
    let (width, height) = image.dimensions();
    encoder
        .encode(image.as_raw(), width, height, ExtendedColorType::Rgb8)
        .unwrap();
    bytes
}

fn whole(bytes: &[u8]) -> RgbImage {
    decode_bytes(bytes, ImageLimits::default()).unwrap().image
}

fn look(crop: Crop, size: (u32, u32)) -> impl Fn((u32, u32)) -> Option<Look> {
    move |_| Some(Look { crop, size })
}

fn crop(left: u32, top: u32, width: u32, height: u32) -> Crop {
    Crop {
        left,
        top,
        width,
        height,
    }
}

fn part(bytes: &[u8], crop: Crop, size: (u32, u32)) -> Part {
    decode(bytes, ImageLimits::default(), look(crop, size)).unwrap()
}

#[test]
fn a_part_at_full_size_is_that_of_the_whole() {
    let image = picture(150, 101);
    let bytes = encoded(&image);
    let whole = whole(&bytes);
    for crop in [
        crop(0, 0, 150, 101),
        crop(17, 9, 60, 40),
        crop(149, 100, 1, 1),
        crop(64, 48, 8, 8),
        crop(0, 90, 150, 11),
    ] {
        let part = part(&bytes, crop, (224, 224));
        // The crop is at the expected place, on whole pixels.
        assert_eq!(
            (part.across.1, part.down.1),
            (f64::from(crop.width), f64::from(crop.height))
        );
        let (left, top) = (
            crop.left - part.across.0 as u32,
            crop.top - part.down.0 as u32,
        );
        assert!(part.across.0 < 8.0 && part.down.0 < 8.0, "{part:?}");
        for (x, y, pixel) in part.image.enumerate_pixels() {
            let expected = whole.get_pixel(left + x, top + y);
            let close = pixel
                .0
                .iter()
                .zip(expected.0)
                .all(|(a, b)| a.abs_diff(b) <= 2);
            assert!(
                close,
                "({x}, {y}) of {crop:?}: {pixel:?} instead of {expected:?}"
            );
        }
    }
}

/// Each pixel of a reduced image is about the mean of the pixels it represents.
#[test]
fn smaller_parts_show_the_same() {
    let image = picture(400, 300);
    let bytes = encoded(&image);
    let whole = whole(&bytes);
    for by in [2, 4, 8] {
        let crop = crop(40, 24, 320, 240);
        let part = part(&bytes, crop, (320 / by, 240 / by));
        assert_eq!(part.across.1, 320.0 / f64::from(by));
        let (width, height) = part.image.dimensions();
        assert!(
            width < 320 / by + 16 && height < 240 / by + 16,
            "{width} x {height}"
        );
        let left = crop.left / by - part.across.0 as u32;
        let top = crop.top / by - part.down.0 as u32;
        let (mut sum, mut count) = (0, 0);
        for (x, y, pixel) in part.image.enumerate_pixels() {
            for channel in 0..3 {
                let of = |dx, dy| {
                    u32::from(whole.get_pixel((left + x) * by + dx, (top + y) * by + dy).0[channel])
                };
                let mean = (0..by * by).map(|at| of(at % by, at / by)).sum::<u32>() / (by * by);
                sum += mean.abs_diff(pixel.0[channel].into());
                count += 1;
            }
        }
        // The filters differ only at the edges of the squares.
        assert!(
            f64::from(sum) / f64::from(count) < 3.0,
            "1/{by}: {sum} of {count}"
        );
    }
}

/// Files written by Pillow with colours at full, half and quarter size, and with restart markers.
#[test]
fn every_sampling_of_the_colours() {
    for name in ["h1v1.jpg", "h2v1.jpg", "h2v2.jpg", "restart.jpg"] {
        let bytes = fs_err::read(format!("{FIXTURES}{name}")).unwrap();
        let whole = whole(&bytes);
        assert_eq!(whole.dimensions(), (70, 52));
        let compare = |part: &Part, (left, top): (u32, u32)| {
            let (width, height) = part.image.dimensions();
            let expected = image::imageops::crop_imm(&whole, left, top, width, height).to_image();
            let worst = part
                .image
                .iter()
                .zip(expected.iter())
                .map(|(a, b)| a.abs_diff(*b));
            worst.max().unwrap()
        };
        let all = part(&bytes, crop(0, 0, 70, 52), (224, 224));
        assert_eq!(all.image.dimensions(), (70, 52));
        assert!(
            compare(&all, (0, 0)) <= 3,
            "{name}: {}",
            compare(&all, (0, 0))
        );
        // After several restarts; the colours next to its edge are unknown, so it differs more there.
        let right = part(&bytes, crop(50, 35, 20, 17), (224, 224));
        let origin = (50 - right.across.0 as u32, 35 - right.down.0 as u32);
        assert_eq!((origin.0 % 8, origin.1 % 8), (0, 0));
        assert!(
            compare(&right, origin) <= 8,
            "{name}: {}",
            compare(&right, origin)
        );
        // Reduced: the mean colour is the same.
        let half = part(&bytes, crop(0, 0, 70, 52), (35, 26));
        assert_eq!(half.image.dimensions(), (35, 26));
        for channel in 0..3 {
            let mean = |image: &RgbImage| {
                let levels = image.pixels().map(|pixel| f64::from(pixel.0[channel]));
                levels.sum::<f64>() / f64::from(image.width() * image.height())
            };
            assert!((mean(&half.image) - mean(&whole)).abs() < 1.0, "{name}");
        }
    }
}

#[test]
fn the_rest_is_left_to_the_decoder_of_whole_images() {
    let limits = ImageLimits::default();
    let all = crop(0, 0, 8, 8);
    for name in [
        "grey.jpg",
        "cmyk.jpg",
        "ycck.jpg",
        "progressive.jpg",
        "exif6.jpg",
        "palette.png",
    ] {
        let bytes = fs_err::read(format!("{FIXTURES}{name}")).unwrap();
        assert!(
            decode(&bytes, limits, look(all, (4, 4))).is_none(),
            "{name}"
        );
    }
    let bytes = encoded(&picture(40, 30));
    assert!(decode(&bytes, limits, look(all, (4, 4))).is_some());
    assert!(decode(&bytes, limits, |_| None).is_none());
    let few = ImageLimits::of(1199);
    assert!(decode(&bytes, few, look(all, (4, 4))).is_none());
    for length in 0..bytes.len() {
        assert!(
            decode(&bytes[..length], limits, look(all, (4, 4))).is_none(),
            "{length}"
        );
    }
}

/// Without a check, data missing between two restart markers would be read as zeros.
#[test]
fn a_part_between_markers_that_is_missing_is_damage() {
    let bytes = fs_err::read(format!("{FIXTURES}restart.jpg")).unwrap();
    let markers = bytes
        .windows(2)
        .enumerate()
        .filter(|(_, pair)| matches!(pair, [0xff, 0xd0..=0xd7]));
    let places: Vec<usize> = markers.map(|(at, _)| at).collect();
    let cut = [&bytes[..places[0] + 2], &bytes[places[1]..]].concat();
    let (all, limits) = (crop(0, 0, 70, 52), ImageLimits::default());
    assert!(decode(&bytes, limits, look(all, (70, 52))).is_some());
    assert!(decode(&cut, limits, look(all, (70, 52))).is_none());
}

proptest! {
    /// File contents never cause a panic or take long.
    #[test]
    fn damaged_bytes_end_well(changes in prop::collection::vec((0_usize..3000, any::<u8>()), 1..20), by in 0_u32..4) {
        let mut bytes = encoded(&picture(70, 50));
        for (at, byte) in changes {
            let at = at % bytes.len();
            bytes[at] = byte;
        }
        let size = (64 >> by, 40 >> by);
        if let Some(Header { width, height, .. }) = Header::read(&bytes) {
            let crop = crop(0, 0, width.min(64), height.min(40));
            let blocks = Blocks { header: Header::read(&bytes).unwrap(), crop, by: 1 << by };
            let _ = blocks.decode();
            let _ = decode(&bytes, ImageLimits::of(1 << 20), look(crop, size));
        }
    }
}
