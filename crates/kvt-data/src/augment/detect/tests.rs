#![expect(clippy::unwrap_used, reason = "tests")]

mod limits;

use std::path::Path;
use std::sync::Arc;

use image::Rgb;
use kvt_ops::ObjectMask;
use serde_json::{Value, json};

use super::*;
use crate::coco::{Coco, Rle};
use crate::{
    DataConfig, DataKind, Loader, LoaderConfig, OnError, Purpose, epoch_order, open,
    oriented_batch_count, oriented_order,
};

/// An image of 12 x 10 (width x height) in which each pixel has its place as a colour, and the objects of a file.
fn scene(annotations: &Value) -> (RgbImage, Coco) {
    let image = RgbImage::from_fn(12, 10, |x, y| Rgb([x as u8 * 20, y as u8 * 25, 7]));
    let file = json!({
        "images": [{"id": 70, "file_name": "a.png", "width": 12, "height": 10}],
        "categories": [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}],
        "annotations": annotations,
    });
    let coco = Coco::parse(
        file.to_string().as_bytes(),
        Path::new("a.json"),
        OnError::Fail,
    );
    (image, coco.unwrap())
}

/// Columns 2 to 5 and rows 1 to 4, without the corner at (2, 1), in a box that is a little larger; and a box alone.
fn two() -> Value {
    let mut counts = vec![22, 3];
    counts.extend([6, 4, 6, 4, 6, 4]);
    counts.push(120 - counts.iter().sum::<u32>());
    json!([
        {"id": 1, "image_id": 70, "category_id": 2, "bbox": [1.5, 1, 4.75, 4], "area": 15,
         "segmentation": {"size": [10, 12], "counts": counts}},
        {"id": 2, "image_id": 70, "category_id": 1, "bbox": [8, 6, 4, 3], "area": 12},
        {"id": 3, "image_id": 70, "category_id": 1, "bbox": [0, 0, 12, 10], "area": 120, "iscrowd": 1},
    ])
}

fn objects_of(coco: &Coco) -> ImageObjects<'_> {
    ImageObjects {
        image: &coco.images[0],
        annotations: coco.annotations(0),
    }
}

fn applied(steps: &Steps, annotations: &Value) -> (RgbImage, Objects) {
    let (image, coco) = scene(annotations);
    steps.apply(image, objects_of(&coco)).unwrap()
}

fn plain(size: (u32, u32)) -> Steps {
    Steps {
        flips: false,
        before: None,
        size,
    }
}

fn boxes(objects: &Objects) -> Vec<[f32; 4]> {
    objects.all.iter().map(|object| object.corners).collect()
}

fn labels(objects: &Objects) -> Vec<usize> {
    objects.all.iter().map(|object| object.label).collect()
}

/// The number of pixels inside.
fn area(mask: &ObjectMask) -> usize {
    mask.inside.iter().filter(|inside| **inside).count()
}

/// A mask as rows of digits.
fn rows(mask: &ObjectMask) -> Vec<String> {
    let digit = |inside: &bool| if *inside { '1' } else { '0' };
    let rows = mask.inside.chunks(mask.width.max(1));
    rows.map(|row| row.iter().map(digit).collect()).collect()
}

#[test]
fn untouched_objects_are_those_of_the_file() {
    let (image, objects) = applied(&plain((12, 10)), &two());
    assert_eq!(image.get_pixel(3, 2).0, [60, 50, 7]);
    assert_eq!(objects.image_id, 70);
    assert_eq!((objects.size, objects.original), ((10, 12), (10, 12)));
    // The crowd is left out.
    assert_eq!(
        boxes(&objects),
        [[1.5, 1.0, 6.25, 5.0], [8.0, 6.0, 12.0, 9.0]]
    );
    assert_eq!(labels(&objects), [1, 0]);
    let [mask, boxed] = [0, 1].map(|at: usize| &objects.all[at].mask);
    // The first run begins in row 2 of column 2.
    assert_eq!(rows(mask), ["0111", "1111", "1111", "1111"]);
    assert_eq!((mask.top, mask.left, area(mask)), (1, 2, 15));
    assert!(
        mask.contains(2, 2) && !mask.contains(1, 2) && !mask.contains(0, 0) && !mask.contains(2, 6)
    );
    assert_eq!(
        (
            boxed.top,
            boxed.left,
            boxed.height,
            boxed.width,
            area(boxed)
        ),
        (6, 8, 3, 4, 12)
    );
}

