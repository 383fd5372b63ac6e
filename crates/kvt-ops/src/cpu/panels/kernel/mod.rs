//! A tile of a product with the widest instructions of the CPU.
//!
//! Stable Rust provides them through `std::arch`, whose loads and stores take pointers, and functions with such instructions must
//! only be called if the CPU supports them: hence `unsafe`.

use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
use std::ops::Range;

use super::{LINE, Line, Output};
use crate::cpu::gemm::{Matrix, Write};

mod avx512;
mod fma;

/// Proof that this CPU supports the instructions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kernel(Set);

#[derive(Clone, Copy, Debug)]
enum Set {
    Avx512,
    Fma,
}

/// Rows, with a panel, whose products are to be written to some columns of the output.
///
/// Where it is used, `x` points to the first number of the first row; rows are `down` apart, and the numbers in them `along`, of which there are
/// as many as the panel has inputs. `out` points to a place for `count` columns in the first of as many rows, which are `stride` apart, and so does
/// the residual, if there is one, which may be the output itself: each number is read before its place is written. The bias, if there is one,
/// is as many numbers.
#[derive(Clone, Copy)]
struct Tile<'a> {
    out: *mut f32,
    stride: usize,
    count: usize,
    x: *const f32,
    down: usize,
    along: usize,
    panel: &'a [Line],
    factor: f32,
    bias: Option<*const f32>,
    residual: Option<*const f32>,
}

impl Tile<'_> {
    /// The beginnings of the rows.
    #[inline(always)]
    fn rows<const ROWS: usize>(&self) -> [*const f32; ROWS] {
        std::array::from_fn(|number| self.x.wrapping_add(number * self.down))
    }

    /// Asks for the lines of the output, and of the residual, so that they are there when the sums are.
    #[inline(always)]
    fn prefetch<const ROWS: usize>(&self) {
        for row in 0..ROWS {
            for first in (0..self.count).step_by(LINE) {
                let place = row * self.stride + first;
                #[expect(unsafe_code, reason = "an instruction that takes a pointer")]
                // SAFETY: a prefetch reads nothing, wherever it points.
                unsafe {
                    _mm_prefetch::<_MM_HINT_T0>(self.out.wrapping_add(place).cast());
                    if let Some(residual) = self.residual {
                        _mm_prefetch::<_MM_HINT_T0>(residual.wrapping_add(place).cast());
                    }
                }
            }
        }
    }
}

impl Kernel {
    /// The best kernel of this CPU; the standard library caches what the CPU says.
    pub(crate) fn detect() -> Option<Self> {
        Self::all().next()
    }

    /// The kernels that this CPU can run, the best one first.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
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

    /// Rows of a tile with the widest panel.
    pub(crate) fn usual_height(self) -> usize {
        self.height(self.lines(), usize::MAX)
    }

    /// Rows of the next tile with a panel of some lines, where some rows are left.
    pub(super) fn height(self, lines: usize, left: usize) -> usize {
        match self.0 {
            Set::Avx512 => avx512::height(lines, left),
            Set::Fma => left.min(fma::HEIGHT),
        }
    }

    /// Writes the products of [so many](Self::height) rows with a panel to some columns of as many rows of the output, which are `stride`
    /// apart: all of those columns.
    ///
    /// # Panics
    /// If the sizes do not match.
    #[expect(unsafe_code, reason = "instructions that not every CPU has")]
    pub(super) fn tile(
        self,
        output: Output<'_>,
        stride: usize,
        columns: Range<usize>,
        x: Matrix<'_>,
        panel: &[Line],
    ) {
        let ([rows, inputs], [down, along]) = (x.shape(), x.strides());
        let (first, lines) = (columns.start, columns.len().div_ceil(LINE));
        assert!(rows > 0, "a tile without rows");
        let is_inside = inputs == 0 || (rows - 1) * down + (inputs - 1) * along < x.values().len();
        assert!(
            (1..=self.lines()).contains(&lines)
                && inputs * lines == panel.len()
                && columns.end <= stride
                && is_inside,
            "a tile that does not fit"
        );
        let end = (rows - 1) * stride + columns.end;
        let (out, factor, bias, residual) = match output {
            Output::Layer {
                out,
                bias,
                residual,
            } => {
                assert!(
                    end <= out.len()
                        && columns.end <= bias.len()
                        && residual.is_none_or(|residual| end <= residual.len()),
                    "a tile that does not fit"
                );
                let bias = Some(bias[first..].as_ptr());
                let residual = residual.map(|residual| residual[first..].as_ptr());
                (out[first..].as_mut_ptr().cast(), 1.0, bias, residual)
            }
            Output::Product { out, write, factor } => {
                assert!(end <= out.len(), "a tile that does not fit");
                let out = out[first..].as_mut_ptr();
                let old = (write == Write::Add).then_some(out.cast_const());
                (out, factor, None, old)
            }
        };
        let tile = Tile {
            out,
            stride,
            count: columns.len(),
            x: x.values().as_ptr(),
            down,
            along,
            panel,
            factor,
            bias,
            residual,
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
