//! The order of an epoch whose classes are not equally large: images are drawn with replacement, so that small classes come more often.

use std::collections::BTreeMap;

use kvt_ops::Key;
use rand::RngExt;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{EpochOrder, Sample};

/// How often the classes come in an epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Balance {
    /// Each image once.
    #[default]
    None,
    /// Images are drawn, a class as often as the square root of its size.
    Sqrt,
    /// Images are drawn, each class equally often.
    Uniform,
}

/// As many draws with replacement as there are images, from a generator keyed by (seed, epoch): first a class, then one of its
/// images. An image that is drawn again is another copy, with another augmentation. `None` if each image comes once.
pub fn balanced_order(
    balance: Balance,
    samples: &[Sample],
    epoch: u64,
    seed: u64,
) -> Option<EpochOrder> {
    let share = |size: usize| match balance {
        Balance::None => None,
        Balance::Sqrt => Some((size as f64).sqrt()),
        Balance::Uniform => Some(1.0),
    };
    share(0)?;
    let mut classes: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for (index, sample) in (0..).zip(samples) {
        classes.entry(sample.label).or_default().push(index);
    }
    // The sum of the shares up to and with each class.
    let mut sum = 0.0;
    let classes: Vec<(f64, Vec<u32>)> = classes
        .into_values()
        .map(|class| {
            sum += share(class.len()).unwrap_or_default();
            (sum, class)
        })
        .collect();
    let mut rng = Key::new(seed).named("balance").child(epoch).rng();
    let mut drawn = vec![0; samples.len()];
    let mut order = EpochOrder::default();
    for _ in 0..samples.len() {
        let place = rng.random::<f64>() * sum;
        let class = classes.partition_point(|(end, _)| *end <= place);
        // A product may be rounded up to the sum.
        let (_, class) = classes.get(class).or(classes.last())?;
        let &index = class.get(rng.random_range(0..class.len() as u64) as usize)?;
        let copy = drawn.get_mut(index as usize)?;
        order.samples.push(index);
        order.copies.push(*copy);
        *copy += 1;
    }
    Some(order)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::Source;

    /// Images of classes of these sizes.
    fn source(sizes: &[usize]) -> (tempfile::TempDir, Source) {
        let dir = tempfile::tempdir().unwrap();
        for (class, &size) in sizes.iter().enumerate() {
            let folder = dir.path().join(class.to_string());
            fs_err::create_dir(&folder).unwrap();
            for image in 0..size {
                fs_err::write(folder.join(format!("{image}.png")), b"").unwrap();
            }
        }
        let source = Source::open(dir.path(), crate::ClassOrder::Byte).unwrap();
        (dir, source)
    }

    #[test]
    fn classes_come_as_often_as_asked() {
        let (_dir, source) = source(&[64, 16, 1]);
        // Of 81 draws in 100 epochs: shares 8 : 4 : 1 of 13, and a third each.
        for (balance, expected) in [
            (Balance::Sqrt, [8.0 / 13.0, 4.0 / 13.0, 1.0 / 13.0]),
            (Balance::Uniform, [1.0 / 3.0; 3]),
        ] {
            let mut counts = [0.0; 3];
            let mut images = vec![0; 81];
            for epoch in 0..100 {
                let order = balanced_order(balance, &source.samples, epoch, 7).unwrap();
                assert_eq!((order.samples.len(), order.copies.len()), (81, 81));
                for &index in &order.samples {
                    let class = source.samples[index as usize].label;
                    counts[class as usize] += 1.0;
                    images[index as usize] += 1;
                }
            }
            for (count, share) in counts.iter().zip(expected) {
                let (mean, variance): (f64, f64) = (8100.0 * share, 8100.0 * share * (1.0 - share));
                assert!(
                    (count - mean).abs() < 5.0 * variance.sqrt(),
                    "{balance:?}: {counts:?}"
                );
            }
            // Within a class all images come.
            assert!(images.iter().all(|&count| count > 0));
        }
        assert_eq!(balanced_order(Balance::None, &source.samples, 0, 0), None);
    }

    #[test]
    fn an_epoch_is_that_of_its_key_and_copies_are_told_apart() {
        let (_dir, source) = source(&[9, 2]);
        let order =
            |epoch, seed| balanced_order(Balance::Uniform, &source.samples, epoch, seed).unwrap();
        assert_eq!(order(3, 5), order(3, 5));
        assert_ne!(order(3, 5), order(4, 5));
        assert_ne!(order(3, 5), order(3, 6));
        let EpochOrder { samples, copies } = order(3, 5);
        let mut pairs: Vec<_> = samples.iter().copied().zip(copies).collect();
        pairs.sort_unstable();
        for pair in pairs.windows(2) {
            let &[(image, copy), (next, next_copy)] = pair else {
                continue;
            };
            assert_eq!(next_copy, if next == image { copy + 1 } else { 0 });
        }
        // Eleven draws of two classes, of which one has two images, repeat some.
        assert!(pairs.iter().any(|(_, copy)| *copy > 0));
        assert_eq!(
            balanced_order(Balance::Sqrt, &[], 0, 0),
            Some(EpochOrder::default())
        );
    }
}
