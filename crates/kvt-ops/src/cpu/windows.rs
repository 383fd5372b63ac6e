//! Square windows that move over an image, row by row of their positions.

/// The sizes of an image channel, and how windows move over it.
#[derive(Clone, Copy)]
pub(crate) struct Windows {
    pub height: usize,
    pub width: usize,
    /// Rows of a window, and columns.
    pub size: usize,
    pub stride: usize,
    pub padding: usize,
    /// Rows of positions.
    pub rows: usize,
    /// Columns of positions.
    pub columns: usize,
}

/// The part of a row of positions whose windows see the image with one of their elements: the `len` positions from
/// `output` on see the pixels from `input` on, a stride apart.
#[derive(Clone, Copy)]
pub(crate) struct Span {
    pub input: usize,
    pub output: usize,
    pub len: usize,
}

impl Span {
    #[inline(always)]
    pub(crate) fn input_end(self, stride: usize) -> usize {
        self.input + (self.len - 1) * stride + 1
    }
}

impl Windows {
    /// Over images in which a window fits.
    pub(crate) fn new(
        [height, width]: [usize; 2],
        size: usize,
        stride: usize,
        padding: usize,
    ) -> Self {
        let steps = |length: usize| (length + 2 * padding - size) / stride + 1;
        Self {
            height,
            width,
            size,
            stride,
            padding,
            rows: steps(height),
            columns: steps(width),
        }
    }

    /// Pixels of an image channel.
    pub(crate) fn pixels(&self) -> usize {
        self.height * self.width
    }

    /// Positions of a window.
    pub(crate) fn positions(&self) -> usize {
        self.rows * self.columns
    }

    /// Elements of a window.
    pub(crate) fn area(&self) -> usize {
        self.size * self.size
    }

    /// Calls `visit` with every element of a window and every span that it sees.
    #[inline(always)]
    pub(crate) fn for_each(&self, mut visit: impl FnMut(usize, Span)) {
        for at in 0..self.area() {
            let (first_row, rows) = self.visible(at / self.size, self.height, self.rows);
            let (first, len) = self.visible(at % self.size, self.width, self.columns);
            if len == 0 {
                continue;
            }
            let column = first * self.stride + at % self.size - self.padding;
            for row in first_row..first_row + rows {
                let input = row * self.stride + at / self.size - self.padding;
                let span = Span {
                    input: input * self.width + column,
                    output: row * self.columns + first,
                    len,
                };
                visit(at, span);
            }
        }
    }

    /// Along one direction, the positions at which element `at` of the window lies in the image: the first, and
    /// their number.
    #[inline(always)]
    fn visible(&self, at: usize, length: usize, positions: usize) -> (usize, usize) {
        let first = self.padding.saturating_sub(at).div_ceil(self.stride);
        let end = match (length + self.padding).checked_sub(at + 1) {
            Some(room) => (room / self.stride + 1).min(positions),
            None => 0,
        };
        (first, end.saturating_sub(first))
    }
}
