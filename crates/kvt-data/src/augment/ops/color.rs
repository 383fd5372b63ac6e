//! Greyscale and hue.

use image::RgbImage;

/// Pillow's grey value of an RGB pixel: ITU-R 601-2 luma, in 16-bit fixed point, rounded.
pub fn luma([r, g, b]: [u8; 3]) -> u8 {
    ((u32::from(r) * 19_595 + u32::from(g) * 38_470 + u32::from(b) * 7_471 + 0x8000) >> 16) as u8
}

/// torchvision's `to_grayscale` with three channels: each channel becomes the luma.
pub fn grayscale(image: &mut RgbImage) {
    for pixel in image.pixels_mut() {
        pixel.0 = [luma(pixel.0); 3];
    }
}

/// torchvision's `adjust_hue` of a PIL image: to 8-bit HSV, with the hue shifted by `turns` (-0.5 to 0.5 of a circle), and
/// back. Eight bits cannot represent every colour, so even a shift of 0 changes levels.
pub fn hue(image: &mut RgbImage, turns: f64) {
    // As numpy: truncated to an integer, and from 32 to 8 bits by dropping high bits.
    let shift = (turns * 255.0) as i32 as u8;
    for pixel in image.pixels_mut() {
        let [hue, saturation, value] = hsv(pixel.0);
        pixel.0 = rgb([hue.wrapping_add(shift), saturation, value]);
    }
}

/// Pillow's conversion from RGB to HSV: all three in 0 ..= 255, truncated to integers.
fn hsv([r, g, b]: [u8; 3]) -> [u8; 3] {
    let (max, min) = (r.max(g).max(b), r.min(g).min(b));
    if max == min {
        return [0, 0, max];
    }
    let range = f32::from(max - min);
    let saturation = range / f32::from(max);
    let away = |value: u8| f32::from(max - value) / range;
    let (red, green, blue) = (away(r), away(g), away(b));
    // Pillow's literals have 64 bits, its variables 32.
    let sixths = if r == max {
        blue - green
    } else if g == max {
        (2.0 + f64::from(red) - f64::from(blue)) as f32
    } else {
        (4.0 + f64::from(green) - f64::from(red)) as f32
    };
    let hue = ((f64::from(sixths) / 6.0 + 1.0) % 1.0) as f32;
    let level = |share: f32| (f64::from(share) * 255.0) as u8;
    [level(hue), level(saturation), max]
}

/// Pillow's conversion from HSV to RGB.
fn rgb([hue, saturation, value]: [u8; 3]) -> [u8; 3] {
    if saturation == 0 {
        return [value; 3];
    }
    let sixths = f64::from(hue) * 6.0 / 255.0;
    let sector = sixths.floor();
    let rest = (sixths - sector) as f32;
    let saturation = (f64::from(saturation) / 255.0) as f32;
    let level = |share: f64| (f64::from(value) * share).round() as u8;
    let p = level(1.0 - f64::from(saturation));
    let q = level(1.0 - f64::from(saturation * rest));
    let t = level(1.0 - f64::from(saturation) * (1.0 - f64::from(rest)));
    in_sector(sector as u8, value, p, q, t)
}

/// The colour in a sixth of the circle of hues, from its largest and its smallest level, and one that falls or rises within the sixth.
pub(in crate::augment) fn in_sector<T>(
    sector: u8,
    high: T,
    low: T,
    falling: T,
    rising: T,
) -> [T; 3] {
    match sector % 6 {
        0 => [high, rising, low],
        1 => [falling, high, low],
        2 => [low, high, rising],
        3 => [low, falling, high],
        4 => [rising, low, high],
        _ => [high, low, falling],
    }
}
