//! Rows of scores, and what is saved of them.

use super::bits;
use super::terms::HIDDEN;
use crate::cpu::softmax_row::{RowState, softmax_gradient, softmax_row, softmax_row_again};
use crate::cpu::wide::wide;

/// Numbers per [`RowState`].
pub(super) const STATE: usize = size_of::<RowState>() / size_of::<f32>();

/// Scores are stored up to a multiple of it: whole registers on every CPU.
const LANES: usize = 16;

/// The shapes of rows.
#[derive(Clone, Copy)]
pub(super) struct Rows {
    pub(super) heads: usize,
    pub(super) keys: usize,
    /// Keys kept of each row.
    pub(super) kept: usize,
    pub(super) is_masked: bool,
    /// Whether the keys that were dropped are skipped.
    pub(super) is_sparse: bool,
}

impl Rows {
    /// The distance between rows of scores: one for each key, and up to a whole register some that nobody reads.
    pub(super) fn width(&self) -> usize {
        self.keys.next_multiple_of(LANES)
    }

    /// Numbers saved of a row: its [`RowState`], and the keys that it kept if the others are skipped.
    pub(super) fn record(&self) -> usize {
        STATE
            + if self.is_sparse {
                bits::words(self.keys)
            } else {
                0
            }
    }

    /// The records of a head in a block.
    pub(super) fn records<'b>(
        &self,
        saved: &'b [f32],
        head: usize,
    ) -> impl Iterator<Item = (&'b RowState, &'b [u32])> + use<'b> {
        let records = saved.chunks_exact(self.record());
        records.skip(head).step_by(self.heads).map(|record| {
            let (state, kept) = record.split_at(STATE);
            (
                bytemuck::from_bytes(bytemuck::cast_slice(state)),
                bytemuck::cast_slice(kept),
            )
        })
    }

    /// The sets of keys that the rows of a block keep in a head, and the distance between them.
    pub(super) fn sets<'b>(&self, saved: &'b [f32], head: usize) -> (&'b [u32], usize) {
        let sets = &saved[head * self.record() + STATE..];
        (bytemuck::cast_slice(sets), self.heads * self.record())
    }

    /// As [`records`](Self::records).
    pub(super) fn records_mut<'b>(
        &self,
        saved: &'b mut [f32],
        head: usize,
    ) -> impl Iterator<Item = (&'b mut RowState, &'b mut [u32])> + use<'b> {
        let records = saved.chunks_exact_mut(self.record());
        records.skip(head).step_by(self.heads).map(|record| {
            let (state, kept) = record.split_at_mut(STATE);
            (
                bytemuck::from_bytes_mut(bytemuck::cast_slice_mut(state)),
                bytemuck::cast_slice_mut(kept),
            )
        })
    }
}

wide! {
    /// [`softmax_row`] of every row of a block in one head.
    pub(super) fn softmax<'a, simd: S>(
        rows: Rows,
        head: usize,
        scores: &'a mut [f32],
        saved: &'a mut [f32],
        selection: &'a mut Vec<f32>,
    ) {
        let scores = scores.chunks_exact_mut(rows.width());
        for (row, (state, _)) in scores.zip(rows.records_mut(saved, head)) {
            let row = &mut row[..rows.keys];
            *state = softmax_row(simd, row, rows.kept, selection);
            if rows.is_masked && state.max == HIDDEN {
                // No key is visible.
                row.fill(f32::NAN);
                *state = RowState::undefined();
            }
        }
    }

    /// Turns the scores of a block in one head into probabilities, and the gradients of the probabilities into gradients of the scores.
    pub(super) fn into_gradients<'a, simd: S>(
        rows: Rows,
        head: usize,
        scores: &'a mut [f32],
        d_scores: &'a mut [f32],
        saved: &'a [f32],
    ) {
        let scores = scores.chunks_exact_mut(rows.width());
        let scores = scores.zip(d_scores.chunks_exact_mut(rows.width()));
        for ((row, d_row), (state, _)) in scores.zip(rows.records(saved, head)) {
            let (row, d_row) = (&mut row[..rows.keys], &mut d_row[..rows.keys]);
            softmax_row_again(simd, row, state);
            softmax_gradient(simd, d_row, row);
        }
    }
}
