#![expect(clippy::unwrap_used, reason = "tests")]

use serde_json::{Value, json};

use super::super::LeftOut;
use super::*;

/// Images 7 (20 x 30) and 3 (10 x 10), categories 5 and 2, and these annotations.
fn file(annotations: &[Value]) -> Value {
    json!({
        "info": {"year": 2017, "nested": [[1, {"a": null}]]},
        "images": [
            {"id": 7, "file_name": "a/seven.jpg", "height": 20, "width": 30, "license": 3},
            {"id": 3, "file_name": "three.jpg", "height": 10, "width": 10},
        ],
        "categories": [
            {"id": 5, "name": "dog", "supercategory": "animal"},
            {"id": 2, "name": "cat"},
        ],
        "annotations": annotations,
    })
}

/// A polygon in image 7, changed.
fn object(id: u64, changes: &Value) -> Value {
    let mut object = json!({
        "id": id, "image_id": 7, "category_id": 5, "bbox": [5, 4, 15, 10], "area": 150.5, "iscrowd": 0,
        "segmentation": [[5, 4, 20, 4, 20, 14, 5, 14]],
    });
    for (key, value) in changes.as_object().unwrap() {
        match value {
            Value::String(text) if text == "remove" => {
                object.as_object_mut().unwrap().remove(key);
            }
            value => object[key] = value.clone(),
        }
    }
    object
}

fn parse_as(file: &Value, on_error: OnError) -> Result<Coco, DataError> {
    Coco::parse(file.to_string().as_bytes(), Path::new("a.json"), on_error)
}

fn parse(annotations: &[Value]) -> Result<Coco, DataError> {
    parse_as(&file(annotations), OnError::Fail)
}

/// The fault of a single annotation, in words.
fn fault(changes: &Value) -> String {
    let error = parse(&[object(9, changes)]).unwrap_err().to_string();
    let fault = error.strip_prefix("`a.json`: annotation 9: ").unwrap();
    let hint = "; `data.on_error = \"skip\"` leaves it out";
    fault.strip_suffix(hint).unwrap().to_owned()
}

/// So that millions of annotations are sorted where they were read: a vector is collected in place if its elements are not larger.
#[test]
fn what_is_sorted_is_not_larger_than_what_is_read() {
    assert!(size_of::<Placed>() <= size_of::<json::Annotation>());
    assert!(align_of::<Placed>() == align_of::<json::Annotation>());
}

#[test]
fn classes_and_images_are_in_the_order_of_their_ids() {
    let coco = parse(&[
        object(4, &json!({})),
        object(8, &json!({"image_id": 3, "category_id": 2})),
        object(1, &json!({"iscrowd": 1})),
        object(
            0,
            &json!({"area": "remove", "segmentation": "remove", "bbox": [1, 1, 4.5, 2]}),
        ),
    ]);
    let coco = coco.unwrap();
    let names: Vec<_> = coco
        .categories
        .iter()
        .map(|class| (class.id, class.name.as_str()))
        .collect();
    assert_eq!(names, [(2, "cat"), (5, "dog")]);
    let images: Vec<_> = coco
        .images
        .iter()
        .map(|image| (image.id, image.size))
        .collect();
    assert_eq!(images, [(3, (10, 10)), (7, (20, 30))]);
    let ids = |image| {
        coco.annotations(image)
            .iter()
            .map(|found| found.id)
            .collect::<Vec<_>>()
    };
    assert_eq!([ids(0), ids(1), ids(2)], [vec![8], vec![4, 1, 0], vec![]]);
    let [polygon, crowd, boxed] = coco.annotations(1) else {
        unreachable!()
    };
    assert_eq!(
        (polygon.label, polygon.area, polygon.bbox),
        (1, 150.5, [5.0, 4.0, 15.0, 10.0])
    );
    assert_eq!(
        (polygon.is_crowd, crowd.is_crowd, polygon.is_ignored),
        (false, true, false)
    );
    assert_eq!(polygon.mask((20, 30)).unwrap().area(), 150);
    // Without an area, that of the box.
    assert_eq!((boxed.area, boxed.mask((20, 30))), (9.0, None));
    assert_eq!(coco.annotations(0)[0].label, 0);
}

