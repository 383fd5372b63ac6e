//! The products of a block that need only the keys that were kept, row by row: the others are skipped.
//!
//! A gathered product runs at about half the rate of a dense one, so this pays where few keys are kept
//! ([`Problem::is_sparse`]).

use pulp::Simd;

use super::backward::{HeadBlock, Target};
use super::{Operand, Problem, bits};
use crate::cpu::gemm::Matrix;
use crate::cpu::simd::dot;
use crate::cpu::softmax_row::{exp_all, extremes, scale, survivors};
use crate::cpu::wide::wide;

/// Channels of a head are multiples of it, so that rows are whole registers on every CPU.
const CHANNELS: usize = 16;

/// Keys are skipped if at most one of so many is kept. At one of four the two ways take equally long, from 197 to 3,136 keys.
const SHARE: usize = 5;

impl<T: Operand> Problem<'_, T> {
    /// Whether the keys that were dropped are skipped. It depends only on the type, the shapes and the number of kept keys.
    pub(super) fn is_sparse(&self) -> bool {
        let fits = |dim: usize| dim > 0 && dim.is_multiple_of(CHANNELS);
        T::SKIPS
            && self.kept.saturating_mul(SHARE) <= self.keys
            && self.terms.bias.is_none()
            && self.terms.mask.is_none()
            && fits(self.k.layout.dim)
            && fits(self.v.layout.dim)
    }
}

/// The keys that a row keeps, their weights, and the gradients of the weights. The buffers only grow; after
/// [`read`](Self::read) the first values are valid.
#[derive(Default)]
pub(in crate::attention) struct Kept {
    keys: Vec<u32>,
    weights: Vec<f32>,
    d_weights: Vec<f32>,
}

impl Kept {
    /// Keys, weights and gradients of the keys in a set; only the keys are filled in.
    #[inline(always)]
    fn read(&mut self, set: &[u32], all: usize) -> (&[u32], &mut [f32], &mut [f32]) {
        if self.keys.len() < all {
            self.keys.resize(all, 0);
            self.weights.resize(all, 0.0);
            self.d_weights.resize(all, 0.0);
        }
        let count = bits::read(set, &mut self.keys);
        (
            &self.keys[..count],
            &mut self.weights[..count],
            &mut self.d_weights[..count],
        )
    }
}

wide! {
    /// The output of a block, for the image and head at `place`, from its scores: the softmax over the keys that each row keeps, and the
    /// weighted sum of their values.
    pub(super) fn attend<'a, simd: S>(
        problem: &'a Problem<'a>,
        place: [usize; 2],
        scores: &'a mut [f32],
        saved: &'a mut [f32],
        out: &'a mut [f32],
        kept: &'a mut Kept,
        selection: &'a mut Vec<f32>,
    ) {
        let [image, head] = place;
        let v = problem.v(image, head);
        let [all, dim] = v.shape();
        let rows = scores.chunks_exact_mut(problem.rows().width());
        let out = out.chunks_mut(problem.heads * dim);
        for ((row, out), (state, set)) in rows.zip(out).zip(problem.rows().records_mut(saved, head)) {
            let row = &mut row[..all];
            *state = survivors(simd, row, problem.kept, selection);
            bits::write(row, state, set);
            let (keys, weights, _) = kept.read(set, all);
            for (weight, &key) in weights.iter_mut().zip(keys) {
                *weight = row[key as usize];
            }
            // NaN stays NaN.
            state.scale /= exp_all(simd, weights, state.max);
            weighted_sum(simd, &mut out[..dim], keys, weights, v, state.scale);
        }
    }

    /// Adds the gradients of a block in one head to those of keys and values. Those of the queries are replaced.
    pub(super) fn add_gradients<'a, 'b, simd: S>(
        problem: &'a Problem<'a>,
        block: HeadBlock<'a>,
        target: &'a mut Target<'b>,
        kept: &'a mut Kept,
    ) {
        let [q, k, v] = block.inputs;
        let (all, dim) = (k.shape()[0], q.shape()[1]);
        let [(_, dq_stride), (dk, dk_stride), (dv, dv_stride)] = target.places(block.head);
        let records = problem.rows().records(block.saved, block.head);
        for (number, (state, set)) in records.enumerate() {
            let (q, d_out) = (line(q, number), line(block.d_out, number));
            let (keys, weights, d_weights) = kept.read(set, all);
            for (weight, &key) in weights.iter_mut().zip(keys) {
                *weight = problem.scale * dot_of(simd, q, line(k, key as usize));
            }
            // These scores are rounded otherwise than those of the forward pass. With their own largest score and sum the weights
            // add up to 1, and an error common to all of them cancels, as in a softmax. NaN stays NaN.
            let (_, largest) = extremes(simd, weights);
            let sum = exp_all(simd, weights, largest);
            let undefined = state.scale.is_nan();
            scale(weights, if undefined { f32::NAN } else { 1.0 / sum });
            for (d_weight, &key) in d_weights.iter_mut().zip(keys) {
                *d_weight = dot_of(simd, d_out, line(v, key as usize));
            }
            // The gradients of the scores, times the scale.
            let mean = dot(simd, d_weights, weights);
            for (d_weight, weight) in d_weights.iter_mut().zip(&*weights) {
                *d_weight = weight * (*d_weight - mean) * problem.scale;
            }
            let d_query = &mut target.queries(block.head, block.start)[number * dq_stride..];
            weighted_sum(simd, &mut d_query[..dim], keys, d_weights, k, 1.0);
            for ((&key, &d_score), &weight) in keys.iter().zip(&*d_weights).zip(&*weights) {
                let key = key as usize;
                let (dk, dv) = (dk + key * dk_stride, dv + key * dv_stride);
                add_to(simd, &mut target.out[dk..][..dim], q, d_score);
                add_to(simd, &mut target.out[dv..][..d_out.len()], d_out, weight);
            }
        }
    }
}

