//! Shear, shift and rotation with Pillow's resampling.
//!
//! Pillow's transform samples the image at single points (its kernels are not stretched), in `f64`. The kernels here skip
//! terms that are multiplied by a fraction of exactly 0: shears and shifts read one row or column instead of four, with the
//! same result.

use image::{Rgb, RgbImage, imageops};

/// The interpolation of a moved image, and its fill colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sampling {
    /// Whether it is linear between two rows and columns; otherwise cubic (a = -1) over four. The resize, in contrast, uses a = -0.5.
    pub is_bilinear: bool,
    /// The colour outside the image.
    pub fill: [u8; 3],
}

/// Pillow's `Image.transform` with `AFFINE`: the result has the size of the image and shows at (x, y) the point
/// (a x + b y + c, d x + e y + f) of the image, for `matrix` = [a, b, c, d, e, f]. Pixel centres are at halves.
#[must_use]
pub fn affine(image: &RgbImage, matrix: [f64; 6], sampling: Sampling) -> RgbImage {
    let source = Source::of(image);
    let fill = sampling.fill;
    if sampling.is_bilinear {
        source.at_places(matrix, fill, |x, y| source.mixed((x, y), linear))
    } else {
        source.at_places(matrix, fill, |x, y| source.mixed((x, y), cubic))
    }
}

/// Pillow's `Image.rotate`: counter-clockwise around the centre, with unchanged size.
#[must_use]
pub fn rotate(image: &RgbImage, degrees: f64, sampling: Sampling) -> RgbImage {
    let degrees = degrees.rem_euclid(360.0);
    let is_square = image.width() == image.height();
    // Quarter turns move whole pixels; the functions of `image` turn clockwise.
    if degrees == 0.0 {
        return image.clone();
    } else if degrees == 180.0 {
        return imageops::rotate180(image);
    } else if degrees == 90.0 && is_square {
        return imageops::rotate270(image);
    } else if degrees == 270.0 && is_square {
        return imageops::rotate90(image);
    }
    let angle = -degrees.to_radians();
    let (cos, sin) = (to_15_digits(angle.cos()), to_15_digits(angle.sin()));
    let (x, y) = (
        f64::from(image.width()) / 2.0,
        f64::from(image.height()) / 2.0,
    );
    let left = cos * -x + sin * -y + x;
    let top = -sin * -x + cos * -y + y;
    affine(image, [cos, sin, left, -sin, cos, top], sampling)
}

/// Rounds to 15 decimal places, as Pillow does for sine and cosine.
fn to_15_digits(number: f64) -> f64 {
    format!("{number:.15}").parse().unwrap_or(number)
}

/// The pixels of an image, and its size in the type of Pillow's calculations.
struct Source<'a> {
    bytes: &'a [u8],
    stride: usize,
    width: i32,
    height: i32,
}

impl<'a> Source<'a> {
    fn of(image: &'a RgbImage) -> Self {
        Self {
            bytes: image.as_raw(),
            stride: 3 * image.width() as usize,
            width: image.width() as i32,
            height: image.height() as i32,
        }
    }

    /// An image with `read` at the source position of each pixel, filled where the position is outside.
    fn at_places(
        &self,
        [a, b, c, d, e, f]: [f64; 6],
        fill: [u8; 3],
        read: impl Fn(f64, f64) -> [u8; 3],
    ) -> RgbImage {
        let (width, height) = (f64::from(self.width), f64::from(self.height));
        let mut out = RgbImage::from_pixel(self.width as u32, self.height as u32, Rgb(fill));
        for (y, row) in out.rows_mut().enumerate() {
            let y = y as f64 + 0.5;
            for (x, pixel) in row.enumerate() {
                let x = x as f64 + 0.5;
                let (across, down) = (a * x + b * y + c, d * x + e * y + f);
                if (0.0..width).contains(&across) && (0.0..height).contains(&down) {
                    pixel.0 = read(across, down);
                }
            }
        }
        out
    }

    /// The colour at a point, mixed of the `N` x `N` pixels around it: of each row, and then of the rows.
    #[inline]
    fn mixed<const N: usize>(
        &self,
        (x, y): (f64, f64),
        mix: impl Fn([f64; N], f64) -> f64,
    ) -> [u8; 3] {
        let (x, dx) = whole_and_rest(x);
        let (y, dy) = whole_and_rest(y);
        let before = N / 2 - 1;
        let across = |y: i32| {
            let pixels: [[u8; 3]; N] = self.pixels(x - before as i32, y);
            if dx == 0.0 {
                return pixels[before].map(f64::from);
            }
            channels(|c| mix(pixels.map(|pixel| f64::from(pixel[c])), dx))
        };
        let value = if dy == 0.0 {
            across(y)
        } else {
            let rows: [[f64; 3]; N] =
                std::array::from_fn(|row| across(y - before as i32 + row as i32));
            channels(|c| mix(rows.map(|row| row[c]), dy))
        };
        // The cast clips to 0 ..= 255 and truncates, as Pillow does.
        value.map(|value| value as u8)
    }

    /// Pixels of a row from column `x` on; the border is extended by its last pixel.
    #[inline]
    fn pixels<const N: usize>(&self, x: i32, y: i32) -> [[u8; 3]; N] {
        let clip = |at: i32, count: i32| at.clamp(0, count - 1) as usize;
        let row = &self.bytes[clip(y, self.height) * self.stride..][..self.stride];
        let inside = usize::try_from(x)
            .ok()
            .and_then(|x| row.get(3 * x..3 * (x + N)));
        match inside {
            Some(bytes) => {
                std::array::from_fn(|i| [bytes[3 * i], bytes[3 * i + 1], bytes[3 * i + 2]])
            }
            None => std::array::from_fn(|i| {
                let at = 3 * clip(x + i as i32, self.width);
                [row[at], row[at + 1], row[at + 2]]
            }),
        }
    }
}

/// The last pixel whose centre is before a position inside the image, and the distance to the position, from 0 to below 1.
fn whole_and_rest(place: f64) -> (i32, f64) {
    let place = place - 0.5;
    // `floor` is a function call if the target CPU is only known to have SSE2.
    let whole = if place < 0.0 { -1 } else { place as i32 };
    (whole, place - f64::from(whole))
}

fn channels(of: impl Fn(usize) -> f64) -> [f64; 3] {
    [of(0), of(1), of(2)]
}

fn linear([a, b]: [f64; 2], rest: f64) -> f64 {
    a + (b - a) * rest
}

fn cubic([a, b, c, d]: [f64; 4], rest: f64) -> f64 {
    let first = -a + c;
    let second = 2.0 * (a - b) + c - d;
    let third = -a + b - c + d;
    b + rest * (first + rest * (second + rest * third))
}
