//! How numbers are written in every table.

use super::Statistic;

/// A percentage with one decimal, as the paper prints them.
pub(super) fn percent(value: f64) -> String {
    format!("{value:.1}")
}

/// A difference of percentages: one decimal, always with a sign, zero as `+0.0`.
pub(super) fn points(value: f64) -> String {
    let text = format!("{value:+.1}");
    if text == "-0.0" {
        "+0.0".to_owned()
    } else {
        text
    }
}

/// `mean`, or `mean ± spread` where there is a spread; a dash where there is nothing.
pub(super) fn statistic(value: Option<&Statistic>, number: fn(f64) -> String) -> String {
    match value {
        None => "–".to_owned(),
        Some(Statistic {
            mean,
            spread: Some(spread),
            ..
        }) => format!("{} ± {}", number(*mean), percent(*spread)),
        Some(Statistic { mean, .. }) => number(*mean),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_have_a_sign_and_no_negative_zero() {
        assert_eq!(points(0.25), "+0.2");
        assert_eq!(points(-1.26), "-1.3");
        assert_eq!(points(-0.04), "+0.0");
        assert_eq!(points(0.0), "+0.0");
    }
}
