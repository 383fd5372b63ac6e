//! The product of two panels with AVX512-BF16 instructions.
//!
//! `vdpbf16ps` multiplies 16 pairs of bf16 numbers by 16 other pairs and adds both products of each to a sum in f32: twice
//! the products of an f32 fused multiply-add, on half the bytes. Stable Rust provides it only through `std::arch`, whose
//! loads and stores take pointers, and functions with such instructions must only be called if the CPU supports them: hence
//! `unsafe`.

use std::arch::x86_64::{
    __m512bh, __m512i, _MM_HINT_T0, _mm_prefetch, _mm512_cvtne2ps_pbh, _mm512_dpbf16_ps,
    _mm512_loadu_ps, _mm512_loadu_si512, _mm512_set1_epi32, _mm512_setzero_ps,
    _mm512_shuffle_i32x4, _mm512_storeu_ps, _mm512_unpackhi_epi32, _mm512_unpackhi_epi64,
    _mm512_unpacklo_epi32, _mm512_unpacklo_epi64,
};

use burn::tensor::bf16;

use super::amx::{self, Tiles};
use super::pack::{HEIGHT, LANES, Rows, Sums, VECTORS, WIDTH};

/// Proof that this CPU supports the instructions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kernel(Means);

#[derive(Clone, Copy, Debug)]
enum Means {
    Instructions,
    /// These, and AMX.
    Amx,
    /// Plain Rust, in tests.
    #[cfg(test)]
    Scalar,
}

impl Kernel {
    /// Queries the CPU; the standard library caches the result.
    pub(crate) fn detect() -> Option<Self> {
        let found = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512bf16");
        // Permission is asked for only where it is of use: it cannot be returned.
        found.then(|| {
            Self(if amx::is_permitted() {
                Means::Amx
            } else {
                Means::Instructions
            })
        })
    }

    /// The registers for larger tiles, if this CPU has them.
    #[inline(always)]
    pub(super) fn tiles(self) -> Option<Tiles> {
        matches!(self.0, Means::Amx)
            .then(Tiles::of_this_thread)
            .flatten()
    }

    /// Rows of a tile.
    pub(crate) fn height(self) -> usize {
        match self.0 {
            Means::Amx => amx::HEIGHT,
            _ => HEIGHT,
        }
    }

    /// Of how many pairs a panel has a multiple.
    pub(super) fn step(self) -> usize {
        match self.0 {
            Means::Amx => amx::PAIRS,
            _ => 1,
        }
    }

    /// The same without AMX.
    #[cfg(test)]
    pub(super) fn without_amx(self) -> Self {
        match self.0 {
            Means::Amx => Self(Means::Instructions),
            _ => self,
        }
    }

    #[cfg(test)]
    pub(crate) fn scalar() -> Self {
        Self(Means::Scalar)
    }

    /// Runs a task that is compiled for this CPU as far as it is inlined into this function.
    #[inline(always)]
    #[expect(unsafe_code, reason = "instructions that not every CPU has")]
    pub(crate) fn run<T>(self, task: impl FnOnce() -> T) -> T {
        #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
        fn with_features<T>(task: impl FnOnce() -> T) -> T {
            task()
        }
        match self.0 {
            // SAFETY: `detect` found the instructions.
            Means::Instructions | Means::Amx => unsafe { with_features(task) },
            #[cfg(test)]
            Means::Scalar => task(),
        }
    }

    /// Rounds the sums of a row to the nearest bf16 numbers, ties to even. The instruction takes subnormal numbers as zeros, as do those of the
    /// products.
    #[inline(always)]
    #[expect(unsafe_code, reason = "instructions that not every CPU has")]
    pub(super) fn round(self, sums: &[f32; WIDTH]) -> [bf16; WIDTH] {
        #[cfg(test)]
        if matches!(self.0, Means::Scalar) {
            return super::testing::round(sums);
        }
        // SAFETY: `detect` found the instructions.
        unsafe { round(sums) }
    }

    /// Makes rows of the columns of a square.
    #[inline(always)]
    #[expect(unsafe_code, reason = "instructions that not every CPU has")]
    pub(super) fn transposed(self, square: [[u32; LANES]; LANES]) -> [[u32; LANES]; LANES] {
        #[cfg(test)]
        if matches!(self.0, Means::Scalar) {
            return super::testing::transposed(square);
        }
        // SAFETY: `detect` found the instructions.
        unsafe { transposed(square) }
    }

    /// Asks for the line of the cache that holds a place, so that it is there when it is read or written.
    #[inline(always)]
    #[expect(unsafe_code, reason = "an instruction that takes a pointer")]
    pub(super) fn prefetch<T>(self, place: *const T) {
        // SAFETY: a prefetch reads nothing, wherever it points.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(place.cast()) }
    }

    /// The sums of products of some rows and a panel of columns, `[pair, column]`.
    #[inline(always)]
    #[expect(unsafe_code, reason = "instructions that not every CPU has")]
    pub(super) fn tile(
        self,
        rows: Rows<'_>,
        columns: &[[[u32; LANES]; VECTORS]],
        sums: &mut Sums<HEIGHT>,
    ) {
        #[cfg(test)]
        if matches!(self.0, Means::Scalar) {
            return super::testing::tile(rows, columns, sums);
        }
        // Pointers to the first pair of each row, and the distance between the pairs of a row, in pairs.
        let (rows, step) = match rows {
            Rows::Packed(panel) => {
                assert!(panel.len() >= columns.len(), "a panel that is too short");
                let mut rows = [panel.as_ptr().cast::<u32>(); HEIGHT];
                for (index, row) in rows.iter_mut().enumerate() {
                    *row = row.wrapping_add(index);
                }
                (rows, HEIGHT)
            }
            Rows::InPlace(slices) => {
                let mut rows = [std::ptr::null(); HEIGHT];
                for (row, slice) in rows.iter_mut().zip(slices) {
                    assert!(slice.len() >= columns.len(), "a row that is too short");
                    *row = slice.as_ptr().cast::<u32>();
                }
                (rows, 1)
            }
        };
        // SAFETY: `detect` found the instructions; every row has as many pairs as there are in the columns, `step`
        // apart.
        unsafe {
            match step {
                1 => tile::<1>(rows, columns, sums),
                _ => tile::<HEIGHT>(rows, columns, sums),
            }
        }
    }
}

