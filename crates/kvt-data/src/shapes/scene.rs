//! One image: background, clutter, the shape, occluders, noise, in this order.

use image::RgbImage;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::canvas::{Canvas, Color, GROUND};
use super::figure::Figure;
use kvt_ops::Key;

/// The minimum distance, in RGB of 0..1, between the colours of shape and background.
const CONTRAST: f32 = 0.35;
/// Pieces of clutter at `clutter = 1`.
const CLUTTER: f32 = 16.0;

/// The position, rotation and scale of an object.
#[derive(Clone, Copy)]
pub(super) struct Pose {
    pub(super) center: (f32, f32),
    /// Unit vector of the rotated x axis.
    pub(super) axis: (f32, f32),
    pub(super) size: f32,
}

impl Pose {
    /// A random place and rotation, wholly inside the image.
    pub(super) fn somewhere(size: f32, rng: &mut ChaCha8Rng) -> Self {
        Self {
            center: (
                uniform(rng, size, 1.0 - size),
                uniform(rng, size, 1.0 - size),
            ),
            axis: direction(rng),
            size,
        }
    }

    /// The point in the coordinates of the object.
    pub(super) fn local(&self, x: f32, y: f32) -> (f32, f32) {
        let (dx, dy) = (
            (x - self.center.0) / self.size,
            (y - self.center.1) / self.size,
        );
        let (c, s) = self.axis;
        (c * dx + s * dy, c * dy - s * dx)
    }

    /// The point of the image, from coordinates of the object.
    pub(super) fn global(&self, x: f32, y: f32) -> (f32, f32) {
        let (c, s) = self.axis;
        (
            self.center.0 + self.size * (c * x - s * y),
            self.center.1 + self.size * (s * x + c * y),
        )
    }
}

/// Draws an image of the class `figure`, `side` x `side` pixels. `clutter` and `occlusion` in 0..1.
pub fn render(figure: Figure, side: usize, clutter: f32, occlusion: f32, key: Key) -> RgbImage {
    // Each part has a separate generator, so that more clutter does not move the shape.
    let mut rng = key.named("target").rng();
    let target = Pose::somewhere(uniform(&mut rng, 0.25, 0.4), &mut rng);
    let (ground, ground_color) = background(key);
    let color = color_unlike(ground_color, &mut rng);
    let mut canvas = Canvas::new(side, ground);
    add_clutter(&mut canvas, clutter, &mut key.named("clutter").rng());
    let shade = shading(&mut rng, color);
    canvas.paint(GROUND, &target, shade, |x, y| figure.contains(x, y));
    occlude(
        &mut canvas,
        figure,
        &target,
        occlusion,
        &mut key.named("occluder").rng(),
    );
    let mut rng = key.named("noise").rng();
    let strength = uniform(&mut rng, 0.0, 0.06);
    canvas.into_image(|| uniform(&mut rng, -strength, strength))
}

/// A smooth texture around one colour: a gradient and two octaves of value noise. Also returns the colour.
fn background(key: Key) -> (impl FnMut(f32, f32) -> Color, Color) {
    let mut rng = key.named("background").rng();
    let color = random_color(&mut rng);
    let tint = random_color(&mut rng);
    let slope = direction(&mut rng);
    let strength = uniform(&mut rng, 0.0, 0.25);
    const GRID: usize = 9;
    let grid: Vec<f32> = (0..GRID * GRID)
        .map(|_| uniform(&mut rng, -1.0, 1.0))
        .collect();
    let noise = move |x: f32, y: f32, cells: f32| {
        let (x, y) = (x * cells, y * cells);
        let at = |i: usize, j: usize| grid[(j % GRID) * GRID + i % GRID];
        let (i, j) = (x.floor() as usize, y.floor() as usize);
        let (u, v) = (x - x.floor(), y - y.floor());
        let upper = at(i, j) * (1.0 - u) + at(i + 1, j) * u;
        let lower = at(i, j + 1) * (1.0 - u) + at(i + 1, j + 1) * u;
        upper * (1.0 - v) + lower * v
    };
    let paint = move |x: f32, y: f32| {
        let along = (x - 0.5) * slope.0 + (y - 0.5) * slope.1;
        let level = along + 0.5 * noise(x, y, 4.0) + 0.5 * noise(x, y, 8.0);
        let mut result = color;
        for (value, tint) in result.iter_mut().zip(tint) {
            *value += strength * level * (tint + 0.5);
        }
        result
    };
    (paint, color)
}