/// The mask worked by hand, in each form.
#[test]
fn three_forms_are_one_mask() {
    let mut counts = vec![104];
    counts.extend([10; 29]);
    counts.push(206);
    let text = "X3::000000000000000000000000000T6";
    let forms = [
        json!([[5, 4, 20, 4, 20, 14, 5, 14]]),
        json!([
            [5, 4, 12, 4, 12, 14, 5, 14],
            [12.0, 4, 20, 4, 20, 14, 12, 14]
        ]),
        json!({"size": [20, 30], "counts": counts}),
        json!({"counts": text, "size": [20, 30], "more": [1]}),
    ];
    for form in forms {
        let coco = parse(&[object(1, &json!({"segmentation": form, "area": "remove"}))]).unwrap();
        let found = &coco.annotations(1)[0];
        let mask = found.mask((20, 30)).unwrap();
        assert_eq!(
            (mask.to_text().as_str(), found.area),
            (text, 150.0),
            "{form}"
        );
    }
}

#[test]
fn the_hash_is_that_of_the_file() {
    let text = file(&[]).to_string();
    let coco = parse(&[]).unwrap();
    assert_eq!(coco.hash, *blake3::hash(text.as_bytes()).as_bytes());
    // All of it is read.
    let spaced = format!("{text}   \n");
    let coco = Coco::parse(spaced.as_bytes(), Path::new("a.json"), OnError::Fail).unwrap();
    assert_eq!(coco.hash, *blake3::hash(spaced.as_bytes()).as_bytes());
}

#[test]
fn ids_are_unique_and_known() {
    let error = |file: &Value| parse_as(file, OnError::Skip).unwrap_err().to_string();
    let same = error(&file(&[
        object(4, &json!({})),
        object(4, &json!({"image_id": 3})),
    ]));
    assert!(same.contains("two annotations with the id 4"), "{same}");
    let no_image = error(&file(&[object(4, &json!({"image_id": 9}))]));
    assert!(
        no_image.contains("annotation 4 is of image 9"),
        "{no_image}"
    );
    let no_class = error(&file(&[object(4, &json!({"category_id": 1}))]));
    assert!(
        no_class.contains("annotation 4 is of category 1"),
        "{no_class}"
    );
    for key in ["images", "categories"] {
        let mut twice = file(&[]);
        let first = twice[key][0].clone();
        twice[key].as_array_mut().unwrap().push(first);
        assert!(
            error(&twice).contains(&format!("two {key}")),
            "{}",
            error(&twice)
        );
    }
    let mut none = file(&[]);
    none["categories"] = json!([]);
    assert!(error(&none).contains("no categories"));
}

#[test]
fn an_image_has_pixels_and_a_file_in_the_folder() {
    let image = |changes: Value| {
        let mut file = file(&[]);
        for (key, value) in changes.as_object().unwrap() {
            file["images"][0][key] = value.clone();
        }
        parse_as(&file, OnError::Skip).unwrap_err().to_string()
    };
    assert!(image(json!({"height": 0})).contains("image 7: it has 0 x 30 pixels"));
    assert!(image(json!({"height": 70_000, "width": 70_000})).contains("70000 x 70000"));
    for name in ["../secret.jpg", "/etc/a.jpg", "a/../../b.jpg", ""] {
        let error = image(json!({"file_name": name}));
        assert!(error.contains("`file_name`"), "{error}");
    }
    let missing = image(json!({"file_name": null}));
    assert!(missing.contains("line 1 column"), "{missing}");
}

