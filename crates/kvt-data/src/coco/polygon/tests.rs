#![expect(clippy::unwrap_used, reason = "tests")]

use proptest::prelude::*;
use serde::Deserialize;

use super::*;

#[derive(Deserialize)]
struct Golden {
    objects: Vec<Object>,
    /// Places of two objects, their IoU, and that with the second one as a crowd.
    overlaps: Vec<(usize, usize, f64, f64)>,
}

/// Polygons, and what pycocotools says about their pixels.
#[derive(Deserialize)]
struct Object {
    size: (u32, u32),
    polygons: Vec<Vec<f64>>,
    parts: Vec<String>,
    text: String,
    area: u32,
    #[serde(rename = "box")]
    bounds: [u32; 4],
}

fn golden() -> Golden {
    let text = include_str!("../../../tests/golden/dense/coco_rle.json");
    serde_json::from_str(text).unwrap()
}

impl Object {
    fn masks(&self) -> Vec<Rle> {
        let masks = self.polygons.iter();
        masks
            .map(|polygon| Polygon::new(polygon).unwrap().mask(self.size))
            .collect()
    }

    fn mask(&self) -> Rle {
        let masks = self.masks();
        masks[0].union(&masks[1..])
    }
}

#[test]
fn pixels_are_those_of_pycocotools() {
    let golden = golden();
    let several = golden.objects.iter().filter(|case| case.polygons.len() > 1);
    assert!(golden.objects.len() > 200 && several.count() > 50);
    for case in &golden.objects {
        let texts: Vec<String> = case.masks().iter().map(Rle::to_text).collect();
        assert_eq!(texts, case.parts, "{:?}", case.polygons);
        let whole = case.mask();
        assert_eq!(whole.to_text(), case.text, "{:?}", case.polygons);
        assert_eq!(
            (whole.area(), whole.bounding_box()),
            (case.area, case.bounds)
        );
    }
}

#[test]
fn overlaps_are_those_of_pycocotools() {
    let Golden { objects, overlaps } = golden();
    assert!(overlaps.iter().filter(|(_, _, iou, _)| *iou > 0.0).count() > 50);
    for (a, b, iou, of_crowd) in overlaps {
        let (a, b) = (objects[a].mask(), objects[b].mask());
        // The same division of the same whole numbers.
        assert_eq!((a.iou(&b, false), a.iou(&b, true)), (iou, of_crowd));
    }
}

/// The object of the case that is worked by hand for average precision: of its 150 pixels 31 are missing.
#[test]
fn a_share_of_pixels_worked_by_hand() {
    let object = Polygon::new(&[5.0, 4.0, 20.0, 4.0, 20.0, 14.0, 5.0, 14.0]).unwrap();
    let object = object.mask((20, 30));
    assert_eq!(
        (object.area(), object.bounding_box()),
        (150, [5, 4, 15, 10])
    );
    let inside = |row: u32, column: u32| (4..14).contains(&row) && (8..20).contains(&column);
    let found = Rle::encode((20, 30), |row, column| {
        inside(row, column) && (row, column) != (4, 8)
    });
    assert!((found.iou(&object, false) - 119.0 / 150.0).abs() < 1e-15);
    assert!((found.iou(&object, true) - 1.0).abs() < 1e-15);
}

#[test]
fn what_is_no_outline_is_refused() {
    let corners = |numbers| Err(Fault::Corners(numbers));
    assert_eq!(Polygon::new(&[]), corners(0));
    assert_eq!(Polygon::new(&[1.0, 2.0, 3.0, 4.0]), corners(4));
    assert_eq!(Polygon::new(&[0.0; 7]), corners(7));
    let far = |value| Polygon::new(&[0.0, 1.0, 2.0, value, 4.0, 5.0]);
    assert_eq!(far(2e5), Err(Fault::Coordinate(2e5)));
    assert!(matches!(far(f64::NAN), Err(Fault::Coordinate(_))));
    assert!(far(FURTHEST).is_ok());
    let zigzag: Vec<f64> = (0..400)
        .flat_map(|corner| [f64::from(corner % 2) * FURTHEST, 0.0])
        .collect();
    assert_eq!(Polygon::new(&zigzag), Err(Fault::Outline));
}

proptest! {
    /// A rectangle on whole pixels has just these; more of it outside of the image changes nothing.
    #[test]
    fn a_rectangle_has_its_pixels(x in 0_u32..9, y in 0_u32..9, w in 1_u32..9, h in 1_u32..9) {
        let [left, top, right, bottom] = [x, y, x + w, y + h].map(f64::from);
        let polygon = Polygon::new(&[left, top, right, top, right, bottom, left, bottom]).unwrap();
        let inside = |row: u32, column: u32| (y..y + h).contains(&row) && (x..x + w).contains(&column);
        let expected = Rle::encode((12, 12), inside);
        prop_assert_eq!(polygon.mask((12, 12)), expected);
    }

    /// A pixel is in the union if it is in one of the masks.
    #[test]
    fn a_union_has_the_pixels_of_each(bits in proptest::collection::vec(any::<u64>(), 1..5)) {
        let pixel = |bits: u64| move |row: u32, column: u32| (bits >> (row * 9 + column)) & 1 == 1;
        let masks: Vec<Rle> = bits.iter().map(|bits| Rle::encode((7, 9), pixel(*bits))).collect();
        let all = bits.iter().fold(0, |all, bits| all | bits);
        let union = masks[0].union(&masks[1..]);
        prop_assert_eq!(&union, &Rle::encode((7, 9), pixel(all)));
    }
}

#[test]
fn the_runs_of_a_single_mask_stay() {
    // An empty one within them too.
    let runs = Rle::new((2, 3), vec![1, 2, 0, 2, 1]).unwrap();
    assert_eq!(runs.union(&[]), runs);
}
