//! A part of the images for validation, where the data has no split.

use std::collections::BTreeMap;

use crate::data::Source;

/// What the hash of a name begins with, so that it is no other hash of the name. It depends on no seed: an image that one
/// run validates on must not be one that the next trains on.
const KEY: &[u8] = b"kvt validation share\0";

/// The images to train on and those to validate on, `fraction` of each class.
///
/// In each class the images are ranked by a hash of their path relative to the source, and the first `fraction` of them,
/// rounded, validate: at least one of two or more, and never all. The ranks do not depend on the seed, on the other
/// classes or on where the folder lies. With new images, one near the end of the share may change its side.
pub(super) fn split(source: &Source, fraction: f64) -> [Source; 2] {
    let mut by_class: BTreeMap<u32, Vec<([u8; 32], usize)>> = BTreeMap::new();
    for (index, sample) in source.samples.iter().enumerate() {
        let path = sample.path.strip_prefix(&source.root);
        let path = path.unwrap_or(&sample.path).as_os_str();
        let mut hash = blake3::Hasher::new();
        hash.update(KEY).update(path.as_encoded_bytes());
        let class = by_class.entry(sample.label).or_default();
        class.push((*hash.finalize().as_bytes(), index));
    }
    let mut validates = vec![false; source.samples.len()];
    for mut class in by_class.into_values() {
        class.sort_unstable();
        let most = class.len().saturating_sub(1);
        let count = (fraction * class.len() as f64).round() as usize;
        for &(_, index) in class.iter().take(count.clamp(most.min(1), most)) {
            validates[index] = true;
        }
    }
    [false, true].map(|side| {
        let samples = source.samples.iter().zip(&validates);
        let samples = samples.filter(|(_, validates)| **validates == side);
        Source {
            samples: samples.map(|(sample, _)| sample.clone()).collect(),
            ..source.clone()
        }
    })
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use std::collections::BTreeSet;
    use std::path::{Path, PathBuf};

    use super::*;
    use crate::data::source::{Place, Sample};

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
        // However much is asked for, something is left to train on.
        let [train, _] = split(&source("a", &counts), 0.999);
        assert!(train.class_counts().iter().all(|&count| count > 0));
    }

    #[test]
    fn the_share_is_that_of_the_names() {
        let [_, here] = split(&source("a", &[50, 40]), 0.3);
        let [_, there] = split(&source("somewhere/else", &[50, 40]), 0.3);
        assert_eq!(names(&here), names(&there));
        // Another class and a larger share leave those that validated where they were.
        let [_, more] = split(&source("a", &[50, 40, 9]), 0.5);
        assert!(names(&here).is_subset(&names(&more)));
        // Not the first ones, nor every third.
        let first = |name: &PathBuf| name.starts_with("0") && name.to_str().unwrap().len() == 7;
        let low = names(&here).iter().filter(|name| first(name)).count();
        assert!((1..10).contains(&low), "{low} of 15 among the first ten");
    }
}
