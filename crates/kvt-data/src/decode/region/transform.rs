//! From coefficients to pixels: the inverse cosine transform to 8, 4, 2 or 1 pixels per side.

use std::f64::consts::PI;

/// The basis of a transform of `N` frequencies: row k contains frequency k at the `N` pixels of a side, multiplied by the
/// factor that converts the coefficients of 8 x 8 pixels to `N` x `N`.
pub(super) struct Basis<const N: usize>([[f32; N]; N]);

impl<const N: usize> Basis<N> {
    pub(super) fn new() -> Self {
        let mut rows = [[0.0; N]; N];
        for (k, row) in rows.iter_mut().enumerate() {
            let scale = if k == 0 { (1.0 / 8.0_f64).sqrt() } else { 0.5 };
            for (x, value) in row.iter_mut().enumerate() {
                let angle = PI * (2 * x + 1) as f64 * k as f64 / (2 * N) as f64;
                *value = (scale * angle.cos()) as f32;
            }
        }
        Self(rows)
    }

    /// Computes the pixels of a block: `N` rows of `out` that are `stride` apart; `None` if it is too short. The
    /// coefficients are in rows of 8, and are zero after the `last` one in zigzag order.
    #[inline(always)]
    pub(super) fn pixels(
        &self,
        coefficients: &[f32; 64],
        last: usize,
        out: &mut [u8],
        stride: usize,
    ) -> Option<()> {
        let [rows, columns] = USED[last & 63].map(|used| usize::from(used).min(N));
        let (coefficients, _) = coefficients.as_chunks::<8>();
        for y in 0..N {
            let mut across = [0.0_f32; 8];
            for (basis, coefficients) in self.0.iter().zip(coefficients).take(rows) {
                for (sum, coefficient) in across.iter_mut().zip(coefficients) {
                    *sum += basis[y] * coefficient;
                }
            }
            // 128 is the middle level.
            let mut pixels = [128.0_f32; N];
            for (basis, factor) in self.0.iter().zip(&across).take(columns) {
                for (pixel, basis) in pixels.iter_mut().zip(basis) {
                    *pixel += factor * basis;
                }
            }
            let out: &mut [u8; N] = out.get_mut(y * stride..)?.first_chunk_mut()?;
            for (out, pixel) in out.iter_mut().zip(pixels) {
                *out = level(pixel);
            }
        }
        Some(())
    }
}

/// The nearest level to a value.
#[inline(always)]
pub(super) fn level(value: f32) -> u8 {
    // A number added to 2^23 has no fractional bits: the processor rounds it, and its low bits are the integer.
    (value.clamp(0.0, 255.0) + 8_388_608.0).to_bits() as u8
}

/// For each position in zigzag order, the number of rows and columns that contain the coefficients up to it.
const USED: [[u8; 2]; 64] = {
    let mut used = [[1, 1]; 64];
    let (mut rows, mut columns, mut place) = (1, 1, 0);
    while place < 64 {
        let (row, column) = (ZIGZAG[place] / 8 + 1, ZIGZAG[place] % 8 + 1);
        rows = if row > rows { row } else { rows };
        columns = if column > columns { column } else { columns };
        used[place] = [rows, columns];
        place += 1;
    }
    used
};

/// The position (row, column) of each coefficient in zigzag order.
pub(super) const ZIGZAG: [u8; 64] = [
    0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5, 12, 19, 26, 33, 40, 48, 41, 34, 27, 20,
    13, 6, 7, 14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59,
    52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63,
];
