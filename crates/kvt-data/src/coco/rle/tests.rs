#![expect(clippy::unwrap_used, reason = "tests")]

use proptest::prelude::*;
use serde::Deserialize;

use super::*;

/// Ones in rows 4..13 and columns 5..19 of 20 x 30 pixels, worked by hand.
#[test]
fn a_rectangle_has_the_runs_worked_by_hand() {
    let inside = |row: u32, column: u32| (4..14).contains(&row) && (5..20).contains(&column);
    let rle = Rle::encode((20, 30), inside);
    let mut counts = vec![104];
    counts.extend([10; 29]);
    counts.push(600 - 104 - 290);
    assert_eq!(rle.counts(), counts);
    assert_eq!(rle.to_text(), "X3::000000000000000000000000000T6");
    assert_eq!((rle.area(), rle.bounding_box()), (150, [5, 4, 15, 10]));
    assert_eq!(Rle::from_text((20, 30), &rle.to_text()), Ok(rle));
}

#[derive(Deserialize)]
struct Golden {
    masks: Vec<Mask>,
    runs: Vec<Runs>,
}

/// A mask, its rows one after the other in hexadecimal digits of four pixels, and what pycocotools says.
#[derive(Deserialize)]
struct Mask {
    size: (u32, u32),
    rows: String,
    text: String,
    area: u32,
    #[serde(rename = "box")]
    bounds: [u32; 4],
}

#[derive(Deserialize)]
struct Runs {
    size: (u32, u32),
    counts: Vec<u32>,
    text: String,
    area: u32,
    #[serde(rename = "box")]
    bounds: [u32; 4],
}

#[test]
fn texts_areas_and_boxes_are_those_of_pycocotools() {
    let golden = include_str!("../../../tests/golden/dense/coco_rle.json");
    let golden: Golden = serde_json::from_str(golden).unwrap();
    assert!(golden.masks.len() >= 50 && golden.runs.len() >= 5);
    for case in golden.masks {
        let pixel = |row: u32, column: u32| {
            let place = (row * case.size.1 + column) as usize;
            let digit = case.rows.chars().nth(place / 4).unwrap();
            (digit.to_digit(16).unwrap() >> (3 - place % 4)) & 1 == 1
        };
        let rle = Rle::encode(case.size, pixel);
        assert_eq!(rle.to_text(), case.text);
        assert_eq!((rle.area(), rle.bounding_box()), (case.area, case.bounds));
        let read = Rle::from_text(case.size, &case.text).unwrap();
        assert_eq!(read, rle);
        for (place, inside) in (0..).zip(read.decode()) {
            assert_eq!(inside, pixel(place / case.size.1, place % case.size.1));
        }
    }
    for case in golden.runs {
        let rle = Rle::new(case.size, case.counts).unwrap();
        assert_eq!(rle.to_text(), case.text);
        assert_eq!((rle.area(), rle.bounding_box()), (case.area, case.bounds));
        assert_eq!(Rle::from_text(case.size, &case.text), Ok(rle));
    }
}

/// The fourth run is stored as a difference of 33 bits and a sign.
#[test]
fn the_longest_runs_are_read_again() {
    let size = (65_535, 65_537);
    let rle = Rle::new(size, vec![0, u32::MAX - 1, 0, 1]).unwrap();
    assert_eq!(Rle::from_text(size, &rle.to_text()), Ok(rle));
}

#[test]
fn what_is_no_mask_is_refused() {
    let total = |total| Fault::Total {
        total,
        height: 2,
        width: 3,
    };
    let large = |counts: Vec<u32>| Rle::new((2, 3), counts);
    assert_eq!(large(vec![5]), Err(total(5)));
    assert_eq!(large(vec![u32::MAX, 7]), Err(total((1 << 32) + 6)));
    // More pixels than a run counts, also where their number in 32 bits is right.
    let huge = Rle::new((1 << 16, 1 << 16), Vec::new());
    assert!(matches!(huge, Err(Fault::Total { total: 0, .. })));
    assert!(Rle::from_text((1 << 16, 1 << 16), "0").is_err());
    let read = |text: &str| Rle::from_text((2, 3), text);
    assert_eq!(read("6").unwrap().counts(), [6]);
    assert_eq!(read("5"), Err(total(5)));
    assert_eq!(read("3/3"), Err(Fault::Character(1)));
    assert_eq!(read("3é"), Err(Fault::Character(1)));
    let number = |position| Err(Fault::Number(position));
    // Cut off, negative, a run longer than the image, more groups than a number has, and more runs than pixels.
    assert_eq!(read("3P"), number(1));
    assert_eq!(read("3O"), number(1));
    assert_eq!(read("37"), number(1));
    assert_eq!(read("PPPPPPPPPPPPPP"), number(0));
    assert_eq!(read("00000000"), number(7));
}

proptest! {
    #[test]
    fn decoding_is_the_inverse(height in 1_u32..12, width in 1_u32..12, bits: u128) {
        let pixel = |row: u32, column: u32| (bits >> ((row * width + column) % 128)) & 1 == 1;
        let rle = Rle::encode((height, width), pixel);
        let places = (0..height * width).map(|place| pixel(place / width, place % width));
        let mask: Vec<bool> = places.collect();
        prop_assert_eq!(&rle.decode(), &mask);
        prop_assert_eq!(rle.area() as usize, mask.iter().filter(|inside| **inside).count());
        let [x, y, w, h] = rle.bounding_box();
        let within = |row: u32, column: u32| (y..y + h).contains(&row) && (x..x + w).contains(&column);
        let inside = |row: u32, column: u32| mask[(row * width + column) as usize];
        prop_assert!((0..height).all(|row| (0..width).all(|c| !inside(row, c) || within(row, c))));
        let touched = |rows: std::ops::Range<u32>, columns: std::ops::Range<u32>| {
            rows.flat_map(|row| columns.clone().map(move |column| (row, column)))
                .any(|(row, column)| inside(row, column))
        };
        if rle.area() > 0 {
            prop_assert!(touched(y..y + 1, x..x + w) && touched(y + h - 1..y + h, x..x + w));
            prop_assert!(touched(y..y + h, x..x + 1) && touched(y..y + h, x + w - 1..x + w));
        }
    }

    #[test]
    fn any_text_is_read_or_refused(text in "[0-o]{0,40}", height in 0_u32..50, width in 0_u32..50) {
        if let Ok(rle) = Rle::from_text((height, width), &text) {
            prop_assert_eq!(Rle::from_text((height, width), &rle.to_text()), Ok(rle.clone()));
            prop_assert_eq!(rle.decode().iter().filter(|inside| **inside).count(), rle.area() as usize);
        }
    }
}
