//! A tile with AVX-512 instructions.

use std::arch::x86_64::{
    __mmask16, _mm512_add_ps, _mm512_fmadd_ps, _mm512_load_ps, _mm512_mask_storeu_ps,
    _mm512_maskz_loadu_ps, _mm512_set1_ps, _mm512_setzero_ps,
};

use super::Tile;
use crate::cpu::weight::{LINE, Line};

/// Maximum number of rows.
pub(super) const HEIGHT: usize = 12;

/// Registers, and lines, of a row.
pub(super) const LINES: usize = 2;

/// # Safety
/// As [`Tile`] says, and the CPU has the instructions.
#[target_feature(enable = "avx512f")]
#[expect(
    unsafe_code,
    reason = "checks in the innermost loop would cost more than its products"
)]
pub(super) unsafe fn tile<const ROWS: usize>(tile: Tile<'_>) {
    let rows = tile.rows::<ROWS>();
    // In registers: 24 of the 32 hold sums, others hold two columns and a number of a row.
    let mut sums = [[_mm512_setzero_ps(); LINES]; ROWS];
    let (columns, _) = tile.panel.as_chunks::<LINES>();
    for (input, [Line(left), Line(right)]) in columns.iter().enumerate() {
        // SAFETY: a line is aligned and fills a register, and the caller guarantees the numbers of the rows.
        unsafe {
            let left = _mm512_load_ps(left.as_ptr());
            let right = _mm512_load_ps(right.as_ptr());
            for ([left_sum, right_sum], row) in sums.iter_mut().zip(&rows) {
                let number = _mm512_set1_ps(*row.add(input));
                *left_sum = _mm512_fmadd_ps(number, left, *left_sum);
                *right_sum = _mm512_fmadd_ps(number, right, *right_sum);
            }
        }
    }
    for part in 0..LINES {
        let first = part * LINE;
        let mask: __mmask16 = match tile.count.saturating_sub(first) {
            LINE.. => __mmask16::MAX,
            few => (1 << few) - 1,
        };
        // SAFETY: only places in the mask are read and written.
        unsafe {
            let bias = _mm512_maskz_loadu_ps(mask, tile.bias.wrapping_add(first));
            for (number, sums) in sums.iter().enumerate() {
                let place = number * tile.outputs + first;
                let added = match tile.residual {
                    None => bias,
                    Some(residual) => {
                        let residual = residual.wrapping_add(place);
                        _mm512_add_ps(_mm512_maskz_loadu_ps(mask, residual), bias)
                    }
                };
                let sum = _mm512_add_ps(added, sums[part]);
                _mm512_mask_storeu_ps(tile.out.wrapping_add(place), mask, sum);
            }
        }
    }
}
