//! Bias and mask, applied to the scores of a block.

use std::mem::MaybeUninit;

use rayon::prelude::*;

use super::backward::{Backward, Target};
use super::{Buffers, HeadLayout, Heads, Problem};
use crate::cpu::buffer::filled;
use crate::cpu::wide::wide;

/// The score of a hidden key. An infinity would exclude it too, but rows with infinities take longer.
pub(super) const HIDDEN: f32 = f32::MIN;

/// Target number of bias gradient sums that run in parallel. A constant, so that the result does not depend on the
/// number of threads.
const SUMS: usize = 16;

/// An image, and the place of its gradients.
type Task<'a> = (usize, &'a mut [MaybeUninit<f32>]);

/// A tensor that is broadcast to the scores `[batch, heads, query, key]`. The values of a row are adjacent.
#[derive(Clone, Copy)]
pub(in crate::attention) struct Term<'a, T> {
    pub(in crate::attention) data: &'a [T],
    pub(in crate::attention) offset: usize,
    pub(in crate::attention) shape: [usize; 4],
    pub(in crate::attention) strides: [usize; 4],
}

impl<'a, T> Term<'a, T> {
    /// The row of a query: as many values as there are keys, or one for all of them.
    fn row(&self, index: [usize; 3]) -> &'a [T] {
        let mut start = self.offset;
        for (axis, index) in index.into_iter().enumerate() {
            if self.shape[axis] > 1 {
                start += index * self.strides[axis];
            }
        }
        &self.data[start..start + self.shape[3]]
    }
}

/// Bias and mask.
#[derive(Clone, Copy, Default)]
pub(in crate::attention) struct Terms<'a> {
    /// Number of heads of the scores: those of all windows, window by window.
    pub(in crate::attention) heads: usize,
    /// How many images of the tensors are windows of one image of the scores; 1 if windows are heads of the tensors, too.
    pub(in crate::attention) windows: usize,
    /// The bias of the heads of one window, which all windows share.
    pub(in crate::attention) bias: Option<Term<'a, f32>>,
    /// Nonzero where a key is hidden: a matrix for each window, for all heads of that window.
    pub(in crate::attention) mask: Option<Term<'a, u8>>,
}

impl<'a> Terms<'a> {
    /// Image and head of the scores, from those of the tensors.
    fn place(&self, [image, head]: [usize; 2]) -> [usize; 2] {
        let window = image % self.windows;
        [
            image / self.windows,
            window * (self.heads / self.windows) + head,
        ]
    }

    fn bias_row(&self, place: [usize; 2], query: usize) -> Option<&'a [f32]> {
        let bias = self.bias.as_ref()?;
        let [image, head] = self.place(place);
        Some(bias.row([image, head % bias.shape[1], query]))
    }

    fn mask_row(&self, place: [usize; 2], query: usize) -> Option<&'a [u8]> {
        let mask = self.mask.as_ref()?;
        let [image, head] = self.place(place);
        let window = head * mask.shape[1] / self.heads;
        Some(mask.row([image, window, query]))
    }

    /// Applies the terms to rows of the queries from `start` on, for the image and head at `place`. Rows have
    /// `keys` values and start `width` apart.
    pub(super) fn apply(
        &self,
        rows: &mut [f32],
        [keys, width]: [usize; 2],
        place: [usize; 2],
        start: usize,
        fill: Fill,
    ) {
        if self.mask.is_some() || (fill == Fill::Score && self.bias.is_some()) {
            apply(self, rows, [keys, width], place, start, fill);
        }
    }
}

/// What rows hold, and with it what is done to them.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Fill {
    /// Scores: the bias is added, and those of masked keys become [`HIDDEN`].
    Score,
    /// Gradients of scores: those of masked keys become zero, even in a row with NaN.
    Gradient,
}

