#![expect(clippy::unwrap_used, reason = "tests")]

use std::path::Path;

use image::{Rgb, RgbImage};
use serde_json::{Value, json};

use super::super::{Split, open, open_part, open_split};
use super::*;
use crate::coco::Segmentation;
use crate::shapes::{Layout, ShapesConfig};
use crate::{DataKind, DataState, ImageLimits};

/// Five images of 40 x 36 in two folders: an object; two of another class; a crowd alone; none; an object in a small image.
fn folder() -> (tempfile::TempDir, DataConfig) {
    let dir = tempfile::tempdir().unwrap();
    for split in ["train2017", "val2017"] {
        fs_err::create_dir_all(dir.path().join(split)).unwrap();
        for index in 1..=5 {
            let side = if index == 5 { 20 } else { 36 };
            let color = Rgb([index as u8 * 40, 9, split.len() as u8]);
            let image = RgbImage::from_pixel(40, side, color);
            image
                .save(dir.path().join(split).join(format!("{index}.png")))
                .unwrap();
        }
    }
    fs_err::create_dir(dir.path().join("annotations")).unwrap();
    let data = DataConfig {
        kind: DataKind::Coco,
        path: dir.path().to_owned(),
        train: "train2017".to_owned(),
        val: "val2017".to_owned(),
        ..DataConfig::default()
    };
    for split in [&data.train, &data.val] {
        write(dir.path(), split, &file());
    }
    (dir, data)
}

fn file() -> Value {
    let image = |id: u32| {
        let height = if id == 5 { 20 } else { 36 };
        json!({"id": id, "file_name": format!("{id}.png"), "width": 40, "height": height})
    };
    let object = |id: u32, image: u32, category: u32, crowd: u32| {
        json!({
            "id": id, "image_id": image, "category_id": category, "bbox": [4, 2, 10, 8], "area": 80, "iscrowd": crowd,
            "segmentation": [[4, 2, 14, 2, 14, 10, 4, 10]],
        })
    };
    let images = [5, 4, 3, 2, 1].map(image);
    json!({
        "images": images,
        "categories": [{"id": 9, "name": "b"}, {"id": 4, "name": "a"}, {"id": 20, "name": "c"}],
        "annotations": [
            object(1, 1, 9, 0), object(2, 2, 20, 0), object(3, 2, 20, 0), object(4, 3, 9, 1), object(5, 5, 4, 0),
        ],
    })
}

fn write(dir: &Path, split: &str, file: &Value) {
    let path = dir.join(format!("annotations/instances_{split}.json"));
    fs_err::write(path, file.to_string()).unwrap();
}

fn names(source: &Source) -> Vec<String> {
    let samples = source.samples.iter();
    samples
        .map(|sample| {
            sample
                .path
                .file_name()
                .unwrap()
                .to_str()
                .unwrap()
                .to_owned()
        })
        .collect()
}

fn error(data: &DataConfig) -> String {
    open(data, None).unwrap_err().to_string()
}

#[test]
fn images_without_objects_validate_but_do_not_train() {
    let (_dir, data) = folder();
    let [train, val] = open(&data, None).unwrap();
    assert_eq!(names(&train), ["1.png", "2.png"]);
    assert_eq!(names(&val), ["1.png", "2.png", "3.png", "4.png", "5.png"]);
    assert_eq!(train.classes, ["a", "b", "c"]);
    assert_eq!(
        [train.class_counts(), val.class_counts()],
        [[0, 1, 1], [1, 1, 1]]
    );
    let found = train.objects(1).unwrap();
    assert_eq!((found.image.id, found.annotations.len()), (2, 2));
    let crowd = val.objects(2).unwrap();
    assert_eq!((crowd.annotations.len(), crowd.trained().count()), (1, 0));
    assert_eq!(train.orientations(), Some(vec![true, true]));
    // All images of a split that is asked for by its name.
    assert_eq!(
        names(&open_split(&data, "train2017", None).unwrap()).len(),
        5
    );
    assert_eq!(
        names(&open_part(&data, Split::Train, None).unwrap()),
        names(&train)
    );
    assert_eq!(names(&open_part(&data, Split::Val, None).unwrap()).len(), 5);
    assert!(train.warnings().is_empty());
}

