//! A tile of a product with AVX-512 instructions.
//!
//! Stable Rust provides them through `std::arch`, whose loads and stores take pointers, and functions with such instructions must
//! only be called if the CPU supports them: hence `unsafe`.

use std::arch::x86_64::{
    __mmask16, _mm512_add_ps, _mm512_fmadd_ps, _mm512_load_ps, _mm512_mask_storeu_ps,
    _mm512_maskz_loadu_ps, _mm512_set1_ps, _mm512_setzero_ps,
};
use std::mem::MaybeUninit;
use std::ops::Range;

use super::{HEIGHT, LANES, Line, WIDTH};
use crate::cpu::gemm::Matrix;

/// Proof that this CPU supports the instructions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kernel(());

impl Kernel {
    /// Queries the CPU; the standard library caches the result.
    pub(super) fn detect() -> Option<Self> {
        is_x86_feature_detected!("avx512f").then_some(Self(()))
    }

    /// Writes the products of 1, 2, 3, 4, 8 or 12 rows with a panel, with a bias and a residual, to some columns of as many rows of the
    /// output, all of them.
    ///
    /// # Panics
    /// If the sizes do not match.
    #[expect(unsafe_code, reason = "instructions that not every CPU has")]
    pub(super) fn tile(
        self,
        out: &mut [MaybeUninit<f32>],
        columns: Range<usize>,
        x: Matrix<'_>,
        panel: &[Line],
        (bias, residual): (&[f32], Option<&[f32]>),
    ) {
        let ([rows, inputs], [down, along]) = (x.shape(), x.strides());
        let outputs = bias.len();
        assert!(
            rows > 0
                && inputs == panel.len()
                && along == 1
                && (rows - 1) * down + inputs <= x.values().len()
                && !columns.is_empty()
                && columns.len() <= WIDTH
                && columns.end <= outputs
                && out.len() == rows * outputs
                && residual.is_none_or(|residual| residual.len() == out.len()),
            "a tile that does not fit"
        );
        let count = columns.len();
        let mask = |before: usize| match count.saturating_sub(before) {
            LANES.. => __mmask16::MAX,
            few => (1 << few) - 1,
        };
        let masks = [mask(0), mask(LANES)];
        let x = (x.values().as_ptr(), down);
        let out = (out[columns.start..].as_mut_ptr().cast::<f32>(), outputs);
        let added = (
            bias[columns.start..].as_ptr(),
            residual.map(|residual| residual[columns.start..].as_ptr()),
        );
        // SAFETY: `detect` found the instructions, and the sizes were checked.
        unsafe {
            match rows {
                1 => tile::<1>(out, masks, x, panel, added),
                2 => tile::<2>(out, masks, x, panel, added),
                3 => tile::<3>(out, masks, x, panel, added),
                4 => tile::<4>(out, masks, x, panel, added),
                8 => tile::<8>(out, masks, x, panel, added),
                HEIGHT => tile::<HEIGHT>(out, masks, x, panel, added),
                _ => unreachable!("a tile of {rows} rows"),
            }
        }
    }
}

/// # Safety
/// The CPU has the instructions. `x` points to `ROWS` rows of as many numbers as the panel has, `out` and the residual, if there is one, to
/// as many rows with a place for every number in `masks`, each with the distance between rows (that of `out` is the residual's, too), and
/// the bias to a number for each.
#[target_feature(enable = "avx512f")]
#[expect(
    unsafe_code,
    reason = "checks in the innermost loop would cost more than its products"
)]
unsafe fn tile<const ROWS: usize>(
    (out, out_stride): (*mut f32, usize),
    masks: [__mmask16; 2],
    (x, stride): (*const f32, usize),
    panel: &[Line],
    (bias, residual): (*const f32, Option<*const f32>),
) {
    let mut rows = [x; ROWS];
    for (number, row) in rows.iter_mut().enumerate() {
        *row = row.wrapping_add(number * stride);
    }
    // In registers: 24 of the 32 hold sums, others hold two columns and a number of a row.
    let mut sums = [[_mm512_setzero_ps(); 2]; ROWS];
    for (input, Line(columns)) in panel.iter().enumerate() {
        // SAFETY: a line is aligned and has 32 columns, and the caller guarantees the numbers of the rows.
        unsafe {
            let left = _mm512_load_ps(columns.as_ptr());
            let right = _mm512_load_ps(columns.as_ptr().add(LANES));
            for ([left_sum, right_sum], row) in sums.iter_mut().zip(&rows) {
                let number = _mm512_set1_ps(*row.add(input));
                *left_sum = _mm512_fmadd_ps(number, left, *left_sum);
                *right_sum = _mm512_fmadd_ps(number, right, *right_sum);
            }
        }
    }
    for (part, mask) in masks.into_iter().enumerate() {
        let first = part * LANES;
        // SAFETY: only places in the mask are read and written.
        unsafe {
            let bias = _mm512_maskz_loadu_ps(mask, bias.wrapping_add(first));
            for (number, sums) in sums.iter().enumerate() {
                let place = number * out_stride + first;
                let added = match residual {
                    None => bias,
                    Some(residual) => {
                        let residual = residual.wrapping_add(place);
                        _mm512_add_ps(_mm512_maskz_loadu_ps(mask, residual), bias)
                    }
                };
                let sum = _mm512_add_ps(added, sums[part]);
                _mm512_mask_storeu_ps(out.wrapping_add(place), mask, sum);
            }
        }
    }
}