/// `x1' = w - x2`, `x2' = w - x1`.
#[test]
fn a_flip_mirrors_everything() {
    let flip = Steps {
        flips: true,
        ..plain((12, 10))
    };
    let (image, objects) = applied(&flip, &two());
    assert_eq!(image.get_pixel(8, 2).0, [60, 50, 7]);
    assert_eq!(
        boxes(&objects),
        [[5.75, 1.0, 10.5, 5.0], [0.0, 6.0, 4.0, 9.0]]
    );
    assert_eq!(rows(&objects.all[0].mask), ["1110", "1111", "1111", "1111"]);
    assert_eq!((objects.all[0].mask.top, objects.all[0].mask.left), (1, 6));
    assert_eq!(objects.all[1].mask.left, 0);
}

/// Half as wide, three times as high.
#[test]
fn resizing_takes_the_actual_factors() {
    let (image, objects) = applied(&plain((6, 30)), &two());
    assert_eq!((image.dimensions(), objects.size), ((6, 30), (30, 6)));
    assert_eq!(objects.all[0].corners, [0.75, 3.0, 3.125, 15.0]);
    // Columns 0, 2, 4, ...: of the mask's 2 to 5, the first and the third.
    let mask = &objects.all[0].mask;
    assert_eq!(
        (mask.top, mask.left, mask.height, mask.width),
        (3, 1, 12, 2)
    );
    assert_eq!(rows(mask)[..4], ["01", "01", "01", "11"]);
    assert!(rows(mask)[3..].iter().all(|row| row == "11"));
}

/// To 24 x 20, cut to columns 8 to 19 and rows 4 to 9, and this to half of its size.
#[test]
fn a_crop_cuts_boxes_and_masks_and_drops_what_is_outside() {
    let steps = Steps {
        before: Some((
            (24, 20),
            Crop {
                left: 8,
                top: 4,
                width: 12,
                height: 6,
            },
        )),
        ..plain((6, 3))
    };
    let (image, objects) = applied(&steps, &two());
    assert_eq!(image.dimensions(), (6, 3));
    // The first box was 3 to 12.5 and 2 to 10; the second one, from row 12 on, is gone.
    assert_eq!(boxes(&objects), [[0.0, 0.0, 2.25, 3.0]]);
    assert_eq!(labels(&objects), [1]);
    // Original columns 4 to 9, rows 2 to 4.
    let mask = &objects.all[0].mask;
    assert_eq!((mask.top, mask.left), (0, 0));
    assert_eq!(rows(mask), ["11", "11", "11"]);
    let alone = Steps {
        before: Some((
            (12, 10),
            Crop {
                left: 7,
                top: 0,
                width: 5,
                height: 5,
            },
        )),
        ..plain((5, 5))
    };
    let (_, none) = applied(&alone, &two());
    assert!(none.all.is_empty());
}

/// Whatever is drawn: masks are those of the augmented image, which is told by its colours.
#[test]
fn image_boxes_and_masks_go_together() {
    let mut image = RgbImage::from_pixel(90, 60, Rgb([10, 10, 10]));
    for (y, x) in (20..50).flat_map(|y| (30..70).map(move |x| (y, x))) {
        image.put_pixel(x, y, Rgb([250, 250, 250]));
    }
    let file = json!({
        "images": [{"id": 1, "file_name": "a.png", "width": 90, "height": 60}],
        "categories": [{"id": 1, "name": "a"}],
        "annotations": [{"id": 1, "image_id": 1, "category_id": 1, "bbox": [30, 20, 40, 30], "area": 1200,
            "segmentation": [[30, 20, 70, 20, 70, 50, 30, 50]]}],
    });
    let coco = Coco::parse(
        file.to_string().as_bytes(),
        Path::new("a.json"),
        OnError::Fail,
    )
    .unwrap();
    let config = MultiscaleConfig {
        sizes: vec![120, 200, 300],
        max: 600,
        ..MultiscaleConfig::default()
    };
    let train =
        PrepareObjects::train(&config, &AugmentConfig::default(), ImageLimits::default()).unwrap();
    let (mut sizes, mut lefts) = (std::collections::BTreeSet::new(), 0);
    for key in 0..30 {
        let (image, objects) = train
            .augment(image.clone(), objects_of(&coco), Key::new(key))
            .unwrap();
        let (width, height) = image.dimensions();
        assert_eq!(objects.size, (height as usize, width as usize));
        assert!(width.max(height) <= 600);
        sizes.insert(width.min(height));
        let Some([x1, y1, x2, y2]) = boxes(&objects).first().copied() else {
            continue;
        };
        assert!(x1 >= 0.0 && y1 >= 0.0 && x2 <= width as f32 && y2 <= height as f32);
        lefts += usize::from(x1 + x2 < width as f32);
        let mask = &objects.all[0].mask;
        let mut wrong = 0;
        for (x, y, pixel) in image.enumerate_pixels() {
            let is_inside = mask.contains(y as usize, x as usize);
            wrong += usize::from(is_inside != (pixel.0[0] > 130));
            // The mask is that of the box, to a pixel.
            let (x, y) = (x as f32 + 0.5, y as f32 + 0.5);
            let reach = |by: f32| x > x1 - by && x < x2 + by && y > y1 - by && y < y2 + by;
            assert!(if is_inside { reach(1.5) } else { !reach(-1.5) });
        }
        // The nearest pixel is that at the floor, half a pixel of the original beside the bilinear one.
        let border = 2.0 * ((x2 - x1) + (y2 - y1));
        assert!(
            wrong as f32 <= 2.5 * border,
            "{wrong} of a border of {border}"
        );
    }
    assert!(sizes.len() >= 3, "{sizes:?}");
    assert!((5..25).contains(&lefts), "{lefts}");
}

