#![expect(clippy::unwrap_used, reason = "tests")]

use image::{GrayImage, Luma, Rgb, RgbImage};

use super::*;
use crate::source::classes::names;
use crate::{ClassError, DataKind, ImageLimits, Split, open_part};

fn limits() -> ImageLimits {
    ImageLimits::default()
}

fn at(dir: &Path, name: &str) -> PathBuf {
    let path = dir.join(name);
    fs_err::create_dir_all(path.parent().unwrap()).unwrap();
    path
}

fn image(dir: &Path, name: &str) {
    let picture = RgbImage::from_fn(4, 3, |x, y| Rgb([x as u8 * 60, y as u8 * 60, 9]));
    picture.save(at(dir, name)).unwrap();
}

fn mask(dir: &Path, name: &str, values: [u8; 4]) {
    let picture = GrayImage::from_fn(4, 3, |x, _| Luma([values[x as usize]]));
    picture.save(at(dir, name)).unwrap();
}

fn config(dir: &Path) -> DataConfig {
    DataConfig {
        kind: DataKind::Masks,
        path: dir.to_owned(),
        classes: Some(ClassNames::Count(150)),
        ..DataConfig::default()
    }
}

fn labels(source: &Source, index: u32) -> Vec<u8> {
    let (_, map) = source.pair(index, limits()).unwrap();
    assert_eq!(map.size, (3, 4));
    map.labels[..4].to_vec()
}

/// Folders, table of classes and values of ADE20K.
#[test]
fn ade20k() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    for (split, stem) in [
        ("training", "ADE_train_00000002"),
        ("validation", "ADE_val_00000001"),
    ] {
        image(root, &format!("images/{split}/{stem}.jpg"));
        mask(
            root,
            &format!("annotations/{split}/{stem}.png"),
            [0, 1, 150, 255],
        );
    }
    let table = "Idx\tRatio\tTrain\tVal\tName\n1\t0.15\t11664\t1172\twall \n2\t0.1\t6046\t612\tbuilding, edifice\n";
    let rest: String = (3..=150)
        .map(|idx| format!("{idx}\t0\t1\t1\tthing {idx}\n"))
        .collect();
    fs_err::write(root.join("objectInfo150.txt"), format!("{table}{rest}")).unwrap();
    let data = DataConfig {
        masks: "annotations".to_owned(),
        classes: Some(ClassNames::File("objectInfo150.txt".into())),
        zero: ZeroMeans::Ignored,
        ..config(root)
    };
    let [train, val] = crate::open(&data, None).unwrap();
    assert_eq!(train.classes.len(), 150);
    assert_eq!(train.classes[..2], ["wall", "building, edifice"]);
    assert_eq!(labels(&train, 0), [IGNORED, 0, 149, IGNORED]);
    assert_eq!(val.root, root.join("images/validation"));
    assert_eq!(labels(&val, 0), [IGNORED, 0, 149, IGNORED]);
    // Nothing is said about classes without images: it is not known.
    assert!(train.class_counts().is_empty());
    let turned: Vec<String> = train.classes.iter().rev().cloned().collect();
    let error = crate::open(&data, Some(&turned)).unwrap_err().to_string();
    assert!(error.contains("another order"), "{error}");
    let few = &train.classes[..149];
    let error = crate::open(&data, Some(few)).unwrap_err();
    assert!(
        matches!(error, DataError::Classes(ClassError::ClassesDiffer { extra, .. }) if extra == ["thing 150"])
    );
}

/// Names with suffixes, in folders of cities, and raw values.
#[test]
fn cityscapes() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    for split in ["train", "val"] {
        image(
            root,
            &format!("leftImg8bit/{split}/ulm/ulm_0_leftImg8bit.png"),
        );
        mask(
            root,
            &format!("gtFine/{split}/ulm/ulm_0_gtFine_labelTrainIds.png"),
            [0, 18, 255, 3],
        );
        mask(
            root,
            &format!("gtFine/{split}/ulm/ulm_0_gtFine_labelIds.png"),
            [7, 33, 0, 8],
        );
        // Not the classes.
        image(root, &format!("gtFine/{split}/ulm/ulm_0_gtFine_color.png"));
    }
    let data = DataConfig {
        images: "leftImg8bit".to_owned(),
        masks: "gtFine".to_owned(),
        image_suffix: "_leftImg8bit".to_owned(),
        mask_suffix: "_gtFine_labelTrainIds".to_owned(),
        classes: Some(ClassNames::Count(19)),
        ..config(root)
    };
    let train = open_part(&data, Split::Train, None).unwrap();
    assert_eq!(train.classes[18], "18");
    assert_eq!(labels(&train, 0), [0, 18, IGNORED, 3]);
    let raw = DataConfig {
        mask_suffix: "_gtFine_labelIds".to_owned(),
        classes: None,
        map: vec![[7, 0], [8, 1], [33, 18]],
        ..data
    };
    let train = open_part(&raw, Split::Train, None).unwrap();
    assert_eq!(train.classes.len(), 19);
    assert_eq!(labels(&train, 0), [0, 18, IGNORED, 1]);
    let error = DataConfig {
        classes: Some(ClassNames::Count(18)),
        ..raw
    };
    let error = open_part(&error, Split::Train, None)
        .unwrap_err()
        .to_string();
    assert!(error.contains("class 18, but there are 18"), "{error}");
}

