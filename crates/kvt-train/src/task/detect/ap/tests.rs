#![expect(clippy::unwrap_used, reason = "tests")]

use proptest::prelude::*;
use serde_json::Value;

use super::*;

fn truth(image: u64, class: usize, bbox: [f64; 4]) -> Instance {
    Instance {
        area: Some(bbox[2] * bbox[3]),
        ..found(image, class, bbox, 0.0)
    }
}

fn found(image: u64, class: usize, bbox: [f64; 4], score: f64) -> Instance {
    Instance {
        image,
        class,
        bbox,
        area: None,
        is_crowd: false,
        score,
        mask: None,
    }
}

fn boxes(classes: usize, truths: &[Instance], found: &[Instance]) -> AveragePrecision {
    average_precision(Shapes::Boxes, classes, truths, found)
}

fn assert_close(ours: Option<f64>, theirs: Option<f64>, what: &str) {
    match (ours, theirs) {
        (Some(ours), Some(theirs)) => {
            assert!((ours - theirs).abs() < 1e-12, "{what}: {ours} {theirs}");
        }
        (ours, theirs) => assert_eq!(ours, theirs, "{what}"),
    }
}

/// Two objects, found first and third: precision is 1 up to a recall of 0.5, and 2/3 beyond. The detection between them does not count
/// where one of an image does.
#[test]
fn the_case_worked_by_hand() {
    let (first, second) = ([0.0, 0.0, 10.0, 10.0], [40.0, 40.0, 100.0, 100.0]);
    let truths = [truth(1, 0, first), truth(2, 0, second)];
    let detections = [
        found(1, 0, first, 0.9),
        found(1, 0, second, 0.8),
        found(2, 0, second, 0.7),
    ];
    let ap = boxes(2, &truths, &detections);
    let expected = Some((51.0 + 50.0 * 2.0 / 3.0) / 101.0);
    for ours in [ap.ap, ap.ap50, ap.ap75, ap.classes[0]] {
        assert_close(ours, expected, "all");
    }
    assert_close(ap.ap_small, Some(1.0), "small");
    // The wrong detection is as large as the object.
    assert_close(ap.ap_large, Some(0.5), "large");
    assert_eq!(
        (ap.ap_medium, ap.ar_medium, ap.classes[1]),
        (None, None, None)
    );
    for ours in [ap.ar1, ap.ar10, ap.ar100, ap.ar_small, ap.ar_large] {
        assert_eq!(ours, Some(1.0));
    }
}

/// An overlap of 0.8 is enough up to the threshold of 0.8: seven of ten.
#[test]
fn a_part_of_an_object_counts_up_to_its_overlap() {
    let truths = [truth(1, 0, [0.0, 0.0, 50.0, 50.0])];
    let ap = boxes(1, &truths, &[found(1, 0, [0.0, 10.0, 50.0, 40.0], 0.5)]);
    assert_close(ap.ap, Some(0.7), "AP");
    assert_close(ap.ar1, Some(0.7), "AR");
    assert_close(ap.ap75, Some(1.0), "AP75");
}

/// The first detection is the first object, and overlaps the second one by 0.7. The other overlaps that by 5/7, and the first one only
/// by 0.5.
#[test]
fn a_detection_finds_the_object_that_it_overlaps_most() {
    let [whole, part, less] = [10.0, 7.0, 5.0].map(|height| [0.0, 0.0, 10.0, height]);
    let truths = [truth(1, 0, whole), truth(1, 0, part)];
    let detections = [found(1, 0, whole, 0.9), found(1, 0, less, 0.8)];
    let ap = boxes(1, &truths, &detections);
    assert_close(ap.ar100, Some(0.75), "both up to 0.7, one beyond");
    assert_close(ap.ap, Some((5.0 + 5.0 * 51.0 / 101.0) / 10.0), "AP");
}

/// Twelve objects in an image, all found: recall with one, with ten and with a hundred detections.
#[test]
fn recall_is_that_of_the_best_one_and_the_best_ten() {
    let places: Vec<[f64; 4]> = (0..12)
        .map(|number| [40.0 * f64::from(number), 0.0, 10.0, 10.0])
        .collect();
    let truths: Vec<Instance> = places.iter().map(|bbox| truth(1, 0, *bbox)).collect();
    let detections: Vec<Instance> = (places.iter().zip(1..))
        .map(|(bbox, rank)| found(1, 0, *bbox, 1.0 / f64::from(rank)))
        .collect();
    let ap = boxes(1, &truths, &detections);
    assert_close(ap.ar1, Some(1.0 / 12.0), "one");
    assert_close(ap.ar10, Some(10.0 / 12.0), "ten");
    assert_close(ap.ar100, Some(1.0), "a hundred");
}

fn numbers(value: &Value) -> Vec<f64> {
    let values = value.as_array().unwrap().iter();
    values.map(|value| value.as_f64().unwrap()).collect()
}

fn mask(value: &Value) -> Option<Rle> {
    let side = |place: usize| u32::try_from(value[place].as_u64().unwrap()).unwrap();
    let text = value.get(2)?.as_str().unwrap();
    Some(Rle::from_text((side(0), side(1)), text).unwrap())
}

fn place(item: &Value) -> (u64, usize, [f64; 4]) {
    let class = usize::try_from(item[1].as_u64().unwrap()).unwrap();
    (
        item[0].as_u64().unwrap(),
        class,
        numbers(&item[2]).try_into().unwrap(),
    )
}

