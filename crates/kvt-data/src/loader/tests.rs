#![expect(clippy::unwrap_used, reason = "tests")]

use image::{Rgb, RgbImage};

use super::*;
use crate::augment::{AugmentConfig, Preset, Transform};
use crate::{ClassOrder, ImageLimits, Sample, Views, epoch_order};

fn augment() -> AugmentConfig {
    AugmentConfig {
        preset: Preset::Cifar,
        mean: vec![0.0; 3],
        std: vec![1.0; 3],
        padding: 2,
        ..AugmentConfig::default()
    }
}

/// 23 images of 8 x 8; the files `bad` are not images; the red channel is the sample index.
fn config(bad: &[usize]) -> (tempfile::TempDir, LoaderConfig) {
    let dir = tempfile::tempdir().unwrap();
    for index in 0..23 {
        let class = dir.path().join(if index < 10 { "a" } else { "b" });
        fs_err::create_dir_all(&class).unwrap();
        let path = class.join(format!("{index:02}.png"));
        let image = RgbImage::from_fn(8, 8, |x, y| Rgb([index as u8, x as u8 * 9, y as u8 * 9]));
        image.save(&path).unwrap();
        if bad.contains(&index) {
            fs_err::write(&path, b"bad").unwrap();
        }
    }
    let config = LoaderConfig {
        source: Arc::new(Source::open(dir.path(), ClassOrder::Byte).unwrap()),
        prepare: views(&[(8, 8)], |sample| sample.label),
        pad_to: 1,
        order: epoch_order(23, 3, 7, true),
        copies: Vec::new(),
        batch_size: 4,
        purpose: Purpose::Train { drop_last: true },
        first_batch: 0,
        every: 1,
        workers: 2,
        prefetch: 2,
        epoch: 3,
        seed: 7,
        on_error: OnError::Fail,
        max_skipped: 0,
    };
    (dir, config)
}

/// A view of each size.
fn views<T: 'static>(sizes: &[(usize, usize)], target: fn(&Sample) -> T) -> Arc<dyn Prepare<T>> {
    let transform = |size: &(usize, usize)| Transform::train(&augment(), *size).unwrap();
    Arc::new(Views {
        transforms: sizes.iter().map(transform).map(Arc::new).collect(),
        target,
        limits: ImageLimits::default(),
        parts: false,
    })
}

fn batches(config: &LoaderConfig) -> Vec<Batch> {
    Loader::start(config.clone())
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap()
}

/// Two processes, from the second batch on: each gets every other batch.
#[test]
fn processes_take_turns() {
    let (_dir, config) = config(&[]);
    let all = batches(&config);
    assert_eq!(all.len(), 5);
    for (rank, expected) in [(0, vec![1, 3]), (1, vec![2, 4])] {
        let own = LoaderConfig {
            first_batch: 1 + rank,
            every: 2,
            ..config.clone()
        };
        let expected: Vec<Batch> = expected
            .into_iter()
            .map(|n: usize| all[n].clone())
            .collect();
        assert_eq!(Loader::start(own.clone()).unwrap().remaining(), 2);
        assert_eq!(batches(&own), expected);
    }
    let behind = LoaderConfig {
        first_batch: 6,
        every: 2,
        ..config
    };
    assert!(batches(&behind).is_empty());
}

#[test]
fn the_epoch_does_not_depend_on_the_workers() {
    let (_dir, config) = config(&[]);
    let expected = batches(&LoaderConfig {
        workers: 0,
        ..config.clone()
    });
    assert_eq!(expected.len(), 5);
    for (workers, prefetch) in [(1, 0), (4, 1), (50, 9)] {
        assert_eq!(
            batches(&LoaderConfig {
                workers,
                prefetch,
                ..config.clone()
            }),
            expected
        );
    }
    assert_ne!(
        batches(&LoaderConfig { epoch: 4, ..config })[0].views,
        expected[0].views
    );
}

