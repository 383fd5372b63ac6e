//! The usual names of splits, which are those of Hugging Face's `datasets`.

/// The training images; first the name that a configuration has.
pub const TRAIN: [&str; 2] = ["train", "training"];
/// The images that choose the best checkpoint; first the name that a configuration has.
pub const VAL: [&str; 4] = ["val", "valid", "validation", "dev"];
/// The images that judge the result, and choose nothing unless a user wants it.
pub const TEST: [&str; 2] = ["test", "testing"];

/// All usual names.
pub(in crate::data) fn usual() -> impl Iterator<Item = &'static str> {
    TRAIN.into_iter().chain(VAL).chain(TEST)
}

/// Class folders that are splits: two or more with usual names in any case, or nothing else. Sorted.
pub(in crate::data) fn splits_among(classes: &[String]) -> Option<Vec<String>> {
    let is_split = |class: &&String| usual().any(|name| name.eq_ignore_ascii_case(class));
    let mut splits: Vec<String> = classes.iter().filter(is_split).cloned().collect();
    splits.sort();
    (!splits.is_empty() && splits.len() >= classes.len().min(2)).then_some(splits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_may_be_called_train_and_a_split_is_no_class() {
        for (classes, expected) in [
            (&["train", "valid", "test"][..], Some("test train valid")),
            (&["Test", "Train"], Some("Test Train")),
            (&["dev", "extra", "training"], Some("dev training")),
            (&["validation"], Some("validation")),
            (&["car", "train"], None),
            (&["cat", "dog"], None),
            (&[], None),
        ] {
            let classes: Vec<String> = classes.iter().map(|&class| class.to_owned()).collect();
            let found = splits_among(&classes).map(|splits| splits.join(" "));
            assert_eq!(found.as_deref(), expected, "{classes:?}");
        }
    }
}