/// Splits are lists.
#[test]
fn pascal_voc() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    for stem in ["2007_1", "2007_2", "2007_3", "2008_1"] {
        image(root, &format!("JPEGImages/{stem}.jpg"));
        if stem != "2008_1" {
            mask(
                root,
                &format!("SegmentationClass/{stem}.png"),
                [0, 20, 255, 1],
            );
        }
    }
    let list = |split: &str, text: &str| {
        let name = format!("ImageSets/Segmentation/{split}.txt");
        fs_err::write(at(root, &name), text).unwrap();
    };
    list("train", "2007_3\n2007_1\n");
    list("val", "2007_2\r\n\r\n");
    let data = DataConfig {
        images: "JPEGImages".to_owned(),
        masks: "SegmentationClass".to_owned(),
        list: "ImageSets/Segmentation".to_owned(),
        classes: Some(ClassNames::Count(21)),
        ..config(root)
    };
    let [train, val] = crate::open(&data, None).unwrap();
    let names = |source: &Source| -> Vec<String> {
        let samples = source.samples.iter();
        let names = samples.map(|sample| {
            sample
                .path
                .file_stem()
                .unwrap()
                .to_str()
                .unwrap()
                .to_owned()
        });
        names.collect()
    };
    assert_eq!(
        (names(&train), names(&val)),
        (
            vec!["2007_1".to_owned(), "2007_3".to_owned()],
            vec!["2007_2".to_owned()]
        )
    );
    assert_eq!(labels(&train, 1), [0, 20, IGNORED, 1]);
    let message = || crate::open(&data, None).unwrap_err().to_string();
    list("train", "2007_1\n2009_1\n2008_1\n");
    let found = message();
    assert!(found.contains("1 image without a mask"), "{found}");
    assert!(
        found.contains("1 name of the list without an image: `2009_1`"),
        "{found}"
    );
    list("train", "2007_1\n2007_1\n");
    assert!(message().contains("`2007_1` twice"), "{}", message());
}

#[test]
fn what_has_no_partner_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    for number in 0..9 {
        image(root, &format!("images/train/{number}.png"));
        if number > 6 {
            mask(root, &format!("masks/train/{number}.png"), [0; 4]);
        }
    }
    mask(root, "masks/train/x.png", [0; 4]);
    let open = |data: &DataConfig| open_part(data, Split::Train, None).unwrap_err();
    // The other split is not there.
    let error = open(&config(root)).to_string();
    assert!(
        error.contains("7 images without a mask") && error.contains("4.png"),
        "{error}"
    );
    assert!(!error.contains("5.png"), "five are named: {error}");
    assert!(error.contains("1 mask without an image"), "{error}");
    image(root, "images/train/7.jpg");
    let error = open(&config(root)).to_string();
    assert!(error.contains("same name but for its ending"), "{error}");
    let missing = DataConfig {
        masks: "labels".to_owned(),
        ..config(root)
    };
    assert!(
        matches!(open(&missing), DataError::Pairs(PairError::NoPairs { path, .. }) if path.ends_with("labels/train"))
    );
}

