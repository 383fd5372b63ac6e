//! A tile of a product with AVX-512 instructions.
//!
//! Stable Rust provides them through `std::arch`, whose loads and stores take pointers, and functions with such instructions must
//! only be called if the CPU supports them: hence `unsafe`.

use std::arch::x86_64::{
    __mmask16, _mm512_add_ps, _mm512_fmadd_ps, _mm512_loadu_ps, _mm512_mask_storeu_ps,
    _mm512_maskz_loadu_ps, _mm512_set1_ps, _mm512_setzero_ps,
};
use std::ops::Range;

use super::{HEIGHT, LANES, WIDTH};
use crate::cpu::gemm::Matrix;

/// Proof that this CPU supports the instructions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kernel(());

impl Kernel {
    /// Queries the CPU; the standard library caches the result.
    pub(super) fn detect() -> Option<Self> {
        is_x86_feature_detected!("avx512f").then_some(Self(()))
    }

    /// Adds the products of 1, 2, 3, 4, 8 or 12 rows with a panel to some columns of as many rows of the output, which have
    /// `outputs` columns.
    ///
    /// # Panics
    /// If the sizes do not match.
    #[expect(unsafe_code, reason = "instructions that not every CPU has")]
    pub(super) fn add_tile(
        self,
        out: &mut [f32],
        outputs: usize,
        columns: Range<usize>,
        x: Matrix<'_>,
        panel: &[[f32; WIDTH]],
    ) {
        let ([rows, inputs], [down, along]) = (x.shape(), x.strides());
        assert!(
            rows > 0
                && inputs == panel.len()
                && along == 1
                && (rows - 1) * down + inputs <= x.values().len()
                && columns.len() <= WIDTH
                && columns.end <= outputs
                && out.len() == rows * outputs,
            "a tile that does not fit"
        );
        let count = columns.len();
        let mask = |before: usize| match count.saturating_sub(before) {
            LANES.. => __mmask16::MAX,
            few => (1 << few) - 1,
        };
        let masks = [mask(0), mask(LANES)];
        let (x, out) = ((x.values().as_ptr(), down), &mut out[columns.start..]);
        let out = (out.as_mut_ptr(), outputs);
        // SAFETY: `detect` found the instructions, and the sizes were checked.
        unsafe {
            match rows {
                1 => add_tile::<1>(out, masks, x, panel),
                2 => add_tile::<2>(out, masks, x, panel),
                3 => add_tile::<3>(out, masks, x, panel),
                4 => add_tile::<4>(out, masks, x, panel),
                8 => add_tile::<8>(out, masks, x, panel),
                HEIGHT => add_tile::<HEIGHT>(out, masks, x, panel),
                _ => unreachable!("a tile of {rows} rows"),
            }
        }
    }
}

/// # Safety
/// The CPU has the instructions. `x` points to `ROWS` rows of as many numbers as the panel has, and `out` to as many rows with a
/// place for every number in `masks`; both have the distance between rows.
#[target_feature(enable = "avx512f")]
#[expect(
    unsafe_code,
    reason = "checks in the innermost loop would cost more than its products"
)]
unsafe fn add_tile<const ROWS: usize>(
    (out, out_stride): (*mut f32, usize),
    masks: [__mmask16; 2],
    (x, stride): (*const f32, usize),
    panel: &[[f32; WIDTH]],
) {
    let mut rows = [x; ROWS];
    for (number, row) in rows.iter_mut().enumerate() {
        *row = row.wrapping_add(number * stride);
    }
    // In registers: 24 of the 32 hold sums, others hold two columns and a number of a row.
    let mut sums = [[_mm512_setzero_ps(); 2]; ROWS];
    for (input, columns) in panel.iter().enumerate() {
        // SAFETY: a panel has 32 columns, and the caller guarantees the numbers of the rows.
        unsafe {
            let left = _mm512_loadu_ps(columns.as_ptr());
            let right = _mm512_loadu_ps(columns.as_ptr().add(LANES));
            for ([left_sum, right_sum], row) in sums.iter_mut().zip(&rows) {
                let number = _mm512_set1_ps(*row.add(input));
                *left_sum = _mm512_fmadd_ps(number, left, *left_sum);
                *right_sum = _mm512_fmadd_ps(number, right, *right_sum);
            }
        }
    }
    for (number, sums) in sums.iter().enumerate() {
        for (part, (sums, mask)) in sums.iter().zip(masks).enumerate() {
            let place = out.wrapping_add(number * out_stride + part * LANES);
            // SAFETY: only places in the mask are read and written.
            unsafe {
                let old = _mm512_maskz_loadu_ps(mask, place);
                _mm512_mask_storeu_ps(place, mask, _mm512_add_ps(old, *sums));
            }
        }
    }
}
