//! Matrices as views of slices.

use std::ops::Range;

/// A matrix in a slice: element `(i, j)` is at `i * strides[0] + j * strides[1]`.
#[derive(Clone, Copy)]
pub(crate) struct Matrix<'a, T = f32> {
    data: &'a [T],
    shape: [usize; 2],
    strides: [usize; 2],
}

impl<'a, T: Copy> Matrix<'a, T> {
    /// Rows of adjacent values, whose starts are `stride` apart.
    ///
    /// # Panics
    /// If the matrix exceeds the slice.
    pub(crate) fn new(data: &'a [T], shape: [usize; 2], stride: usize) -> Self {
        assert_fits(data.len(), shape, stride);
        Self {
            data,
            shape,
            strides: [stride, 1],
        }
    }

    /// The transpose, as a view.
    pub(crate) fn t(self) -> Self {
        let ([rows, columns], [row, column]) = (self.shape, self.strides);
        Self {
            data: self.data,
            shape: [columns, rows],
            strides: [column, row],
        }
    }

    /// Rows and columns.
    pub(crate) fn shape(self) -> [usize; 2] {
        self.shape
    }

    /// The slice, from the first element on.
    pub(crate) fn values(self) -> &'a [T] {
        self.data
    }

    /// The distances between rows and between columns.
    pub(crate) fn strides(self) -> [usize; 2] {
        self.strides
    }

    /// The same matrix in another slice.
    ///
    /// # Panics
    /// If the slice is shorter.
    pub(crate) fn with<U>(self, data: &[U]) -> Matrix<'_, U> {
        assert!(data.len() >= self.data.len(), "a slice that is too short");
        Matrix {
            data,
            shape: self.shape,
            strides: self.strides,
        }
    }

    /// A range of rows, as a view.
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

/// # Panics
/// If a matrix with rows `stride` apart exceeds `len` values, or its rows overlap.
pub(super) fn assert_fits(len: usize, [rows, columns]: [usize; 2], stride: usize) {
    let end = match rows {
        0 => 0,
        rows => (rows - 1) * stride + columns,
    };
    assert!(
        end <= len && (columns <= stride || rows <= 1),
        "a matrix of {rows} x {columns} with stride {stride} in {len} values"
    );
}