#[test]
fn pixels_and_sizes_that_do_not_fit_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    for name in ["bad", "good", "small"] {
        image(root, &format!("images/train/{name}.png"));
        mask(root, &format!("masks/train/{name}.png"), [0, 1, 2, 1]);
    }
    GrayImage::new(3, 3)
        .save(root.join("masks/train/small.png"))
        .unwrap();
    mask(root, "masks/train/bad.png", [0, 1, 7, 1]);
    image(root, "images/val/1.png");
    mask(root, "masks/val/1.png", [0; 4]);
    let data = DataConfig {
        classes: Some(ClassNames::Count(3)),
        ..config(root)
    };
    let train = open_part(&data, Split::Train, None).unwrap();
    let reason = |index| train.pair(index, limits()).unwrap_err().to_string();
    let bad = reason(0);
    assert!(
        bad.contains("images/train/bad.png") && bad.contains("masks/train/bad.png"),
        "{bad}"
    );
    assert!(
        bad.contains("pixel (2, 0) has the value 7, which is none of the 3 classes"),
        "{bad}"
    );
    assert_eq!(labels(&train, 1), [0, 1, 2, 1]);
    let small = reason(2);
    assert!(
        small.contains("the image has 4 x 3 pixels, its annotation 3 x 3"),
        "{small}"
    );
    assert!(small.contains("masks/train/small.png"), "{small}");
}

/// A photograph with an orientation: its mask is of the picture as stored, or of the upright one.
#[test]
fn an_image_is_turned_where_its_mask_is() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    let picture = RgbImage::from_fn(4, 3, |x, y| Rgb([x as u8 * 60, y as u8 * 60, 9]));
    let mut plain = Vec::new();
    let mut encoder = png::Encoder::new(&mut plain, 4, 3);
    encoder.set_color(png::ColorType::Rgb);
    let mut info = encoder.write_header().unwrap();
    // Tag 274 with the value 6: turn it by 90 degrees.
    let exif = b"II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0";
    info.write_chunk(png::chunk::eXIf, exif).unwrap();
    info.write_image_data(picture.as_raw()).unwrap();
    info.finish().unwrap();
    for (name, width, height) in [("stored", 4, 3), ("upright", 3, 4), ("other", 4, 4)] {
        fs_err::write(at(root, &format!("images/train/{name}.png")), &plain).unwrap();
        let path = at(root, &format!("masks/train/{name}.png"));
        GrayImage::new(width, height).save(path).unwrap();
    }
    let source = open_part(&config(root), Split::Train, None);
    // `open_part` asks for both splits.
    assert!(source.is_err());
    image(root, "images/val/1.png");
    mask(root, "masks/val/1.png", [0; 4]);
    let source = open_part(&config(root), Split::Train, None).unwrap();
    assert!(source.pair(0, limits()).is_err());
    assert_eq!(source.pair(1, limits()).unwrap().0, picture);
    let upright = source.pair(2, limits()).unwrap().0;
    assert_eq!(upright, image::imageops::rotate90(&picture));
    // Kept in memory, they are the same.
    let cached = source.cached(&Arc::new(u64::MAX.into()));
    for _ in 0..2 {
        assert_eq!(cached.pair(1, limits()).unwrap().0, picture);
        assert_eq!(cached.pair(2, limits()).unwrap().0, upright);
    }
    assert_eq!(cached.image(1, limits()).unwrap(), upright);
}

/// `data.subset` and `data.val_fraction` keep images and masks together.
#[test]
fn a_part_keeps_its_masks() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    for number in 0..12_u8 {
        image(root, &format!("images/{number:02}.png"));
        mask(root, &format!("masks/{number:02}.png"), [number; 4]);
    }
    let data = DataConfig {
        val_fraction: 0.25,
        subset: 5,
        ..config(root)
    };
    let [train, val] = crate::open(&data, None).unwrap();
    assert_eq!((train.samples.len(), val.samples.len()), (5, 3));
    for source in [&train, &val] {
        for index in 0..source.samples.len() as u32 {
            let number = source.samples[index as usize].path.file_stem().unwrap();
            let number: u8 = number.to_str().unwrap().parse().unwrap();
            assert_eq!(labels(source, index), [number; 4]);
        }
    }
    // Another list of masks is another data set.
    let state = |val: &Source| crate::DataState::of(&train, val, true);
    let before = state(&val);
    let renamed = Source {
        masks: val.masks.as_ref().map(|masks| {
            let mut masks = Masks::clone(masks);
            masks.files.reverse();
            Arc::new(masks)
        }),
        ..val.clone()
    };
    assert_ne!(state(&renamed), before);
    assert_eq!(state(&val), before);
}

