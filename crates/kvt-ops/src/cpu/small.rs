//! Products of small matrices, such as the attention of 16 tokens with 6 channels: `gemm` takes longer to prepare such a product
//! than to compute it.

use pulp::Simd;

use super::gemm::{Matrix, Write};
use super::wide::wide;

/// At most so many multiplications are few: 16 x 16 x 6 of them take a seventh to a half of the time here, 25 x 25 x 32 the same.
pub(crate) const PRODUCTS: usize = 8 << 10;

/// Rows of a tile.
const ROWS: usize = 8;

/// Whether a product is small, and the rows of its second factor are adjacent numbers.
pub(super) fn is_small(a: Matrix<'_>, b: Matrix<'_>) -> bool {
    let ([rows, inner], [_, columns]) = (a.shape(), b.shape());
    rows * inner * columns <= PRODUCTS && b.strides()[1] == 1
}

wide! {
    /// `out = factor * a b` or `out += factor * a b`, as [`multiply`](super::gemm::multiply). The shapes fit.
    pub(super) fn multiply<'a, simd: S>(
        out: &'a mut [f32],
        stride: usize,
        write: Write,
        factor: f32,
        a: Matrix<'a>,
        b: Matrix<'a>,
    ) {
        let (rows, [inner, columns]) = (a.shape()[0], b.shape());
        for first in (0..columns).step_by(S::F32_LANES) {
            let width = S::F32_LANES.min(columns - first);
            let b = (b.values().get(first..).unwrap_or(&[]), b.strides()[0]);
            let mut row = 0;
            while row < rows {
                let out = (&mut out[row * stride + first..], stride);
                let a = a.rows(row..rows);
                let shape = [inner, width];
                row += if rows - row < ROWS {
                    tile::<S, 1>(simd, shape, out, write, factor, a, b)
                } else {
                    tile::<S, ROWS>(simd, shape, out, write, factor, a, b)
                };
            }
        }
    }
}

/// The first `HEIGHT` rows of the product with `[inner, width]` numbers, at most a register in a row; returns `HEIGHT`.
#[inline(always)]
fn tile<S: Simd, const HEIGHT: usize>(
    simd: S,
    [inner, width]: [usize; 2],
    (out, stride): (&mut [f32], usize),
    write: Write,
    factor: f32,
    a: Matrix<'_>,
    (b, b_stride): (&[f32], usize),
) -> usize {
    let (a, [down, along]) = (a.values(), a.strides());
    let mut sums = [simd.splat_f32s(0.0); HEIGHT];
    for number in 0..inner {
        let row = simd.partial_load_f32s(&b[number * b_stride..][..width]);
        for (height, sum) in sums.iter_mut().enumerate() {
            let x = simd.splat_f32s(a[height * down + number * along]);
            *sum = simd.mul_add_f32s(x, row, *sum);
        }
    }
    let factor = simd.splat_f32s(factor);
    for (height, sum) in sums.into_iter().enumerate() {
        let out = &mut out[height * stride..][..width];
        let product = match write {
            Write::Replace => simd.mul_f32s(factor, sum),
            Write::Add => simd.mul_add_f32s(factor, sum, simd.partial_load_f32s(out)),
        };
        simd.partial_store_f32s(out, product);
    }
    HEIGHT
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_products_match_the_definition() {
        // Small integers: sums are exact in any order.
        let values = |len: usize, seed| -> Vec<f32> {
            let numbers = (0..len).map(|i| ((i * 7919 + seed) % 7) as f32 - 3.0);
            numbers.collect()
        };
        // Whole and partial tiles and registers of any width; an output, a sum and a matrix without numbers.
        for [rows, inner, columns] in [
            [16, 6, 16],
            [17, 16, 6],
            [7, 3, 33],
            [8, 1, 1],
            [1, 40, 25],
            [0, 3, 4],
            [3, 0, 4],
            [3, 4, 0],
        ] {
            let (a, b) = (values(rows * inner, 1), values(inner * (columns + 2), 2));
            let naive = |row: usize, column: usize| -> f32 {
                let products =
                    (0..inner).map(|i| a[row * inner + i] * b[i * (columns + 2) + column]);
                products.sum()
            };
            let transposed: Vec<f32> = (0..inner * rows)
                .map(|at| a[at % rows.max(1) * inner + at / rows.max(1)])
                .collect();
            let b = Matrix::new(&b, [inner, columns], columns + 2);
            for a in [
                Matrix::new(&a, [rows, inner], inner),
                Matrix::new(&transposed, [inner, rows], rows).t(),
            ] {
                assert!(is_small(a, b));
                let stride = columns + 3;
                let mut out = vec![0.5; rows * stride];
                multiply(&mut out, stride, Write::Replace, 2.0, a, b);
                multiply(&mut out, stride, Write::Add, 1.0, a, b);
                for (row, out) in out.chunks(stride).enumerate() {
                    let sums = (0..columns).map(|column| 3.0 * naive(row, column));
                    let expected: Vec<f32> = sums.chain([0.5; 3]).collect();
                    assert_eq!(out, expected);
                }
            }
        }
    }

    #[test]
    fn only_few_products_of_adjacent_numbers_are_small() {
        let values = vec![0.0; 1 << 14];
        let matrix = |rows, columns| Matrix::new(&values, [rows, columns], columns);
        assert!(is_small(matrix(16, 32), matrix(32, 16)));
        assert!(!is_small(matrix(17, 32), matrix(32, 16)));
        assert!(!is_small(matrix(16, 32), matrix(16, 32).t()));
    }
}
