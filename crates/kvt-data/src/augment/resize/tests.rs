#![expect(clippy::unwrap_used, reason = "tests")]

use image::Rgb;
use proptest::prelude::*;

use super::*;
use crate::augment::center_crop;

const FILTERS: [FilterType; 2] = [FilterType::Bilinear, FilterType::CatmullRom];

/// Hard edges, slow ramps and noise.
fn picture(width: u32, height: u32) -> RgbImage {
    RgbImage::from_fn(width, height, |x, y| {
        let noise = (x * 31 + y * 17) * 7919 % 256;
        let edge = if (x / 3 + y / 5) % 2 == 0 { 255 } else { 0 };
        Rgb([edge, ((x + y) / 2 % 256) as u8, noise as u8])
    })
}

fn worst(a: &RgbImage, b: &RgbImage) -> u8 {
    assert_eq!(a.dimensions(), b.dimensions());
    let difference = |(a, b): (&u8, &u8)| a.abs_diff(*b);
    a.iter().zip(b.iter()).map(difference).max().unwrap()
}

/// The part `crop` of the whole resized image.
fn by_the_whole(image: &RgbImage, size: (u32, u32), crop: Crop, filter: FilterType) -> RgbImage {
    cut(resize(image.clone(), size, filter).unwrap(), crop)
}

#[test]
fn a_part_is_what_the_whole_shows_there() {
    // Long images: reduced, with the same height, and enlarged.
    let cases = [
        ((4000, 60), (2400, 36)),
        ((30, 2000), (36, 2400)),
        ((1500, 18), (1500, 18)),
        ((7, 900), (18, 2314)),
        ((2, 300), (18, 2700)),
        ((1, 160), (18, 2880)),
        // A small fraction of an image of ordinary shape, as with a small `crop_pct`.
        ((50, 37), (432, 320)),
    ];
    for ((width, height), size) in cases {
        let image = picture(width, height);
        let crop = center_crop(size, (16, 16));
        assert!(u64::from(size.0) * u64::from(size.1) > WHOLE * 256);
        for filter in FILTERS {
            let part = resize_part(image.clone(), size, crop, filter).unwrap();
            let difference = worst(&part, &by_the_whole(&image, size, crop, filter));
            assert!(
                difference <= 2,
                "{width} x {height} to {size:?}, {filter:?}: {difference}"
            );
        }
    }
}

#[test]
fn usual_images_are_resized_whole() {
    // Bit-identical: the kernels of a part would be rounded with a different scale.
    for (size, (width, height)) in [((341, 256), (500, 375)), ((5376, 256), (2100, 100))] {
        let image = picture(width, height);
        let crop = center_crop(size, (224, 224));
        for filter in FILTERS {
            let part = resize_part(image.clone(), size, crop, filter).unwrap();
            assert!(part == by_the_whole(&image, size, crop, filter));
        }
    }
}

/// As a whole, the resized image would take 12.9 GB.
#[test]
fn a_line_of_pixels_takes_no_memory() {
    // One colour around the centre, and another one elsewhere.
    let colour = |along: u32| match along {
        32_000..33_500 => Rgb([200, 100, 50]),
        _ => Rgb([0, 255, 0]),
    };
    let upright = RgbImage::from_fn(1, 65_500, |_, y| colour(y));
    let lying = RgbImage::from_fn(65_500, 1, |x, _| colour(x));
    let long = 256 * 65_500;
    for (image, size) in [(upright, (256, long)), (lying, (long, 256))] {
        let crop = center_crop(size, (224, 224));
        for filter in FILTERS {
            let part = resize_part(image.clone(), size, crop, filter).unwrap();
            assert_eq!(part.dimensions(), (224, 224));
            assert!(part.pixels().all(|pixel| *pixel == Rgb([200, 100, 50])));
        }
    }
}

proptest! {
    #[test]
    fn a_part_lies_in_its_side(
        side in 1_u32..70_000,
        resized in 1_u32..20_000_000,
        at in 0.0..1.0_f64,
        count in 1_u32..1_000,
    ) {
        let count = count.min(resized);
        let at = (f64::from(resized - count) * at) as u32;
        let part = Part::of(side, resized, at, count);
        prop_assert!(part.pixels >= 1 && part.first + part.pixels <= side);
        prop_assert!(part.offset >= 0.0 && part.length > 0.0);
        prop_assert!(part.offset + part.length <= f64::from(part.pixels));
        let wanted = f64::from(count) * f64::from(side) / f64::from(resized);
        prop_assert!((part.length - wanted).abs() <= 1e-9 * f64::from(side));
    }
}
