#![expect(clippy::unwrap_used, reason = "tests")]

use image::{Rgb, RgbImage};
use serde_json::{Value, json};

use super::*;
use crate::DataKind;

/// Three images in each split, of which the first ones are alike.
fn folder(train: &[Value]) -> (tempfile::TempDir, DataConfig) {
    let dir = tempfile::tempdir().unwrap();
    fs_err::create_dir(dir.path().join("annotations")).unwrap();
    let val = [object(1, &json!({}))];
    for (split, annotations) in [("train", train), ("val", &val[..])] {
        fs_err::create_dir(dir.path().join(split)).unwrap();
        let mut images = Vec::new();
        for index in 0..3_u32 {
            let (name, width) = (format!("{index}.png"), 40 + 10 * index);
            let seed = if index == 0 { 0 } else { split.len() as u8 };
            let image = RgbImage::from_pixel(width, 36, Rgb([index as u8, seed, 0]));
            image.save(dir.path().join(split).join(&name)).unwrap();
            images.push(json!({"id": index, "file_name": name, "width": width, "height": 36}));
        }
        let categories = [json!({"id": 1, "name": "a"}), json!({"id": 2, "name": "b"})];
        let file = json!({"images": images, "annotations": annotations, "categories": categories});
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
    (dir, data)
}

fn object(id: u64, changes: &Value) -> Value {
    let mut object = json!({
        "id": id, "image_id": 0, "category_id": 2, "bbox": [5, 4, 15, 10], "area": 150, "iscrowd": 0,
        "segmentation": [[5, 4, 20, 4, 20, 14, 5, 14]],
    });
    for (key, value) in changes.as_object().unwrap() {
        object[key] = value.clone();
    }
    object
}

#[test]
fn everything_is_counted_with_its_reason() {
    let (dir, data) = folder(&[
        object(0, &json!({})),
        object(1, &json!({"category_id": 1, "image_id": 1})),
        object(2, &json!({"segmentation": []})),
        object(3, &json!({"iscrowd": 1, "image_id": 2})),
        object(4, &json!({"area": 0})),
        object(5, &json!({"area": 0})),
        object(6, &json!({"segmentation": [[1, 2, 3, 4]]})),
    ]);
    let found = check_coco(&data, ImageLimits::default()).unwrap();
    let [train, val] = &found.splits[..] else {
        unreachable!()
    };
    assert_eq!(
        (train.name.as_str(), train.images, train.without_objects),
        ("train", 3, 1)
    );
    assert_eq!(train.classes, [("a".to_owned(), 1), ("b".to_owned(), 2)]);
    assert_eq!(
        (train.objects(), train.without_mask, train.id_zero),
        (3, 1, 1)
    );
    assert_eq!(
        train.left_out,
        BTreeMap::from([(LeftOut::Crowd, 1), (LeftOut::Small, 2)])
    );
    assert_eq!(train.bad.iter().map(|bad| bad.id).collect::<Vec<_>>(), [6]);
    assert_eq!(train.sizes, Some(((40, 36), (60, 36))));
    assert_eq!(
        (val.objects(), val.left_out.len(), val.without_objects),
        (1, 0, 2)
    );
    assert!(val.annotations.ends_with("annotations/instances_val.json"));
    let paths: Vec<_> = found
        .duplicates
        .iter()
        .map(|same| same.paths.clone())
        .collect();
    assert_eq!(
        paths,
        [[dir.path().join("train/0.png"), dir.path().join("val/0.png")]]
    );
    assert!(found.same_classes && !found.is_sound());
}

/// As polygons in shares of the sides have, or those of another image.
#[test]
fn masks_without_pixels_are_counted() {
    let runs = |counts: Value| json!({"segmentation": {"size": [36, 40], "counts": counts}});
    let (_dir, data) = folder(&[
        object(1, &json!({"segmentation": [[90, 4, 99, 4, 99, 9, 90, 9]]})),
        object(2, &runs(json!([1440]))),
        object(3, &runs(json!([1439, 1]))),
        object(4, &json!({"segmentation": [], "area": 8})),
        object(
            5,
            &json!({"segmentation": [[90, 4, 99, 4, 99, 9, 90, 9]], "iscrowd": 1}),
        ),
    ]);
    let found = check_coco(&data, ImageLimits::default()).unwrap();
    let empty: Vec<usize> = found.splits.iter().map(|split| split.empty_masks).collect();
    assert_eq!((empty, found.splits[0].objects()), (vec![2, 0], 4));
    assert!(found.is_sound());
}

#[test]
fn images_that_are_one_file_are_told() {
    let (_dir, data) = folder(&[object(1, &json!({}))]);
    let path = data.annotations("train");
    let mut file: Value = serde_json::from_slice(&fs_err::read(&path).unwrap()).unwrap();
    let mut again = file["images"][0].clone();
    again["id"] = json!(9);
    file["images"].as_array_mut().unwrap().push(again);
    fs_err::write(&path, file.to_string()).unwrap();
    let found = check_coco(&data, ImageLimits::default()).unwrap();
    let notes: Vec<usize> = found.splits.iter().map(|split| split.notes.len()).collect();
    assert_eq!(notes, [1, 0]);
    let note = &found.splits[0].notes[0];
    assert!(
        note.starts_with("1 image of `") && note.contains("0.png"),
        "{note}"
    );
}

#[test]
fn bad_images_are_listed() {
    let (dir, data) = folder(&[object(1, &json!({}))]);
    assert!(
        check_coco(&data, ImageLimits::default())
            .unwrap()
            .is_sound()
    );
    fs_err::remove_file(dir.path().join("val/1.png")).unwrap();
    RgbImage::new(61, 36)
        .save(dir.path().join("val/2.png"))
        .unwrap();
    let found = check_coco(&data, ImageLimits::default()).unwrap();
    let [missing, other] = &found.splits[1].unreadable[..] else {
        unreachable!("{found:?}")
    };
    assert!(missing.path.ends_with("val/1.png"));
    assert!(other.reason.contains("61 x 36"), "{}", other.reason);
    assert!(found.splits[0].unreadable.is_empty() && !found.is_sound());
    let error = check_coco(
        &DataConfig {
            train: "other".to_owned(),
            ..data
        },
        ImageLimits::default(),
    );
    assert!(
        error
            .unwrap_err()
            .to_string()
            .contains("instances_other.json")
    );
}
