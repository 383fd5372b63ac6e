//! The usual names of splits, which are those of Hugging Face's `datasets`.

use std::collections::BTreeSet;
use std::path::PathBuf;

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

/// The set, the number and the number of all parts in a name such as `train-00000-of-00002`, behind which a hash can follow.
pub(in crate::data) fn part(stem: &str) -> Option<(&str, u32, u32)> {
    let (head, tail) = stem.rsplit_once("-of-")?;
    let (set, number) = head.rsplit_once('-')?;
    let of = tail.split('-').next()?;
    // More than six digits are not a number of files.
    let read = |text: &str| text.parse::<u32>().ok().filter(|_| text.len() <= 6);
    Some((set, read(number)?, read(of)?))
}

/// The name that numbered files share: `train` of `train-00000-of-00002`, behind which a hash can follow, and of `train-000`.
pub(in crate::data) fn set_of(stem: &str) -> &str {
    let numbered = part(stem).map(|(set, ..)| set);
    let plain = || {
        let (set, number) = stem.rsplit_once(['-', '_', '.'])?;
        number
            .bytes()
            .all(|byte| byte.is_ascii_digit())
            .then_some(set)
    };
    numbered.or_else(plain).unwrap_or(stem)
}

/// The sets of numbered files in one folder, if they are splits: two or more, of which one has a usual name, in any case, before or
/// behind another word, as in `imagenet-train`. Sorted.
pub(in crate::data) fn splits_of_files(files: &[PathBuf]) -> Option<Vec<String>> {
    let stems = files.iter().filter_map(|file| file.file_stem()?.to_str());
    let sets: BTreeSet<&str> = stems.map(set_of).collect();
    let is_usual = |set: &str| {
        let mut words = set.split(['-', '_', '.']);
        let ends = [words.next(), words.next_back()];
        ends.into_iter()
            .flatten()
            .any(|word| usual().any(|name| name.eq_ignore_ascii_case(word)))
    };
    let are_splits = sets.len() > 1 && sets.iter().any(|set| is_usual(set));
    are_splits.then(|| sets.into_iter().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbered_files_are_one_set() {
        for (stem, set) in [
            ("train", "train"),
            ("train-00000-of-00002", "train"),
            ("train-00000-of-00002-0123456789abcdef", "train"),
            ("train_aug-00000-of-00001", "train_aug"),
            ("train-10percent-00000-of-00001", "train-10percent"),
            ("train-10percent", "train-10percent"),
            ("train_1", "train"),
            ("train_1-00000-of-00001", "train_1"),
            ("train.0", "train"),
            ("imagenet-val-000006", "imagenet-val"),
            ("0000", "0000"),
            ("a-of-b", "a-of-b"),
        ] {
            assert_eq!(set_of(stem), set);
        }
    }

    #[test]
    fn files_of_several_splits_are_told_from_those_of_one() {
        for (stems, expected) in [
            (&["train-000", "train-001"][..], None),
            (&["0000", "0001"], None),
            (&["a-00000-of-00001", "b-00000-of-00001"], None),
            (
                &["trainval-00000-of-00001", "test-00000-of-00001"],
                Some("test trainval"),
            ),
            (&["Train-0", "Extra-0"], Some("Extra Train")),
            (
                &["train-00000-of-00001", "train_aug-00000-of-00001"],
                Some("train train_aug"),
            ),
            (
                &["imagenet-val-0", "imagenet-train-0"],
                Some("imagenet-train imagenet-val"),
            ),
        ] {
            let files: Vec<PathBuf> = stems
                .iter()
                .map(|stem| format!("d/{stem}.tar").into())
                .collect();
            let found = splits_of_files(&files).map(|splits| splits.join(" "));
            assert_eq!(found.as_deref(), expected, "{stems:?}");
        }
    }

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
