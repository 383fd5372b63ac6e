//! The intersection over union of boxes, as mmdet's `bbox_overlaps`.

use super::{Corners, area};

/// The least union, in square pixels: it makes the IoU of two empty boxes 0 instead of NaN.
const LEAST_UNION: f32 = 1e-6;

/// The intersection over union of two boxes, from 0 to 1. It is NaN if one of the boxes has a NaN, so every comparison
/// with a threshold fails.
pub fn iou(a: &Corners, b: &Corners) -> f32 {
    let width = larger(smaller(a[2], b[2]) - larger(a[0], b[0]), 0.0);
    let height = larger(smaller(a[3], b[3]) - larger(a[1], b[1]), 0.0);
    let intersection = width * height;
    let union = area(a) + area(b) - intersection;
    // `f32::max` would replace a NaN by the least union, and the IoU would be large.
    let union = if union < LEAST_UNION {
        LEAST_UNION
    } else {
        union
    };
    intersection / union
}

// `f32::min` and `f32::max` need three instructions each, because they pass over a NaN. Here the areas keep it.

fn smaller(a: f32, b: f32) -> f32 {
    if a < b { a } else { b }
}

fn larger(a: f32, b: f32) -> f32 {
    if a > b { a } else { b }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlaps_are_as_worked_by_hand() {
        let whole = [0.0, 0.0, 10.0, 10.0];
        assert_eq!(iou(&whole, &whole), 1.0);
        assert_eq!(iou(&whole, &[0.0, 0.0, 10.0, 5.0]), 0.5);
        assert_eq!(iou(&whole, &[1.0, 0.0, 11.0, 10.0]), 90.0 / 110.0);
        assert_eq!(iou(&whole, &[5.0, 5.0, 15.0, 15.0]), 25.0 / 175.0);
        assert_eq!(iou(&whole, &[10.0, 0.0, 20.0, 10.0]), 0.0);
        assert_eq!(iou(&whole, &[20.0, 20.0, 30.0, 30.0]), 0.0);
    }

    #[test]
    fn empty_boxes_overlap_with_nothing() {
        let point = [3.0, 3.0, 3.0, 3.0];
        assert_eq!(iou(&point, &point), 0.0);
        assert_eq!(iou(&point, &[0.0, 0.0, 10.0, 10.0]), 0.0);
    }

    #[test]
    fn a_nan_stays() {
        for at in 0..4 {
            let mut broken = [0.0, 0.0, 10.0, 10.0];
            broken[at] = f32::NAN;
            assert!(iou(&broken, &[0.0, 0.0, 10.0, 10.0]).is_nan(), "{at}");
            assert!(iou(&[20.0, 20.0, 30.0, 30.0], &broken).is_nan(), "{at}");
        }
    }
}
