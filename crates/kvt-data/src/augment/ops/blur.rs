//! Pillow's Gaussian blur: three box blurs with a fractional radius in each direction (Gwosdek et al. 2011), each rounded
//! to 8 bits.

use image::RgbImage;

/// Passes of the box blur in each direction.
const PASSES: u8 = 3;

/// Pillow's `ImageFilter.GaussianBlur` with this standard deviation in pixels. The border is extended by its last pixel.
pub fn gaussian_blur(image: &mut RgbImage, radius: f64) {
    let kernel = BoxKernel::new(box_radius(radius as f32));
    if radius == 0.0 || image.is_empty() {
        return;
    }
    let stride = 3 * image.width() as usize;
    let mut sums = vec![0; stride];
    let mut scratch = vec![0; image.len()];
    for (row, scratch) in image
        .chunks_exact_mut(stride)
        .zip(scratch.chunks_exact_mut(stride))
    {
        kernel.blur_thrice(row, scratch, &mut sums[..3]);
    }
    kernel.blur_thrice(image, &mut scratch, &mut sums);
}

/// The radius of the box whose threefold application approximates a Gaussian. In `f32` where Pillow uses it.
fn box_radius(radius: f32) -> f32 {
    let variance = radius * radius / f32::from(PASSES);
    // Equations 7, 11 and 14 of the paper.
    let length = (12.0 * f64::from(variance) + 1.0).sqrt() as f32;
    let whole = ((f64::from(length) - 1.0) / 2.0).floor() as f32;
    let rest = (2.0 * whole + 1.0) * (whole * (whole + 1.0) - 3.0 * variance);
    whole + rest / (6.0 * (variance - (whole + 1.0) * (whole + 1.0)))
}

/// A box of 2 `reach` + 1 full values and one partly covered value at each end, with weights in units of 2^-24.
struct BoxKernel {
    reach: usize,
    weight: u32,
    end_weight: u32,
}

impl BoxKernel {
    fn new(radius: f32) -> Self {
        let reach = radius as u32;
        let weight = (16_777_216.0 / (radius * 2.0 + 1.0)) as u32;
        Self {
            reach: reach as usize,
            weight,
            end_weight: (16_777_216_u32.saturating_sub((reach * 2 + 1) * weight)) / 2,
        }
    }

    /// Three passes over `line`, a sequence of positions with `sums.len()` values each.
    fn blur_thrice(&self, line: &mut [u8], scratch: &mut [u8], sums: &mut [u32]) {
        self.blur(line, scratch, sums);
        self.blur(scratch, line, sums);
        self.blur(line, scratch, sums);
        line.copy_from_slice(scratch);
    }

    fn blur(&self, source: &[u8], target: &mut [u8], sums: &mut [u32]) {
        let values = sums.len();
        let last = source.len() / values - 1;
        let place = |at: usize| &source[at.min(last) * values..][..values];
        let before = |at: usize| place(at.saturating_sub(self.reach + 1));
        // The box around the position before the first: its left part repeats the first value.
        let first = self.reach as u32 + 1;
        sums.iter_mut()
            .zip(place(0))
            .for_each(|(sum, value)| *sum = first * u32::from(*value));
        for at in 0..self.reach {
            sums.iter_mut()
                .zip(place(at))
                .for_each(|(sum, value)| *sum += u32::from(*value));
        }
        for (at, target) in target.chunks_exact_mut(values).enumerate() {
            let (left, entering, right) = (
                before(at),
                place(at + self.reach),
                place(at + self.reach + 1),
            );
            let ends = left.iter().zip(entering).zip(right);
            for ((target, sum), ((left, entering), right)) in
                target.iter_mut().zip(&mut *sums).zip(ends)
            {
                let [left, entering, right] = [*left, *entering, *right].map(u32::from);
                *sum = *sum + entering - left;
                let weighted = *sum * self.weight + (left + right) * self.end_weight;
                *target = ((weighted + (1 << 23)) >> 24) as u8;
            }
        }
    }
}
