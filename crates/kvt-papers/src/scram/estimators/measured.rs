//! Bias and spread of an estimate that is drawn again and again.

use kvt_attention::AttentionError;

use super::super::input::product;
use super::short;
use kvt_train::analysis::Moments;
use kvt_train::table::or_empty;

/// How often an estimate is repeated: pairs of means, over so many runs each.
#[derive(Clone, Copy)]
pub(super) struct Draws {
    pub(super) pairs: usize,
    pub(super) runs: usize,
}

/// One estimate of all outputs, and what it says about itself.
#[derive(Default)]
pub(super) struct Drawn {
    pub(super) output: Vec<f64>,
    /// The sum of its variances by equation 15.
    pub(super) variance: Option<f64>,
    pub(super) effective: Option<f64>,
    pub(super) accepted: Option<f64>,
}

/// What is known of a way to estimate. Squares are relative to the squared length of the exact output of all queries.
#[derive(Default)]
pub(super) struct Measured {
    /// The square of the bias, estimated: it may be negative.
    pub(super) bias: f64,
    /// Standard error of the squared bias.
    pub(super) error: Option<f64>,
    /// The square of the spread.
    pub(super) spread: Option<f64>,
    /// What equation 15 says of it.
    pub(super) predicted: Option<f64>,
    pub(super) effective: Option<f64>,
    pub(super) accepted: Option<f64>,
}

impl Draws {
    /// Repeats an estimate. The product of the errors of two independent means is the squared bias in the mean, whatever their spread.
    pub(super) fn measure(
        self,
        exact: &[f64],
        draw: impl Fn(u64) -> Result<Drawn, AttentionError>,
    ) -> Result<Measured, AttentionError> {
        let length = product(exact, exact);
        let (runs, mut run) = (self.runs as f64, 0);
        let [mut bias, mut spread] = [Moments::default(); 2];
        let [mut predicted, mut effective, mut accepted] = [Moments::default(); 3];
        for _ in 0..self.pairs {
            let mut errors = [(); 2].map(|()| exact.iter().map(|x| -x).collect::<Vec<f64>>());
            for error in &mut errors {
                for _ in 0..self.runs {
                    let drawn = draw(run)?;
                    run += 1;
                    for (error, output) in error.iter_mut().zip(&drawn.output) {
                        *error += output / runs;
                    }
                    predicted.extend(drawn.variance.map(|sum| sum / length));
                    effective.extend(drawn.effective);
                    accepted.extend(drawn.accepted);
                }
            }
            let [a, b] = &errors;
            bias.extend([product(a, b) / length]);
            let apart: f64 = a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum();
            spread.extend([apart * runs / 2.0 / length]);
        }
        let mean = |moments: Moments| moments.estimate().map(|found| found.mean);
        Ok(Measured {
            bias: mean(bias).unwrap_or(f64::NAN),
            error: bias.estimate().and_then(|found| found.error),
            spread: mean(spread),
            predicted: mean(predicted),
            effective: mean(effective),
            accepted: mean(accepted),
        })
    }
}

impl Measured {
    /// Of a sum that is the same in every run.
    pub(super) fn of_sum(exact: &[f64], output: &[f64]) -> Self {
        let error: Vec<f64> = output.iter().zip(exact).map(|(a, b)| a - b).collect();
        Self {
            bias: product(&error, &error) / product(exact, exact),
            ..Self::default()
        }
    }

    /// Relative bias and its standard error; `None` if it is less than two standard errors of its square.
    pub(super) fn bias(&self) -> Option<(f64, Option<f64>)> {
        let root = self.bias.sqrt();
        let told = self.bias > 2.0 * self.error.unwrap_or(0.0);
        told.then(|| (root, self.error.map(|error| error / (2.0 * root))))
    }

    /// The bias in percent.
    pub(super) fn bias_text(&self) -> String {
        match self.bias() {
            Some((bias, Some(error))) => format!("{:.1} ± {:.1}", 100.0 * bias, 100.0 * error),
            Some((bias, None)) => format!("{:.1}", 100.0 * bias),
            None => {
                let most = self.bias.max(0.0) + 2.0 * self.error.unwrap_or(0.0);
                format!("< {}", percent(most))
            }
        }
    }

    /// The spread in percent.
    pub(super) fn spread_text(&self) -> Option<String> {
        self.spread.map(percent)
    }

    /// The cells of the page.
    pub(super) fn cells(&self) -> [String; 5] {
        [
            self.bias_text(),
            or_empty(self.spread_text()),
            or_empty(self.predicted.map(percent)),
            or_empty(self.effective.map(short)),
            or_empty(self.accepted.map(|share| format!("{:.0} %", 100.0 * share))),
        ]
    }
}

/// The root of a square in percent.
fn percent(square: f64) -> String {
    format!("{:.1}", 100.0 * square.sqrt())
}
