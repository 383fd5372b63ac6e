//! Relevance as a picture: resized to the image, scaled to `[0, 1]` and overlaid.

use image::{Rgb, RgbImage};

/// Resizes a map `[rows, columns]`, row by row: bilinear between cell centres and constant beyond them, as
/// `torch.nn.functional.interpolate(mode="bilinear")`.
pub fn enlarge(map: &[f64], [rows, columns]: [usize; 2], [height, width]: [usize; 2]) -> Vec<f64> {
    let places = |count: usize, size: usize| -> Vec<(usize, usize, f64)> {
        let last = count.saturating_sub(1);
        let place = |index: usize| {
            let scale = count as f64 / size.max(1) as f64;
            let at = ((index as f64 + 0.5) * scale - 0.5).max(0.0);
            let low = (at.floor() as usize).min(last);
            (low, (low + 1).min(last), at - low as f64)
        };
        (0..size).map(place).collect()
    };
    let (down, across) = (places(rows, height), places(columns, width));
    let cell = |row: usize, column: usize| map.get(row * columns + column).copied().unwrap_or(0.0);
    let mut all = Vec::with_capacity(height * width);
    for &(top, bottom, part) in &down {
        all.extend(across.iter().map(|&(left, right, share)| {
            let line = |row| cell(row, left) * (1.0 - share) + cell(row, right) * share;
            line(top) * (1.0 - part) + line(bottom) * part
        }));
    }
    all
}

/// Scales values so that the smallest is 0 and the largest is 1; all become 0 if they are equal.
pub fn normalized(values: &[f64]) -> Vec<f64> {
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let length = high - low;
    let stretch = |value: &f64| {
        if length > 0.0 {
            (value - low) / length
        } else {
            0.0
        }
    };
    values.iter().map(stretch).collect()
}

/// Blends an image with a map of the same size, in `[0, 1]`: from blue at 0 through green and yellow to red at 1.
pub fn overlay(image: &RgbImage, map: &[f64]) -> RgbImage {
    let mut drawn = image.clone();
    for (pixel, value) in drawn.pixels_mut().zip(map) {
        let Rgb(heat) = jet(*value);
        for (channel, heat) in pixel.0.iter_mut().zip(heat) {
            *channel = u8::midpoint(*channel, heat);
        }
    }
    drawn
}

/// Matlab's piecewise linear colour map `jet`.
fn jet(value: f64) -> Rgb<u8> {
    let level = |centre: f64| {
        let level = 1.5 - (4.0 * value.clamp(0.0, 1.0) - centre).abs();
        (255.0 * level.clamp(0.0, 1.0)).round() as u8
    };
    Rgb([level(3.0), level(2.0), level(1.0)])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `torch.nn.functional.interpolate(torch.tensor([[[[0., 4.], [8., 12.]]]]), size=(4, 2), mode="bilinear")`
    #[test]
    fn relevance_is_enlarged_as_torch_does() {
        let found = enlarge(&[0.0, 4.0, 8.0, 12.0], [2, 2], [4, 2]);
        assert_eq!(found, [0.0, 4.0, 2.0, 6.0, 6.0, 10.0, 8.0, 12.0]);
        assert_eq!(normalized(&[1.0, 3.0, 2.0]), [0.0, 1.0, 0.5]);
        assert_eq!(normalized(&[2.0, 2.0]), [0.0, 0.0]);
    }
}
