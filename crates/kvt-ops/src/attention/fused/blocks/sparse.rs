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
use crate::cpu::simd::sums_of;
use crate::cpu::softmax_row::{exp_all, scale, survivors};
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

/// The registers of a row of `rows`, each as long as `like`.
#[inline(always)]
fn registers<'a, S: Simd>(rows: &'a [f32], row: u32, like: &[f32]) -> &'a [S::f32s] {
    S::as_simd_f32s(&rows[row as usize * like.len()..][..like.len()]).0
}

/// The dot products of `line` with some of the rows, in whole registers.
#[inline(always)]
fn dots<S: Simd>(simd: S, line: &[f32], rows: &[f32], numbers: &[u32], out: &mut [f32]) {
    let (fours, rest) = numbers.as_chunks::<4>();
    let (outs, out_rest) = out.as_chunks_mut::<4>();
    for (four, out) in fours.iter().zip(outs) {
        *out = four_dots(simd, line, rows, *four);
    }
    // Where fewer are left, the last one is repeated.
    if let Some(&last) = rest.last() {
        let mut four = [last; 4];
        four[..rest.len()].copy_from_slice(rest);
        out_rest.copy_from_slice(&four_dots(simd, line, rows, four)[..rest.len()]);
    }
}

/// Those of four rows, which read the line once.
#[inline(always)]
fn four_dots<S: Simd>(simd: S, line: &[f32], rows: &[f32], numbers: [u32; 4]) -> [f32; 4] {
    let [a, b, c, d] = numbers.map(|row| registers::<S>(rows, row, line).as_chunks::<4>());
    let (parts, rest) = S::as_simd_f32s(line).0.as_chunks::<4>();
    let mut sums = [simd.splat_f32s(0.0); 4];
    for ((((x, a), b), c), d) in parts.iter().zip(a.0).zip(b.0).zip(c.0).zip(d.0) {
        add_products(simd, &mut sums, x, [a, b, c, d]);
    }
    for ((((x, a), b), c), d) in rest.iter().zip(a.1).zip(b.1).zip(c.1).zip(d.1) {
        let [x, a, b, c, d] = [x, a, b, c, d].map(std::array::from_ref);
        add_products(simd, &mut sums, x, [a, b, c, d]);
    }
    sums_of(simd, sums)
}

/// Adds products with some registers of four rows to a sum for each.
#[inline(always)]
fn add_products<S: Simd, const N: usize>(
    simd: S,
    sums: &mut [S::f32s; 4],
    x: &[S::f32s; N],
    rows: [&[S::f32s; N]; 4],
) {
    for (sum, row) in sums.iter_mut().zip(rows) {
        for (x, y) in x.iter().zip(row) {
            *sum = simd.mul_add_f32s(*x, *y, *sum);
        }
    }
}

/// For some of the rows, `out += weight * row` and `other += weight * line`, where the others are as many rows; in whole registers.
#[inline(always)]
fn add_both<S: Simd>(
    simd: S,
    out: &mut [f32],
    line: &[f32],
    (rows, others): (&[f32], &mut [f32]),
    numbers: &[u32],
    weights: &[f32],
) {
    let width = line.len();
    let ((out, _), (line, _)) = (S::as_mut_simd_f32s(out), S::as_simd_f32s(line));
    let mut first = 0;
    while first < out.len() {
        let (out, line) = (&mut out[first..], &line[first..]);
        let place = first * S::F32_LANES;
        let rows = (&rows[place..], &mut others[place..], width);
        first += if out.len() >= 4 {
            add_both_columns::<S, 4>(simd, out, line, rows, numbers, weights)
        } else {
            add_both_columns::<S, 1>(simd, out, line, rows, numbers, weights)
        };
    }
}

/// The first `N` registers of [`add_both`], of rows that start `width` apart; returns `N`.
#[inline(always)]
fn add_both_columns<S: Simd, const N: usize>(
    simd: S,
    out: &mut [S::f32s],
    line: &[S::f32s],
    (rows, others, width): (&[f32], &mut [f32], usize),
    numbers: &[u32],
    weights: &[f32],
) -> usize {
    let mut sums: [S::f32s; N] = std::array::from_fn(|index| out[index]);
    let line: [S::f32s; N] = std::array::from_fn(|index| line[index]);
    for (&row, &weight) in numbers.iter().zip(weights) {
        let places = row as usize * width..row as usize * width + N * S::F32_LANES;
        let (row, _) = S::as_simd_f32s(&rows[places.clone()]);
        let (other, _) = S::as_mut_simd_f32s(&mut others[places]);
        let weight = simd.splat_f32s(weight);
        for (((sum, row), other), line) in sums.iter_mut().zip(row).zip(other).zip(line) {
            *sum = simd.mul_add_f32s(weight, *row, *sum);
            *other = simd.mul_add_f32s(weight, line, *other);
        }
    }
    out[..N].copy_from_slice(&sums);
    N
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
