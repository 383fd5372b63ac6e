//! Products with some of the rows of a matrix, which are named by their numbers, in whole registers.

use pulp::Simd;

use crate::cpu::simd::sums_of;

/// The registers of a row of `rows`, each as long as `like`.
#[inline(always)]
fn registers<'a, S: Simd>(rows: &'a [f32], row: u32, like: &[f32]) -> &'a [S::f32s] {
    S::as_simd_f32s(&rows[row as usize * like.len()..][..like.len()]).0
}

/// The dot products of `line` with some of the rows, in whole registers.
#[inline(always)]
pub(super) fn dots<S: Simd>(simd: S, line: &[f32], rows: &[f32], numbers: &[u32], out: &mut [f32]) {
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
pub(super) fn add_both<S: Simd>(
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
pub(super) fn add_rows<'a, S: Simd>(
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