#[test]
fn each_image_once_in_order_with_its_label() {
    let (_dir, config) = config(&[]);
    let config = LoaderConfig {
        purpose: Purpose::Evaluate,
        ..config
    };
    let all = batches(&config);
    let indices: Vec<u32> = all.iter().flat_map(|b| b.indices.clone()).collect();
    assert_eq!(indices, config.order);
    assert_eq!(all.last().unwrap().targets.len(), 3);
    for batch in &all {
        let images = &batch.views[0].pixels;
        assert_eq!(images.len(), batch.targets.len() * 3 * 64);
        for (n, (&index, &label)) in batch.indices.iter().zip(&batch.targets).enumerate() {
            assert_eq!(label, u32::from(index >= 10));
            // The centre is never padding (2 of 8 pixels).
            let red = images[n * 192 + 4 * 8 + 4] * 255.0;
            assert!((red - index as f32).abs() < 1e-3);
        }
    }
}

#[test]
fn a_start_in_the_middle_gives_the_tail() {
    let (_dir, config) = config(&[]);
    let all = batches(&config);
    for first_batch in [0, 2, 5, 99] {
        let tail = batches(&LoaderConfig {
            first_batch,
            ..config.clone()
        });
        assert_eq!(tail, all[first_batch.min(5)..]);
    }
}

#[test]
fn a_bad_file_fails_with_its_path() {
    let (_dir, config) = config(&[6]);
    for workers in [0, 3] {
        let mut loader = Loader::start(LoaderConfig {
            workers,
            ..config.clone()
        })
        .unwrap();
        let error = loader.find_map(Result::err).unwrap();
        assert!(error.to_string().contains("06.png"), "{error}");
        assert!(loader.next().is_none());
    }
}

#[test]
fn bad_files_are_replaced_in_training_and_left_out_in_evaluation() {
    let (_dir, mut config) = config(&[0, 1, 22]);
    // Samples 0 and 1 follow each other; the last position wraps around past them.
    config.order = (2..22).chain([22, 0, 1]).collect();
    config.on_error = OnError::Skip;
    config.max_skipped = 3;
    config.purpose = Purpose::Train { drop_last: false };
    for workers in [0, 4] {
        config.workers = workers;
        let mut loader = Loader::start(config.clone()).unwrap();
        let all: Vec<_> = loader.by_ref().map(Result::unwrap).collect();
        let indices: Vec<u32> = all.iter().flat_map(|b| b.indices.clone()).collect();
        assert_eq!(indices, (2..22).chain([2, 2, 2]).collect::<Vec<_>>());
        let names: Vec<_> = loader
            .skipped()
            .iter()
            .map(|s| s.path.file_name().unwrap())
            .collect();
        assert_eq!(names, ["22.png", "00.png", "01.png"]);
        // Repeats of sample 2, each augmented with the key of its own position.
        let images = &all[5].views[0].pixels;
        assert_ne!(images[..192], images[192..384]);
    }
    config.purpose = Purpose::Evaluate;
    let mut loader = Loader::start(config.clone()).unwrap();
    let indices: Vec<u32> = loader.by_ref().flat_map(|b| b.unwrap().indices).collect();
    assert_eq!(indices, (2..22).collect::<Vec<_>>());
    assert_eq!(loader.skipped().len(), 3);

    for purpose in [Purpose::Evaluate, Purpose::Train { drop_last: true }] {
        let config = LoaderConfig {
            on_error: OnError::Skip,
            max_skipped: 1,
            purpose,
            batch_size: 23,
            ..config.clone()
        };
        let error = Loader::start(config)
            .unwrap()
            .find_map(Result::err)
            .unwrap();
        assert!(
            matches!(
                error,
                DataError::Loader(LoaderError::TooManySkipped {
                    count: 2,
                    max: 1,
                    ..
                })
            ),
            "{error}"
        );
    }
}

