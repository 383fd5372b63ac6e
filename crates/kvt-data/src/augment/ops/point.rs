//! Operations that map each level of a channel to another one: a table of 256 entries, applied to every value.

use image::RgbImage;

/// A new level for each level of a channel.
type Table = [u8; 256];

/// Pillow's `ImageOps.autocontrast`: each channel is stretched linearly to 0 ..= 255. A channel with a single level does not change.
pub fn autocontrast(image: &mut RgbImage) {
    let tables = histograms(image).map(|counts| {
        let low = counts.iter().position(|count| *count > 0).unwrap_or(0);
        let high = counts.iter().rposition(|count| *count > 0).unwrap_or(0);
        if high <= low {
            return table(|level| level);
        }
        let scale = 255.0 / (high - low) as f64;
        let offset = -(low as f64) * scale;
        table(|level| (f64::from(level) * scale + offset) as u8)
    });
    map_channels(image, &tables);
}

/// Pillow's `ImageOps.equalize`: each channel is mapped so that its levels are about equally frequent.
pub fn equalize(image: &mut RgbImage) {
    let tables = histograms(image).map(|counts| {
        let total: u32 = counts.iter().sum();
        let last = counts.iter().rfind(|count| **count > 0);
        let step = (total - last.copied().unwrap_or(0)) / 255;
        if step == 0 {
            return table(|level| level);
        }
        let mut below = step / 2;
        counts.map(|count| {
            let level = (below / step).min(255) as u8;
            below += count;
            level
        })
    });
    map_channels(image, &tables);
}

/// Pillow's `ImageOps.invert`: 255 - level.
pub fn invert(image: &mut RgbImage) {
    map_all(image, |level| 255 - level);
}

/// Pillow's `ImageOps.posterize`: keeps the highest `bits` of each level. 8 and more change nothing, 0 gives black
/// (rejected by Pillow 13 and allowed by older versions).
pub fn posterize(image: &mut RgbImage, bits: u32) {
    let mask = u8::MAX.checked_shl(8_u32.saturating_sub(bits)).unwrap_or(0);
    map_all(image, |level| level & mask);
}

/// Pillow's `ImageOps.solarize`: levels from `threshold` on are inverted; 256 changes nothing.
pub fn solarize(image: &mut RgbImage, threshold: u32) {
    map_all(image, |level| {
        if u32::from(level) < threshold {
            level
        } else {
            255 - level
        }
    });
}

/// timm's `SolarizeAdd`: adds to the levels below 128, saturating at 255.
pub fn solarize_add(image: &mut RgbImage, add: u8) {
    map_all(image, |level| {
        if level < 128 {
            level.saturating_add(add)
        } else {
            level
        }
    });
}

/// The table of a function of the level.
fn table(of: impl Fn(u8) -> u8) -> Table {
    std::array::from_fn(|level| of(level as u8))
}

/// Applies a function of the level to every value.
pub(in crate::augment) fn map_all(image: &mut RgbImage, of: impl Fn(u8) -> u8) {
    let table = table(of);
    for value in image.iter_mut() {
        *value = table[usize::from(*value)];
    }
}

/// Applies a separate table to each channel.
fn map_channels(image: &mut RgbImage, [red, green, blue]: &[Table; 3]) {
    for pixel in image.pixels_mut() {
        let [r, g, b] = pixel.0.map(usize::from);
        pixel.0 = [red[r], green[g], blue[b]];
    }
}

/// The number of pixels with each level, for each channel.
fn histograms(image: &RgbImage) -> [[u32; 256]; 3] {
    let mut counts = [[0; 256]; 3];
    for pixel in image.pixels() {
        for (counts, value) in counts.iter_mut().zip(pixel.0) {
            counts[usize::from(value)] += 1;
        }
    }
    counts
}