/// The draws of the recipe: half are flipped, half are cut before; each size as often.
#[test]
fn draws_are_those_of_the_recipe() {
    let config = MultiscaleConfig::default();
    assert_eq!((config.sizes.len(), config.largest()), (11, 800));
    let all: Vec<Steps> = (0..2000)
        .map(|key| Steps::draw(&config, (640, 480), Key::new(key)))
        .collect();
    let count = |is: &dyn Fn(&Steps) -> bool| all.iter().filter(|steps| is(steps)).count();
    // Six standard deviations of a binomial.
    assert!(count(&|steps| steps.flips).abs_diff(1000) < 135);
    let cut: Vec<_> = all.iter().filter_map(|steps| steps.before).collect();
    assert!(cut.len().abs_diff(1000) < 135);
    for short in [400, 500, 600] {
        let of = cut.iter().filter(|((_, height), _)| *height == short);
        assert!(of.count().abs_diff(cut.len() / 3) < 120);
    }
    for ((width, height), crop) in cut {
        assert!(
            (384..=600).contains(&crop.width) && (384..=height.min(600)).contains(&crop.height)
        );
        assert!(crop.left + crop.width <= width && crop.top + crop.height <= height);
    }
    let whole = all.iter().filter(|steps| steps.before.is_none());
    for size in &config.sizes {
        let of = whole.clone().filter(|steps| steps.size.1 == *size);
        assert!(of.count().abs_diff(1000 / 11) < 60, "{size}");
    }
    // Long images: the longer side decides.
    let long = Steps::draw(
        &MultiscaleConfig {
            crop_before: false,
            sizes: vec![800],
            ..config
        },
        (2000, 500),
        Key::new(1),
    );
    assert_eq!((long.before, long.size), (None, (1333, 333)));
}

#[test]
fn wrong_settings_are_refused() {
    let refused = |config: MultiscaleConfig| {
        let made =
            PrepareObjects::train(&config, &AugmentConfig::default(), ImageLimits::default());
        made.unwrap_err().to_string()
    };
    let max = refused(MultiscaleConfig {
        max: 700,
        ..MultiscaleConfig::default()
    });
    assert_eq!(
        max,
        "`multiscale.max` is 700: expected at least 800, the largest of `sizes`"
    );
    let none = refused(MultiscaleConfig {
        sizes: Vec::new(),
        ..MultiscaleConfig::default()
    });
    assert!(none.contains("`multiscale.sizes`"), "{none}");
    let zero = refused(MultiscaleConfig {
        sizes: vec![0],
        ..MultiscaleConfig::default()
    });
    assert!(zero.contains("`multiscale.sizes`"), "{zero}");
}

