//! For tests: whether products of random features estimate a kernel without bias, within the sampling error.

use burn::tensor::{Device, Tensor};
use kvt_ops::Key;
use kvt_testing::devices::{tensor, values};

use super::directions::gaussian;

pub(in crate::mechanisms) const HEAD_DIM: usize = 4;
const FEATURES: usize = 16;
const DRAWS: usize = 4000;
const QUERIES: usize = 5;
const KEYS: usize = 7;

/// How random directions are drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::mechanisms) enum Drawn {
    /// All numbers independent: certainly unbiased, the control of the test.
    Independent,
    /// Orthogonal in blocks.
    Orthogonal,
    /// Orthogonal in blocks whose first row begins with a negative number, as Householder's QR decomposition makes
    /// them: the bias that the test must detect.
    Signed,
}

/// The largest z-score of the mean of `product` over 4000 draws of directions, against the `kernel` of each pair of 5
/// queries and 7 keys. Tokens are `[1, 4000, tokens, 4]`, with entries of standard deviation `size`: if it is large,
/// the variance of positive features is so large that no number of draws suffices. Directions are `[1, 4000, 16, 4]`.
pub(in crate::mechanisms) fn worst_z(
    drawn: Drawn,
    size: f32,
    kernel: impl Fn(&[f32], &[f32]) -> f64,
    product: impl Fn(Tensor<4>, Tensor<4>, Tensor<4>) -> Tensor<4>,
) -> f64 {
    let tokens = |name: &str, count: usize| -> Vec<f32> {
        let draws = gaussian(Key::new(5).named(name), count, HEAD_DIM, false);
        draws.into_iter().map(|x| size * x).collect()
    };
    let (q, k) = (tokens("q", QUERIES), tokens("k", KEYS));
    let device = Device::flex();
    let repeated = |x: &[f32], count| {
        let x = tensor(x, [1, 1, count, HEAD_DIM], &device);
        x.expand([1, DRAWS, count, HEAD_DIM])
    };
    let estimates = product(
        repeated(&q, QUERIES),
        repeated(&k, KEYS),
        tensor(&directions(drawn), [1, DRAWS, FEATURES, HEAD_DIM], &device),
    );
    assert_eq!(estimates.dims(), [1, DRAWS, QUERIES, KEYS]);
    let estimates = values(estimates);
    let mut worst = 0.0f64;
    for (i, q) in q.chunks(HEAD_DIM).enumerate() {
        for (j, k) in k.chunks(HEAD_DIM).enumerate() {
            let pair = estimates.iter().skip(i * KEYS + j).step_by(QUERIES * KEYS);
            let pair: Vec<f64> = pair.map(|x| f64::from(*x)).collect();
            let draws = pair.len() as f64;
            let mean = pair.iter().sum::<f64>() / draws;
            let squares = pair.iter().map(|x| (x - mean).powi(2));
            let error = (squares.sum::<f64>() / (draws - 1.0) / draws).sqrt();
            worst = worst.max((mean - kernel(q, k)).abs() / error);
        }
    }
    worst
}

/// All draws, one after the other.
fn directions(drawn: Drawn) -> Vec<f32> {
    let one = |draw: usize| {
        let key = Key::new(6).child(draw as u64);
        let orthogonal = drawn != Drawn::Independent;
        let mut rows = gaussian(key, FEATURES, HEAD_DIM, orthogonal);
        let blocks = rows.chunks_mut(HEAD_DIM * HEAD_DIM);
        for first in blocks.filter(|block| drawn == Drawn::Signed && block[0] > 0.0) {
            first[..HEAD_DIM].iter_mut().for_each(|x| *x = -*x);
        }
        rows
    };
    (0..DRAWS).flat_map(one).collect()
}

/// The product of a query and a key.
pub(in crate::mechanisms) fn dot(q: &[f32], k: &[f32]) -> f64 {
    q.iter()
        .zip(k)
        .map(|(q, k)| f64::from(*q) * f64::from(*k))
        .sum()
}
