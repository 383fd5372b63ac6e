//! Anti-aliased painting of regions given as point tests.

use image::{Rgb, RgbImage};

use super::scene::Pose;

/// Points per pixel side: 4 x 4 samples.
const SAMPLES: usize = 4;

/// A colour, channels in 0..1.
pub(super) type Color = [f32; 3];

/// The layer of what is no object.
pub(super) const GROUND: u8 = 0;

/// A square image in coordinates 0..1.
pub(super) struct Canvas {
    side: usize,
    pixels: Vec<Color>,
    /// The layer that was painted last over the centre of each pixel.
    pub(super) layers: Vec<u8>,
}

impl Canvas {
    /// An image whose pixel centres get their colour from a function of (x, y).
    pub(super) fn new(side: usize, mut color: impl FnMut(f32, f32) -> Color) -> Self {
        let center = |i: usize| (i as f32 + 0.5) / side as f32;
        let pixels = (0..side * side)
            .map(|i| color(center(i % side), center(i / side)))
            .collect();
        Self {
            side,
            pixels,
            layers: vec![GROUND; side * side],
        }
    }

    /// Paints the points in `inside`, which gets them in the coordinates of `pose` and has none further than 1 from its centre, with
    /// opaque colours, as part of `layer`.
    pub(super) fn paint(
        &mut self,
        layer: u8,
        pose: &Pose,
        mut color: impl FnMut(f32, f32) -> Color,
        inside: impl Fn(f32, f32) -> bool,
    ) {
        let inside = |x, y| {
            let (x, y) = pose.local(x, y);
            inside(x, y)
        };
        let (x, y) = pose.center;
        let (columns, rows) = (self.range(x, pose.size), self.range(y, pose.size));
        let step = 1.0 / (self.side * SAMPLES) as f32;
        let side = self.side as f32;
        for row in rows {
            for column in columns.clone() {
                let at = row * self.side + column;
                let center = ((column as f32 + 0.5) / side, (row as f32 + 0.5) / side);
                if inside(center.0, center.1) {
                    self.layers[at] = layer;
                }
                let hits = (0..SAMPLES * SAMPLES)
                    .filter(|i| {
                        let px = ((column * SAMPLES + i % SAMPLES) as f32 + 0.5) * step;
                        let py = ((row * SAMPLES + i / SAMPLES) as f32 + 0.5) * step;
                        inside(px, py)
                    })
                    .count();
                if hits == 0 {
                    continue;
                }
                let alpha = hits as f32 / (SAMPLES * SAMPLES) as f32;
                let paint = color(center.0, center.1);
                for (old, new) in self.pixels[at].iter_mut().zip(paint) {
                    *old += alpha * (new - *old);
                }
            }
        }
    }

    fn range(&self, center: f32, reach: f32) -> std::ops::Range<usize> {
        let side = self.side as f32;
        let start = ((center - reach) * side).floor().clamp(0.0, side) as usize;
        let end = ((center + reach) * side).ceil().clamp(0.0, side) as usize;
        start..end
    }

    /// The image with 8 bits per channel and `noise` added to each value.
    pub(super) fn into_image(self, mut noise: impl FnMut() -> f32) -> RgbImage {
        let mut pixels = self.pixels.iter();
        RgbImage::from_fn(self.side as u32, self.side as u32, |_, _| {
            let color = pixels.next().copied().unwrap_or_default();
            Rgb(color.map(|value| ((value + noise()).clamp(0.0, 1.0) * 255.0).round() as u8))
        })
    }
}
