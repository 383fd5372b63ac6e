//! A tile with AVX-512 instructions.

use std::arch::x86_64::{
    __mmask16, _mm512_add_ps, _mm512_fmadd_ps, _mm512_load_ps, _mm512_mask_storeu_ps,
    _mm512_maskz_loadu_ps, _mm512_set1_ps, _mm512_setzero_ps,
};

use super::Tile;
use crate::cpu::panels::{LINE, Line};

/// Maximum number of lines in a row of a panel, and of registers in a row of a tile. More lines need fewer reads: a row takes one for each
/// column, and its registers share it.
pub(super) const LINES: usize = 4;

/// Rows of the next tile, where some are left.
pub(super) fn height(lines: usize, left: usize) -> usize {
    let most = match lines {
        4.. => 6,
        3 => 8,
        _ => 12,
    };
    match left.min(most) {
        5 => 4,
        7 => 6,
        9..12 => 8,
        height => height,
    }
}

/// The tile for some rows and lines, those of [`height`].
///
/// # Safety
/// As [`Tile`] says, and the CPU has the instructions.
#[target_feature(enable = "avx512f")]
#[expect(unsafe_code, reason = "instructions that not every CPU has")]
pub(super) unsafe fn tile(rows: usize, lines: usize, tile: Tile<'_>) {
    /// Each number of rows with each number of lines.
    macro_rules! tiles {
        ($($lines:literal: $($rows:literal)+;)+) => {
            // SAFETY: as the caller guarantees.
            unsafe {
                match (lines, rows) {
                    $($(($lines, $rows) => tile_of::<$rows, $lines>(tile),)+)+
                    _ => unreachable!("a tile of {rows} rows and {lines} lines"),
                }
            }
        };
    }
    tiles! {
        1: 1 2 3 4 6 8 12;
        2: 1 2 3 4 6 8 12;
        3: 1 2 3 4 6 8;
        4: 1 2 3 4 6;
    }
}

/// # Safety
/// As [`Tile`] says, and the CPU has the instructions.
#[target_feature(enable = "avx512f")]
#[expect(
    unsafe_code,
    reason = "checks in the innermost loop would cost more than its products"
)]
unsafe fn tile_of<const ROWS: usize, const LINES: usize>(tile: Tile<'_>) {
    let rows = tile.rows::<ROWS>();
    tile.prefetch::<ROWS>();
    // In registers: up to 24 of the 32 hold sums, others hold the lines of a column and a number of a row.
    let mut sums = [[_mm512_setzero_ps(); LINES]; ROWS];
    let (columns, _) = tile.panel.as_chunks::<LINES>();
    let mut at = 0;
    for lines in columns {
        // SAFETY: a line is aligned and fills a register, and the caller guarantees the numbers of the rows.
        unsafe {
            let lines = lines
                .each_ref()
                .map(|Line(line)| _mm512_load_ps(line.as_ptr()));
            for (sums, row) in sums.iter_mut().zip(&rows) {
                let number = _mm512_set1_ps(*row.add(at));
                for (sum, line) in sums.iter_mut().zip(lines) {
                    *sum = _mm512_fmadd_ps(number, line, *sum);
                }
            }
        }
        at += tile.along;
    }
    let factor = _mm512_set1_ps(tile.factor);
    for part in 0..LINES {
        let first = part * LINE;
        let mask: __mmask16 = match tile.count.saturating_sub(first) {
            LINE.. => __mmask16::MAX,
            few => (1 << few) - 1,
        };
        // SAFETY: only places in the mask are read and written.
        unsafe {
            let bias = match tile.bias {
                None => _mm512_setzero_ps(),
                Some(bias) => _mm512_maskz_loadu_ps(mask, bias.wrapping_add(first)),
            };
            for (number, sums) in sums.iter().enumerate() {
                let place = number * tile.stride + first;
                let added = match tile.residual {
                    None => bias,
                    Some(residual) => {
                        let residual = residual.wrapping_add(place);
                        _mm512_add_ps(_mm512_maskz_loadu_ps(mask, residual), bias)
                    }
                };
                let sum = _mm512_fmadd_ps(factor, sums[part], added);
                _mm512_mask_storeu_ps(tile.out.wrapping_add(place), mask, sum);
            }
        }
    }
}
