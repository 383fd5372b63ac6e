//! Square windows that move over an image, by rows of positions, and their elements as columns.

use std::mem::MaybeUninit;
use std::ops::Range;

/// The sizes of an image channel, and the movement of windows over it; made by [`Window::windows`](crate::window::Window::windows).
#[derive(Clone, Copy)]
pub(crate) struct Windows {
    pub height: usize,
    pub width: usize,
    /// Rows and columns of a window.
    pub size: usize,
    pub stride: usize,
    pub padding: usize,
    /// Rows of positions.
    pub rows: usize,
    /// Columns of positions.
    pub columns: usize,
}

/// The part of a row of positions whose windows cover the image with one of their elements: the `len` positions from
/// `output` on cover the pixels from `input` on, `stride` apart.
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

/// A place for a value, which may hold nothing yet.
pub(crate) trait Place<T>: Sized {
    fn put(&mut self, x: T);

    /// Puts values into as many places.
    fn copy(places: &mut [Self], values: &[T]);
}

impl<T: Copy> Place<T> for T {
    #[inline(always)]
    fn put(&mut self, x: T) {
        *self = x;
    }

    #[inline(always)]
    fn copy(places: &mut [Self], values: &[T]) {
        places.copy_from_slice(values);
    }
}

impl<T: Copy> Place<T> for MaybeUninit<T> {
    #[inline(always)]
    fn put(&mut self, x: T) {
        self.write(x);
    }

    #[inline(always)]
    fn copy(places: &mut [Self], values: &[T]) {
        places.write_copy_of_slice(values);
    }
}

impl Windows {
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

    /// Calls `visit` with every element of a window and every span that it covers.
    #[inline(always)]
    pub(crate) fn for_each(&self, visit: impl FnMut(usize, Span)) {
        self.for_each_of(&(0..self.rows), visit);
    }

    /// [`Self::for_each`] for some rows of positions, counted from the first of them.
    #[inline(always)]
    fn for_each_of(&self, rows: &Range<usize>, mut visit: impl FnMut(usize, Span)) {
        for at in 0..self.area() {
            let (first, count) = self.spans(at, rows);
            for row in 0..count {
                let span = Span {
                    input: first.input + row * self.stride * self.width,
                    output: first.output + row * self.columns,
                    len: first.len,
                };
                visit(at, span);
            }
        }
    }

    /// The first span of element `at` in some rows of positions, counted from the first of them, and the number of
    /// spans: one per row of positions.
    #[inline(always)]
    fn spans(&self, at: usize, rows: &Range<usize>) -> (Span, usize) {
        let (first_row, count) = self.visible(at / self.size, self.height, self.rows);
        let (first, len) = self.visible(at % self.size, self.width, self.columns);
        let row = first_row.max(rows.start);
        let count = (first_row + count).min(rows.end).saturating_sub(row);
        if len == 0 || count == 0 {
            let nothing = Span {
                input: 0,
                output: 0,
                len: 0,
            };
            return (nothing, 0);
        }
        let [y, x] = [(row, at / self.size), (first, at % self.size)]
            .map(|(position, at)| position * self.stride + at - self.padding);
        let span = Span {
            input: y * self.width + x,
            output: (row - rows.start) * self.columns + first,
            len,
        };
        (span, count)
    }

    /// The elements of an image channel's windows as columns, for some rows of positions: element `at` of each window
    /// from `at * stride` of `out` on, zeros outside the image. Every place is written.
    pub(crate) fn unfold<T: Place<f32>>(
        &self,
        rows: &Range<usize>,
        image: &[f32],
        out: &mut [T],
        stride: usize,
    ) {
        let zero = |places: &mut [T]| places.iter_mut().for_each(|to| to.put(0.0));
        let adjacent = self.stride == 1 && self.columns == self.width;
        let columns = self.columns.max(1);
        for at in 0..self.area() {
            let (first, count) = self.spans(at, rows);
            let out = &mut out[at * stride..][..rows.len() * self.columns];
            // Positions above those that cover the image, and in their first row those before them.
            let (above, before) = (first.output / columns, first.output % columns);
            let (top, out) = out.split_at_mut(above * columns);
            let (out, bottom) = out.split_at_mut(count * columns);
            zero(top);
            zero(bottom);
            let image = &image[first.input..];
            if adjacent && count > 0 {
                // The rows of pixels follow each other as the rows of positions do: one copy, then zeros for the pixels
                // that wrap around to the other end of the image.
                let len = (count - 1) * self.width + first.len;
                let (start, rest) = out.split_at_mut(before);
                let (middle, end) = rest.split_at_mut(len);
                zero(start);
                T::copy(middle, &image[..len]);
                zero(end);
                for row in 1..count {
                    let end = row * self.width;
                    zero(&mut middle[end - (self.width - first.len)..end]);
                }
                continue;
            }
            for (row, out) in out.chunks_exact_mut(columns).enumerate() {
                let (start, rest) = out.split_at_mut(before);
                let (middle, end) = rest.split_at_mut(first.len);
                zero(start);
                let pixels = &image[row * self.stride * self.width..];
                copy(middle, pixels, self.stride);
                zero(end);
            }
        }
    }

