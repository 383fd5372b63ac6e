//! A tile of a product with the widest instructions of the CPU.
//!
//! Stable Rust provides them through `std::arch`, whose loads and stores take pointers, and functions with such instructions must
//! only be called if the CPU supports them: hence `unsafe`.

use std::mem::MaybeUninit;
use std::ops::Range;

use super::{LINE, Line};
use crate::cpu::gemm::Matrix;

mod avx512;
mod fma;

/// Proof that this CPU supports the instructions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kernel(Set);

#[derive(Clone, Copy, Debug)]
enum Set {
    Avx512,
    Fma,
}

/// Rows, with a panel, whose products are to be written to some columns of the output.
///
/// Where it is used, `x` points to the first of the rows, which are `stride` apart, with as many numbers as the panel has inputs; `out` to a
/// place for `count` columns in the first of as many rows, each of `outputs` places, and so does the residual, if there is one; the bias to
/// as many numbers.
#[derive(Clone, Copy)]
struct Tile<'a> {
    out: *mut f32,
    outputs: usize,
    count: usize,
    x: *const f32,
    stride: usize,
    panel: &'a [Line],
    bias: *const f32,
    residual: Option<*const f32>,
}

impl Tile<'_> {
    /// The beginnings of the rows.
    #[inline(always)]
    fn rows<const ROWS: usize>(&self) -> [*const f32; ROWS] {
        std::array::from_fn(|number| self.x.wrapping_add(number * self.stride))
    }
}

impl Kernel {
    /// The best kernel of this CPU; the standard library caches what the CPU says.
    pub(super) fn detect() -> Option<Self> {
        Self::all().next()
    }

    /// The kernels that this CPU can run, the best one first.
    pub(super) fn all() -> impl Iterator<Item = Self> {
        let avx512 = is_x86_feature_detected!("avx512f").then_some(Set::Avx512);
        let has_fma = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
        let fma = has_fma.then_some(Set::Fma);
        avx512.into_iter().chain(fma).map(Self)
    }

    /// Maximum number of lines in a row of a panel.
    pub(super) fn lines(self) -> usize {
        match self.0 {
            Set::Avx512 => avx512::LINES,
            Set::Fma => 1,
        }
    }

    /// Rows of the next tile with a panel of some lines, where some rows are left.
    pub(super) fn height(self, lines: usize, left: usize) -> usize {
        match self.0 {
            Set::Avx512 => avx512::height(lines, left),
            Set::Fma => left.min(fma::HEIGHT),
        }
    }

    /// Writes the products of [so many](Self::height) rows with a panel, with a bias and a residual, to some columns of as many rows of the
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
        let (outputs, lines) = (bias.len(), columns.len().div_ceil(LINE));
        assert!(
            rows > 0
                && (1..=self.lines()).contains(&lines)
                && inputs * lines == panel.len()
                && along == 1
                && (rows - 1) * down + inputs <= x.values().len()
                && columns.end <= outputs
                && out.len() == rows * outputs
                && residual.is_none_or(|residual| residual.len() == out.len()),
            "a tile that does not fit"
        );
        let tile = Tile {
            out: out[columns.start..].as_mut_ptr().cast(),
            outputs,
            count: columns.len(),
            x: x.values().as_ptr(),
            stride: down,
            panel,
            bias: bias[columns.start..].as_ptr(),
            residual: residual.map(|residual| residual[columns.start..].as_ptr()),
        };
        // SAFETY: the kernel is proof of the instructions, and the sizes were checked.
        unsafe {
            match (self.0, rows) {
                (Set::Avx512, _) => avx512::tile(rows, lines, tile),
                (Set::Fma, 1) => fma::tile::<1>(tile),
                (Set::Fma, 2) => fma::tile::<2>(tile),
                (Set::Fma, 3) => fma::tile::<3>(tile),
                (Set::Fma, 4) => fma::tile::<4>(tile),
                (Set::Fma, 5) => fma::tile::<5>(tile),
                (Set::Fma, fma::HEIGHT) => fma::tile::<{ fma::HEIGHT }>(tile),
                _ => unreachable!("a tile of {rows} rows"),
            }
        }
    }
}