/// Neither an image that becomes too large nor one that is cut afterwards reserves memory.
#[test]
fn more_than_the_most_pixels_are_refused() {
    let augment = AugmentConfig::default();
    let config = MultiscaleConfig {
        sizes: vec![20],
        max: 30,
        crop_before: false,
        ..MultiscaleConfig::default()
    };
    let of = |max_pixels| {
        let limits = ImageLimits::of(max_pixels);
        let train = PrepareObjects::train(&config, &augment, limits).unwrap();
        (
            train,
            PrepareObjects::evaluation(&config, &augment, limits).unwrap(),
        )
    };
    // 12 x 10 to 24 x 20 pixels.
    let (image, coco) = scene(&two());
    let (train, eval) = of(480);
    let key = Key::new(1);
    assert!(eval.image(image.clone()).is_ok());
    assert!(train.augment(image.clone(), objects_of(&coco), key).is_ok());
    let (train, eval) = of(479);
    let expected = "resized to 24 x 20 pixels by `multiscale.sizes`, the image would have more than `data.max_pixels` = 479";
    let error = eval.image(image.clone()).unwrap_err();
    assert_eq!(error.to_string(), expected);
    let error = train.augment(image.clone(), objects_of(&coco), key);
    assert_eq!(error.unwrap_err().to_string(), expected);
    // Half of the images are 400 pixels high or more before they are cut to 600 x 600 at most.
    let config = MultiscaleConfig {
        max: 1333,
        crop_before: true,
        ..config
    };
    let limits = ImageLimits::of(100_000);
    let train = PrepareObjects::train(&config, &augment, limits).unwrap();
    let texts = (0..20).filter_map(|key| {
        let found = train.augment(image.clone(), objects_of(&coco), Key::new(key));
        Some(found.err()?.to_string())
    });
    let texts: Vec<String> = texts.collect();
    assert!((1..20).contains(&texts.len()), "{texts:?}");
    let is_of_crops = |text: &String| text.contains("by `multiscale.crop_before`");
    assert!(texts.iter().all(is_of_crops), "{texts:?}");
}

/// Images of several sizes, each with an object.
fn folder() -> (tempfile::TempDir, Arc<Source>, Arc<Source>) {
    let dir = tempfile::tempdir().unwrap();
    let (mut images, mut annotations) = (Vec::new(), Vec::new());
    for split in ["train", "val"] {
        fs_err::create_dir_all(dir.path().join(split)).unwrap();
    }
    fs_err::create_dir_all(dir.path().join("annotations")).unwrap();
    for index in 0..7_u32 {
        let (width, height) = (40 + 5 * index, 48);
        let image = RgbImage::from_fn(width, height, |x, y| Rgb([x as u8, y as u8, index as u8]));
        for split in ["train", "val"] {
            image
                .save(dir.path().join(split).join(format!("{index}.png")))
                .unwrap();
        }
        images.push(json!({"id": index, "file_name": format!("{index}.png"), "width": width, "height": height}));
        annotations.push(json!({
            "id": index, "image_id": index, "category_id": 1, "bbox": [10, 8, 20, 24], "area": 480,
            "segmentation": [[10, 8, 30, 8, 30, 32, 10, 32]],
        }));
    }
    let file = json!({"images": images, "annotations": annotations, "categories": [{"id": 1, "name": "a"}]});
    for split in ["train", "val"] {
        let path = dir
            .path()
            .join(format!("annotations/instances_{split}.json"));
        fs_err::write(path, file.to_string()).unwrap();
    }
    let data = DataConfig {
        kind: DataKind::Coco,
        path: dir.path().to_owned(),
        ..DataConfig::default()
    };
    let [train, val] = open(&data, None).unwrap().map(Arc::new);
    (dir, train, val)
}

