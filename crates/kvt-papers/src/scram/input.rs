//! Queries, keys and images for the figures, drawn from random keys: the same on every machine.

use kvt_ops::Key;
use rand_distr::{Distribution, StandardNormal};

/// Standard normal numbers.
pub(super) fn noise(key: Key, count: usize) -> Vec<f32> {
    let mut rng = key.rng();
    let draw = |_| StandardNormal.sample(&mut rng);
    (0..count).map(draw).collect()
}

/// Queries and keys that match up to a shift: `dim` smooth channels on a map of `side` x `side`, from bicubic interpolation of
/// `knots` x `knots` normal numbers, with 5 % of noise. The keys are the same map rolled by 5 rows and 3 columns, with other noise.
/// Both `[side * side, dim]`.
pub(super) fn shifted(key: Key, side: usize, knots: usize, dim: usize) -> [Vec<f32>; 2] {
    let smooth = smooth(key.named("smooth"), side, knots, dim);
    let noisy = |name, shift: [usize; 2]| {
        let noise = noise(key.named(name), smooth.len());
        let place = |i: usize| [i / dim / side, i / dim % side, i % dim];
        let value = |(i, noise): (usize, f32)| {
            let [row, column, channel] = place(i);
            let from = (row + side - shift[0] % side) % side * side
                + (column + side - shift[1] % side) % side;
            smooth[from * dim + channel] + 0.05 * noise
        };
        noise.into_iter().enumerate().map(value).collect()
    };
    [noisy("queries", [0, 0]), noisy("keys", [5, 3])]
}

/// Bicubic interpolation with aligned corners.
fn smooth(key: Key, side: usize, knots: usize, dim: usize) -> Vec<f32> {
    let values = noise(key, knots * knots * dim);
    let step = (knots - 1) as f32 / (side - 1).max(1) as f32;
    let taps: Vec<([usize; 4], [f32; 4])> = (0..side)
        .map(|place| {
            let at = place as f32 * step;
            let below = (at as usize).min(knots - 1);
            let part = at - below as f32;
            let tap = |i: usize| (below + i).saturating_sub(1).min(knots - 1);
            (std::array::from_fn(tap), cubic(part))
        })
        .collect();
    let mut map = Vec::with_capacity(side * side * dim);
    for (rows, of_rows) in &taps {
        for (columns, of_columns) in &taps {
            for channel in 0..dim {
                let mut sum = 0.0;
                for (row, a) in rows.iter().zip(of_rows) {
                    for (column, b) in columns.iter().zip(of_columns) {
                        sum += a * b * values[(row * knots + column) * dim + channel];
                    }
                }
                map.push(sum);
            }
        }
    }
    map
}

/// Weights of the four knots around a place, by Keys' kernel with -0.75, as in PyTorch.
fn cubic(part: f32) -> [f32; 4] {
    let near = |x: f32| (1.25 * x - 2.25) * x * x + 1.0;
    let far = |x: f32| ((-0.75 * x + 3.75) * x - 6.0) * x + 3.0;
    [
        far(1.0 + part),
        near(part),
        near(1.0 - part),
        far(2.0 - part),
    ]
}

/// A grey picture `[side, side]` from 0 to 1: twelve Gaussian spots.
pub(super) fn spots(key: Key, side: usize) -> Vec<f64> {
    use rand::RngExt;
    let mut rng = key.rng();
    let mut between = |low: f64, high: f64| low + (high - low) * rng.random::<f64>();
    let size = side as f64;
    let spots: [[f64; 4]; 12] = std::array::from_fn(|_| {
        let place = [between(0.0, size), between(0.0, size)];
        [
            place[0],
            place[1],
            between(0.04, 0.16) * size,
            between(0.4, 1.0),
        ]
    });
    let grey = |i: usize| {
        let [y, x] = [i / side, i % side].map(|x| x as f64);
        let spot = |[row, column, radius, height]: &[f64; 4]| {
            let square = (y - row).powi(2) + (x - column).powi(2);
            height * (-square / (2.0 * radius * radius)).exp()
        };
        spots.iter().map(spot).sum::<f64>()
    };
    let mut picture: Vec<f64> = (0..side * side).map(grey).collect();
    let largest = picture.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    picture.iter_mut().for_each(|grey| *grey /= largest);
    picture
}

