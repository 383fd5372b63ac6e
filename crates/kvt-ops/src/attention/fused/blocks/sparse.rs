//! The products of a block that need only the keys that were kept: the others are skipped.
//!
//! The forward pass goes row by row. The backward pass goes key by key, for all rows of a block that keep the key: it reads each key twice,
//! and each value once, in order, and writes their gradients once, while the rows of the block stay in the cache. Such products still run at
//! less than the rate of dense ones, so this pays where few keys are kept ([`Problem::is_sparse`]).

use super::backward::{HeadBlock, Target};
use super::{Operand, Problem, bits};
use crate::cpu::buffer::grown;
use crate::cpu::gemm::Matrix;
use crate::cpu::softmax_row::{exp_all, scale, survivors};
use crate::cpu::wide::wide;
use pairs::Pairs;
use products::{add_both, add_rows, dots};

mod pairs;
mod products;

/// Channels of a head are multiples of it, so that rows are whole registers on every CPU.
const CHANNELS: usize = 16;

/// Keys are skipped if at most one of so many is kept. At one of four skipping takes 0.9 of the time of dense products on a CPU with AVX2,
/// from 197 to 3,136 keys; with AVX-512, where it saved less before it went key by key, that was not measured.
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

/// Buffers for the products of a block, which only grow.
#[derive(Default)]
pub(in crate::attention) struct Kept {
    pairs: Pairs,
    /// The keys of a row.
    keys: Vec<u32>,
    /// The weights of the keys of a row or of all pairs, and the gradients of those.
    weights: Vec<f32>,
    d_weights: Vec<f32>,
    sums: Vec<Sums>,
    /// Queries, and gradients of outputs and of queries, row after row.
    rows: [Vec<f32>; 3],
}

/// Sums over the pairs of a row.
#[derive(Clone, Copy, Default)]
struct Sums {
    /// The largest score.
    max: f32,
    /// Of the weights, and of their products with their gradients.
    weights: f64,
    products: f64,
    /// One by the sum of the weights, and the mean of the gradients.
    inverse: f32,
    mean: f32,
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
        let Kept { keys, weights, .. } = kept;
        let (keys, weights) = (grown(keys, all), grown(weights, all));
        let rows = scores.chunks_exact_mut(problem.rows().width());
        let out = out.chunks_mut(problem.heads * dim);
        for ((row, out), (state, set)) in rows.zip(out).zip(problem.rows().records_mut(saved, head)) {
            let row = &mut row[..all];
            *state = survivors(simd, row, problem.kept, selection);
            bits::write(simd, row, state, set);
            let count = bits::read(set, keys);
            let (keys, weights) = (&keys[..count], &mut weights[..count]);
            for (weight, &key) in weights.iter_mut().zip(keys) {
                *weight = row[key as usize];
            }
            // NaN stays NaN.
            state.scale /= exp_all(simd, weights, state.max);
            let out = &mut out[..dim];
            out.fill(0.0);
            let rows = (v.values(), v.strides()[0]);
            add_rows(simd, out, rows, &keys.iter().zip(&*weights));
            scale(out, state.scale);
        }
    }

    /// Adds the gradients of a block in one head to those of keys and values. Those of the queries are replaced.
    pub(super) fn add_gradients<'a, 'b, simd: S>(
        problem: &'a Problem<'a>,
        block: HeadBlock<'a>,
        target: &'a mut Target<'b>,
        kept: &'a mut Kept,
    ) {
        let ([q, k, v], [head, start]) = (block.inputs, [block.head, block.start]);
        let ([all, dim], value_dim, layout) = (k.shape(), v.shape()[1], problem.rows());
        let Kept { pairs, weights, d_weights, sums, rows: [queries, d_outs, d_queries], .. } = kept;
        let height = q.shape()[0];
        pairs.fill(height, bits::words(all), layout.sets(block.saved, head));
        let count = pairs.rows().len();
        let (weights, d_weights) = (grown(weights, count), grown(d_weights, count));
        let queries = gathered(queries, q);
        let d_outs = gathered(d_outs, block.d_out);
        let sums = grown(sums, height);
        sums.fill(Sums { max: f32::NEG_INFINITY, ..Sums::default() });
        for (key, range) in pairs.keys() {
            let rows = &pairs.rows()[range.clone()];
            dots(simd, line(k, key), queries, rows, &mut weights[range.clone()]);
            dots(simd, line(v, key), d_outs, rows, &mut d_weights[range]);
        }
        // These scores are rounded otherwise than those of the forward pass. With their own largest score and sum the weights add up to 1,
        // and an error common to all of them cancels, as in a softmax.
        for (weight, &row) in weights.iter_mut().zip(pairs.rows()) {
            *weight *= problem.scale;
            let max = &mut sums[row as usize].max;
            *max = max.max(*weight);
        }
        for (weight, &row) in weights.iter_mut().zip(pairs.rows()) {
            *weight -= sums[row as usize].max;
        }
        exp_all(simd, weights, 0.0);
        for ((weight, d_weight), &row) in weights.iter().zip(&*d_weights).zip(pairs.rows()) {
            let sums = &mut sums[row as usize];
            sums.weights += f64::from(*weight);
            sums.products += f64::from(*weight) * f64::from(*d_weight);
        }
        // NaN stays NaN.
        for (sums, (state, _)) in sums.iter_mut().zip(layout.records(block.saved, head)) {
            let inverse = if state.scale.is_nan() { f64::NAN } else { 1.0 / sums.weights };
            (sums.inverse, sums.mean) = (inverse as f32, (inverse * sums.products) as f32);
        }
        // The weights, and the gradients of the scores, times the scale.
        for ((weight, d_weight), &row) in weights.iter_mut().zip(&mut *d_weights).zip(pairs.rows()) {
            let sums = &sums[row as usize];
            *weight *= sums.inverse;
            *d_weight = *weight * (*d_weight - sums.mean) * problem.scale;
        }
        let d_queries = grown(d_queries, height * dim);
        d_queries.fill(0.0);
        let [(_, dq_stride), (dk, dk_stride), (dv, dv_stride)] = target.places(head);
        let out = &mut *target.out;
        for (key, range) in pairs.keys() {
            let rows = &pairs.rows()[range.clone()];
            let (of_scores, weights) = (&d_weights[range.clone()], &weights[range]);
            let dk = &mut out[dk + key * dk_stride..][..dim];
            add_both(simd, dk, line(k, key), (queries, &mut *d_queries), rows, of_scores);
            let (dv, of_rows) = (&mut out[dv + key * dv_stride..][..value_dim], rows.iter().zip(weights));
            add_rows(simd, dv, (d_outs, value_dim), &of_rows);
        }
        let places = target.queries(head, start).chunks_mut(dq_stride);
        for (place, d_query) in places.zip(d_queries.chunks_exact(dim)) {
            place[..dim].copy_from_slice(d_query);
        }
    }
}

/// A row of a matrix.
#[inline(always)]
fn line(matrix: Matrix<'_>, row: usize) -> &[f32] {
    &matrix.values()[row * matrix.strides()[0]..][..matrix.shape()[1]]
}

/// The rows of a matrix, one after another in a buffer.
#[inline(always)]
fn gathered<'a>(buffer: &'a mut Vec<f32>, matrix: Matrix<'_>) -> &'a [f32] {
    let [rows, columns] = matrix.shape();
    let to = grown(buffer, rows * columns);
    for (row, to) in to.chunks_exact_mut(columns).enumerate() {
        to.copy_from_slice(line(matrix, row));
    }
    to
}

#[cfg(test)]
mod tests;
