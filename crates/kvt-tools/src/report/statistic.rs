//! Several runs as one number.

use serde::Serialize;

/// Mean and spread over the runs that have a value.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Statistic {
    /// Arithmetic mean.
    pub mean: f64,
    /// Sample standard deviation (`n - 1`); `None` for a single run.
    pub spread: Option<f64>,
    /// How many runs have a value.
    pub runs: usize,
}

impl Statistic {
    /// The statistic of `values`; `None` if there are none.
    pub fn of(values: &[f64]) -> Option<Self> {
        let runs = values.len();
        if runs == 0 {
            return None;
        }
        let mean = values.iter().sum::<f64>() / runs as f64;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        Some(Self {
            mean,
            spread: (runs > 1).then(|| (squares / (runs - 1) as f64).sqrt()),
            runs,
        })
    }
}
