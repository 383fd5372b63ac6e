//! The most probable classes of an image, or its labels.

use crate::task::{is_above, probability};

/// A class and its probability.
#[derive(Clone, Debug, PartialEq)]
pub struct Guess {
    /// The name of the class, or its number if it has no name.
    pub class: String,
    /// Its probability from 0 to 1: among all classes, or of labels each by itself.
    pub probability: f64,
}

/// The `top` most probable classes of a row of logits, best first.
#[must_use]
pub fn best(logits: &[f32], names: Option<&[String]>, top: usize) -> Vec<Guess> {
    let max = logits.iter().fold(f32::NEG_INFINITY, |m, &x| m.max(x));
    let weights: Vec<f64> = logits.iter().map(|&x| f64::from(x - max).exp()).collect();
    let sum: f64 = weights.iter().sum();
    let shares = weights.iter().map(|weight| weight / sum).enumerate();
    ranked(shares, names).take(top).collect()
}

/// The `top` most probable labels of a row of logits, best first, each class by itself.
pub fn likely(logits: &[f32], names: Option<&[String]>, top: usize) -> Vec<Guess> {
    let all = logits.iter().map(|&logit| probability(logit)).enumerate();
    ranked(all, names).take(top).collect()
}

/// The labels of a row of logits that are above the thresholds of their classes, best first.
pub fn labels(logits: &[f32], names: Option<&[String]>, thresholds: &[f64]) -> Vec<Guess> {
    let all = logits.iter().zip(thresholds).enumerate();
    let found = all.filter(|(_, (logit, threshold))| is_above(**logit, **threshold));
    let found = found.map(|(class, (logit, _))| (class, probability(*logit)));
    ranked(found, names).collect()
}

/// Classes and their probabilities, best first; of equal ones the first comes first.
fn ranked(
    all: impl Iterator<Item = (usize, f64)>,
    names: Option<&[String]>,
) -> impl Iterator<Item = Guess> {
    let mut order: Vec<(usize, f64)> = all.collect();
    order.sort_by(|(i, a), (j, b)| b.total_cmp(a).then(i.cmp(j)));
    order.into_iter().map(move |(class, probability)| Guess {
        class: names
            .and_then(|names| names.get(class).cloned())
            .unwrap_or_else(|| class.to_string()),
        probability,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_ranked_by_hand() {
        let names = ["a", "b"].map(str::to_owned);
        // exp(0) : exp(ln 3) : exp(0) = 1 : 3 : 1; of equal ones the first comes first.
        let found = best(&[0.0, 3_f32.ln(), 0.0], Some(&names), 3);
        let classes: Vec<&str> = found.iter().map(|guess| guess.class.as_str()).collect();
        assert_eq!(classes, ["b", "a", "2"]);
        for (guess, expected) in found.iter().zip([0.6, 0.2, 0.2]) {
            assert!((guess.probability - expected).abs() < 1e-6, "{guess:?}");
        }
        assert_eq!(best(&[1000.0, -1000.0], None, 1)[0].probability, 1.0);
    }

    #[test]
    fn labels_are_above_their_thresholds_by_hand() {
        let names = ["a", "b", "c"].map(str::to_owned);
        // Probabilities 0.5, 0.75 and 0.25: at a threshold is not above it.
        let row = [0.0, 3_f32.ln(), -3_f32.ln()];
        let found = |thresholds: [f64; 3]| -> Vec<String> {
            let found = labels(&row, Some(&names), &thresholds);
            found.into_iter().map(|guess| guess.class).collect()
        };
        assert_eq!(found([0.5; 3]), ["b"]);
        assert_eq!(found([0.4, 0.7, 0.2]), ["b", "a", "c"]);
        assert!(found([0.9; 3]).is_empty());
        let found = likely(&row, None, 2);
        let classes: Vec<&str> = found.iter().map(|guess| guess.class.as_str()).collect();
        assert_eq!(classes, ["1", "0"]);
        assert!((found[0].probability - 0.75).abs() < 1e-6, "{found:?}");
    }
}
