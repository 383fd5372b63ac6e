//! Interpolation of maps of vectors, on the host.

/// The inputs of one output.
pub(crate) struct Tap {
    /// The first input.
    pub first: usize,
    /// The weights of this and the following inputs.
    pub weights: Vec<f64>,
}

impl Tap {
    /// The weighted sum of vectors of length `width` that are one after another in `values`.
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

/// The taps as rows of a matrix `[taps, input]`, which maps `input` values to one value per tap.
pub(crate) fn matrix(taps: &[Tap], input: usize) -> Vec<f32> {
    let mut matrix = vec![0.0; taps.len() * input];
    for (row, tap) in matrix.chunks_exact_mut(input.max(1)).zip(taps) {
        for (place, weight) in row.iter_mut().skip(tap.first).zip(&tap.weights) {
            *place = *weight as f32;
        }
    }
    matrix
}

/// Resizes a map of vectors of `dim` numbers, row by row with `width` vectors per row, with the taps of the new rows
/// and of the new columns.
pub(crate) fn interpolate(
    [rows, columns]: [&[Tap]; 2],
    map: &[f32],
    width: usize,
    dim: usize,
) -> Vec<f32> {
    // Columns first, then rows, each as a weighted sum of vectors.
    let map: Vec<f64> = map
        .chunks_exact(width * dim)
        .flat_map(|row| columns.iter().flat_map(move |tap| tap.sum(row, dim)))
        .collect();
    let width = columns.len() * dim;
    let resized = rows.iter().flat_map(|tap| tap.sum(&map, width));
    resized.map(|value| value as f32).collect()
}
