//! How far draws reach.

use std::collections::BTreeSet;

use super::*;

/// Neither resized nor cut.
fn still() -> DenseConfig {
    DenseConfig {
        scale: [32, 32],
        ratio: [1.0, 1.0],
        crop: [32, 32],
        cat_max_ratio: 1.0,
        photometric: false,
        ..DenseConfig::default()
    }
}

/// A shorter side of 16 becomes one of 8 to 32, both cut to whole pixels, as by mmcv: 32 itself is never drawn.
#[test]
fn images_are_resized_by_the_whole_range() {
    let config = DenseConfig {
        scale: [64, 16],
        ratio: [0.5, 2.0],
        crop: [64, 64],
        ..still()
    };
    let (image, map) = pair(32, 32);
    let train = train(&config);
    let height = |key| {
        let found = train.augment(image.clone(), &map, Key::new(key));
        found.unwrap().0.height()
    };
    let heights: BTreeSet<u32> = (0..500).map(height).collect();
    let expected: BTreeSet<u32> = (8..32).collect();
    assert_eq!(heights, expected);
}

#[test]
fn no_image_or_every_image_is_flipped() {
    let (image, map) = pair(32, 32);
    for (hflip, corner) in [(0.0, 0), (1.0, 31)] {
        let train = train(&DenseConfig { hflip, ..still() });
        for key in 0..40 {
            let (image, map) = train.augment(image.clone(), &map, Key::new(key)).unwrap();
            assert_eq!(image.get_pixel(0, 0).0[0], corner);
            assert_eq!(map.labels[0], corner / 16);
        }
    }
}

/// Of sixteen images fifteen have other colours, and nothing else differs.
#[test]
fn colours_change_where_that_is_asked_for() {
    let (image, map) = pair(32, 32);
    let drawn = |photometric: bool, key: u64| {
        let train = train(&DenseConfig {
            photometric,
            ..still()
        });
        train.augment(image.clone(), &map, Key::new(key)).unwrap()
    };
    let is_changed = |key: &u64| {
        let ((plain, map), (coloured, other)) = (drawn(false, *key), drawn(true, *key));
        assert_eq!(map, other);
        plain != coloured
    };
    let changed = (0..40).filter(is_changed).count();
    assert!((30..=40).contains(&changed), "{changed}");
}