wide! {
    /// [`Terms::apply`], if there is anything to apply.
    fn apply<'a>(
        terms: &'a Terms<'a>,
        rows: &'a mut [f32],
        shape: [usize; 2],
        place: [usize; 2],
        start: usize,
        fill: Fill,
    ) {
        let scores = fill == Fill::Score;
        let filled = if scores { HIDDEN } else { 0.0 };
        let [keys, width] = shape;
        for (number, row) in rows.chunks_exact_mut(width).enumerate() {
            let (row, query) = (&mut row[..keys], start + number);
            if let Some(bias) = terms.bias_row(place, query).filter(|_| scores) {
                each(row, bias, |x, bias| x + bias);
            }
            if let Some(mask) = terms.mask_row(place, query) {
                each(row, mask, |x, hidden| if hidden == 0 { x } else { filled });
            }
        }
    }
}

/// Combines each value of a row with its own number, or all values with the same number.
#[inline(always)]
fn each<T: Copy>(row: &mut [f32], by: &[T], change: impl Fn(f32, T) -> f32) {
    if let [by] = *by {
        for x in row {
            *x = change(*x, by);
        }
    } else {
        for (x, &by) in row.iter_mut().zip(by) {
            *x = change(*x, by);
        }
    }
}

impl<'a> Problem<'a> {
    /// [`Self::backward`], and the gradient of the bias, in the shape of the bias.
    ///
    /// The heads of an image have adjacent matrices of the bias. Images that share them are divided among a few sums, which run in
    /// parallel and are added in order.
    pub(in crate::attention) fn backward_with_bias(
        &self,
        bias: &Term<'a, f32>,
        d_out: Heads<'a>,
        saved: &[f32],
        size: usize,
        layouts: [HeadLayout; 3],
    ) -> (Vec<f32>, Vec<f32>) {
        let [batch, heads, queries, keys] = bias.shape;
        let groups = batch * heads / self.heads.max(1);
        let sum = self.heads * queries * keys;
        let users = self.images / groups.max(1);
        let parts = (SUMS / groups.max(1)).clamp(1, users.max(1));
        let len = self.images * size;
        if sum == 0 {
            // There are no scores; keys and values without a query have gradients of zero.
            return (vec![0.0; len], Vec::new());
        }
        let mut out = Vec::with_capacity(len);
        let mut sums = vec![0.0; groups * parts * sum];
        let mut tasks: Vec<Vec<Task<'_>>> = Vec::new();
        tasks.resize_with(groups * parts, Vec::new);
        let mut seen = vec![0; groups];
        let spare = out.spare_capacity_mut()[..len].chunks_mut(size.max(1));
        for (image, out) in spare.enumerate() {
            let [of_batch, head] = self.terms.place(self.place(image, 0));
            let group = (of_batch % batch * heads + head % heads) / self.heads;
            let part = seen[group] * parts / users;
            seen[group] += 1;
            tasks[group * parts + part].push((image, out));
        }
        let sums_and_tasks = sums.par_chunks_mut(sum).zip(tasks);
        sums_and_tasks.for_each_init(Buffers::default, |buffers, (sum, task)| {
            for (image, out) in task {
                let backward = Backward::new(self, image, d_out, saved);
                let target = Target {
                    out: filled(out, std::iter::repeat(0.0)),
                    layouts,
                    queries: None,
                    bias: Some((&mut *sum, keys)),
                };
                backward.whole(target, buffers);
            }
        });
        #[expect(
            unsafe_code,
            reason = "a vector that is not filled with zeros first on one thread"
        )]
        // SAFETY: every image is in a task, and each task has a sum, which is not empty: all of their numbers have just been written.
        unsafe {
            out.set_len(len);
        }
        (out, added(&sums, sum, parts))
    }
}

/// The sums of `parts` parts of `size` numbers, one after another.
fn added(sums: &[f32], size: usize, parts: usize) -> Vec<f32> {
    let mut total = Vec::with_capacity(sums.len() / parts);
    for parts in sums.chunks((size * parts).max(1)) {
        let start = total.len();
        total.extend_from_slice(&parts[..size]);
        for part in parts[size..].chunks(size) {
            for (sum, x) in total[start..].iter_mut().zip(part) {
                *sum += x;
            }
        }
    }
    total
}
