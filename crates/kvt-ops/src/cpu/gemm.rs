//! Matrix products of strided views, with the `gemm` crate.

use std::mem::MaybeUninit;

pub(crate) use gemm::Parallelism;

use super::buffer::new_values;
pub(crate) use super::matrix::Matrix;
use super::matrix::assert_fits;
use super::small;

/// How a product is written to the output.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Write {
    /// Replaces the old values.
    Replace,
    /// Added to the old values.
    Add,
}

impl Write {
    /// Replaces the output by the first of several products, and adds the others.
    pub(crate) fn replace_if(is_first: bool) -> Self {
        if is_first { Self::Replace } else { Self::Add }
    }
}

/// All threads.
const ALL: Parallelism = Parallelism::Rayon(0);

/// The threads for each of some products: all if there are fewer products than threads, otherwise the calling one. The result is
/// bit-identical for both.
pub(crate) fn threads_of_each(products: usize) -> Parallelism {
    if products < rayon::current_num_threads() {
        ALL
    } else {
        Parallelism::None
    }
}

/// `out = factor * a b` or `out += factor * a b` on this thread; the rows of `out` start `stride` apart.
///
/// # Panics
/// If the shapes do not match, or the product does not fit in `out`.
pub(crate) fn multiply(
    out: &mut [f32],
    stride: usize,
    write: Write,
    factor: f32,
    a: Matrix<'_>,
    b: Matrix<'_>,
) {
    if small::is_small(a, b) {
        assert_product(out.len(), stride, a, b);
        return small::multiply(out, stride, write, factor, a, b);
    }
    multiply_on(Parallelism::None, (out, stride), write, factor, a, b);
}

/// As [`multiply`], on the given threads.
pub(crate) fn multiply_on(
    threads: Parallelism,
    (out, stride): (&mut [f32], usize),
    write: Write,
    factor: f32,
    a: Matrix<'_>,
    b: Matrix<'_>,
) {
    assert_product(out.len(), stride, a, b);
    #[expect(unsafe_code, reason = "`gemm` takes pointers")]
    // SAFETY: checked above; `out` is borrowed mutably and initialised.
    unsafe {
        gemm(out.as_mut_ptr(), stride, write, factor, a, b, threads);
    }
}

/// `a b` in a new vector, row by row, on all threads. Each sum is computed by one thread, so that the result does not
/// depend on the number of threads.
///
/// # Panics
/// If the shapes do not match.
pub(crate) fn product(a: Matrix<'_>, b: Matrix<'_>) -> Vec<f32> {
    product_by(a, b, ALL)
}

fn product_by(a: Matrix<'_>, b: Matrix<'_>, threads: Parallelism) -> Vec<f32> {
    let len = a.shape()[0] * b.shape()[1];
    new_values(len, |out| write_product(threads, out, a, b))
}

/// `a b`, row by row, in places that may hold nothing yet, on the given threads.
///
/// # Panics
/// If the shapes do not match, or the places are more or fewer.
pub(crate) fn write_product<'o>(
    threads: Parallelism,
    out: &'o mut [MaybeUninit<f32>],
    a: Matrix<'_>,
    b: Matrix<'_>,
) -> &'o mut [f32] {
    let [rows, columns] = [a.shape()[0], b.shape()[1]];
    assert_eq!(out.len(), rows * columns, "places that do not fit");
    write_rows(threads, (&mut *out, columns), a, b);
    #[expect(unsafe_code, reason = "a slice that is not filled with zeros first")]
    // SAFETY: each place is one of the product, which has written it.
    unsafe {
        out.assume_init_mut()
    }
}

/// As [`write_product`], for rows that start `stride` apart. What is between them stays as it is.
///
/// # Panics
/// If the shapes do not match, or the product does not fit in `out`.
pub(crate) fn write_rows(
    threads: Parallelism,
    (out, stride): (&mut [MaybeUninit<f32>], usize),
    a: Matrix<'_>,
    b: Matrix<'_>,
) {
    assert_product(out.len(), stride, a, b);
    let [rows, columns] = [a.shape()[0], b.shape()[1]];
    if rows == 1 || columns == 1 {
        // The product with a vector reads the values that it replaces.
        for row in 0..rows {
            out[row * stride..][..columns].fill(MaybeUninit::new(0.0));
        }
    }
    let out = out.as_mut_ptr().cast::<f32>();
    #[expect(unsafe_code, reason = "`gemm` takes pointers")]
    // SAFETY: the product fits in the places, as checked above, and it writes each value; those that it reads were written.
    unsafe {
        gemm(out, stride, Write::Replace, 1.0, a, b, threads);
    }
}

