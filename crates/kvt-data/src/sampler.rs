//! The order in which an epoch visits its samples, and the key of what is drawn for each.

use rand::RngExt;

use kvt_ops::Key;

/// The sample indices of one epoch, each exactly once: `0..len` in order, or shuffled by a generator
/// keyed by (seed, epoch).
///
/// `len` is at most `u32::MAX`, which [`Source`](crate::Source) guarantees.
pub fn epoch_order(len: usize, epoch: u64, seed: u64, shuffle: bool) -> Vec<u32> {
    let mut order: Vec<u32> = (0..u32::MAX).take(len).collect();
    if shuffle {
        mix(&mut order, Key::new(seed).named("order").child(epoch));
    }
    order
}

/// The key of all random draws for an image in an epoch.
pub fn image_key(seed: u64, epoch: u64, index: u32) -> Key {
    Key::new(seed)
        .named("augment")
        .child(epoch)
        .child(u64::from(index))
}

/// Shuffles a list (Fisher-Yates).
pub(super) fn mix<T>(list: &mut [T], key: Key) {
    let mut rng = key.rng();
    for last in (1..list.len()).rev() {
        list.swap(last, rng.random_range(0..=last as u64) as usize);
    }
}

/// The number of batches for `len` samples.
///
/// With `drop_last` the incomplete last batch is dropped, unless it is the only one: a data set smaller than one
/// batch still trains.
pub fn batch_count(len: usize, batch_size: usize, drop_last: bool) -> usize {
    if drop_last && len >= batch_size {
        len / batch_size.max(1)
    } else {
        len.div_ceil(batch_size.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_sample_once_and_another_order_each_epoch() {
        let first = epoch_order(100, 0, 5, true);
        let second = epoch_order(100, 1, 5, true);
        assert_ne!(first, second);
        assert_ne!(first, epoch_order(100, 0, 6, true));
        assert_eq!(first, epoch_order(100, 0, 5, true));
        for mut order in [first, second] {
            order.sort_unstable();
            assert_eq!(order, (0..100).collect::<Vec<_>>());
        }
        assert_eq!(epoch_order(3, 9, 9, false), [0, 1, 2]);
        assert!(epoch_order(0, 0, 0, true).is_empty());
    }

    #[test]
    fn every_permutation_is_equally_likely() {
        let mut counts = std::collections::BTreeMap::new();
        for epoch in 0..6000 {
            *counts.entry(epoch_order(3, epoch, 0, true)).or_insert(0) += 1;
        }
        assert_eq!(counts.len(), 6);
        // Five standard deviations of a binomial with n = 6000, p = 1/6.
        assert!(
            counts.values().all(|&n: &i32| (n - 1000).abs() < 145),
            "{counts:?}"
        );
    }

    #[test]
    fn last_batch() {
        assert_eq!(batch_count(10, 4, true), 2);
        assert_eq!(batch_count(10, 4, false), 3);
        assert_eq!(batch_count(3, 4, true), 1);
        assert_eq!(batch_count(8, 4, true), 2);
        assert_eq!(batch_count(0, 4, false), 0);
    }
}
