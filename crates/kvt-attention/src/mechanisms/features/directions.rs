//! Random directions, from which features are computed.

use burn::tensor::{DType, Tensor, TensorData};
use kvt_ops::{Key, Phase};
use rand_distr::{Distribution, StandardNormal};

use crate::mechanisms::draws::Draws;

/// The source of the random directions of one attention layer.
#[derive(Clone, Copy, Debug)]
pub(in crate::mechanisms) struct Directions {
    features: usize,
    orthogonal: bool,
    draws: Draws,
}

impl Directions {
    /// Draws `features` directions at a time.
    pub(in crate::mechanisms) fn new(features: usize, orthogonal: bool, draws: Draws) -> Self {
        Self {
            features,
            orthogonal,
            draws,
        }
    }

    /// The directions of one pass with the queries `q`, `[1, sets, features, head_dim]`: one set for all heads, or one for each.
    pub(in crate::mechanisms) fn draw(
        &self,
        phase: Phase,
        sets: usize,
        q: &Tensor<4>,
    ) -> Tensor<4> {
        let [.., head_dim] = q.dims();
        let key = self.draws.key(phase, "features");
        let set = |set| gaussian(key.child(set), self.features, head_dim, self.orthogonal);
        let values: Vec<f32> = (0..sets as u64).flat_map(set).collect();
        let values = TensorData::new(values, [1, sets, self.features, head_dim]);
        Tensor::from_data(values, (&q.device(), DType::F32))
    }
}

/// `rows` random directions of `cols` numbers, row by row. Each row by itself is a vector of standard normal numbers.
/// Rows are independent, or `orthogonal` to each other in blocks of `cols` rows, with independent lengths.
///
/// All directions are equally likely: Gram-Schmidt leaves positive lengths, whereas the QR decompositions of most
/// libraries choose signs that depend on the decomposed numbers, which biases positive features.
pub(in crate::mechanisms) fn gaussian(
    key: Key,
    rows: usize,
    cols: usize,
    orthogonal: bool,
) -> Vec<f32> {
    let mut rng = key.rng();
    if !orthogonal {
        let draws = StandardNormal.sample_iter(&mut rng);
        return draws.take(rows * cols).collect();
    }
    let mut draw = || -> Vec<f64> {
        let draws = StandardNormal.sample_iter(&mut rng);
        draws.take(cols).collect()
    };
    let mut basis: Vec<Vec<f64>> = Vec::with_capacity(cols);
    let mut values = Vec::with_capacity(rows * cols);
    for row in 0..rows {
        if row % cols == 0 {
            basis.clear();
        }
        let direction = perpendicular(&basis, draw());
        let length = norm(&draw());
        values.extend(direction.iter().map(|x| (length * x) as f32));
        basis.push(direction);
    }
    values
}

/// The component of a vector that is orthogonal to an orthonormal basis, scaled to length 1: a step of Gram-Schmidt.
pub fn perpendicular(basis: &[Vec<f64>], mut vector: Vec<f64>) -> Vec<f64> {
    // Twice: rounding leaves a small component after the first pass.
    for other in basis.iter().chain(basis) {
        let along = dot(&vector, other);
        for (x, y) in vector.iter_mut().zip(other) {
            *x -= along * y;
        }
    }
    let length = norm(&vector);
    vector.into_iter().map(|x| x / length).collect()
}

fn norm(x: &[f64]) -> f64 {
    dot(x, x).sqrt()
}

fn dot(x: &[f64], y: &[f64]) -> f64 {
    x.iter().zip(y).map(|(x, y)| x * y).sum()
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;
    use kvt_testing::devices::values;

    use super::*;
    use crate::mechanisms::draws::Redraw;
    use crate::mechanisms::features::unbiased;

    fn length(x: &[f32]) -> f64 {
        unbiased::dot(x, x).sqrt()
    }

    #[test]
    fn orthogonal_directions_are_so_in_blocks_and_have_independent_lengths() {
        let (rows, cols) = (13, 5);
        let all = gaussian(Key::new(3), rows, cols, true);
        assert_eq!(all.len(), rows * cols);
        let all: Vec<&[f32]> = all.chunks(cols).collect();
        let mut across_blocks = 0;
        for (i, x) in all.iter().enumerate() {
            for (j, y) in all.iter().enumerate().skip(i + 1) {
                let cosine = unbiased::dot(x, y) / length(x) / length(y);
                if i / cols == j / cols {
                    assert!(cosine.abs() < 1e-6, "{i} {j}: {cosine}");
                } else {
                    across_blocks += usize::from(cosine.abs() > 1e-3);
                }
            }
        }
        // 25 + 15 + 15 pairs of different blocks.
        assert!(across_blocks > 50, "{across_blocks}");
        assert!(length(all[0]) != length(all[1]));
        let same = gaussian(Key::new(3), rows, cols, true);
        assert!(same.chunks(cols).eq(all));
        assert_ne!(same, gaussian(Key::new(4), rows, cols, true));
        assert_ne!(same, gaussian(Key::new(3), rows, cols, false));
    }

    /// Each row by itself is standard normal, orthogonal or not: entries have mean 0 and mean square 1, and the
    /// squared length is chi-squared with 3 degrees of freedom, with mean 3 and variance 6. No sign is preferred at
    /// any place of a block.
    #[test]
    fn every_direction_is_equally_likely() {
        let (draws, rows, cols) = (20_000, 4, 3);
        for orthogonal in [true, false] {
            // [row, col]: sum, sum of squares, positive entries.
            let mut entries = vec![[0.0f64; 3]; rows * cols];
            let mut lengths = vec![[0.0f64; 2]; rows];
            for draw in 0..draws {
                let all = gaussian(Key::new(7).child(draw), rows, cols, orthogonal);
                for (sums, x) in entries.iter_mut().zip(&all) {
                    let x = f64::from(*x);
                    sums[0] += x;
                    sums[1] += x * x;
                    sums[2] += f64::from(u8::from(x > 0.0));
                }
                for (sums, row) in lengths.iter_mut().zip(all.chunks(cols)) {
                    let square = length(row).powi(2);
                    sums[0] += square;
                    sums[1] += (square - 3.0).powi(2);
                }
            }
            let draws = draws as f64;
            let close = |what: &str, sum: f64, mean: f64, variance: f64| {
                let z = (sum - draws * mean) / (draws * variance).sqrt();
                assert!(z.abs() < 4.5, "{what}, orthogonal {orthogonal}: {z}");
            };
            for sums in &entries {
                close("mean", sums[0], 0.0, 1.0);
                close("square", sums[1], 1.0, 2.0);
                close("sign", sums[2], 0.5, 0.25);
            }
            for sums in &lengths {
                close("length", sums[0], 3.0, 6.0);
                // With n degrees of freedom the fourth central moment is 12 n^2 + 48 n, 252 here.
                close("variance", sums[1], 6.0, 252.0 - 36.0);
            }
        }
    }

    /// Different heads have different sets.
    #[test]
    fn sets_of_directions_differ() {
        let draws = Draws::new(0, Key::new(0), Redraw::Never);
        let directions = Directions::new(4, true, draws);
        let q = Tensor::zeros([1, 2, 1, 3], &Device::flex());
        let two = directions.draw(Phase::Eval, 2, &q);
        assert_eq!(two.dims(), [1, 2, 4, 3]);
        let two = values(two);
        assert_ne!(two[..12], two[12..]);
        let one = values(directions.draw(Phase::Eval, 1, &q));
        assert_eq!(one, two[..12]);
    }
}