#[test]
fn what_is_wrong_is_said_with_the_id() {
    let of = |segmentation: Value| fault(&json!({"segmentation": segmentation}));
    assert!(of(json!([[1, 2, 3, 4]])).contains("a polygon of 4 numbers"));
    assert!(of(json!([[0, 0, 5, 0, 5, 5], [1, 2, 3, 4, 5, 6, 7]])).contains("a polygon of 7"));
    assert!(of(json!([1, 2, 3, 4, 5, 6])).contains("a list of numbers"));
    assert!(of(json!([[1, 2, 3, 4, 5, 1e9]])).contains("1000000000"));
    assert!(of(json!({"counts": [600]})).contains("no `size`"));
    assert!(of(json!({"size": [20, 30]})).contains("no `counts`"));
    assert!(of(json!({"size": [30, 20], "counts": [600]})).contains("30 x 20"));
    assert!(of(json!({"size": [20, 30], "counts": [599]})).contains("`599` pixels"));
    assert!(
        of(json!({"size": [20, 30], "counts": [300, -1]})).contains("run 1 of `counts` is `-1`")
    );
    assert!(of(json!({"size": [20, 30], "counts": [0.5]})).contains("0.5"));
    assert!(of(json!({"size": [20, 30], "counts": [4_294_967_297_u64]})).contains("4294967297"));
    // Runs whose sum in 32 bits would be right.
    let overflow = json!({"size": [20, 30], "counts": [4_294_967_295_u32, 601]});
    assert!(of(overflow).contains("4294967896"));
    assert!(of(json!({"size": [20, 30], "counts": "X3:"})).contains("114"));
    assert!(of(json!({"size": [20, 30], "counts": "X3!"})).contains("character 2"));
}

#[test]
fn a_box_has_four_numbers() {
    for (bbox, numbers) in [
        (json!([1, 2, 3]), 3),
        (json!([1, 2, 3, 4, 5]), 5),
        (json!([]), 0),
        (json!(null), 0),
    ] {
        let said = fault(&json!({ "bbox": bbox }));
        let expected = format!("`bbox` has {numbers} numbers");
        assert!(said.contains(&expected), "{said}");
    }
    let none = object(1, &json!({"bbox": "remove"}));
    let coco = parse_as(&file(&[none, object(2, &json!({}))]), OnError::Skip).unwrap();
    let bad: Vec<u64> = coco.bad.iter().map(|bad| bad.id).collect();
    assert_eq!((bad, coco.annotations(1).len()), (vec![1], 1));
    let text = parse(&[object(1, &json!({"bbox": [1, 2, "3", 4]}))]).unwrap_err();
    assert!(text.to_string().contains("line 1 column"), "{text}");
}

/// What has another form is said in one sentence, however long it is.
#[test]
fn a_flag_is_0_or_1() {
    let crowd = |flag: Value| {
        let coco = parse(&[object(1, &json!({"iscrowd": flag}))])?;
        Ok::<_, DataError>(coco.annotations(1)[0].is_crowd)
    };
    for (flag, expected) in [
        (json!(0), false),
        (json!(1), true),
        (json!(false), false),
        (json!(true), true),
        (json!(null), false),
    ] {
        assert_eq!(crowd(flag).unwrap(), expected);
    }
    for flag in [json!(-1), json!(1.0), json!("1"), json!(vec![0; 9999])] {
        let error = crowd(flag).unwrap_err().to_string();
        let expected = "expected 0 or 1 at line 1 column";
        assert!(error.contains(expected) && error.len() < 300, "{error}");
    }
}

/// Texts for numbers, other depths, and keys that are there twice: no annotation is taken in part.
#[test]
fn another_form_of_mask_is_refused() {
    let refused = |text: &str| {
        let text = file(&[object(9, &json!({"segmentation": 0}))])
            .to_string()
            .replace("\"segmentation\":0", &format!("\"segmentation\":{text}"));
        let parsed = Coco::parse(text.as_bytes(), Path::new("a.json"), OnError::Skip);
        let error = parsed.unwrap_err().to_string();
        let expected = "expected polygons, or runs with `size` and `counts` at line 1 column";
        assert!(error.contains(expected), "{text}: {error}");
    };
    for text in [
        "0",
        "\"X3\"",
        "true",
        "[[0,0,5,0,5,\"5\"]]",
        "[[0,0,5,0,5,null]]",
        "[[[0,0],[5,0],[5,5]]]",
        "[[0,0,5,0,5,5],7]",
        "{\"size\":[\"20\",30],\"counts\":[600]}",
        "{\"size\":[20,30,3],\"counts\":[600]}",
        "{\"size\":[-20,30],\"counts\":[600]}",
        "{\"size\":[20,30],\"counts\":600}",
        "{\"size\":[20,30],\"size\":[20,30],\"counts\":[600]}",
        "{\"size\":[20,30],\"counts\":[600],\"counts\":[600]}",
    ] {
        refused(text);
    }
}