fn read_truth(item: &Value) -> Instance {
    let (image, class, bbox) = place(item);
    Instance {
        image,
        class,
        bbox,
        area: Some(item[3].as_f64().unwrap()),
        is_crowd: item[4] == 1,
        score: 0.0,
        mask: mask(&item[5]),
    }
}

fn read_found(item: &Value) -> Instance {
    let (image, class, bbox) = place(item);
    Instance {
        image,
        class,
        bbox,
        area: None,
        is_crowd: false,
        score: item[3].as_f64().unwrap(),
        mask: mask(&item[4]),
    }
}

/// `scripts/reference/coco_eval.py` writes the numbers of pycocotools.
#[test]
fn all_numbers_are_those_of_pycocotools() {
    let golden = include_str!("../../../../tests/golden/dense/coco_eval.json");
    let golden: Value = serde_json::from_str(golden).unwrap();
    let cases = golden["cases"].as_object().unwrap();
    let of_masks = cases.values().filter(|case| case["shapes"] == "masks");
    assert!(cases.len() >= 45 && of_masks.count() >= 12);
    for (name, case) in cases {
        let list = |name: &str| case[name].as_array().unwrap().iter();
        let truths: Vec<_> = list("truths").map(read_truth).collect();
        let detections: Vec<_> = list("found").map(read_found).collect();
        let shapes = match case["shapes"].as_str() {
            Some("masks") => Shapes::Masks,
            _ => Shapes::Boxes,
        };
        let classes = usize::try_from(case["classes"].as_u64().unwrap()).unwrap();
        let ap = average_precision(shapes, classes, &truths, &detections);
        for ((name_of, _, ours), theirs) in ap.numbers().into_iter().zip(numbers(&case["stats"])) {
            let theirs = (theirs >= 0.0).then_some(theirs);
            assert_close(ours, theirs, &format!("{name}, {name_of}"));
        }
        assert_eq!(ap.classes.len(), classes);
        for (ours, theirs) in ap.classes.iter().zip(list("ap")) {
            assert_close(*ours, theirs.as_f64(), name);
        }
    }
}

/// Of equal scores the first of the list counts first, and that of the lower image before.
#[test]
fn equal_scores_keep_their_order() {
    let (there, elsewhere) = ([0.0, 0.0, 10.0, 10.0], [50.0, 50.0, 10.0, 10.0]);
    let truths = [truth(2, 0, there)];
    let ap = |one: Instance, other: Instance| boxes(1, &truths, &[one, other]).ap;
    let right = || found(2, 0, there, 0.5);
    assert_close(
        ap(right(), found(2, 0, elsewhere, 0.5)),
        Some(1.0),
        "right first",
    );
    assert_close(
        ap(found(2, 0, elsewhere, 0.5), right()),
        Some(0.5),
        "wrong first",
    );
    let lower = || found(1, 0, there, 0.5);
    for ap in [ap(lower(), right()), ap(right(), lower())] {
        assert_close(ap, Some(0.5), "lower image");
    }
    let (zero, negative) = (found(2, 0, elsewhere, -0.0), found(2, 0, there, 0.0));
    assert_close(ap(zero, negative), Some(0.5), "zeros");
}

/// 32 x 32 pixels are small and medium, 96 x 96 medium and large, as for pycocotools.
#[test]
fn objects_at_a_limit_are_of_both_areas() {
    for (side, expected) in [(32.0, [true, true, false]), (96.0, [false, true, true])] {
        let bbox = [0.0, 0.0, side, side];
        let ap = boxes(1, &[truth(1, 0, bbox)], &[found(1, 0, bbox, 0.5)]);
        let counts = [ap.ap_small, ap.ap_medium, ap.ap_large].map(|ap| ap.is_some());
        assert_eq!(counts, expected, "{side}");
    }
}

#[test]
fn nothing_gives_no_number() {
    let nothing = boxes(2, &[], &[]);
    assert_eq!(nothing.numbers().map(|(.., number)| number), [None; 12]);
    assert_eq!(nothing.classes, [None, None]);
    // A detection of a class without objects is free, an object without detections is missed.
    let bbox = [0.0, 0.0, 200.0, 200.0];
    assert_eq!(boxes(1, &[], &[found(1, 0, bbox, 0.5)]).ap, None);
    let missed = boxes(1, &[truth(1, 0, bbox)], &[]);
    assert_eq!(
        (missed.ap, missed.ap_large, missed.ar1),
        (Some(0.0), Some(0.0), Some(0.0))
    );
}

proptest! {
    /// Whatever the order: with a detection for each object and nothing else, precision and recall are 1 where there are objects.
    #[test]
    fn the_objects_themselves_are_all_right(
        objects in prop::collection::vec((0_u64..4, 0_usize..3, 0.5_f64..100.0, 0.5_f64..100.0, 0.0_f64..1.0), 1..40),
    ) {
        let mut truths = Vec::new();
        let mut detections = Vec::new();
        for (place, (image, class, width, height, score)) in objects.into_iter().enumerate() {
            // Side by side: objects of another size do not take a detection.
            let bbox = [100.0 * place as f64, 0.0, width, height];
            truths.push(truth(image, class, bbox));
            detections.insert(0, found(image, class, bbox, score));
        }
        let ap = boxes(3, &truths, &detections);
        let numbers = ap.numbers().map(|(.., number)| number);
        let mut all: Vec<_> = numbers.into_iter().chain(ap.classes).collect();
        // With one or ten detections of an image some may be missed.
        all.drain(6..8);
        prop_assert!(all[0].is_some());
        for number in all.into_iter().flatten() {
            prop_assert!((number - 1.0).abs() < 1e-12, "{number}");
        }
    }
}
