//! The values of a map whose columns are a stride apart, side by side: a loop over adjacent windows then reads adjacent values.

use crate::cpu::wide::wide;
use crate::cpu::windows::{Span, Windows};

/// Each row of a map in as many parts as the stride: first every `stride`-th value from the first on, then from the second on.
#[derive(Clone, Copy)]
pub(super) struct Phases {
    windows: Windows,
    /// Values of a part.
    width: usize,
}

impl Phases {
    pub(super) fn new(windows: Windows) -> Self {
        let width = windows.width.div_ceil(windows.stride);
        Self { windows, width }
    }

    /// Values of a map, with those that fill the parts up.
    pub(super) fn len(self) -> usize {
        self.windows.height * self.windows.stride * self.width
    }

    /// The place of a span's first pixel; the others follow it.
    #[inline(always)]
    pub(super) fn place(self, span: Span) -> usize {
        let (y, x) = (
            span.input / self.windows.width,
            span.input % self.windows.width,
        );
        let stride = self.windows.stride;
        (y * stride + x % stride) * self.width + x / stride
    }
}

wide! {
    /// Divides a map into parts.
    pub(super) fn divide<'a>(phases: Phases, map: &'a [f32], parts: &'a mut [f32]) {
        let Windows { width, stride, .. } = phases.windows;
        let parts = parts.chunks_exact_mut(stride * phases.width);
        for (row, parts) in map.chunks_exact(width).zip(parts) {
            if stride == 2 {
                // The usual stride, in a form that is vectorised.
                let (even, odd) = parts.split_at_mut(phases.width);
                let (pairs, last) = row.as_chunks::<2>();
                for ((even, odd), [first, second]) in even.iter_mut().zip(odd).zip(pairs) {
                    (*even, *odd) = (*first, *second);
                }
                if let ([last], Some(end)) = (last, even.last_mut()) {
                    *end = *last;
                }
                continue;
            }
            for (phase, part) in parts.chunks_exact_mut(phases.width).enumerate() {
                for (to, from) in part.iter_mut().zip(row.iter().skip(phase).step_by(stride)) {
                    *to = *from;
                }
            }
        }
    }
}