/// As some programs of Windows write it.
#[test]
fn a_byte_order_mark_is_passed_over() {
    let text = format!("\u{feff}{}", file(&[object(1, &json!({}))]));
    let coco = Coco::parse(text.as_bytes(), Path::new("a.json"), OnError::Fail).unwrap();
    assert_eq!(coco.annotations(1).len(), 1);
}

#[test]
fn invalid_ones_are_skipped_and_counted() {
    let annotations = [
        object(1, &json!({"segmentation": [[1, 2, 3, 4]]})),
        object(2, &json!({})),
        object(
            3,
            &json!({"segmentation": {"size": [20, 30], "counts": [1]}}),
        ),
    ];
    let coco = parse_as(&file(&annotations), OnError::Skip).unwrap();
    let bad: Vec<u64> = coco.bad.iter().map(|bad| bad.id).collect();
    assert_eq!((bad, coco.annotations(1).len()), (vec![1, 3], 1));
    let error = parse(&annotations).unwrap_err().to_string();
    assert!(
        error.contains("`a.json`: annotation 1") && error.contains("on_error"),
        "{error}"
    );
}

#[test]
fn what_is_no_such_file_is_refused() {
    let error = |text: &str| {
        let parsed = Coco::parse(text.as_bytes(), Path::new("a.json"), OnError::Skip);
        parsed.unwrap_err().to_string()
    };
    assert!(error("").contains("`a.json`"));
    assert!(error("[]").contains("line 1 column"));
    assert!(error("{\"images\": []").contains("EOF"));
    assert!(error("{\"annotations\": []}").contains("images"));
    let missing = Coco::read(Path::new("nowhere/a.json"), OnError::Fail).unwrap_err();
    assert!(missing.to_string().contains("nowhere/a.json"));
}

/// mmdetection's rules, at their limits.
#[test]
fn some_are_not_trained_on() {
    let reason = |changes: Value| {
        let coco = parse(&[object(1, &changes)]).unwrap();
        coco.annotations(1)[0].left_out(coco.images[1].size)
    };
    let boxed = |bbox: [f64; 4]| reason(json!({"bbox": bbox}));
    assert_eq!(reason(json!({})), None);
    assert_eq!(reason(json!({"iscrowd": 1})), Some(LeftOut::Crowd));
    assert_eq!(reason(json!({"ignore": true})), Some(LeftOut::Ignored));
    assert_eq!(reason(json!({"area": 0})), Some(LeftOut::Small));
    assert_eq!(boxed([5.0, 4.0, 0.9, 5.0]), Some(LeftOut::Small));
    assert_eq!(boxed([5.0, 4.0, 5.0, 0.9]), Some(LeftOut::Small));
    assert_eq!(boxed([5.0, 4.0, 1.0, 1.0]), None);
    // The image is 30 wide and 20 high.
    assert_eq!(boxed([30.0, 4.0, 5.0, 5.0]), Some(LeftOut::Outside));
    assert_eq!(boxed([29.5, 4.0, 5.0, 5.0]), None);
    assert_eq!(boxed([5.0, 20.0, 5.0, 5.0]), Some(LeftOut::Outside));
    assert_eq!(boxed([-5.0, 4.0, 5.0, 5.0]), Some(LeftOut::Outside));
    assert_eq!(boxed([-5.0, 4.0, 5.5, 5.0]), None);
    // Wherever they are, these have no pixels.
    assert_eq!(boxed([5.0, 4.0, -3.0, 5.0]), Some(LeftOut::Small));
    assert_eq!(boxed([5.0, 4.0, 5.0, 0.0]), Some(LeftOut::Small));
    assert_eq!(boxed([90.0, 4.0, 0.0, 5.0]), Some(LeftOut::Small));
}
