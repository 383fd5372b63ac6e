#![expect(clippy::unwrap_used, reason = "tests")]

mod limits;

use std::sync::Arc;

use image::{GrayImage, Luma, Rgb};

use super::geometry::{crop, draw_crop, fitted, flip, nearest, pad, resize};
use super::*;
use crate::augment::Crop;
use crate::{
    ClassNames, DataConfig, DataKind, IGNORED, Loader, LoaderConfig, OnError, Purpose, Split,
    epoch_order, image_key, open_part,
};

/// An image whose colours are its pixels' places, and a mask of quarters 0 to 3.
fn pair(width: u32, height: u32) -> (RgbImage, LabelMap) {
    let image = RgbImage::from_fn(width, height, |x, y| Rgb([x as u8, y as u8, 7]));
    let label = |x: u32, y: u32| (2 * (y >= height / 2) as u8) + (x >= width / 2) as u8;
    let labels = (0..height).flat_map(|y| (0..width).map(move |x| label(x, y)));
    let map = LabelMap {
        labels: labels.collect(),
        size: (height as usize, width as usize),
    };
    (image, map)
}

fn config() -> DenseConfig {
    DenseConfig {
        scale: [64, 16],
        crop: [16, 16],
        ..DenseConfig::default()
    }
}

fn train(config: &DenseConfig) -> JointTrain {
    JointTrain::new(config, &AugmentConfig::default(), ImageLimits::default()).unwrap()
}

/// Worked by hand: the shorter side fits, unless the longer one would be too long.
#[test]
fn a_size_keeps_both_sides() {
    assert_eq!(fitted((683, 512), [2048, 512]), (683, 512));
    assert_eq!(fitted((1024, 512), [2048, 512]), (1024, 512));
    // 300 * 512 / 400 = 384: the shorter side is 512, the longer 682.67.
    assert_eq!(fitted((300, 400), [2048, 512]), (512, 683));
    // 5000 / 500: the longer side would be 5120.
    assert_eq!(fitted((500, 5000), [2048, 512]), (205, 2048));
    assert_eq!(fitted((1, 1000), [10, 10]), (1, 10));
}

/// Neither an image that becomes too large nor a crop that is too large reserves memory.
#[test]
fn more_than_the_most_pixels_are_refused() {
    let limits = ImageLimits::of(300);
    let augment = AugmentConfig::default();
    let (image, map) = pair(12, 10);
    let eval = JointEval::new(&config(), &augment, limits, 2).unwrap();
    // 19 x 16 pixels are 304.
    let error = eval.image(image.clone()).unwrap_err().to_string();
    assert!(error.contains("19 x 16"), "{error}");
    let train = JointTrain::new(&config(), &augment, limits).unwrap();
    let mut keys = (0..20).map(|key| train.augment(image.clone(), &map, Key::new(key)));
    assert!(keys.any(|found| matches!(found, Err(AugmentError::Enlarged { .. }))));
    // 64 x 1 pixels.
    let error = eval.image(RgbImage::new(64, 1)).unwrap_err();
    assert!(matches!(error, AugmentError::Narrow { .. }), "{error}");
    let wide = DenseConfig {
        crop: [10, 31],
        ..config()
    };
    let error = JointTrain::new(&wide, &augment, limits).unwrap_err();
    assert!(error.to_string().contains("`dense.crop`"), "{error}");
}

#[test]
fn a_mask_takes_the_pixel_at_the_floor() {
    let map = LabelMap {
        labels: (0..5).collect(),
        size: (1, 5),
    };
    assert_eq!(nearest(&map, (3, 1)).labels, [0, 1, 3]);
    assert_eq!(
        nearest(&map, (7, 2)).labels,
        [0, 0, 1, 2, 2, 3, 4, 0, 0, 1, 2, 2, 3, 4]
    );
}

#[test]
fn flipping_twice_is_nothing() {
    let (image, map) = pair(7, 4);
    let (mut once, mut once_map) = (image.clone(), map.clone());
    flip(&mut once, &mut once_map);
    assert_eq!(once_map.labels[..7], [1, 1, 1, 1, 0, 0, 0]);
    assert_eq!(once.get_pixel(0, 0).0, [6, 0, 7]);
    flip(&mut once, &mut once_map);
    assert_eq!((once, once_map), (image, map));
}

/// Image and mask show the same part, and a border is ignored.
#[test]
fn a_crop_is_of_both() {
    let (image, map) = pair(10, 8);
    let part = Crop {
        left: 4,
        top: 2,
        width: 3,
        height: 4,
    };
    let (image, map) = crop(image, &map, part);
    assert_eq!(image.get_pixel(0, 0).0, [4, 2, 7]);
    assert_eq!(map.labels, [0, 1, 1, 0, 1, 1, 2, 3, 3, 2, 3, 3]);
    let padded = pad(&map, (5, 4));
    assert_eq!(padded.labels[..5], [0, 1, 1, IGNORED, 0]);
    assert_eq!(padded.labels[16..], [IGNORED; 4]);
}