/// With repeated augmentation, an image occurs several times in the order.
#[test]
fn the_copies_of_a_bad_file_are_one_bad_file() {
    let (_dir, config) = config(&[4]);
    for (workers, bad_last) in [(0, false), (3, false), (0, true)] {
        let mut order = vec![4, 4, 4, 5, 5, 5, 6, 6];
        if bad_last {
            order.reverse();
        }
        let config = LoaderConfig {
            copies: vec![0, 1, 2, 0, 1, 2, 0, 1],
            order,
            on_error: OnError::Skip,
            max_skipped: 1,
            workers,
            ..config.clone()
        };
        let mut loader = Loader::start(config).unwrap();
        let batches: Result<Vec<Batch>, _> = loader.by_ref().collect();
        let indices = batches.unwrap().into_iter().flat_map(|b| b.indices);
        let replaced = if bad_last {
            [6, 6, 5, 5, 5, 6, 6, 6]
        } else {
            [5, 5, 5, 5, 5, 5, 6, 6]
        };
        assert_eq!(indices.collect::<Vec<_>>(), replaced);
        assert_eq!(loader.skipped().len(), 1);
    }
}

#[test]
fn an_epoch_without_a_readable_image_is_an_error() {
    let (_dir, config) = config(&(0..23).collect::<Vec<_>>());
    for (workers, first_batch) in [(0, 0), (3, 0), (0, 4)] {
        let config = LoaderConfig {
            on_error: OnError::Skip,
            max_skipped: 100,
            workers,
            first_batch,
            ..config.clone()
        };
        let mut loader = Loader::start(config.clone()).unwrap();
        let error = loader.next().unwrap().unwrap_err();
        assert!(
            matches!(&error, DataError::Loader(LoaderError::NothingReadable { images: 23, path }) if *path == config.source.root),
            "{error}"
        );
        assert!(loader.next().is_none());
        // In an evaluation, the number of images reveals it.
        let purpose = Purpose::Evaluate;
        let mut loader = Loader::start(LoaderConfig { purpose, ..config }).unwrap();
        assert!(loader.next().is_none());
    }
    // At the end of an epoch there is nothing left to read.
    let end = LoaderConfig {
        on_error: OnError::Skip,
        max_skipped: 100,
        first_batch: 5,
        ..config
    };
    assert!(Loader::start(end).unwrap().next().is_none());
}

#[test]
fn dropping_early_stops_the_workers() {
    let (_dir, config) = config(&[]);
    let source = Arc::clone(&config.source);
    let mut loader = Loader::start(LoaderConfig {
        batch_size: 1,
        prefetch: 0,
        ..config
    })
    .unwrap();
    loader.next().unwrap().unwrap();
    drop(loader);
    // Every worker held the source through its job: all of them have ended.
    assert_eq!(Arc::strong_count(&source), 1);
}

#[test]
fn impossible_settings_are_errors() {
    let (_dir, config) = config(&[]);
    let start = |config| Loader::start(config).err().unwrap();
    let empty = LoaderConfig {
        batch_size: 0,
        ..config.clone()
    };
    assert!(matches!(
        start(empty),
        DataError::Loader(LoaderError::EmptyBatch)
    ));
    let outside = LoaderConfig {
        order: vec![23],
        ..config
    };
    assert!(matches!(
        start(outside),
        DataError::Loader(LoaderError::NoSuchSample {
            index: 23,
            len: 23,
            ..
        })
    ));
}

