//! Whether a difference between two models is statistically significant: over seeds, and over images.

use serde::Serialize;
use statrs::distribution::{Binomial, ContinuousCDF, DiscreteCDF, StudentsT};

use super::Statistic;

/// Student's paired t test on differences seed by seed.
///
/// With three seeds it has two degrees of freedom: only a difference of more than 2.5 standard deviations is then
/// significant at 5 %.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PairedT {
    /// Mean difference, its sample standard deviation and the number of pairs.
    pub difference: Statistic,
    /// The mean divided by its standard error; `None`, as the next two, of one difference, or where all are the same but for rounding.
    pub t: Option<f64>,
    /// Two-sided p value, in [0, 1].
    pub p: Option<f64>,
    /// Half the width of the 95 % confidence interval of the mean difference.
    pub half_width: Option<f64>,
}

impl PairedT {
    /// The test of differences. A single difference gives no spread, and none gives `None`.
    #[must_use]
    pub fn of(differences: &[f64]) -> Option<Self> {
        let difference = Statistic::of(differences)?;
        let mut test = Self {
            difference,
            t: None,
            p: None,
            half_width: None,
        };
        let pairs = difference.runs as f64;
        // The same differences, as 0.3 - 0.1 and 0.8 - 0.6, are not the same numbers: their spread is that of rounding.
        let largest = differences
            .iter()
            .fold(0.0_f64, |all, one| all.max(one.abs()));
        let rounding = 1e-12 + 1e-9 * largest;
        let Some(spread) = difference.spread.filter(|spread| *spread > rounding) else {
            return Some(test);
        };
        let Ok(student) = StudentsT::new(0.0, 1.0, pairs - 1.0) else {
            return Some(test);
        };
        let error = spread / pairs.sqrt();
        let t = difference.mean / error;
        test.t = Some(t);
        test.p = Some((2.0 * student.sf(t.abs())).min(1.0));
        test.half_width = Some(student.inverse_cdf(0.975) * error);
        Some(test)
    }
}

/// McNemar's exact test: the two-sided p value for the hypothesis that two models are equally good, from the number of images
/// that only the first and only the second gets right. It is the binomial test of a fair coin.
#[must_use]
pub fn mcnemar([first, second]: [u64; 2]) -> f64 {
    match Binomial::new(0.5, first + second) {
        Ok(coin) => (2.0 * coin.cdf(first.min(second))).min(1.0),
        // Unreachable: one half is a valid probability.
        Err(_) => f64::NAN,
    }
}

/// The 95 % confidence interval of a share, observed as `right` of `of`, in [0, 1]:
/// Wilson, [Probable inference](https://doi.org/10.1080/01621459.1927.10502953), without a correction for continuity. It is
/// about all images like these, and not about other seeds.
#[must_use]
pub fn wilson(right: usize, of: usize) -> [f64; 2] {
    if of == 0 {
        return [0.0, 1.0];
    }
    let (n, share) = (of as f64, right as f64 / of as f64);
    let square = Z * Z / n;
    let middle = share + square / 2.0;
    let half = Z * ((share * (1.0 - share) + square / 4.0) / n).sqrt();
    // At 0 and 1 rounding must not lead out of the interval.
    let end = |end: f64| (end / (1.0 + square)).clamp(0.0, 1.0);
    [end(middle - half), end(middle + half)]
}

/// The quantile of the normal distribution between whose negative and positive value 95 % lie.
const Z: f64 = 1.959_963_984_540_054;

/// Up to this many images an accuracy is shown with its interval, which from here on is less than 6.3 points wide.
const FEW: usize = 1000;