/// Small objects that are not a whole shape: blobs, lines, and pieces cut off a shape by a line.
fn add_clutter(canvas: &mut Canvas, clutter: f32, rng: &mut ChaCha8Rng) {
    let count = (clutter * CLUTTER * uniform(rng, 0.5, 1.0)).round() as usize;
    for _ in 0..count {
        let pose = Pose {
            center: (uniform(rng, 0.0, 1.0), uniform(rng, 0.0, 1.0)),
            axis: direction(rng),
            size: uniform(rng, 0.05, 0.2),
        };
        let color = random_color(rng);
        let kind = rng.random_range(0..3_u32);
        let stretch = uniform(rng, 0.3, 0.9);
        let figure = Figure::ALL[rng.random_range(0..Figure::ALL.len() as u32) as usize];
        let cut = uniform(rng, -0.1, 0.3);
        let inside = |x: f32, y: f32| match kind {
            // An ellipse, at most half as large as the smallest target.
            0 => (2.0 * x) * (2.0 * x) + (2.0 * y / stretch) * (2.0 * y / stretch) < 1.0,
            1 => x.abs() < 0.95 && y.abs() < 0.12,
            _ => x > cut && figure.contains(x, y),
        };
        canvas.paint(GROUND, &pose, |_, _| color, inside);
    }
}

/// Covers up to a random fraction, at most 0.6 `occlusion`, of the shape with bars and long ellipses, which are not a
/// class, placed on its boundary.
pub(super) fn occlude(
    canvas: &mut Canvas,
    figure: Figure,
    target: &Pose,
    occlusion: f32,
    rng: &mut ChaCha8Rng,
) {
    const GRID: usize = 24;
    let allowed = 0.6 * occlusion * uniform(rng, 0.0, 1.0);
    // Points of the shape on a grid, to measure the hidden fraction.
    let mut visible: Vec<(f32, f32)> = (0..GRID * GRID)
        .map(|i| {
            let at = |i: usize| ((i as f32 + 0.5) / GRID as f32 * 2.0 - 1.0) * target.size;
            (
                target.center.0 + at(i % GRID),
                target.center.1 + at(i / GRID),
            )
        })
        .filter(|&(x, y)| {
            let (x, y) = target.local(x, y);
            figure.contains(x, y)
        })
        .collect();
    let total = visible.len() as f32;
    for _ in 0..6 {
        let outward = direction(rng);
        let far = uniform(rng, 0.4, 1.1) * target.size;
        let pose = Pose {
            center: (
                target.center.0 + far * outward.0,
                target.center.1 + far * outward.1,
            ),
            axis: direction(rng),
            size: uniform(rng, 0.15, 0.5),
        };
        let color = random_color(rng);
        let bar = rng.random::<bool>();
        let inside = |x: f32, y: f32| {
            if bar {
                x.abs() < 0.95 && y.abs() < 0.2
            } else {
                x * x + 4.0 * y * y < 0.8
            }
        };
        let left: Vec<_> = visible
            .iter()
            .copied()
            .filter(|&(x, y)| {
                let (x, y) = pose.local(x, y);
                !inside(x, y)
            })
            .collect();
        if total - left.len() as f32 <= allowed * total && left.len() < visible.len() {
            let shade = shading(rng, color);
            canvas.paint(GROUND, &pose, shade, inside);
            visible = left;
        }
    }
}

/// A colour that varies slightly over the image, so that a surface cannot be recognised by its flatness.
fn shading(rng: &mut ChaCha8Rng, color: Color) -> impl FnMut(f32, f32) -> Color {
    let (slope, strength) = (direction(rng), uniform(rng, 0.0, 0.3));
    move |x, y| {
        color
            .map(|value| value + strength * (x * slope.0 + y * slope.1 - 0.5 * (slope.0 + slope.1)))
    }
}

pub(super) fn random_color(rng: &mut ChaCha8Rng) -> Color {
    [(); 3].map(|()| uniform(rng, 0.05, 0.95))
}

/// A colour that contrasts with another one.
pub(super) fn color_unlike(ground: Color, rng: &mut ChaCha8Rng) -> Color {
    let mut color = random_color(rng);
    while distance(color, ground) < CONTRAST {
        color = random_color(rng);
    }
    color
}

fn distance(a: Color, b: Color) -> f32 {
    a.iter()
        .zip(b)
        .map(|(a, b)| (a - b) * (a - b))
        .sum::<f32>()
        .sqrt()
}

pub(super) fn uniform(rng: &mut ChaCha8Rng, low: f32, high: f32) -> f32 {
    low + (high - low) * rng.random::<f32>()
}

/// A random unit vector, from a point of the disc: square roots are exactly rounded, sines are not.
fn direction(rng: &mut ChaCha8Rng) -> (f32, f32) {
    loop {
        let (x, y) = (uniform(rng, -1.0, 1.0), uniform(rng, -1.0, 1.0));
        let square = x * x + y * y;
        if (0.01..=1.0).contains(&square) {
            let length = square.sqrt();
            return (x / length, y / length);
        }
    }
}

#[cfg(test)]
mod tests;
