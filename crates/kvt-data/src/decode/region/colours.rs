//! From three colour planes to pixels of red, green and blue.

use super::Plane;

/// Converts three planes to pixels; planes with fewer pixels are enlarged with the weights 3 to 1 of the two nearest
/// pixels, or with `repeats`, if they have half the width, by repetition.
#[inline(always)]
pub(super) fn colours(planes: &[Plane; 3], repeats: bool, width: usize, height: usize) -> Vec<u8> {
    let mut rgb = vec![0; 3 * width * height];
    let padded = planes[0].width.max(width) + 2;
    let mut rows: [Vec<u8>; 3] = std::array::from_fn(|_| vec![0; padded]);
    let mut mixed = vec![0_u16; padded];
    for (y, out) in rgb.chunks_exact_mut(3 * width).enumerate() {
        for (plane, row) in planes.iter().zip(&mut rows) {
            plane.enlarge(y, width, repeats, &mut mixed, row);
        }
        convert(&rows, width, out);
    }
    rgb
}

impl Plane {
    /// Writes row `y` of the part, `width` pixels, to the beginning of `row`. `mixed` is a buffer.
    #[inline(always)]
    fn enlarge(&self, y: usize, width: usize, repeats: bool, mixed: &mut [u16], row: &mut [u8]) {
        let (full_width, full_height) = self.is_full;
        if full_width && full_height {
            row[..width].copy_from_slice(&self.line(y)[..width]);
        } else if repeats && !full_width {
            let near = self.line(if full_height { y } else { y / 2 });
            for (x, pixel) in row[..width].iter_mut().enumerate() {
                *pixel = near[x / 2];
            }
        } else {
            let mixed = &mut mixed[..self.width];
            self.mix_lines(y, mixed);
            if full_width {
                for (row, mixed) in row.iter_mut().zip(mixed.iter()) {
                    *row = ((mixed + 2) / 4) as u8;
                }
            } else {
                let last = mixed.len() - 1;
                for (x, pair) in row.chunks_exact_mut(2).take(mixed.len()).enumerate() {
                    let near = 3 * mixed[x];
                    pair[0] = ((near + mixed[x.saturating_sub(1)] + 8) / 16) as u8;
                    pair[1] = ((near + mixed[(x + 1).min(last)] + 7) / 16) as u8;
                }
            }
        }
    }

    /// Four times row `y` of the part, in the columns of the plane.
    #[inline(always)]
    fn mix_lines(&self, y: usize, mixed: &mut [u16]) {
        if self.is_full.1 {
            for (mixed, near) in mixed.iter_mut().zip(self.line(y)) {
                *mixed = 4 * u16::from(*near);
            }
            return;
        }
        let near = self.line(y / 2);
        let far = if y.is_multiple_of(2) {
            (y / 2).saturating_sub(1)
        } else {
            y / 2 + 1
        };
        for ((mixed, near), far) in mixed.iter_mut().zip(near).zip(self.line(far)) {
            *mixed = 3 * u16::from(*near) + u16::from(*far);
        }
    }

    /// A row of the plane; past the last one, the last one.
    fn line(&self, y: usize) -> &[u8] {
        let last = self.pixels.len() / self.width - 1;
        let y = y.min(last);
        &self.pixels[y * self.width..(y + 1) * self.width]
    }
}

/// Converts a row of luminances and chrominances to pixels.
#[inline(always)]
fn convert(rows: &[Vec<u8>; 3], width: usize, out: &mut [u8]) {
    let (out, rest) = out.as_chunks_mut::<48>();
    let chunks = rows.each_ref().map(|row| row[..width].as_chunks::<16>());
    let [(luma, luma_rest), (cb, cb_rest), (cr, cr_rest)] = chunks;
    for (out, ((y, cb), cr)) in out.iter_mut().zip(luma.iter().zip(cb).zip(cr)) {
        *out = pixels(y, cb, cr);
    }
    // The rest of the row, padded.
    let fill = |rest: &[u8]| {
        let mut filled = [0; 16];
        filled[..rest.len()].copy_from_slice(rest);
        filled
    };
    let last = pixels(&fill(luma_rest), &fill(cb_rest), &fill(cr_rest));
    rest.copy_from_slice(&last[..rest.len()]);
}

/// Sixteen pixels.
#[inline(always)]
fn pixels(y: &[u8; 16], cb: &[u8; 16], cr: &[u8; 16]) -> [u8; 48] {
    let mut channels = [[0_u8; 16]; 3];
    let [red, green, blue] = &mut channels;
    for x in 0..16 {
        [red[x], green[x], blue[x]] = rgb(y[x], cb[x], cr[x]);
    }
    let mut pixels = [0; 48];
    for x in 0..16 {
        pixels[3 * x] = red[x];
        pixels[3 * x + 1] = green[x];
        pixels[3 * x + 2] = blue[x];
    }
    pixels
}

/// The colour of a luminance and two chrominance values (JFIF).
#[inline(always)]
pub(in crate::decode) fn rgb(y: u8, cb: u8, cr: u8) -> [u8; 3] {
    // 16 fractional bits, rounded.
    let y = (i32::from(y) << 16) + (1 << 15);
    let (cb, cr) = (i32::from(cb) - 128, i32::from(cr) - 128);
    let level = |value: i32| (value >> 16).clamp(0, 255) as u8;
    [
        level(y + 91_881 * cr),
        level(y - 22_554 * cb - 46_802 * cr),
        level(y + 116_130 * cb),
    ]
}