#[test]
fn images_that_are_one_file_are_told() {
    let (dir, data) = folder();
    let mut twice = file();
    // Entries are those of the images 5, 4, 3, 2 and 1.
    twice["images"][1]["file_name"] = json!("./3.png");
    twice["images"][3]["file_name"] = json!("3.png");
    write(dir.path(), "train2017", &twice);
    let [train, val] = open(&data, None).unwrap();
    assert!(val.warnings().is_empty());
    let [warning] = &train.warnings()[..] else {
        unreachable!("{:?}", train.warnings())
    };
    let expected = "2 images of `";
    assert!(
        warning.starts_with(expected) && warning.contains("3.png`: each has"),
        "{warning}"
    );
}

/// Images of 31 x 40, 32 x 32 and 40 x 31 with an object each. A square is not wide, as in mmdetection 2, whose recipe this is.
#[test]
fn images_train_from_32_pixels_on() {
    let (dir, data) = folder();
    let mut changed = file();
    for (id, width, height) in [(1_usize, 31, 40), (2, 32, 32), (5, 40, 31)] {
        // The last image is the first of the file.
        let image = &mut changed["images"][5 - id];
        image["width"] = json!(width);
        image["height"] = json!(height);
    }
    for split in [&data.train, &data.val] {
        write(dir.path(), split, &changed);
    }
    let [train, val] = open(&data, None).unwrap();
    assert_eq!(names(&train), ["2.png"]);
    assert_eq!(train.orientations(), Some(vec![false]));
    let wide = [false, false, true, true, true];
    assert_eq!(val.orientations(), Some(wide.to_vec()));
}

#[test]
fn annotations_are_where_they_are_said_to_be() {
    let (dir, data) = folder();
    let own = dir.path().join("own.json");
    let mut one = file();
    one["annotations"].as_array_mut().unwrap().truncate(1);
    fs_err::write(&own, one.to_string()).unwrap();
    let own = DataConfig {
        train_annotations: "own.json".to_owned(),
        ..data.clone()
    };
    assert_eq!(names(&open(&own, None).unwrap()[0]), ["1.png"]);
    let missing = DataConfig {
        val_annotations: "other.json".to_owned(),
        ..data
    };
    let error = error(&missing);
    assert!(
        error.contains("other.json") && error.contains("`data.val_annotations`"),
        "{error}"
    );
}

#[test]
fn what_is_left_out_is_said() {
    let (dir, mut data) = folder();
    let mut changed = file();
    changed["annotations"][0]["area"] = json!(0);
    changed["annotations"][1]["bbox"] = json!([50, 2, 10, 8]);
    write(dir.path(), &data.train, &changed);
    // Of the second image, an object is left.
    let [train, val] = open(&data, None).unwrap();
    assert_eq!(names(&train), ["2.png"]);
    let said = train.warnings().join("\n");
    let expected = "of 5 objects in";
    assert!(
        said.contains(expected) && said.contains("1 outside of their image, 1 without area"),
        "{said}"
    );
    assert!(val.warnings().is_empty());
    changed["annotations"][4]["segmentation"] = json!([[1, 2, 3, 4]]);
    write(dir.path(), &data.train, &changed);
    assert!(error(&data).contains("annotation 5: a polygon of 4 numbers"));
    data.on_error = OnError::Skip;
    let said = open(&data, None).unwrap()[0].warnings().join("\n");
    assert!(
        said.contains("1 annotation of") && said.contains("the first one, 5:"),
        "{said}"
    );
    changed["annotations"] = json!([]);
    write(dir.path(), &data.train, &changed);
    let error = error(&data);
    assert!(error.contains("of 5, 5 have no object"), "{error}");
}

/// Average precision needs an object, which would be missed after an epoch.
#[test]
fn an_object_validates() {
    let (dir, data) = folder();
    for crowds in [true, false] {
        let mut changed = file();
        let objects = changed["annotations"].as_array_mut().unwrap();
        objects.retain(|object| crowds && object["iscrowd"] == 1);
        assert_eq!(objects.len(), usize::from(crowds));
        write(dir.path(), &data.val, &changed);
        let expected =
            "instances_val2017.json`: it has no object that counts in any of its 5 images";
        let both = error(&data);
        assert!(both.contains(expected), "{both}");
        let part = open_part(&data, Split::Val, None).unwrap_err().to_string();
        assert!(part.contains(expected), "{part}");
    }
}

#[test]
fn images_and_classes_are_there() {
    let (dir, mut data) = folder();
    let image = dir.path().join("val2017/4.png");
    fs_err::remove_file(&image).unwrap();
    let missing = error(&data);
    assert!(
        missing.contains("1 of the images") && missing.contains("`4.png`"),
        "{missing}"
    );
    data.on_error = OnError::Skip;
    assert_eq!(open(&data, None).unwrap()[1].samples.len(), 5);
    let mut other = file();
    other["categories"][0]["name"] = json!("d");
    write(dir.path(), &data.val, &other);
    let classes = error(&data);
    assert!(
        classes.contains("it lacks `b`, it also has `d`"),
        "{classes}"
    );
    let both = DataConfig {
        val_fraction: 0.2,
        ..data
    };
    assert!(error(&both).contains("`data.val_fraction`"));
}

