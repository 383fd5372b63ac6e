//! Interpolation of square maps of vectors, on the host.

/// The inputs one output is made of.
pub(crate) struct Tap {
    /// The first input.
    pub first: usize,
    /// The weights of this and the following inputs.
    pub weights: Vec<f64>,
}

impl Tap {
    /// The weighted sum of vectors of length `width` that lie one after another in `values`.
    fn sum<T: Copy + Into<f64>>(&self, values: &[T], width: usize) -> Vec<f64> {
        let mut sum = vec![0.0; width];
        let vectors = values.chunks_exact(width).skip(self.first);
        for (weight, vector) in self.weights.iter().zip(vectors) {
            for (sum, value) in sum.iter_mut().zip(vector) {
                *sum += weight * (*value).into();
            }
        }
        sum
    }
}

/// Resizes a map of `side` x `side` vectors of `dim` numbers by the same taps in both directions.
pub(crate) fn interpolate(taps: &[Tap], map: &[f32], side: usize, dim: usize) -> Vec<f32> {
    // Columns first, then rows, each as a weighted sum of vectors.
    let rows: Vec<f64> = map
        .chunks_exact(side * dim)
        .flat_map(|row| taps.iter().flat_map(move |tap| tap.sum(row, dim)))
        .collect();
    let resized = taps.iter().flat_map(|tap| tap.sum(&rows, taps.len() * dim));
    resized.map(|value| value as f32).collect()
}
