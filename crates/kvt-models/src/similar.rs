//! What was probably meant by an unknown word.

/// Words are suggested if their similarity (Jaro-Winkler, 0 to 1) to the unknown one is higher.
const NEAR: f64 = 0.8;
/// The maximum number of suggested words.
const MOST: usize = 3;

/// The candidates that may have been meant by `word`, the most similar one first, equally similar ones in their order.
pub fn similar<T: AsRef<str>>(word: &str, candidates: impl IntoIterator<Item = T>) -> Vec<T> {
    let candidates = candidates.into_iter();
    let mut near: Vec<(f64, T)> = candidates
        .map(|known| (strsim::jaro_winkler(word, known.as_ref()), known))
        .filter(|(likeness, _)| *likeness > NEAR)
        .collect();
    near.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    near.into_iter()
        .map(|(_, known)| known)
        .take(MOST)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_similar_come_first_and_no_others() {
        // By the formula: 0.97, 0.96, and 0.70 and less.
        let words = ["height", "epohcs", "epoch", "steps"];
        assert_eq!(similar("epochs", words), ["epoch", "epohcs"]);
        let alike = ["epochs1", "epochs2", "epochs3", "epochs4"];
        assert_eq!(similar("epochs", alike), alike[..3]);
        assert!(similar("epochs", ["weights"]).is_empty());
    }
}