/// A quarter of the width is another class: most crops have a single class, or too much of one.
#[test]
fn a_crop_of_one_class_is_drawn_again() {
    let columns = |label: fn(usize) -> u8| LabelMap {
        labels: (0..40 * 8).map(|at| label(at % 40)).collect(),
        size: (8, 40),
    };
    let map = columns(|x| (x >= 30) as u8);
    let share = |most: f64, key: u64| {
        let part = draw_crop(&map, [8, 8], most, Key::new(key));
        assert!(part.left + 8 <= 40 && (part.top, part.width, part.height) == (0, 8, 8));
        (part.left + 8).saturating_sub(30).min(8)
    };
    let is_mixed = |ones: u32| (3..=5).contains(&ones);
    let count = |most| (0..400).filter(|&key| is_mixed(share(most, key))).count();
    // 3 of 33 places have less than three quarters of either class; of eleven draws, one or more has in 65 %.
    let (first, redrawn) = (count(1.0), count(0.75));
    assert!(first.abs_diff(36) < 30, "{first}");
    assert!(redrawn.abs_diff(259) < 50, "{redrawn}");
    // Ignored pixels do not count: half of a crop can be ignored, and the rest is even.
    let map = columns(|x| if x % 4 < 2 { IGNORED } else { (x % 2) as u8 });
    let first = |most| draw_crop(&map, [8, 8], most, Key::new(5));
    assert_eq!(first(0.6), first(1.0));
    // A class alone is never enough, and the last draw stands.
    let map = columns(|_| 3);
    let last = draw_crop(&map, [8, 8], 0.75, Key::new(5));
    assert_ne!(last, draw_crop(&map, [8, 8], 1.0, Key::new(5)));
}

/// After geometry alone, a mask fits its image: the mask's class follows from the image's colours.
#[test]
fn image_and_mask_go_together() {
    let (image, map) = pair(48, 36);
    let plain = DenseConfig {
        photometric: false,
        ..config()
    };
    let plain = train(&plain);
    let mut sizes = std::collections::BTreeSet::new();
    for key in 0..50 {
        let (image, map) = plain.augment(image.clone(), &map, Key::new(key)).unwrap();
        assert_eq!(map.size, (image.height() as usize, image.width() as usize));
        sizes.insert(map.size);
        let misfits = image.pixels().zip(&map.labels).filter(|(pixel, label)| {
            let expected = 2 * (pixel.0[1] >= 18) as u8 + (pixel.0[0] >= 24) as u8;
            expected != **label
        });
        // The pixels beside the borders of classes are between them, and shift by half a pixel.
        let most = 3 * (map.size.0 + map.size.1);
        assert!(misfits.count() <= most);
        assert!(map.labels.iter().all(|label| *label < 4));
    }
    // Smaller than the crop with small numbers, otherwise as large.
    assert!(
        sizes.len() > 3 && sizes.iter().all(|size| size.0 <= 16 && size.1 <= 16),
        "{sizes:?}"
    );
    assert!(sizes.contains(&(16, 16)));
}

#[test]
fn wrong_settings_are_refused() {
    let refused = |config: DenseConfig| {
        let error = JointTrain::new(&config, &AugmentConfig::default(), ImageLimits::default());
        error.unwrap_err().to_string()
    };
    let scale = refused(DenseConfig {
        scale: [512, 2048],
        ..config()
    });
    assert_eq!(
        scale,
        "`dense.scale` is [512, 2048]: expected the larger value first"
    );
    let ratio = refused(DenseConfig {
        ratio: [2.0, 0.5],
        ..config()
    });
    assert!(ratio.contains("`dense.ratio` is [2.0, 0.5]"), "{ratio}");
    let crop = refused(DenseConfig {
        crop: [0, 5],
        ..config()
    });
    assert!(crop.contains("`dense.crop`"), "{crop}");
}

#[test]
fn an_image_without_pixels_is_an_error() {
    assert!(resize(RgbImage::new(0, 3), (4, 4)).is_err());
}

/// Images of several sizes, with masks, through the loader.
fn folder() -> (tempfile::TempDir, Arc<Source>) {
    let dir = tempfile::tempdir().unwrap();
    for folder in ["images/train", "masks/train", "images/val", "masks/val"] {
        fs_err::create_dir_all(dir.path().join(folder)).unwrap();
    }
    for index in 0..7_u32 {
        let (width, height) = (20 + 3 * index, 24);
        let image = RgbImage::from_fn(width, height, |x, y| {
            Rgb([x as u8 * 5, y as u8 * 9, index as u8])
        });
        let mask = GrayImage::from_fn(width, height, |x, y| Luma([(x / 8 + y / 8) as u8 % 3]));
        for split in ["train", "val"] {
            let path = |folder: &str| {
                dir.path()
                    .join(folder)
                    .join(split)
                    .join(format!("{index}.png"))
            };
            image.save(path("images")).unwrap();
            mask.save(path("masks")).unwrap();
        }
    }
    let data = DataConfig {
        kind: DataKind::Masks,
        path: dir.path().to_owned(),
        classes: Some(ClassNames::Count(3)),
        ..DataConfig::default()
    };
    let source = open_part(&data, Split::Train, None).unwrap();
    (dir, Arc::new(source))
}

