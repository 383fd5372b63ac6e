//! A subset of the images: for validation if the data has no split, or to train on fewer images.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::masks::Masks;
use crate::Source;

/// The prefix of a name before hashing, so that the hash is unrelated to other hashes of the name. It does not depend on
/// the seed: an image used for validation in one run must not be used for training in the next.
const KEY: &[u8] = b"kvt validation share\0";
/// The same for the training subset: the two choices are independent.
const SUBSET_KEY: &[u8] = b"kvt training subset\0";

/// The images of each class, ordered by the hash of their path relative to the source, as indices into its samples.
fn ranked(source: &Source, key: &[u8]) -> BTreeMap<u32, Vec<usize>> {
    let mut by_class: BTreeMap<u32, Vec<([u8; 32], usize)>> = BTreeMap::new();
    for (index, sample) in source.samples.iter().enumerate() {
        let path = source.relative(sample);
        let mut hash = blake3::Hasher::new();
        hash.update(key).update(path.as_os_str().as_encoded_bytes());
        let class = by_class.entry(sample.label).or_default();
        class.push((*hash.finalize().as_bytes(), index));
    }
    let ranked = by_class.into_iter().map(|(label, mut class)| {
        class.sort_unstable();
        (label, class.into_iter().map(|(_, index)| index).collect())
    });
    ranked.collect()
}

/// What belongs to the samples whose places are chosen.
pub(super) fn of_chosen<T: Clone>(items: &[T], is_chosen: impl Fn(usize) -> bool) -> Vec<T> {
    let items = items.iter().enumerate();
    let items = items.filter(|(index, _)| is_chosen(*index));
    items.map(|(_, item)| item.clone()).collect()
}

/// The chosen images, in order.
pub(crate) fn chosen(source: &Source, is_chosen: impl Fn(usize) -> bool) -> Source {
    let masks = source.masks.as_ref().map(|masks| {
        Arc::new(Masks {
            files: of_chosen(&masks.files, &is_chosen),
            ..Masks::clone(masks)
        })
    });
    let objects = source.objects.as_ref();
    let label_sets = source.label_sets.as_ref();
    Source {
        label_sets: label_sets.map(|sets| of_chosen(sets, &is_chosen).into()),
        samples: of_chosen(&source.samples, &is_chosen),
        masks,
        objects: objects.map(|objects| Arc::new(objects.chosen(&is_chosen))),
        ..source.clone()
    }
}

/// `count` of the images, or all if there are fewer, each class with its share.
///
/// A class provides the first of its [ranks](ranked): its share rounded down, and one more if the remainder is among the
/// largest, until there are `count`. The ranks do not depend on the seed or on the location of the folder.
pub(super) fn subset(source: &Source, count: usize) -> Source {
    let all = source.samples.len().max(1);
    let classes = ranked(source, SUBSET_KEY);
    let exact = |class: &Vec<usize>| (class.len() * count / all, class.len() * count % all);
    let mut rests: Vec<(usize, u32)> = classes
        .iter()
        .map(|(label, class)| (exact(class).1, *label))
        .collect();
    // The largest remainders first; of equal ones, the class with the lower label.
    rests.sort_by_key(|(rest, label)| (std::cmp::Reverse(*rest), *label));
    let whole: usize = classes.values().map(|class| exact(class).0).sum();
    let more: BTreeSet<u32> = rests
        .iter()
        .take(count.saturating_sub(whole))
        .map(|(_, label)| *label)
        .collect();
    let mut trains = vec![false; source.samples.len()];
    for (label, class) in &classes {
        let share = exact(class).0 + usize::from(more.contains(label));
        for &index in class.iter().take(share) {
            trains[index] = true;
        }
    }
    chosen(source, |index| trains[index])
}