/// The best approximation of rank `rank` to a square matrix, `U S V^T`, as `U S^0.5` and `V S^0.5`, both `[side, rank]`. Computed
/// by power iteration, one pair of vectors at a time.
pub(super) fn low_rank(matrix: &[f64], side: usize, rank: usize) -> [Vec<f64>; 2] {
    let (mut left, mut right) = (vec![0.0; side * rank], vec![0.0; side * rank]);
    let mut found: Vec<Vec<f64>> = Vec::new();
    for number in 0..rank {
        // A start vector that is not orthogonal to the solution, except by chance.
        let mut v: Vec<f64> = (0..side)
            .map(|i| 1.0 + ((i * (number + 1)) as f64).sin())
            .collect();
        let orthogonal = |v: &mut Vec<f64>| {
            for other in &found {
                let along = product(v, other);
                v.iter_mut()
                    .zip(other)
                    .for_each(|(v, other)| *v -= along * other);
            }
            normalise(v);
        };
        orthogonal(&mut v);
        for _ in 0..500 {
            let u = times(matrix, &v);
            v = (0..side)
                .map(|j| (0..side).map(|i| matrix[i * side + j] * u[i]).sum())
                .collect();
            orthogonal(&mut v);
        }
        let u = times(matrix, &v);
        let root = product(&u, &u).sqrt().sqrt();
        for i in 0..side {
            // `u` includes the singular value as a factor.
            left[i * rank + number] = u[i] / root.max(f64::MIN_POSITIVE);
            right[i * rank + number] = v[i] * root;
        }
        found.push(v);
    }
    [left, right]
}

pub(super) fn product(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn times(matrix: &[f64], v: &[f64]) -> Vec<f64> {
    matrix
        .chunks_exact(v.len())
        .map(|row| product(row, v))
        .collect()
}

fn normalise(v: &mut [f64]) {
    let length = product(v, v).sqrt().max(f64::MIN_POSITIVE);
    v.iter_mut().for_each(|x| *x /= length);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knots_are_kept_and_a_plane_is_a_plane() {
        for part in [0.0, 0.3, 0.5, 0.9] {
            let sum: f32 = cubic(part).iter().sum();
            assert!((sum - 1.0).abs() < 1e-6, "{part}");
        }
        assert_eq!(cubic(0.0), [0.0, 1.0, 0.0, 0.0]);
        let key = Key::new(1);
        // Every other token is a knot.
        let (knots, map) = (noise(key, 5 * 5 * 2), smooth(key, 9, 5, 2));
        for (row, column, channel) in [(0, 0, 0), (2, 4, 1), (4, 4, 0), (4, 0, 1)] {
            let (knot, token) = ((row * 5 + column) * 2, (row * 2 * 9 + column * 2) * 2);
            assert!((knots[knot + channel] - map[token + channel]).abs() < 1e-5);
        }
    }

    #[test]
    fn keys_answer_queries_five_rows_and_three_columns_away() {
        let [queries, keys] = shifted(Key::new(2), 16, 5, 3);
        let close = |row: usize, column: usize| {
            let (query, key) = ((row * 16 + column) * 3, ((row + 5) * 16 + column + 3) * 3);
            (0..3).all(|i| (queries[query + i] - keys[key + i]).abs() < 0.4)
        };
        assert!(close(0, 0) && close(3, 7) && close(10, 12));
    }

    /// Rank two recovers a matrix of rank two; rank one keeps its larger part.
    #[test]
    fn an_approximation_of_low_rank_is_the_best() {
        let (a, b): ([f64; 4], [f64; 4]) = ([1.0, -1.0, 1.0, -1.0], [1.0, 1.0, 0.0, 0.0]);
        let (c, d): ([f64; 4], [f64; 4]) = ([1.0, 1.0, 1.0, 1.0], [0.0, 0.0, 1.0, -1.0]);
        let matrix: Vec<f64> = (0..16)
            .map(|i| 3.0 * a[i / 4] * b[i % 4] + c[i / 4] * d[i % 4])
            .collect();
        for (rank, second) in [(2, 1.0), (1, 0.0)] {
            let [left, right] = low_rank(&matrix, 4, rank);
            for i in 0..16 {
                let value = product(
                    &left[i / 4 * rank..][..rank],
                    &right[i % 4 * rank..][..rank],
                );
                let expected = 3.0 * a[i / 4] * b[i % 4] + second * c[i / 4] * d[i % 4];
                assert!(
                    (value - expected).abs() < 1e-9,
                    "{rank}: {value} {expected}"
                );
            }
        }
    }

    #[test]
    fn spots_are_shades_of_grey() {
        let picture = spots(Key::new(3), 32);
        let largest = picture.iter().copied().fold(0.0, f64::max);
        assert_eq!(largest, 1.0);
        assert!(picture.iter().all(|grey| *grey >= 0.0));
        assert!(picture.iter().filter(|grey| **grey < 0.2).count() > 50);
    }
}
