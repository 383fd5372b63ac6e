//! A line through points.

/// Its slope, by least squares.
pub(crate) fn slope(points: &[(f64, f64)]) -> f64 {
    let count = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let both = points.iter().map(|point| (point.0 - x) * (point.1 - y));
    let square = points.iter().map(|point| (point.0 - x).powi(2));
    both.sum::<f64>() / square.sum::<f64>()
}