    /// Adds the values of columns, laid out as in [`Self::unfold`], to the pixels of an image channel.
    pub(crate) fn fold(
        &self,
        rows: &Range<usize>,
        columns: &[f32],
        stride: usize,
        image: &mut [f32],
    ) {
        self.for_each_of(rows, |at, span| {
            let start = at * stride + span.output;
            let pixels = &mut image[span.input..span.input_end(self.stride)];
            add_apart(pixels, &columns[start..start + span.len], self.stride, 1.0);
        });
    }

    /// Along one direction, the positions at which element `at` of the window is within the image: the first, and
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

/// Copies every `stride`-th pixel.
#[inline(always)]
fn copy<T: Place<f32>>(out: &mut [T], pixels: &[f32], stride: usize) {
    if stride == 1 {
        T::copy(out, &pixels[..out.len()]);
    } else {
        // `for_each` counts the steps once, a `for` loop at every step.
        let pixels = pixels.iter().step_by(stride);
        out.iter_mut().zip(pixels).for_each(|(out, x)| out.put(*x));
    }
}

/// Adds values, multiplied by a factor, to every `stride`-th pixel.
#[inline(always)]
pub(crate) fn add_apart(pixels: &mut [f32], values: &[f32], stride: usize, factor: f32) {
    if stride == 1 {
        for (pixel, x) in pixels.iter_mut().zip(values) {
            *pixel += factor * x;
        }
    } else {
        let pixels = pixels.iter_mut().step_by(stride);
        pixels
            .zip(values)
            .for_each(|(pixel, x)| *pixel += factor * x);
    }
}

#[cfg(test)]
mod tests {
    use crate::window::Window;

    #[test]
    fn some_rows_of_positions_are_those_of_all() {
        // Contiguous and separate rows, padding that only some windows cover, and windows that cover only padding.
        for ([height, width], size, stride, padding) in [
            ([7, 5], 3, 1, 1),
            ([5, 4], 5, 1, 2),
            ([9, 6], 3, 2, 1),
            ([4, 6], 2, 2, 0),
            ([3, 5], 1, 1, 0),
            ([2, 3], 3, 2, 3),
        ] {
            let window = Window {
                kernel: size,
                stride,
                padding,
            };
            let windows = window.windows([height, width]);
            let (area, positions) = (windows.area(), windows.positions());
            let image: Vec<f32> = (1..=windows.pixels()).map(|i| i as f32).collect();
            let mut all = vec![f32::NAN; area * positions];
            windows.unfold(&(0..windows.rows), &image, &mut all, positions);
            let mut folded = vec![0.0; image.len()];
            windows.fold(&(0..windows.rows), &all, positions, &mut folded);
            let (mut bands, mut sum) = (vec![f32::NAN; all.len()], vec![0.0; image.len()]);
            for start in (0..windows.rows).step_by(2) {
                let rows = start..(start + 2).min(windows.rows);
                let from = start * windows.columns;
                windows.unfold(&rows, &image, &mut bands[from..], positions);
                windows.fold(&rows, &all[from..], positions, &mut sum);
            }
            assert_eq!(bands, all);
            assert_eq!(sum, folded);
            for (at, line) in all.chunks(positions).enumerate() {
                for (position, value) in line.iter().enumerate() {
                    let y = position / windows.columns * stride + at / size;
                    let x = position % windows.columns * stride + at % size;
                    let inside = (padding..padding + height).contains(&y)
                        && (padding..padding + width).contains(&x);
                    let pixel = || image[(y - padding) * width + x - padding];
                    assert_eq!(*value, if inside { pixel() } else { 0.0 });
                }
            }
        }
    }
}
