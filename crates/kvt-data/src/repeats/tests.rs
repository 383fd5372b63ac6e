#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

use super::*;

fn config(repeats: usize, replicas: usize) -> DataConfig {
    DataConfig {
        shuffle: false,
        drop_last: false,
        repeats,
        replicas,
        ..DataConfig::default()
    }
}

/// The samples of each replica in order: those of its whole micro-batches, then its rest.
fn dealt((batch, replicas): (usize, usize), order: &[u32]) -> Vec<Vec<u32>> {
    let round = batch * replicas;
    let (whole, rest) = order.split_at(order.len() / round * round);
    let mut found = vec![Vec::new(); replicas];
    for (number, batch) in whole.chunks(batch).enumerate() {
        found[number % replicas].extend(batch);
    }
    for (own, rest) in found
        .iter_mut()
        .zip(rest.chunks((rest.len() / replicas).max(1)))
    {
        own.extend(rest);
    }
    found
}

/// `scripts/reference/sampler.py` writes the unshuffled samples of each rank.
#[test]
fn repeated_augmentation_is_deits() {
    let bytes = include_bytes!("../../tests/golden/sampler.safetensors");
    let file = safetensors::SafeTensors::deserialize(bytes).unwrap();
    assert!(file.len() >= 6);
    for (name, tensor) in file.tensors() {
        let numbers: Vec<usize> = name.split('_').map(|n| n.parse().unwrap()).collect();
        let [images, repeats, replicas] = numbers[..] else {
            panic!("{name}");
        };
        let (numbers, _) = tensor.data().as_chunks::<4>();
        let expected: Vec<u32> = numbers.iter().map(|b| u32::from_le_bytes(*b)).collect();
        let expected: Vec<&[u32]> = expected.chunks(tensor.shape()[1]).collect();
        for batch_size in [1, 4, 7, 1000] {
            let plain = config(repeats, replicas);
            let order = plain.training_order(batch_size, images, 0, 0).samples;
            assert_eq!(
                dealt((batch_size, replicas), &order),
                expected,
                "{name} in batches of {batch_size}"
            );
            assert_eq!(
                plain.training_batches(batch_size, images),
                batch_count(order.len(), batch_size, false)
            );

            // Shuffling only permutes the images.
            let shuffled = DataConfig {
                shuffle: true,
                ..plain.clone()
            };
            let names = epoch_order(images, 2, 9, true);
            let renamed: Vec<u32> = order.iter().map(|&i| names[i as usize]).collect();
            let order = shuffled.training_order(batch_size, images, 2, 9);
            assert_eq!(order.samples, renamed, "{name}");

            // Incomplete micro-batches are at the end of each replica.
            let cut = DataConfig {
                drop_last: true,
                ..plain
            };
            let whole = expected[0].len() / batch_size * batch_size;
            let order = cut.training_order(batch_size, images, 0, 0).samples;
            let batches = cut.training_batches(batch_size, images);
            if whole > 0 {
                let expected: Vec<&[u32]> = expected.iter().map(|own| &own[..whole]).collect();
                let found = dealt((batch_size, replicas), &order);
                assert_eq!(found, expected, "{name}, whole batches");
                assert_eq!(batches, whole / batch_size * replicas);
            } else {
                assert!(batches > 0);
            }
        }
    }
}

/// Otherwise an image would be augmented identically twice in an epoch.
#[test]
fn copies_of_a_sample_are_told_apart() {
    for (images, repeats, replicas) in [(600, 3, 4), (600, 3, 1), (10, 2, 3), (2, 3, 7)] {
        let order = config(repeats, replicas).training_order(5, images, 1, 2);
        assert_eq!(order.samples.len(), order.copies.len());
        let mut seen = std::collections::BTreeSet::new();
        for pair in order.samples.iter().zip(&order.copies) {
            assert!(
                seen.insert(pair),
                "{pair:?} of {images}, {repeats}, {replicas}"
            );
        }
        assert!(
            order
                .samples
                .iter()
                .all(|&sample| (sample as usize) < images)
        );
    }
}

#[test]
fn without_repeats_it_is_the_ordinary_epoch() {
    for replicas in [1, 4] {
        let plain = DataConfig {
            shuffle: true,
            ..config(1, replicas)
        };
        let order = plain.training_order(4, 23, 3, 7);
        assert_eq!(order.samples, epoch_order(23, 3, 7, true));
        assert!(order.copies.is_empty());
        assert_eq!(plain.training_batches(4, 23), 6);
    }
    let repeated = config(3, 2);
    let none = repeated.training_order(4, 0, 0, 0);
    assert_eq!(none, EpochOrder::default());
    assert_eq!(repeated.training_batches(4, 0), 0);
}