fn loading(source: &Arc<Source>, prepare: Arc<dyn Prepare<Objects>>) -> LoaderConfig<Objects> {
    LoaderConfig {
        source: Arc::clone(source),
        prepare,
        pad_to: 32,
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

fn small() -> MultiscaleConfig {
    MultiscaleConfig {
        sizes: vec![40, 56, 72],
        max: 90,
        ..MultiscaleConfig::default()
    }
}

fn batches(config: LoaderConfig<Objects>) -> Vec<crate::Batch<Objects>> {
    Loader::start(config)
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap()
}

#[test]
fn batches_do_not_depend_on_the_workers() {
    let (_dir, source, _) = folder();
    let train =
        PrepareObjects::train(&small(), &AugmentConfig::default(), ImageLimits::default()).unwrap();
    let config = |workers, first_batch| LoaderConfig {
        workers,
        first_batch,
        ..loading(&source, Arc::new(train.clone()))
    };
    let all = batches(config(0, 0));
    assert_eq!(
        all.iter().map(crate::Batch::len).collect::<Vec<_>>(),
        [3, 3, 1]
    );
    for batch in &all {
        let view = &batch.views[0];
        assert!(view.size.0 % 32 == 0 && view.size.1 % 32 == 0);
        let sizes: Vec<_> = batch.targets.iter().map(|target| target.size).collect();
        assert_eq!(
            view.valid,
            sizes
                .iter()
                .map(|size| <[usize; 2]>::from(*size))
                .collect::<Vec<_>>()
        );
        let ids: Vec<_> = batch.targets.iter().map(|target| target.image_id).collect();
        assert_eq!(
            ids,
            batch
                .indices
                .iter()
                .map(|index| u64::from(*index))
                .collect::<Vec<_>>()
        );
    }
    assert_eq!(batches(config(3, 0)), all);
    // A resumed epoch has the same rest.
    assert_eq!(batches(config(2, 1)), all[1..]);
    // Another epoch has other draws.
    let other = batches(LoaderConfig {
        epoch: 3,
        ..config(0, 0)
    });
    assert_ne!(other, all);
}

/// An evaluation shows the whole image, its shorter side at the largest size.
#[test]
fn evaluation_resizes_alone() {
    let (_dir, _, val) = folder();
    let eval =
        PrepareObjects::evaluation(&small(), &AugmentConfig::default(), ImageLimits::default())
            .unwrap();
    let config = LoaderConfig {
        order: vec![6, 0],
        batch_size: 1,
        purpose: Purpose::Evaluate,
        ..loading(&val, Arc::new(eval.clone()))
    };
    let all = batches(config);
    // 70 x 48: the shorter side to 72 would make the longer one 105, more than 90.
    let target = &all[0].targets[0];
    assert_eq!(
        (target.size, target.original, target.image_id),
        ((62, 90), (48, 70), 6)
    );
    let expected = [
        10.0 * 90.0 / 70.0,
        8.0 * 62.0 / 48.0,
        30.0 * 90.0 / 70.0,
        32.0 * 62.0 / 48.0,
    ];
    for (found, expected) in target.all[0].corners.iter().zip(expected) {
        assert!((f64::from(*found) - expected).abs() < 1e-5);
    }
    // 40 x 48 to 72 x 86.
    assert_eq!(all[1].targets[0].size, (86, 72));
    let (image, _) = val.annotated(6, ImageLimits::default()).unwrap();
    let alone = eval.image(image).unwrap();
    assert_eq!(alone.size, (62, 90));
    let view = &all[0].views[0];
    assert_eq!(
        (view.size, view.pixels[view.size.1]),
        ((64, 96), alone.pixels[90])
    );
}

/// Two of the seven images are not wider than high; a resumed epoch of such batches has the same rest, for any number of workers.
#[test]
fn a_batch_has_images_of_one_orientation() {
    let (_dir, source, _) = folder();
    let config = MultiscaleConfig {
        crop_before: false,
        ..small()
    };
    let train = PrepareObjects::train(&config, &AugmentConfig::default(), ImageLimits::default());
    let train = Arc::new(train.unwrap());
    let wide = source.orientations().unwrap();
    assert_eq!(wide, [false, false, true, true, true, true, true]);
    let config = |workers, first_batch| LoaderConfig {
        order: oriented_order(&wide, 2, 4, 3, true),
        batch_size: 2,
        workers,
        first_batch,
        ..loading(&source, Arc::clone(&train) as Arc<dyn Prepare<Objects>>)
    };
    let all = batches(config(0, 0));
    assert_eq!(all.len(), oriented_batch_count(&wide, 2));
    for batch in &all {
        let sizes = batch.targets.iter().map(|target| target.size);
        let kinds: Vec<bool> = sizes.map(|(height, width)| width > height).collect();
        assert_eq!(kinds.len(), 2);
        assert_eq!(kinds[0], kinds[1]);
    }
    assert_eq!(batches(config(3, 2)), all[2..]);
}

/// The part of an image that runs become has the pixels of the runs, and no more rows and columns than these have.
#[test]
fn runs_are_cut_to_their_pixels() {
    let (_, coco) = scene(&two());
    let mask = coco.annotations(0)[0].mask((10, 12)).unwrap();
    let part = ObjectMask::from(&mask);
    let place = (part.top, part.left, part.height, part.width);
    assert_eq!((place, area(&part)), ((1, 2, 4, 4), 15));
    for (pixel, is_inside) in mask.decode().into_iter().enumerate() {
        assert_eq!(part.contains(pixel / 12, pixel % 12), is_inside, "{pixel}");
    }
    let nothing = Rle::encode((10, 12), |_, _| false);
    assert_eq!(ObjectMask::from(&nothing), ObjectMask::default());
}
