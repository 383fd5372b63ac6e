//! Numbers formatted for readers, on a terminal and in a report.

use crate::run::Metric;

/// `1h 02m`, `3m 05s`, `12s`.
pub fn duration(seconds: f64) -> String {
    if !seconds.is_finite() {
        return "?".to_owned();
    }
    // Whole seconds are precise enough for readers.
    let seconds = seconds.round() as u64;
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, s) => format!("{s}s"),
        (0, m, s) => format!("{m}m {s:02}s"),
        (h, m, _) => format!("{h}h {m:02}m"),
    }
}

/// A metric's value with its unit.
pub fn with_unit(metric: Metric, number: f64) -> String {
    if metric.percent {
        format!("{number:.2} %")
    } else {
        format!("{number:.4}")
    }
}

/// A large number with a unit: `5.72 M`.
pub fn human(number: f64) -> String {
    let (value, unit) = match number {
        n if n >= 1e9 => (n / 1e9, " G"),
        n if n >= 1e6 => (n / 1e6, " M"),
        n if n >= 1e3 => (n / 1e3, " k"),
        n => return format!("{n}"),
    };
    format!("{value:.2}{unit}")
}

/// Digits in groups of three: `5,717,416`.
pub fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_for_people() {
        assert_eq!(duration(12.4), "12s");
        assert_eq!(duration(185.0), "3m 05s");
        assert_eq!(duration(3725.0), "1h 02m");
        assert_eq!(duration(f64::INFINITY), "?");
    }

    #[test]
    fn numbers_for_people() {
        assert_eq!(grouped(5_717_416), "5,717,416");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1000), "1,000");
        assert_eq!(human(1.254e9), "1.25 G");
        assert_eq!(human(12.0), "12");
    }

    #[test]
    fn numbers_of_an_evaluation() {
        assert_eq!(with_unit(Metric::TOP1, 91.0), "91.00 %");
        assert_eq!(with_unit(Metric::LOSS, 0.5), "0.5000");
    }
}
