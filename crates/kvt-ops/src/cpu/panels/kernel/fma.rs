//! A tile with AVX2 and FMA instructions.

use std::arch::x86_64::{
    _mm256_add_ps, _mm256_fmadd_ps, _mm256_load_ps, _mm256_loadu_ps, _mm256_set1_ps,
    _mm256_setzero_ps, _mm256_storeu_ps,
};

use super::Tile;
use crate::cpu::panels::Line;

/// Maximum number of rows.
pub(super) const HEIGHT: usize = 6;

/// Numbers per register: half of a line.
const LANES: usize = 8;

/// # Safety
/// As [`Tile`] says, and the CPU has the instructions.
#[target_feature(enable = "avx2,fma")]
#[expect(
    unsafe_code,
    reason = "checks in the innermost loop would cost more than its products"
)]
pub(super) unsafe fn tile<const ROWS: usize>(tile: Tile<'_>) {
    let rows = tile.rows::<ROWS>();
    tile.prefetch::<ROWS>();
    // In registers: 12 of the 16 hold sums, others hold two columns and a number of a row.
    let mut sums = [[_mm256_setzero_ps(); 2]; ROWS];
    let mut at = 0;
    for Line(columns) in tile.panel {
        // SAFETY: a line is aligned and fills two registers, and the caller guarantees the numbers of the rows.
        unsafe {
            let left = _mm256_load_ps(columns.as_ptr());
            let right = _mm256_load_ps(columns.as_ptr().add(LANES));
            for ([left_sum, right_sum], row) in sums.iter_mut().zip(&rows) {
                let number = _mm256_set1_ps(*row.add(at));
                *left_sum = _mm256_fmadd_ps(number, left, *left_sum);
                *right_sum = _mm256_fmadd_ps(number, right, *right_sum);
            }
        }
        at += tile.along;
    }
    let factor = _mm256_set1_ps(tile.factor);
    for (number, sums) in sums.into_iter().enumerate() {
        let place = number * tile.stride;
        let (out, residual) = (
            tile.out.wrapping_add(place),
            tile.residual.map(|x| x.wrapping_add(place)),
        );
        // SAFETY: only `count` places are read and written.
        unsafe {
            if tile.count == 2 * LANES {
                for (part, sum) in sums.into_iter().enumerate() {
                    let first = part * LANES;
                    let mut added = match tile.bias {
                        None => _mm256_setzero_ps(),
                        Some(bias) => _mm256_loadu_ps(bias.add(first)),
                    };
                    if let Some(residual) = residual {
                        added = _mm256_add_ps(_mm256_loadu_ps(residual.add(first)), added);
                    }
                    _mm256_storeu_ps(out.add(first), _mm256_fmadd_ps(factor, sum, added));
                }
                continue;
            }
            // Stores of part of a register take many times as long on AMD.
            let sums: [f32; 2 * LANES] = std::mem::transmute(sums);
            for (column, sum) in sums.into_iter().take(tile.count).enumerate() {
                let residual = residual.map_or(0.0, |residual| *residual.add(column));
                let bias = tile.bias.map_or(0.0, |bias| *bias.add(column));
                *out.add(column) = tile.factor.mul_add(sum, residual + bias);
            }
        }
    }
}
