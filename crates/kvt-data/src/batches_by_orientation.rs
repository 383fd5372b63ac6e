//! Epochs whose batches have images of one orientation, so that little of a batch is padded.

use kvt_ops::Key;

use crate::sampler::mix;

/// The order of an epoch whose batches have either only images that are wider than high (`true` in `wide`, by sample), or only others, as
/// in mmdetection.
///
/// Both groups are shuffled, and each is filled from its beginning up to whole batches; then the batches are shuffled. So every sample
/// appears, some twice, and each `batch_size` positions are a batch. Without `shuffle`, the others come first, in order.
pub fn oriented_order(
    wide: &[bool],
    batch_size: usize,
    epoch: u64,
    seed: u64,
    shuffle: bool,
) -> Vec<u32> {
    let key = Key::new(seed).named("orientation").child(epoch);
    let batch_size = batch_size.max(1);
    let mut batches: Vec<Vec<u32>> = Vec::new();
    for (number, group) in (0..).zip([false, true]) {
        let samples = (0..u32::MAX).zip(wide).filter(|(_, wide)| **wide == group);
        let mut samples: Vec<u32> = samples.map(|(sample, _)| sample).collect();
        if shuffle {
            mix(&mut samples, key.named("group").child(number));
        }
        let places = samples.len().next_multiple_of(batch_size);
        let filled: Vec<u32> = samples.iter().copied().cycle().take(places).collect();
        batches.extend(filled.chunks(batch_size).map(<[u32]>::to_vec));
    }
    if shuffle {
        mix(&mut batches, key.named("batches"));
    }
    batches.concat()
}

/// The number of batches of [`oriented_order`]: all are whole.
pub fn oriented_batch_count(wide: &[bool], batch_size: usize) -> usize {
    let wider = wide.iter().filter(|wide| **wide).count();
    let batch_size = batch_size.max(1);
    wider.div_ceil(batch_size) + (wide.len() - wider).div_ceil(batch_size)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// 11 of 30 are wide.
    fn wide() -> Vec<bool> {
        (0..30)
            .map(|sample| sample % 8 < 3 && sample != 24)
            .collect()
    }

    #[test]
    fn batches_are_of_one_orientation_and_have_everything() {
        let wide = wide();
        assert_eq!(wide.iter().filter(|wide| **wide).count(), 11);
        for (epoch, batch_size) in (0..20).zip([1, 2, 3, 4, 5, 7].into_iter().cycle()) {
            let order = oriented_order(&wide, batch_size, epoch, 3, true);
            let batches = oriented_batch_count(&wide, batch_size);
            assert_eq!(order.len(), batches * batch_size);
            for batch in order.chunks(batch_size) {
                let is_wide = wide[batch[0] as usize];
                assert!(batch.iter().all(|sample| wide[*sample as usize] == is_wide));
            }
            let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
            for sample in order {
                *counts.entry(sample).or_default() += 1;
            }
            // Everything once, and twice only what fills a batch.
            assert_eq!(counts.len(), 30);
            let twice = counts.values().filter(|count| **count == 2).count();
            assert_eq!(twice, batches * batch_size - 30);
        }
        assert_eq!(oriented_batch_count(&wide, 4), 3 + 5);
    }

    #[test]
    fn epochs_differ_and_are_drawn_again_alike() {
        let wide = wide();
        let order = |epoch, seed| oriented_order(&wide, 4, epoch, seed, true);
        assert_eq!(order(0, 1), order(0, 1));
        assert_ne!(order(0, 1), order(1, 1));
        assert_ne!(order(0, 1), order(0, 2));
        // Batches of both kinds are mixed.
        let first = |epoch| wide[order(epoch, 1)[0] as usize];
        assert!((0..40).any(first) && !(0..40).all(first));
    }

    #[test]
    fn in_order_without_shuffling() {
        let order = oriented_order(&[true, false, true, false, true], 2, 0, 0, false);
        assert_eq!(order, [1, 3, 0, 2, 4, 0]);
        // A group that is smaller than a batch fills it alone.
        assert_eq!(oriented_order(&[true], 3, 0, 0, true), [0, 0, 0]);
        assert!(oriented_order(&[], 3, 0, 0, true).is_empty());
        assert_eq!(oriented_batch_count(&[], 3), 0);
    }
}
