//! A square window that moves over an image.

use crate::cpu::windows::Windows;

/// A square window that moves over an image with padding around it: zeros, or, in pooling, nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Side in pixels.
    pub kernel: usize,
    /// Pixels from one position to the next.
    pub stride: usize,
    /// Pixels of padding on each side of the image.
    pub padding: usize,
}

impl Window {
    /// Rows and columns of positions on an image of `[height, width]` pixels; 0 if none fits.
    pub fn positions(self, size: [usize; 2]) -> [usize; 2] {
        size.map(|length| {
            let room = (length + 2 * self.padding).checked_sub(self.kernel);
            room.map_or(0, |room| room / self.stride.max(1) + 1)
        })
    }

    /// Whether there are positions.
    pub(crate) fn fits(self, size: [usize; 2]) -> bool {
        let Self { kernel, stride, .. } = self;
        kernel > 0 && stride > 0 && !size.contains(&0) && !self.positions(size).contains(&0)
    }

    /// At all its positions on an image, of which there are some.
    pub(crate) fn windows(self, size: [usize; 2]) -> Windows {
        let [rows, columns] = self.positions(size);
        Windows {
            height: size[0],
            width: size[1],
            size: self.kernel,
            stride: self.stride,
            padding: self.padding,
            rows,
            columns,
        }
    }
}