/// A row of a matrix.
#[inline(always)]
fn line(matrix: Matrix<'_>, row: usize) -> &[f32] {
    &matrix.values()[row * matrix.strides()[0]..][..matrix.shape()[1]]
}

/// The dot product of whole registers.
#[inline(always)]
fn dot_of<S: Simd>(simd: S, a: &[f32], b: &[f32]) -> f32 {
    let ((a, _), (b, _)) = (S::as_simd_f32s(a), S::as_simd_f32s(b));
    let mut sum = simd.splat_f32s(0.0);
    for (a, b) in a.iter().zip(b) {
        sum = simd.mul_add_f32s(*a, *b, sum);
    }
    simd.reduce_sum_f32s(sum)
}

/// `out += factor * row` in whole registers.
#[inline(always)]
fn add_to<S: Simd>(simd: S, out: &mut [f32], row: &[f32], factor: f32) {
    let ((out, _), (row, _)) = (S::as_mut_simd_f32s(out), S::as_simd_f32s(row));
    let factor = simd.splat_f32s(factor);
    for (out, x) in out.iter_mut().zip(row) {
        *out = simd.mul_add_f32s(factor, *x, *out);
    }
}

/// `out = factor * sum(weight * row)` over the rows of a matrix that `keys` names.
#[inline(always)]
fn weighted_sum<S: Simd>(
    simd: S,
    out: &mut [f32],
    keys: &[u32],
    weights: &[f32],
    rows: Matrix<'_>,
    factor: f32,
) {
    let (out, _) = S::as_mut_simd_f32s(out);
    let mut first = 0;
    while first < out.len() {
        let part = &mut out[first..];
        first += match part.len() {
            4.. => columns::<S, 4>(simd, part, first, keys, weights, rows, factor),
            2.. => columns::<S, 2>(simd, part, first, keys, weights, rows, factor),
            _ => columns::<S, 1>(simd, part, first, keys, weights, rows, factor),
        };
    }
}

/// The `N` registers from `first` on of [`weighted_sum`]; returns `N`. Two sums, of every other key, hide the latency
/// of an addition.
#[inline(always)]
fn columns<S: Simd, const N: usize>(
    simd: S,
    out: &mut [S::f32s],
    first: usize,
    keys: &[u32],
    weights: &[f32],
    rows: Matrix<'_>,
    factor: f32,
) -> usize {
    let mut sums = [[simd.splat_f32s(0.0); N]; 2];
    let at = first * S::F32_LANES;
    let values = &rows.values()[at..];
    let stride = rows.strides()[0];
    let (pairs, rest) = keys.as_chunks::<2>();
    let (weight_pairs, rest_weights) = weights.as_chunks::<2>();
    let add = |sum: &mut [S::f32s; N], key: u32, weight: f32| {
        let row = &values[key as usize * stride..][..N * S::F32_LANES];
        let weight = simd.splat_f32s(weight);
        for (sum, x) in sum.iter_mut().zip(S::as_simd_f32s(row).0) {
            *sum = simd.mul_add_f32s(weight, *x, *sum);
        }
    };
    for (keys, weights) in pairs.iter().zip(weight_pairs) {
        add(&mut sums[0], keys[0], weights[0]);
        add(&mut sums[1], keys[1], weights[1]);
    }
    for (key, weight) in rest.iter().zip(rest_weights) {
        add(&mut sums[0], *key, *weight);
    }
    let factor = simd.splat_f32s(factor);
    for ((out, a), b) in out.iter_mut().zip(sums[0]).zip(sums[1]) {
        *out = simd.mul_f32s(factor, simd.add_f32s(a, b));
    }
    N
}

#[cfg(test)]
mod tests;