/// The image has the size of the annotations, or is a bad sample.
#[test]
fn an_image_of_another_size_is_bad() {
    let (dir, data) = folder();
    let [train, _] = open(&data, None).unwrap();
    let limits = ImageLimits::default();
    let (image, found) = train.annotated(0, limits).unwrap();
    assert_eq!(
        (
            image.dimensions(),
            found.image.size,
            image.get_pixel(0, 0).0[0]
        ),
        ((40, 36), (36, 40), 40)
    );
    RgbImage::new(36, 40)
        .save(dir.path().join("train2017/1.png"))
        .unwrap();
    let error = train.annotated(0, limits).unwrap_err().to_string();
    assert!(
        error.contains("1.png") && error.contains("instances_train2017.json"),
        "{error}"
    );
    assert!(error.contains("36 x 40"), "{error}");
}

#[test]
fn a_subset_keeps_its_objects() {
    let (_dir, data) = folder();
    let data = DataConfig { subset: 1, ..data };
    let [train, val] = open(&data, None).unwrap();
    assert_eq!((train.samples.len(), val.samples.len()), (1, 5));
    let found = train.objects(0).unwrap();
    assert_eq!(names(&train), std::slice::from_ref(&found.image.file_name));
    assert_eq!(train.objects(1).map(|found| found.image.id), None);
}

/// A run is not resumed with other annotations.
#[test]
fn the_state_is_that_of_the_annotations() {
    let (dir, data) = folder();
    let state = || {
        let [train, val] = open(&data, None).unwrap();
        DataState::of(&train, &val, true)
    };
    let before = state();
    assert!(state().agrees(&before));
    let mut changed = file();
    changed["annotations"][0]["bbox"] = json!([4, 2, 10, 9]);
    write(dir.path(), &data.val, &changed);
    assert!(!state().agrees(&before));
    write(dir.path(), &data.val, &file());
    assert!(state().agrees(&before));
}

/// The generator's masks and its annotations are of the same pixels.
#[test]
fn generated_scenes_have_objects() {
    let dir = tempfile::tempdir().unwrap();
    let shapes = ShapesConfig {
        layout: Layout::Dense,
        image_size: 48,
        classes: 3,
        train_per_class: 10,
        val_per_class: 4,
        occlusion: 0.0,
        ..ShapesConfig::default()
    };
    let data = DataConfig {
        kind: DataKind::Shapes,
        path: dir.path().join("shapes"),
        shapes: Some(shapes.clone()),
        ..DataConfig::default()
    };
    crate::shapes::ensure(&shapes, &data.path, &mut |_, _| {}).unwrap();
    assert!(data.is_objects());
    let [with_masks, _] = open(&data, None).unwrap();
    let objects = data.as_objects();
    let [train, val] = open(&objects, None).unwrap();
    assert!((25..=30).contains(&train.samples.len()) && val.samples.len() == 12);
    let train = open_split(&objects, &objects.train, None).unwrap();
    assert_eq!(train.classes, with_masks.classes[1..]);
    let mut forms = [0; 3];
    for index in 0..30 {
        let limits = ImageLimits::default();
        let (image, map) = with_masks.pair(index, limits).unwrap();
        let (same, found) = train.annotated(index, limits).unwrap();
        assert_eq!(image, same);
        for object in found.trained() {
            forms[match object.segmentation {
                Segmentation::Polygons(_) => 0,
                Segmentation::Runs { .. } => 1,
                _ => 2,
            }] += 1;
            let mask = object.mask(found.image.size).unwrap();
            let pixels = mask.decode();
            let own = pixels
                .iter()
                .zip(&map.labels)
                .filter(|(inside, _)| **inside);
            let (right, all) = own.fold((0, 0), |(right, all), (_, label)| {
                (
                    right + usize::from(usize::from(*label) == object.label + 1),
                    all + 1,
                )
            });
            // A polygon's border is another one than that of pixel centres; runs are those pixels.
            let least = match object.segmentation {
                Segmentation::Polygons(_) => 85,
                _ => 100,
            };
            assert!(
                right * 100 >= all * least && all > 0,
                "{right} of {all} in image {index}"
            );
        }
    }
    assert!(forms.iter().all(|count| *count > 0), "{forms:?}");
}
