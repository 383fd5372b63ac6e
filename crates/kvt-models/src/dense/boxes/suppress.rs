//! The best of boxes, and of boxes that overlap (non-maximum suppression).
//!
//! mmcv and torchvision suppress class by class with one list: they move the boxes of each class apart, which rounds
//! their corners. Here the classes are compared.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::{Corners, iou};

/// The places of the `count` highest scores, best first. Of equal scores the first one is better. A score that is NaN is
/// left out.
pub(super) fn best(scores: &[f32], count: usize) -> Vec<usize> {
    let mut places: Vec<usize> = (0..scores.len())
        .filter(|place| !scores[*place].is_nan())
        .collect();
    let better = |a: &usize, b: &usize| -> Ordering {
        let by_score = scores[*b].partial_cmp(&scores[*a]);
        by_score.unwrap_or(Ordering::Equal).then(a.cmp(b))
    };
    if count < places.len() {
        // A level has up to 200,000 scores, of which 2000 are wanted: only those are sorted.
        if count > 0 {
            places.select_nth_unstable_by(count - 1, better);
        }
        places.truncate(count);
    }
    places.sort_unstable_by(better);
    places
}

/// The places of the boxes that stay, best first: a box goes if its IoU with a better box of its class that stays is **greater**
/// than `threshold`. Of equal scores the first one is better. A box or a score with a NaN is left out.
///
/// # Panics
///
/// If boxes, scores and classes differ in number.
pub fn suppress_by_class(
    boxes: &[Corners],
    scores: &[f32],
    classes: &[usize],
    threshold: f32,
) -> Vec<usize> {
    assert_eq!(boxes.len(), classes.len(), "each box has a class");
    assert_eq!(boxes.len(), scores.len(), "each box has a score");
    // The boxes that stay, by class: a box need not look at those of other classes.
    let mut staying: BTreeMap<usize, Vec<Corners>> = BTreeMap::new();
    let mut places = best(scores, scores.len());
    places.retain(|place| {
        let corners = boxes[*place];
        let better = staying.entry(classes[*place]).or_default();
        let stays = !corners.iter().any(|number| number.is_nan())
            && better.iter().all(|other| iou(other, &corners) <= threshold);
        if stays {
            better.push(corners);
        }
        stays
    });
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of boxes of one class.
    fn suppress(boxes: &[Corners], scores: &[f32], threshold: f32) -> Vec<usize> {
        suppress_by_class(boxes, scores, &vec![0; boxes.len()], threshold)
    }

    const BOXES: [Corners; 5] = [
        [0.0, 0.0, 10.0, 10.0],
        [0.0, 0.0, 10.0, 5.0],
        [1.0, 0.0, 11.0, 10.0],
        [0.0, 0.0, 10.0, 10.0],
        [5.0, 5.0, 15.0, 15.0],
    ];
    const SCORES: [f32; 5] = [0.9, 0.8, 0.7, 0.9, 0.6];

    #[test]
    fn suppression_is_as_worked_by_hand() {
        // The IoU of boxes 0 and 1 is 0.5, which is not greater than 0.5.
        assert_eq!(suppress(&BOXES, &SCORES, 0.5), [0, 1, 4]);
        assert_eq!(suppress(&BOXES, &SCORES, 0.49), [0, 4]);
        let classes = [0, 1, 0, 1, 0];
        assert_eq!(
            suppress_by_class(&BOXES, &SCORES, &classes, 0.5),
            [0, 3, 1, 4]
        );
        assert!(suppress(&[], &[], 0.5).is_empty());
    }

    /// Box 2 overlaps with box 1, but box 1 is gone by then.
    #[test]
    fn a_box_that_is_gone_suppresses_nothing() {
        let boxes = [
            [0.0, 0.0, 10.0, 10.0],
            [3.0, 0.0, 13.0, 10.0],
            [6.0, 0.0, 16.0, 10.0],
        ];
        assert_eq!(suppress(&boxes, &[0.9, 0.8, 0.7], 0.5), [0, 2]);
    }

    #[test]
    fn boxes_and_scores_that_are_not_numbers_are_left_out() {
        let mut boxes = BOXES;
        boxes[0][2] = f32::NAN;
        assert_eq!(suppress(&boxes, &SCORES, 0.5), [3, 1, 4]);
        let mut scores = SCORES;
        scores[0] = f32::NAN;
        assert_eq!(suppress(&BOXES, &scores, 0.5), [3, 1, 4]);
    }

    #[test]
    fn the_best_are_stable() {
        let scores = [0.5, f32::NAN, 0.9, 0.5, -0.0, 0.0, 0.9, f32::INFINITY];
        let all = [7, 2, 6, 0, 3, 4, 5];
        for count in 0..10 {
            assert_eq!(best(&scores, count), all[..count.min(all.len())], "{count}");
        }
    }

    #[test]
    fn many_equal_scores_keep_their_order() {
        let scores: Vec<f32> = (0..1000).map(|at| (at * 7 % 5) as f32).collect();
        let mut expected: Vec<usize> = (0..1000).collect();
        expected.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]));
        for count in [1, 150, 200, 201, 777, 1000] {
            assert_eq!(best(&scores, count), expected[..count], "{count}");
        }
    }
}
