//! The products of a block that need only the keys that were kept: the others are skipped.
//!
//! The forward pass goes row by row. The backward pass goes key by key, for all rows of a block that keep the key: it reads each key twice,
//! and each value once, in order, and writes their gradients once, while the rows of the block stay in the cache. Such products still run at
//! less than the rate of dense ones, so this pays where few keys are kept ([`Problem::is_sparse`]).

use pulp::Simd;

use super::backward::{HeadBlock, Target};
use super::{Operand, Problem, bits};
use crate::cpu::buffer::grown;
use crate::cpu::gemm::Matrix;
use crate::cpu::simd::dot;
use crate::cpu::softmax_row::{exp_all, extremes, scale, survivors};
use crate::cpu::wide::wide;
use pairs::Pairs;

mod pairs;

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
    /// The weights of pairs, and their gradients.
    weights: Vec<f32>,
    d_weights: Vec<f32>,
    /// The rows that keep a key, and the gradient of the score and the weight of each.
    of_key: Vec<(u32, [f32; 2])>,
    /// Queries, and gradients of outputs and of queries, row after row.
    rows: [Vec<f32>; 3],
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
        let Kept { pairs, weights, d_weights, of_key, rows: [queries, d_outs, d_queries], .. } = kept;
        pairs.clear();
        for (_, set) in layout.records(block.saved, head) {
            pairs.add_row(bits::count(set));
        }
        let height = pairs.rows();
        let (weights, d_weights) = (grown(weights, pairs.len()), grown(d_weights, pairs.len()));
        let queries = gathered(queries, q);
        let d_outs = gathered(d_outs, block.d_out);
        let (words, sets) = (bits::words(all), layout.sets(block.saved, head));
        pairs.for_each_key(words, sets, |key, kept| {
            let (k, v) = (line(k, key), line(v, key));
            dots(simd, k, queries, kept, |pair, dot| weights[pair] = problem.scale * dot);
            dots(simd, v, d_outs, kept, |pair, dot| d_weights[pair] = dot);
        });
        for (row, (state, _)) in layout.records(block.saved, head).enumerate() {
            let range = pairs.of_row(row);
            let (weights, d_weights) = (&mut weights[range.clone()], &mut d_weights[range]);
            // These scores are rounded otherwise than those of the forward pass. With their own largest score and sum the weights
            // add up to 1, and an error common to all of them cancels, as in a softmax. NaN stays NaN.
            let (_, largest) = extremes(simd, weights);
            let sum = exp_all(simd, weights, largest);
            let undefined = state.scale.is_nan();
            scale(weights, if undefined { f32::NAN } else { 1.0 / sum });
            // The gradients of the scores, times the scale.
            let mean = dot(simd, d_weights, weights);
            for (d_weight, weight) in d_weights.iter_mut().zip(&*weights) {
                *d_weight = weight * (*d_weight - mean) * problem.scale;
            }
        }
        let d_queries = grown(d_queries, height * dim);
        d_queries.fill(0.0);
        let [(_, dq_stride), (dk, dk_stride), (dv, dv_stride)] = target.places(head);
        let of_key = grown(of_key, height);
        let out = &mut *target.out;
        pairs.for_each_key(words, sets, |key, kept| {
            let k = line(k, key);
            for (&[row, pair], to) in kept.iter().zip(&mut *of_key) {
                let pair = pair as usize;
                *to = (row, [d_weights[pair], weights[pair]]);
                add_to(simd, &mut d_queries[row as usize * dim..][..dim], k, to.1[0]);
            }
            let of_key = &of_key[..kept.len()];
            let (dk, dv) = (dk + key * dk_stride, dv + key * dv_stride);
            let of_dk = of_key.iter().map(|(row, [x, _])| (row, x));
            add_rows(simd, &mut out[dk..][..dim], (queries, dim), &of_dk);
            let of_dv = of_key.iter().map(|(row, [_, x])| (row, x));
            add_rows(simd, &mut out[dv..][..value_dim], (d_outs, value_dim), &of_dv);
        });
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

