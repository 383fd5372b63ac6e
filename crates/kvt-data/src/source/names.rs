//! The usual names of splits, which are those of Hugging Face's `datasets`.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// The training images; first the name that a configuration has.
pub const TRAIN: [&str; 2] = ["train", "training"];
/// The images that choose the best checkpoint; first the name that a configuration has.
pub const VAL: [&str; 4] = ["val", "valid", "validation", "dev"];
/// The images that judge the result, and choose nothing unless a user wants it.
pub const TEST: [&str; 2] = ["test", "testing"];

/// All usual names.
pub(crate) fn usual() -> impl Iterator<Item = &'static str> {
    TRAIN.into_iter().chain(VAL).chain(TEST)
}

/// Whether this is a usual name, in any case.
pub(crate) fn is_usual(name: &str) -> bool {
    usual().any(|usual| usual.eq_ignore_ascii_case(name))
}

/// Class folders that are splits: two or more with usual names in any case, or nothing else. Sorted.
pub(crate) fn splits_among(classes: &[String]) -> Option<Vec<String>> {
    let mut splits: Vec<String> = classes
        .iter()
        .filter(|class| is_usual(class))
        .cloned()
        .collect();
    splits.sort();
    (!splits.is_empty() && splits.len() >= classes.len().min(2)).then_some(splits)
}

/// The set, the number and the number of all parts in a name such as `train-00000-of-00002`, after which a hash can follow.
pub(crate) fn part(stem: &str) -> Option<(&str, u32, u32)> {
    let (head, tail) = stem.rsplit_once("-of-")?;
    let (set, number) = head.rsplit_once('-')?;
    let of = tail.split('-').next()?;
    // More than six digits are not a number of files.
    let read = |text: &str| text.parse::<u32>().ok().filter(|_| text.len() <= 6);
    Some((set, read(number)?, read(of)?))
}

/// The numbered files that are missing between others, such as `train-001` between `train-000` and `train-002`. Sorted. Numbers of
/// which more are missing than there are do not count anything.
pub(crate) fn gaps<'a>(files: impl Iterator<Item = &'a Path>) -> Vec<String> {
    let mut sets: BTreeMap<(Option<&Path>, &str), BTreeMap<u64, usize>> = BTreeMap::new();
    for file in files {
        let stem = file.file_stem().and_then(OsStr::to_str).unwrap_or_default();
        let name = stem.trim_end_matches(|c: char| c.is_ascii_digit());
        let digits = stem.strip_prefix(name).unwrap_or_default();
        if let Ok(number) = digits.parse() {
            let set = sets.entry((file.parent(), name)).or_default();
            set.insert(number, digits.len());
        }
    }
    let mut missing = Vec::new();
    for ((_, name), there) in sets {
        let (Some(first), Some(last)) = (there.keys().next(), there.keys().next_back()) else {
            continue;
        };
        let width = there.values().copied().min().unwrap_or_default();
        if (last - first) / 2 < there.len() as u64 {
            let lost = (*first..*last).filter(|number| !there.contains_key(number));
            missing.extend(lost.map(|number| format!("{name}{number:0width$}")));
        }
    }
    missing
}

/// The name that numbered files share: `train` of `train-00000-of-00002`, after which a hash can follow, and of `train-000`.
pub(crate) fn set_of(stem: &str) -> &str {
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

/// The sets of numbered files in one folder, if they are splits: two or more, one of which has a usual name, in any case, before
/// or after another word, as in `imagenet-train`. Sorted.
pub(crate) fn splits_of_files(files: &[PathBuf]) -> Option<Vec<String>> {
    let stems = files.iter().filter_map(|file| file.file_stem()?.to_str());
    let sets: BTreeSet<&str> = stems.map(set_of).collect();
    let is_usual = |set: &str| {
        let mut words = set.split(['-', '_', '.']);
        let ends = [words.next(), words.next_back()];
        ends.into_iter().flatten().any(is_usual)
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
    fn gaps_are_between_files_of_one_set() {
        for (stems, expected) in [
            (&["000", "001", "003", "004"][..], "002"),
            (
                &["train-08", "train-10", "train-11", "val-2", "val-3"],
                "train-09",
            ),
            (&["a_9", "a_11", "a_12", "a_14"], "a_10 a_13"),
            // Days, the parts of a set that says how many it has, and one file each.
            (&["a-20240101", "a-20240201", "a-20250101"], ""),
            (&["a-00000-of-00003", "a-00002-of-00003"], ""),
            (&["a-1", "b-3", "train", "99999999999999999999999"], ""),
        ] {
            let files: Vec<PathBuf> = stems
                .iter()
                .map(|stem| format!("d/{stem}.tar").into())
                .collect();
            let found = gaps(files.iter().map(PathBuf::as_path));
            assert_eq!(found.join(" "), expected, "{stems:?}");
        }
        let apart = ["a/1.tar", "b/3.tar", "b/4.tar"].map(Path::new);
        assert_eq!(gaps(apart.into_iter()), [""; 0]);
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
