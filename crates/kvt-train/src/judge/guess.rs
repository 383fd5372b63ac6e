//! The most probable classes of an image.

/// A class and its probability.
#[derive(Clone, Debug, PartialEq)]
pub struct Guess {
    /// The name of the class, or its number if it has no name.
    pub class: String,
    /// Its probability among all classes, from 0 to 1.
    pub probability: f64,
}

/// The `top` most probable classes of a row of logits, best first.
#[must_use]
pub fn best(logits: &[f32], names: Option<&[String]>, top: usize) -> Vec<Guess> {
    let max = logits.iter().fold(f32::NEG_INFINITY, |m, &x| m.max(x));
    let weights: Vec<f64> = logits.iter().map(|&x| f64::from(x - max).exp()).collect();
    let sum: f64 = weights.iter().sum();
    let mut order: Vec<(usize, f64)> = weights.into_iter().enumerate().collect();
    order.sort_by(|(i, a), (j, b)| b.total_cmp(a).then(i.cmp(j)));
    order
        .into_iter()
        .take(top)
        .map(|(class, weight)| Guess {
            class: names
                .and_then(|names| names.get(class).cloned())
                .unwrap_or_else(|| class.to_string()),
            probability: weight / sum,
        })
        .collect()
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
}