/// The registers of a row of `rows`, each as long as `like`.
#[inline(always)]
fn registers<'a, S: Simd>(rows: &'a [f32], row: u32, like: &[f32]) -> &'a [S::f32s] {
    S::as_simd_f32s(&rows[row as usize * like.len()..][..like.len()]).0
}

/// Calls `put` with the pair of each of some rows and the row's dot product with `line`, in whole registers. Four rows at a time read the
/// line once.
#[inline(always)]
fn dots<S: Simd>(
    simd: S,
    line: &[f32],
    rows: &[f32],
    pairs: &[[u32; 2]],
    mut put: impl FnMut(usize, f32),
) {
    let values = S::as_simd_f32s(line).0;
    let zero = simd.splat_f32s(0.0);
    let (fours, rest) = pairs.as_chunks::<4>();
    for four in fours {
        let [a, b, c, d] = four.map(|[row, _]| registers::<S>(rows, row, line));
        let mut sums = [zero; 4];
        for ((((x, a), b), c), d) in values.iter().zip(a).zip(b).zip(c).zip(d) {
            for (sum, y) in sums.iter_mut().zip([a, b, c, d]) {
                *sum = simd.mul_add_f32s(*x, *y, *sum);
            }
        }
        for ([_, pair], sum) in four.iter().zip(sums) {
            put(*pair as usize, simd.reduce_sum_f32s(sum));
        }
    }
    for &[row, pair] in rest {
        let mut sum = zero;
        for (x, y) in values.iter().zip(registers::<S>(rows, row, line)) {
            sum = simd.mul_add_f32s(*x, *y, sum);
        }
        put(pair as usize, simd.reduce_sum_f32s(sum));
    }
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

/// `out += sum(weight * row)` over those of some rows, which start `stride` apart, that are named, in whole registers.
#[inline(always)]
fn add_rows<'a, S: Simd>(
    simd: S,
    out: &mut [f32],
    (rows, stride): (&[f32], usize),
    weights: &(impl Iterator<Item = (&'a u32, &'a f32)> + Clone),
) {
    let (out, _) = S::as_mut_simd_f32s(out);
    let mut first = 0;
    while first < out.len() {
        let part = &mut out[first..];
        let (rows, weights) = ((&rows[first * S::F32_LANES..], stride), weights.clone());
        first += match part.len() {
            8.. => add_columns::<S, 8, 1>(simd, part, rows, weights),
            4.. => add_columns::<S, 4, 2>(simd, part, rows, weights),
            2.. => add_columns::<S, 2, 2>(simd, part, rows, weights),
            _ => add_columns::<S, 1, 2>(simd, part, rows, weights),
        };
    }
}

/// The first `N` registers of [`add_rows`]; returns `N`. Where they are few, two sums, of every other row, hide the latency of an addition.
#[inline(always)]
fn add_columns<'a, S: Simd, const N: usize, const SUMS: usize>(
    simd: S,
    out: &mut [S::f32s],
    (rows, stride): (&[f32], usize),
    mut weights: impl Iterator<Item = (&'a u32, &'a f32)>,
) -> usize {
    let mut sums = [[simd.splat_f32s(0.0); N]; SUMS];
    let add = |sum: &mut [S::f32s; N], (&row, &weight): (&u32, &f32)| {
        let row = &rows[row as usize * stride..][..N * S::F32_LANES];
        let weight = simd.splat_f32s(weight);
        for (sum, x) in sum.iter_mut().zip(S::as_simd_f32s(row).0) {
            *sum = simd.mul_add_f32s(weight, *x, *sum);
        }
    };
    while let Some(next) = weights.next() {
        add(&mut sums[0], next);
        for sum in sums.iter_mut().skip(1) {
            let Some(next) = weights.next() else {
                break;
            };
            add(sum, next);
        }
    }
    for sum in sums {
        for (out, sum) in out.iter_mut().zip(sum) {
            *out = simd.add_f32s(*out, sum);
        }
    }
    N
}

#[cfg(test)]
mod tests;
