//! How numbers are written in every table.

use super::Statistic;
use kvt_train::run::Metric;

/// Decimals of a metric: one for percentages, as the paper prints them, four for others.
fn decimals(metric: Metric) -> usize {
    if metric.percent { 1 } else { 4 }
}

/// A difference.
pub fn difference(value: Option<&Statistic>, metric: Metric) -> String {
    let decimals = decimals(metric);
    statistic(value, decimals, |mean| signed(mean, decimals))
}

/// The interval of a difference, from `mean - half` to `mean + half`.
pub fn interval(mean: f64, half: f64, metric: Metric) -> String {
    let [low, high] = [mean - half, mean + half].map(|end| signed(end, decimals(metric)));
    format!("{low} to {high}")
}

/// A number that always has its sign, also where it rounds to zero; zero itself as `+0.0`.
fn signed(value: f64, decimals: usize) -> String {
    // The sum has no negative zero.
    format!("{:+.decimals$}", value + 0.0)
}

/// A value.
pub(super) fn value(value: Option<&Statistic>, metric: Metric) -> String {
    let decimals = decimals(metric);
    statistic(value, decimals, |mean| format!("{mean:.decimals$}"))
}

/// `mean`, or `mean ± spread` where there is a spread; a dash where there is nothing.
fn statistic(value: Option<&Statistic>, decimals: usize, number: impl Fn(f64) -> String) -> String {
    let Some(value) = value else {
        return "–".to_owned();
    };
    let spread = value.spread.map(|spread| format!(" ± {spread:.decimals$}"));
    number(value.mean) + &spread.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_keep_their_sign_and_zero_is_positive() {
        assert_eq!(signed(0.25, 1), "+0.2");
        assert_eq!(signed(-1.26, 1), "-1.3");
        assert_eq!(signed(-0.04, 1), "-0.0");
        assert_eq!(signed(0.04, 1), "+0.0");
        assert_eq!(signed(0.0, 1), "+0.0");
        assert_eq!(signed(-0.0, 1), "+0.0");
        assert_eq!(signed(-0.04, 4), "-0.0400");
    }
}