/// Only seed, epoch and sample determine the augmentation of an image, and each of them changes it.
#[test]
fn augmentation_is_keyed_by_seed_epoch_and_sample() {
    let (_dir, config) = config(&[]);
    let config = LoaderConfig {
        order: (0..23).collect(),
        ..config
    };
    let images = |seed, epoch, order: Vec<u32>| {
        let config = LoaderConfig {
            seed,
            epoch,
            order,
            ..config.clone()
        };
        let batches = batches(&config);
        let images = batches
            .iter()
            .flat_map(|batch| batch.views[0].pixels.clone());
        images.collect::<Vec<f32>>()
    };
    let order: Vec<u32> = (0..8).collect();
    let expected = images(7, 3, order.clone());
    assert_eq!(images(7, 3, order.clone()), expected);
    assert_ne!(images(8, 3, order.clone()), expected);
    assert_ne!(images(7, 4, order.clone()), expected);
    // At another position in the epoch, an image is the same.
    let turned = images(7, 3, order.into_iter().rev().collect());
    let picture = 3 * 8 * 8;
    assert_eq!(turned[7 * picture..], expected[..picture]);
    // The same file as two samples gives two different images: green and blue do not identify the sample.
    let green_and_blue = |images: &[f32]| -> Vec<Vec<f32>> {
        let pictures = images.chunks(picture);
        pictures.map(|image| image[64..].to_vec()).collect()
    };
    let pictures = green_and_blue(&expected);
    assert!(pictures[1..].iter().any(|other| *other != pictures[0]));
}

/// The first copy of a sample is the same image as without repeats.
#[test]
fn each_copy_of_a_sample_is_another_picture() {
    let (_dir, config) = config(&[]);
    let pictures = |copies: &[u32]| -> Vec<Vec<f32>> {
        let config = LoaderConfig {
            order: vec![4; 4],
            copies: copies.to_vec(),
            ..config.clone()
        };
        let batch = batches(&config).remove(0);
        let pictures = batch.views[0].pixels.chunks(3 * 8 * 8);
        pictures.map(<[f32]>::to_vec).collect()
    };
    let plain = pictures(&[]);
    let copies = pictures(&[0, 1, 0, 2]);
    assert!(plain.iter().all(|picture| *picture == plain[0]));
    assert_eq!([&copies[0], &copies[2]], [&plain[0]; 2]);
    assert!(copies[1] != copies[0] && copies[3] != copies[0] && copies[3] != copies[1]);
}

/// Each view has its own size and its own draws; the first is the same as in a batch with one view.
#[test]
fn views_are_of_the_same_images() {
    let (_dir, one) = config(&[]);
    let three = LoaderConfig {
        prepare: views(&[(8, 8), (8, 8), (4, 6)], |sample| sample.label),
        ..one.clone()
    };
    for (one, three) in batches(&one).iter().zip(batches(&three)) {
        let [first, second, small] = &three.views[..] else {
            unreachable!("three views were asked for");
        };
        assert_eq!(*first, one.views[0]);
        assert_eq!(
            (&one.indices, &one.targets),
            (&three.indices, &three.targets)
        );
        assert_eq!(small.shape(), [one.len(), 3, 4, 6]);
        assert_ne!(first, second);
        // The red channel is the sample's index except for the border.
        for (n, &index) in three.indices.iter().enumerate() {
            let red = second.pixels[n * 192 + 4 * 8 + 4] * 255.0;
            assert!((red - index as f32).abs() < 1e-3);
        }
    }
}

/// Targets are computed by the given function, and can have any type.
#[test]
fn targets_are_of_any_kind() {
    let (_dir, labels) = config(&[]);
    let names = LoaderConfig {
        prepare: views(&[(8, 8)], |sample| {
            sample.path.file_name().map(ToOwned::to_owned)
        }),
        pad_to: 1,
        source: labels.source,
        order: labels.order,
        copies: labels.copies,
        batch_size: labels.batch_size,
        purpose: labels.purpose,
        first_batch: labels.first_batch,
        every: 1,
        workers: labels.workers,
        prefetch: labels.prefetch,
        epoch: labels.epoch,
        seed: labels.seed,
        on_error: labels.on_error,
        max_skipped: labels.max_skipped,
    };
    let batch = Loader::start(names).unwrap().next().unwrap().unwrap();
    for (index, name) in batch.indices.iter().zip(batch.targets) {
        assert_eq!(name.unwrap(), format!("{index:02}.png").as_str());
    }
}
