//! The pixels of an object.

/// The pixels of an object in an image, cut to a part of it. All others are outside.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bitmap {
    /// Row of the part's first pixel in the image.
    pub top: usize,
    /// Column of the part's first pixel in the image.
    pub left: usize,
    /// Rows of the part.
    pub height: usize,
    /// Columns of the part.
    pub width: usize,
    /// Whether each pixel of the part is inside, `[height, width]`.
    pub inside: Vec<bool>,
}

impl Bitmap {
    /// Whether a pixel of the image is inside.
    #[must_use]
    pub fn contains(&self, row: usize, column: usize) -> bool {
        let (Some(row), Some(column)) = (row.checked_sub(self.top), column.checked_sub(self.left))
        else {
            return false;
        };
        column < self.width && self.inside.get(row * self.width + column) == Some(&true)
    }

    /// The number of pixels inside.
    #[must_use]
    pub fn area(&self) -> usize {
        self.inside.iter().filter(|inside| **inside).count()
    }

    /// The row of the image with this number: its pixels in the part, from the column `left` on; nothing outside of the part.
    pub(super) fn row(&self, row: usize) -> &[bool] {
        let first = row.checked_sub(self.top).map(|row| row * self.width);
        let pixels = first.and_then(|first| self.inside.get(first..first + self.width));
        pixels.unwrap_or(&[])
    }
}
