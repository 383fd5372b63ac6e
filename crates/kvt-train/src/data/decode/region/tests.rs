#![expect(clippy::unwrap_used, reason = "tests")]

use image::codecs::jpeg::{JpegEncoder, PixelDensity};
use image::{ExtendedColorType, Rgb};
use proptest::prelude::*;

use super::*;
use crate::data::decode_bytes;

const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/decode/");

/// Smooth, with edges.
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

/// 4:4:4, as the `image` crate writes it.
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
        // The crop lies where it says, on whole pixels.
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

/// Each pixel of a smaller image is about the mean of those that it stands for.
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
        // Only at the edges of the squares it is another filter.
        assert!(
            f64::from(sum) / f64::from(count) < 3.0,
            "1/{by}: {sum} of {count}"
        );
    }
}

/// Files of Pillow with colours at half the size.
#[test]
fn colours_at_half_the_size() {
    let bytes = fs_err::read(format!("{FIXTURES}rgb.jpg")).unwrap();
    let whole = whole(&bytes);
    let (width, height) = whole.dimensions();
    let part = part(&bytes, crop(0, 0, width, height), (224, 224));
    assert_eq!(part.image.dimensions(), (width, height));
    let worst = part
        .image
        .iter()
        .zip(whole.iter())
        .map(|(a, b)| a.abs_diff(*b))
        .max();
    assert!(worst <= Some(4), "{worst:?}");
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
    let few = ImageLimits { max_pixels: 1199 };
    assert!(decode(&bytes, few, look(all, (4, 4))).is_none());
    for length in 0..bytes.len() {
        assert!(
            decode(&bytes[..length], limits, look(all, (4, 4))).is_none(),
            "{length}"
        );
    }
}

proptest! {
    /// Nothing that is in a file makes it panic or take long.
    #[test]
    fn damaged_bytes_end_well(changes in prop::collection::vec((0_usize..3000, any::<u8>()), 1..20), by in 0_u32..4) {
        let mut bytes = encoded(&picture(70, 50));
        for (at, byte) in changes {
            let at = at % bytes.len();
            bytes[at] = byte;
        }
        let size = (64 >> by, 40 >> by);
        if let Some(Header { width, height, .. }) = Header::read(&bytes, |_| true) {
            let crop = crop(0, 0, width.min(64), height.min(40));
            let blocks = Blocks { header: Header::read(&bytes, |_| true).unwrap(), crop, by: 1 << by };
            let _ = blocks.decode();
            let _ = decode(&bytes, ImageLimits { max_pixels: 1 << 20 }, look(crop, size));
        }
    }
}
