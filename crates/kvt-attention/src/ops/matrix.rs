//! Matrix products on strided views.

use std::ops::Range;

/// A matrix in a slice: element `(i, j)` is at `i * row + j * column`.
#[derive(Clone, Copy)]
pub(crate) struct Matrix<'a> {
    data: &'a [f32],
    shape: [usize; 2],
    strides: [usize; 2],
}

impl<'a> Matrix<'a> {
    /// Rows of adjacent values that start `stride` apart.
    ///
    /// # Panics
    /// If the matrix does not lie within the slice.
    pub(crate) fn new(data: &'a [f32], shape: [usize; 2], stride: usize) -> Self {
        assert_fits(data.len(), shape, stride);
        Self {
            data,
            shape,
            strides: [stride, 1],
        }
    }

    /// The transposed matrix, in the same place.
    pub(crate) fn t(self) -> Self {
        let ([rows, columns], [row, column]) = (self.shape, self.strides);
        Self {
            data: self.data,
            shape: [columns, rows],
            strides: [column, row],
        }
    }

    /// Some of the rows.
    pub(crate) fn rows(self, range: Range<usize>) -> Self {
        assert!(range.end <= self.shape[0], "rows out of range");
        Self {
            data: self
                .data
                .get(range.start * self.strides[0]..)
                .unwrap_or(&[]),
            shape: [range.len(), self.shape[1]],
            strides: self.strides,
        }
    }
}

/// What happens to the values that the product is written over.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Write {
    /// They are replaced.
    Replace,
    /// The product is added.
    Add,
}

/// Who computes a product.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Threads {
    /// The thread that asks.
    Own,
    /// All threads of the pool. They share out the elements of the product, not its sums, so the
    /// result does not depend on how many there are.
    All,
}

/// `out (+)= factor * a b`, with rows of `out` starting `stride` apart.
///
/// # Panics
/// If the shapes do not fit, or the product does not lie within `out`.
pub(crate) fn multiply(
    out: &mut [f32],
    stride: usize,
    write: Write,
    factor: f32,
    a: Matrix<'_>,
    b: Matrix<'_>,
    threads: Threads,
) {
    let ([m, inner], [b_rows, n]) = (a.shape, b.shape);
    assert_eq!(inner, b_rows, "matrices that do not fit");
    assert_fits(out.len(), [m, n], stride);
    let [a_row, a_column] = a.strides.map(|s| s as isize);
    let [b_row, b_column] = b.strides.map(|s| s as isize);
    #[expect(unsafe_code, reason = "the product is a kernel that takes pointers")]
    // SAFETY: every element that the strides reach lies in its slice: checked for `out` here and
    // for `a` and `b` when they were made. `out` is borrowed mutably, so nothing overlaps it.
    unsafe {
        gemm::gemm(
            m,
            n,
            inner,
            out.as_mut_ptr(),
            1,
            stride as isize,
            write == Write::Add,
            a.data.as_ptr(),
            a_column,
            a_row,
            b.data.as_ptr(),
            b_column,
            b_row,
            1.0,
            factor,
            false,
            false,
            false,
            match threads {
                Threads::Own => gemm::Parallelism::None,
                Threads::All => gemm::Parallelism::Rayon(0),
            },
        );
    }
}

fn assert_fits(len: usize, [rows, columns]: [usize; 2], stride: usize) {
    let end = match rows {
        0 => 0,
        rows => (rows - 1) * stride + columns,
    };
    assert!(
        end <= len && (columns <= stride || rows <= 1),
        "a matrix of {rows} x {columns} with stride {stride} in {len} values"
    );
}
