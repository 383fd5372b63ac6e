//! Values in the order of their first appearance.

/// The values of each key, keys in the order in which they appear first.
pub(crate) fn grouped<K: PartialEq, V>(
    pairs: impl IntoIterator<Item = (K, V)>,
) -> Vec<(K, Vec<V>)> {
    let mut groups: Vec<(K, Vec<V>)> = Vec::new();
    for (key, value) in pairs {
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, values)) => values.push(value),
            None => groups.push((key, vec![value])),
        }
    }
    groups
}

/// The values, each once.
pub(crate) fn unique<T: PartialEq>(values: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut found = Vec::new();
    for value in values {
        if !found.contains(&value) {
            found.push(value);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_each_decides_the_order() {
        let pairs = [("b", 1), ("a", 2), ("b", 3)];
        assert_eq!(grouped(pairs), [("b", vec![1, 3]), ("a", vec![2])]);
        assert_eq!(unique(pairs.map(|(key, _)| key)), ["b", "a"]);
    }
}
