//! How far draws reach, and where boxes end.

use super::*;

fn drawn(config: &MultiscaleConfig, keys: u64) -> Vec<Steps> {
    let draw = |key| Steps::draw(config, (640, 480), Key::new(key));
    (0..keys).map(draw).collect()
}

/// From 384 px to 600 px, or to the side that there is: 400, 500 or 600 px high and wider than that. They lie anywhere.
#[test]
fn crops_reach_both_ends_of_their_range() {
    let all = drawn(&MultiscaleConfig::default(), 2000);
    let crops: Vec<Crop> = all
        .iter()
        .filter_map(|steps| Some(steps.before?.1))
        .collect();
    let ends = |side: fn(&Crop) -> u32| {
        let all = crops.iter().map(side);
        [all.clone().min(), all.max()].map(Option::unwrap)
    };
    for [least, most] in [ends(|crop| crop.width), ends(|crop| crop.height)] {
        assert!((384..390).contains(&least), "{least}");
        assert!((590..=600).contains(&most), "{most}");
    }
    assert!(crops.iter().any(|crop| crop.left > 0 && crop.top > 0));
}

/// The longer side of a size is the larger number, as for mmcv: 640 x 480 within 400, 500 or 600 and 300.
#[test]
fn a_small_maximum_is_the_shorter_side_before_a_crop() {
    let config = MultiscaleConfig {
        sizes: vec![200],
        max: 300,
        ..MultiscaleConfig::default()
    };
    let all = drawn(&config, 50);
    let cut: Vec<_> = all.iter().filter_map(|steps| steps.before).collect();
    assert!(!cut.is_empty());
    for (size, crop) in cut {
        assert_eq!((size, crop.height), ((400, 300), 300));
        assert!((384..=400).contains(&crop.width), "{crop:?}");
    }
}

#[test]
fn no_image_or_every_image_is_flipped() {
    for (hflip, expected) in [(0.0, 0), (1.0, 100)] {
        let config = MultiscaleConfig {
            hflip,
            ..MultiscaleConfig::default()
        };
        let all = drawn(&config, 100);
        let flipped = all.iter().filter(|steps| steps.flips);
        assert_eq!(flipped.count(), expected);
    }
}

/// Columns 8.5 to 10.75 and rows 6.5 to 7.75.
#[test]
fn a_box_without_a_mask_has_all_pixels_that_it_touches() {
    let annotations = json!([
        {"id": 1, "image_id": 70, "category_id": 1, "bbox": [8.5, 6.5, 2.25, 1.25], "area": 2.8},
    ]);
    let (_, objects) = applied(&plain((12, 10)), &annotations);
    assert_eq!(boxes(&objects), [[8.5, 6.5, 10.75, 7.75]]);
    let mask = &objects.all[0].mask;
    assert_eq!((mask.top, mask.left), (6, 8));
    assert_eq!(rows(mask), ["111", "111"]);
}