/// The images for training and for validation; a `fraction` of each class is for validation.
///
/// In each class, the images are ranked by a hash of their path relative to the source, and the first `fraction` of
/// them, rounded, is for validation: at least one of two or more, and never all. The ranks do not depend on the seed, on
/// the other classes or on the location of the folder. If images are added, one near the boundary can change sides.
pub(super) fn split(source: &Source, fraction: f64) -> [Source; 2] {
    let mut validates = vec![false; source.samples.len()];
    for class in ranked(source, KEY).into_values() {
        let most = class.len().saturating_sub(1);
        let count = (fraction * class.len() as f64).round() as usize;
        for &index in class.iter().take(count.clamp(most.min(1), most)) {
            validates[index] = true;
        }
    }
    [false, true].map(|side| chosen(source, |index| validates[index] == side))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use std::collections::BTreeSet;
    use std::path::{Path, PathBuf};

    use super::*;
    use crate::source::{Place, Sample};

    /// `counts` images of each class below a root.
    fn source(root: &str, counts: &[usize]) -> Source {
        let mut samples = Vec::new();
        for (label, &count) in (0..).zip(counts) {
            samples.extend((0..count).map(|n| Sample {
                path: Path::new(root).join(format!("{label}/{n}.png")),
                label,
                place: Place::File,
            }));
        }
        let classes = (0..counts.len()).map(|label| label.to_string()).collect();
        Source::new(root.into(), classes, samples).unwrap()
    }

    fn names(source: &Source) -> BTreeSet<PathBuf> {
        let name = |sample: &Sample| sample.path.strip_prefix(&source.root).unwrap().to_owned();
        source.samples.iter().map(name).collect()
    }

    #[test]
    fn each_class_gives_its_share() {
        let counts = [10, 7, 2, 1, 100];
        let [train, val] = split(&source("a", &counts), 0.2);
        assert_eq!(val.class_counts(), [2, 1, 1, 0, 20]);
        assert_eq!(train.class_counts(), [8, 6, 1, 1, 80]);
        assert!(names(&train).is_disjoint(&names(&val)));
        assert_eq!(train.classes, val.classes);
        // For any fraction, some images are left for training.
        let [train, _] = split(&source("a", &counts), 0.999);
        assert!(train.class_counts().iter().all(|&count| count > 0));
    }

    #[test]
    fn the_share_is_that_of_the_names() {
        let [_, here] = split(&source("a", &[50, 40]), 0.3);
        let [_, there] = split(&source("somewhere/else", &[50, 40]), 0.3);
        assert_eq!(names(&here), names(&there));
        // With another class and a larger fraction, the validation images remain validation images.
        let [_, more] = split(&source("a", &[50, 40, 9]), 0.5);
        assert!(names(&here).is_subset(&names(&more)));
        // Neither the first ones, nor every third.
        let first = |name: &PathBuf| name.starts_with("0") && name.to_str().unwrap().len() == 7;
        let low = names(&here).iter().filter(|name| first(name)).count();
        assert!((1..10).contains(&low), "{low} of 15 among the first ten");
    }

    #[test]
    fn a_subset_has_every_class_in_its_share() {
        let whole = source("a", &[50, 30, 20]);
        let part = |count| subset(&whole, count).class_counts();
        assert_eq!(part(10), [5, 3, 2]);
        assert_eq!(part(100), [50, 30, 20]);
        assert_eq!(part(0), [0, 0, 0]);
        // 3.5, 2.1 and 1.4 of seven: the largest remainder gives one more.
        assert_eq!(part(7), [4, 2, 1]);
        // 0.5, 0.3 and 0.2; of equal remainders, the first class gives one more.
        assert_eq!(part(1), [1, 0, 0]);
        assert_eq!(
            subset(&source("a", &[2, 2, 2]), 4).class_counts(),
            [2, 1, 1]
        );
        for count in 0..=100 {
            assert_eq!(part(count).iter().sum::<usize>(), count);
        }
    }

    #[test]
    fn a_subset_is_that_of_the_names() {
        let here = subset(&source("a", &[50, 50]), 30);
        let there = subset(&source("somewhere/else", &[50, 50]), 30);
        assert_eq!(names(&here), names(&there));
        let more = subset(&source("a", &[50, 50]), 60);
        assert!(names(&here).is_subset(&names(&more)));
        // In the order of the whole, and not just its beginning.
        let whole = source("a", &[50, 50]);
        let order: Vec<_> = whole
            .samples
            .iter()
            .filter(|s| here.samples.contains(s))
            .collect();
        assert!(order.into_iter().eq(&here.samples));
        let low = here
            .samples
            .iter()
            .filter(|s| s.path.to_str().unwrap().len() == 9)
            .count();
        assert!(low < 12, "{low} of 30 among the first tens");
        // Independent of the choice for validation.
        let [_, val] = split(&whole, 0.3);
        assert_ne!(names(&val), names(&here));
    }
}