/// Images without a class are named, and a split may have nothing else. A mask that cannot be read may have one.
#[test]
fn images_without_a_class_are_found() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    for (name, values) in [
        ("train/a", [IGNORED; 4]),
        ("train/b", [0, 1, IGNORED, 1]),
        ("train/c", [IGNORED; 4]),
        ("val/a", [0, 1, 1, 1]),
    ] {
        image(root, &format!("images/{name}.png"));
        mask(root, &format!("masks/{name}.png"), values);
    }
    let found = crate::check_masks(&config(root), limits()).unwrap();
    let train = root.join("images/train");
    assert_eq!(
        found.splits[0].unlabelled,
        [train.join("a.png"), train.join("c.png")]
    );
    assert!(found.splits[1].unlabelled.is_empty() && found.is_sound());
    let is_labelled = || {
        let [train, _] = crate::open(&config(root), None).unwrap();
        train.is_labelled(limits())
    };
    assert!(is_labelled());
    mask(root, "masks/train/b.png", [IGNORED; 4]);
    assert!(!is_labelled());
    mask(root, "masks/train/b.png", [200; 4]);
    assert!(is_labelled());
}

#[test]
fn classes_are_lines_or_a_table() {
    assert_eq!(names("sky\n\n car \n"), ["sky", "car"]);
    assert_eq!(names("name\nsky\n"), ["name", "sky"]);
    assert_eq!(names("Name\tIdx\nsky\t1\ncar\t2\n"), ["sky", "car"]);
    let dir = tempfile::tempdir().unwrap();
    let fault = |classes: Option<ClassNames>| {
        let data = DataConfig {
            classes,
            ..config(dir.path())
        };
        super::classes(&data, None).unwrap_err().to_string()
    };
    assert!(fault(None).contains("no classes: `data.classes` names"));
    let many = fault(Some(ClassNames::Count(256)));
    assert!(many.contains("256 classes"), "{many}");
    assert!(fault(Some(ClassNames::File("none.txt".into()))).contains("none.txt"));
    for (ignore, zero, lost) in [
        (5, ZeroMeans::Class, Some(5)),
        (150, ZeroMeans::Class, None),
        (150, ZeroMeans::Ignored, Some(149)),
        (0, ZeroMeans::Ignored, None),
    ] {
        let data = DataConfig {
            ignore,
            zero,
            ..config(dir.path())
        };
        let found = super::classes(&data, None)
            .err()
            .map(|error| error.to_string());
        let expected = lost.map(|class| format!("value of class {class},"));
        match (found, expected) {
            (Some(found), Some(expected)) => assert!(found.contains(&expected), "{found}"),
            (found, expected) => assert_eq!(found, expected),
        }
    }
    let twice = DataConfig {
        map: vec![[7, 0], [8, 1], [7, 1]],
        ..config(dir.path())
    };
    let error = super::classes(&twice, None).unwrap_err().to_string();
    assert!(error.contains("has the value 7 twice"), "{error}");
}

/// A pipe is empty after it was read.
#[cfg(target_os = "linux")]
#[test]
fn classes_are_read_once_for_both_splits() {
    use std::os::fd::AsRawFd as _;
    let dir = tempfile::tempdir().unwrap();
    for split in ["train", "val"] {
        image(dir.path(), &format!("images/{split}/a.png"));
        mask(dir.path(), &format!("masks/{split}/a.png"), [0, 1, 0, 1]);
    }
    let handed_over = |read: &dyn Fn(&DataConfig)| {
        let (reader, mut writer) = std::io::pipe().unwrap();
        std::io::Write::write_all(&mut writer, b"sky\ncar\n").unwrap();
        drop(writer);
        let file = format!("/dev/fd/{}", reader.as_raw_fd());
        read(&DataConfig {
            classes: Some(ClassNames::File(file.into())),
            ..config(dir.path())
        });
    };
    handed_over(&|data| {
        for split in crate::open(data, None).unwrap() {
            assert_eq!(split.classes, ["sky", "car"]);
        }
    });
    handed_over(&|data| {
        let found = crate::check_masks(data, limits()).unwrap();
        assert!(found.splits.len() == 2 && found.is_sound());
    });
    // A resume, an evaluation and a report come after the run has read the pipe, and know its classes.
    handed_over(&|data| {
        let classes = crate::open(data, None).unwrap().map(|split| split.classes);
        let known = &classes[0];
        for split in crate::open(data, Some(known)).unwrap() {
            assert_eq!(split.classes, ["sky", "car"]);
        }
        let val = crate::open_split(data, "val", Some(known)).unwrap();
        assert_eq!(val.classes, *known);
        assert_eq!(labels(&val, 0), [0, 1, 0, 1]);
        let error = crate::open_split(data, "val", None)
            .unwrap_err()
            .to_string();
        assert!(error.contains("no classes"), "{error}");
    });
}