/// The 95 % interval of an accuracy in words, to be put after it, where the images are few: ` (95 % interval 32.5 to 61.9)`.
pub fn interval_of(percent: f64, of: usize) -> String {
    if of >= FEW || !percent.is_finite() {
        return String::new();
    }
    let right = (percent / 100.0 * of as f64).round() as usize;
    let [low, high] = wilson(right, of).map(|share| 100.0 * share);
    format!(" (95 % interval {low:.1} to {high:.1})")
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use serde_json::Value;

    use super::*;

    /// Reference values from scipy: `scripts/reference/significance.py`.
    fn golden() -> Value {
        serde_json::from_str(include_str!("../../tests/golden/significance.json")).unwrap()
    }

    fn close(found: f64, expected: &Value, tolerance: f64) {
        let expected = expected.as_f64().unwrap();
        let error = (found - expected).abs() / expected.abs().max(1e-300);
        assert!(error < tolerance, "{found} instead of {expected}");
    }

    #[test]
    fn the_paired_test_is_scipys() {
        for case in golden()["paired"].as_array().unwrap() {
            let numbers = |name: &str| -> Vec<f64> {
                let numbers = case[name].as_array().unwrap();
                numbers
                    .iter()
                    .map(|number| number.as_f64().unwrap())
                    .collect()
            };
            let (first, second) = (numbers("first"), numbers("second"));
            let differences: Vec<f64> = first.iter().zip(&second).map(|(a, b)| b - a).collect();
            let test = PairedT::of(&differences).unwrap();
            close(test.t.unwrap(), &case["t"], 1e-9);
            close(test.p.unwrap(), &case["p"], 1e-7);
            let half = test.half_width.unwrap();
            close(test.difference.mean - half, &case["low"], 1e-6);
            close(test.difference.mean + half, &case["high"], 1e-6);
        }
    }

    #[test]
    fn mcnemar_is_scipys() {
        for case in golden()["mcnemar"].as_array().unwrap() {
            let counts = [&case["first"], &case["second"]].map(|count| count.as_u64().unwrap());
            close(mcnemar(counts), &case["p"], 1e-7);
            let [first, second] = counts;
            assert!((mcnemar([second, first]) - mcnemar(counts)).abs() < 1e-12);
        }
    }

    /// Worked by hand: z^2 = 3.841459. Of 8 of 10: (0.8 + 0.192073 -+ 1.959964 *
    /// sqrt((0.16 + 0.0960365) / 10)) / 1.384146,
    /// where the root is 0.160011. Of 0 of 10: 0 to 0.384146 / 1.384146.
    #[test]
    fn wilsons_interval_by_hand() {
        for (right, of, low, high) in [
            (8, 10, 0.490_162, 0.943_318),
            (2, 10, 0.056_681, 0.509_839),
            (0, 10, 0.0, 0.277_533),
            (10, 10, 0.722_467, 1.0),
            (19, 40, 0.329_355, 0.625_026),
        ] {
            let [found_low, found_high] = wilson(right, of);
            assert!((found_low - low).abs() < 1e-5, "{right}/{of}: {found_low}");
            assert!(
                (found_high - high).abs() < 1e-5,
                "{right}/{of}: {found_high}"
            );
        }
        assert_eq!(wilson(0, 0), [0.0, 1.0]);
        assert_eq!(interval_of(80.0, 10), " (95 % interval 49.0 to 94.3)");
        // z / sqrt(n) is the width at one half, nearly.
        let [low, high] = wilson(500, 1000);
        assert!((high - low - 0.0619).abs() < 1e-4);
        assert_eq!(interval_of(50.0, 1000), "");
        assert_eq!(
            interval_of(100.0 / 3.0, 999),
            " (95 % interval 30.5 to 36.3)"
        );
    }

    #[test]
    fn what_cannot_be_tested() {
        assert_eq!(PairedT::of(&[]), None);
        let one = PairedT::of(&[0.5]).unwrap();
        assert_eq!((one.difference.mean, one.t, one.p), (0.5, None, None));
        let same = PairedT::of(&[0.25, 0.25]).unwrap();
        assert_eq!((same.p, same.half_width), (None, None));
        let same = PairedT::of(&[0.3 - 0.1, 0.8 - 0.6]).unwrap();
        assert!(same.difference.spread.unwrap() > 0.0);
        assert_eq!((same.t, same.p, same.half_width), (None, None, None));
        // By hand: t = 0.26 / 0.02 with one degree of freedom, for which p = 1 - 2 atan(13) / pi.
        let near = PairedT::of(&[0.24, 0.28]).unwrap();
        assert!((near.p.unwrap() - 0.048_874_5).abs() < 1e-6);
        // No image distinguishes the models.
        assert_eq!(mcnemar([0, 0]), 1.0);
    }
}