fn loading(source: &Arc<Source>, prepare: Arc<dyn Prepare<LabelMap>>) -> LoaderConfig<LabelMap> {
    LoaderConfig {
        source: Arc::clone(source),
        prepare,
        pad_to: 1,
        order: epoch_order(7, 0, 3, true),
        copies: Vec::new(),
        batch_size: 3,
        purpose: Purpose::Train { drop_last: false },
        first_batch: 0,
        every: 1,
        workers: 0,
        prefetch: 2,
        epoch: 2,
        seed: 3,
        on_error: OnError::Fail,
        max_skipped: 0,
    }
}

fn batches(config: LoaderConfig<LabelMap>) -> Vec<crate::Batch<LabelMap>> {
    Loader::start(config)
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap()
}

#[test]
fn batches_do_not_depend_on_the_workers() {
    let (_dir, source) = folder();
    let config = |workers, first_batch| LoaderConfig {
        workers,
        first_batch,
        ..loading(&source, Arc::new(train(&config())))
    };
    let all = batches(config(0, 0));
    assert_eq!(
        all.iter().map(crate::Batch::len).collect::<Vec<_>>(),
        [3, 3, 1]
    );
    for batch in &all {
        assert_eq!(batch.views[0].size, (16, 16));
        assert!(batch.targets.iter().all(|map| map.size == (16, 16)));
    }
    assert_eq!(batches(config(3, 0)), all);
    // A resumed epoch has the same rest.
    assert_eq!(batches(config(2, 1)), all[1..]);
    // What a preview draws is what is trained on.
    let index = all[0].indices[0];
    let (image, map) = source.pair(index, ImageLimits::default()).unwrap();
    let (_, map) = train(&super::tests::config())
        .augment(image, &map, image_key(3, 2, index))
        .unwrap();
    assert_eq!(pad(&map, (16, 16)), all[0].targets[0]);
}

/// An evaluation shows the whole image, and its mask at the original size; a batch of several sizes is padded.
#[test]
fn evaluation_keeps_the_mask() {
    let (_dir, source) = folder();
    let eval = JointEval::new(
        &config(),
        &AugmentConfig::default(),
        ImageLimits::default(),
        1,
    )
    .unwrap();
    let all = LoaderConfig {
        order: vec![0, 6],
        purpose: Purpose::Evaluate,
        pad_to: 8,
        ..loading(&source, Arc::new(eval.clone()))
    };
    let batch = batches(all).remove(0);
    // 20 x 24 and 38 x 24 to a shorter side of 16, rounded up to multiples of 8.
    let view = &batch.views[0];
    assert_eq!(view.valid, [[19, 16], [16, 25]]);
    assert_eq!(view.size, (24, 32));
    let sizes: Vec<_> = batch.targets.iter().map(|map| map.size).collect();
    assert_eq!(sizes, [(24, 20), (24, 38)]);
    for (n, index) in [0, 6].into_iter().enumerate() {
        let (image, map) = source.pair(index, ImageLimits::default()).unwrap();
        assert_eq!(map, batch.targets[n]);
        let alone = eval.image(image).unwrap();
        let [rows, columns] = view.valid[n];
        assert_eq!(alone.size, (rows, columns));
        for channel in 0..3 {
            for (y, x) in (0..24).flat_map(|y| (0..32).map(move |x| (y, x))) {
                let value = view.pixels[((n * 3 + channel) * 24 + y) * 32 + x];
                let expected = if y < rows && x < columns {
                    alone.pixels[(channel * rows + y) * columns + x]
                } else {
                    0.0
                };
                assert_eq!(value, expected);
            }
        }
    }
}

/// A pair is one sample: with a bad mask, another one takes its place.
#[test]
fn a_bad_mask_is_a_bad_sample() {
    let (dir, source) = folder();
    fs_err::write(dir.path().join("masks/train/2.png"), b"no PNG").unwrap();
    let config = |on_error| LoaderConfig {
        order: (0..7).collect(),
        on_error,
        max_skipped: 1,
        ..loading(&source, Arc::new(train(&config())))
    };
    let error = Loader::start(config(OnError::Fail))
        .unwrap()
        .find_map(Result::err)
        .unwrap();
    let message = error.to_string();
    assert!(
        message.contains("images/train/2.png") && message.contains("masks/train/2.png"),
        "{message}"
    );
    let mut loader = Loader::start(config(OnError::Skip)).unwrap();
    let indices: Vec<u32> = loader
        .by_ref()
        .flat_map(|batch| batch.unwrap().indices)
        .collect();
    assert_eq!(indices, [0, 1, 3, 3, 4, 5, 6]);
    assert_eq!(loader.skipped().len(), 1);
}