/// # Safety
/// The CPU has the instructions, and from every pointer on there are as many pairs as in the columns, `STEP` apart.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
#[expect(
    unsafe_code,
    reason = "checks in the innermost loop would cost more than its products"
)]
unsafe fn tile<const STEP: usize>(
    rows: [*const u32; HEIGHT],
    columns: &[[[u32; LANES]; VECTORS]],
    Sums(out): &mut Sums<HEIGHT>,
) {
    // In registers: 24 of the 32 hold sums, others hold two columns and a row.
    let mut sums = [[_mm512_setzero_ps(); VECTORS]; HEIGHT];
    for (pair, [left, right]) in columns.iter().enumerate() {
        // No `array::map` here: it is not compiled for these instructions, so it would not be inlined.
        let (left, right) = (load(left), load(right));
        for ([left_sum, right_sum], row) in sums.iter_mut().zip(&rows) {
            // SAFETY: the caller guarantees this number of pairs. Rows in place may be unaligned.
            let row = broadcast(unsafe { row.add(pair * STEP).read_unaligned() });
            *left_sum = _mm512_dpbf16_ps(*left_sum, row, left);
            *right_sum = _mm512_dpbf16_ps(*right_sum, row, right);
        }
    }
    let (out, _) = out.as_flattened_mut().as_chunks_mut::<LANES>();
    for (out, sums) in out.iter_mut().zip(sums.as_flattened()) {
        #[expect(unsafe_code, reason = "a store takes a pointer")]
        // SAFETY: the array has 16 places.
        unsafe {
            _mm512_storeu_ps(out.as_mut_ptr(), *sums);
        }
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
#[expect(
    unsafe_code,
    reason = "loads take pointers, and the types of registers convert by transmutation alone"
)]
fn round(sums: &[f32; WIDTH]) -> [bf16; WIDTH] {
    // SAFETY: the array has 32 numbers; both types are 64 bytes, and every bit pattern is a bf16 number.
    unsafe {
        let [low, high] = [0, LANES].map(|first| _mm512_loadu_ps(sums.as_ptr().add(first)));
        std::mem::transmute(_mm512_cvtne2ps_pbh(high, low))
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
#[expect(
    unsafe_code,
    reason = "the types of registers convert by transmutation alone"
)]
fn transposed(square: [[u32; LANES]; LANES]) -> [[u32; LANES]; LANES] {
    // SAFETY: both types are 1,024 bytes without invalid values.
    let mut rows: [__m512i; LANES] = unsafe { std::mem::transmute(square) };
    // Of every four rows, columns 0, 1, 2 and 3 of each quarter of a register.
    for rows in rows.as_chunks_mut::<4>().0 {
        let [a, b, c, d] = *rows;
        let (ab, cd) = (_mm512_unpacklo_epi32(a, b), _mm512_unpacklo_epi32(c, d));
        (rows[0], rows[1]) = (_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
        let (ab, cd) = (_mm512_unpackhi_epi32(a, b), _mm512_unpackhi_epi32(c, d));
        (rows[2], rows[3]) = (_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
    }
    // The quarters that hold the same column.
    for column in 0..4 {
        let (a, b) = (rows[column], rows[column + 4]);
        let (c, d) = (rows[column + 8], rows[column + 12]);
        let (ab, cd) = (
            _mm512_shuffle_i32x4::<0x88>(a, b),
            _mm512_shuffle_i32x4::<0x88>(c, d),
        );
        rows[column] = _mm512_shuffle_i32x4::<0x88>(ab, cd);
        rows[column + 8] = _mm512_shuffle_i32x4::<0xdd>(ab, cd);
        let (ab, cd) = (
            _mm512_shuffle_i32x4::<0xdd>(a, b),
            _mm512_shuffle_i32x4::<0xdd>(c, d),
        );
        rows[column + 4] = _mm512_shuffle_i32x4::<0x88>(ab, cd);
        rows[column + 12] = _mm512_shuffle_i32x4::<0xdd>(ab, cd);
    }
    // SAFETY: both types are 1,024 bytes without invalid values.
    unsafe { std::mem::transmute(rows) }
}

/// A pair in all lanes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
#[expect(
    unsafe_code,
    reason = "the types of registers convert by transmutation alone"
)]
fn broadcast(pair: u32) -> __m512bh {
    // SAFETY: both types are 64 bytes without invalid values.
    unsafe { std::mem::transmute(_mm512_set1_epi32(pair.cast_signed())) }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
#[expect(unsafe_code, reason = "a load takes a pointer")]
fn load(pairs: &[u32; LANES]) -> __m512bh {
    // SAFETY: the array has 64 bytes; both types are 64 bytes without invalid values.
    unsafe { std::mem::transmute(_mm512_loadu_si512(pairs.as_ptr().cast())) }
}