/// Adds `a^T b` to a sum, row by row, on the given threads; it begins as an empty vector. `gemm` is faster if `b` is the wider one.
///
/// # Panics
/// If the shapes do not match.
pub(crate) fn add_product_over_rows(
    threads: Parallelism,
    sum: &mut Vec<f32>,
    a: Matrix<'_>,
    b: Matrix<'_>,
) {
    if sum.is_empty() {
        *sum = product_by(a.t(), b, threads);
    } else {
        let out = (&mut sum[..], b.shape()[1]);
        multiply_on(threads, out, Write::Add, 1.0, a.t(), b);
    }
}

/// # Safety
/// `out` points to memory for the product with rows `stride` apart; nothing else refers to it. It is initialised with
/// [`Write::Add`], and if the product has one row or one column.
#[expect(unsafe_code, reason = "`gemm` takes pointers")]
unsafe fn gemm(
    out: *mut f32,
    stride: usize,
    write: Write,
    factor: f32,
    a: Matrix<'_>,
    b: Matrix<'_>,
    parallelism: Parallelism,
) {
    let ([m, inner], [b_rows, n]) = (a.shape(), b.shape());
    assert_eq!(inner, b_rows, "matrices that do not fit");
    let [a_row, a_column] = a.strides().map(|s| s as isize);
    let [b_row, b_column] = b.strides().map(|s| s as isize);
    // SAFETY: the caller guarantees the conditions on `out`; `Matrix::new` checked that every element of `a` and `b`
    // is within its slice.
    unsafe {
        gemm::gemm(
            m,
            n,
            inner,
            out,
            1,
            stride as isize,
            write == Write::Add,
            a.values().as_ptr(),
            a_column,
            a_row,
            b.values().as_ptr(),
            b_column,
            b_row,
            1.0,
            factor,
            false,
            false,
            false,
            parallelism,
        );
    }
}

fn assert_product(len: usize, stride: usize, a: Matrix<'_>, b: Matrix<'_>) {
    assert_eq!(a.shape()[1], b.shape()[0], "matrices that do not fit");
    assert_fits(len, [a.shape()[0], b.shape()[1]], stride);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(len: usize, seed: usize) -> Vec<f32> {
        // Small integers: sums are exact in any order.
        (0..len)
            .map(|i| ((i * 7919 + seed) % 7) as f32 - 3.0)
            .collect()
    }

    #[test]
    fn products_match_the_definition() {
        for (rows, m, n) in [
            (1, 1, 1),
            (3, 2, 5),
            (1500, 17, 4),
            (2049, 3, 33),
            (3200, 17, 40),
        ] {
            let (a, b) = (values(rows * m, 1), values(rows * n, 2));
            let naive = |i: usize, j: usize| -> f32 {
                (0..rows).map(|r| a[r * m + i] * b[r * n + j]).sum()
            };
            let expected: Vec<f32> = (0..m * n).map(|at| naive(at / n, at % n)).collect();
            let (a, b) = (Matrix::new(&a, [rows, m], m), Matrix::new(&b, [rows, n], n));
            assert_eq!(product(a.t(), b), expected);
            let mut sum = vec![0.5; m * n];
            let out = (&mut sum[..], n);
            multiply_on(ALL, out, Write::Add, 1.0, a.t(), b);
            assert!(sum.iter().zip(&expected).all(|(sum, x)| *sum == 0.5 + x));
            // Writes to the middle columns of wider rows; the others keep their values.
            let mut wide = vec![0.5; m * (n + 3)];
            multiply(&mut wide[2..], n + 3, Write::Replace, 2.0, a.t(), b);
            multiply(&mut wide[2..], n + 3, Write::Add, 1.0, a.t(), b);
            for (i, row) in wide.chunks(n + 3).enumerate() {
                assert_eq!([row[0], row[1], row[n + 2]], [0.5; 3]);
                for (j, x) in row[2..n + 2].iter().enumerate() {
                    assert_eq!(*x, 3.0 * expected[i * n + j]);
                }
            }
        }
    }
}
