//! Boxes on the host: overlaps, deltas, anchors, targets, samples and suppression, as mmdet 3.3 computes them.
//!
//! All of it works on slices, in f32 and in mmdet's order of operations: an IoU that meets a threshold in one of them
//! meets it in the other. No function depends on a device, and only [`sample()`] draws.

mod anchors;
mod assign;
mod coder;
mod iou;
mod levels;
mod proposals;
mod sample;
mod suppress;

#[cfg(test)]
mod tests;

pub use anchors::{ANCHORS_PER_CELL, Grid};
pub use assign::{Assigner, Match};
pub use coder::{Coder, Deltas};
pub use iou::iou;
pub use levels::level;
pub use proposals::{Proposal, proposals};
pub use sample::{Sample, sample};
use suppress::best;
pub use suppress::suppress_by_class;

/// A box as x1, y1, x2, y2 in pixels. The numbers are borders, not places of pixels: a box of one pixel is 1 wide, and a
/// width is x2 - x1, without the 1 that old versions of mmdet added.
pub type Corners = [f32; 4];

/// The area in square pixels. It is negative if the corners of one axis are in the wrong order.
pub fn area(corners: &Corners) -> f32 {
    let [x1, y1, x2, y2] = corners;
    (x2 - x1) * (y2 - y1)
}

/// The part of a box inside an image of `[height, width]` pixels. NaN stays NaN.
pub fn clip(corners: &Corners, image: [usize; 2]) -> Corners {
    let [height, width] = image.map(|side| side as f32);
    let [x1, y1, x2, y2] = corners;
    [
        x1.clamp(0.0, width),
        y1.clamp(0.0, height),
        x2.clamp(0.0, width),
        y2.clamp(0.0, height),
    ]
}

/// Whether a box has no area. A box with a NaN counts as empty, so that a step that drops empty boxes drops it too.
pub fn is_empty(corners: &Corners) -> bool {
    let [x1, y1, x2, y2] = corners;
    let has_area = x2 > x1 && y2 > y1;
    !has_area
}

#[cfg(test)]
mod basics {
    use super::*;

    #[test]
    fn a_box_is_continuous() {
        assert_eq!(area(&[1.0, 2.0, 4.0, 4.5]), 7.5);
        assert_eq!(area(&[3.0, 3.0, 3.0, 9.0]), 0.0);
    }

    #[test]
    fn clipping_moves_every_border_into_the_image() {
        let outside = [-5.0, -1.0, 70.0, 95.0];
        assert_eq!(clip(&outside, [90, 60]), [0.0, 0.0, 60.0, 90.0]);
        let beyond = [65.0, 10.0, 80.0, 20.0];
        assert_eq!(clip(&beyond, [90, 60]), [60.0, 10.0, 60.0, 20.0]);
        assert!(is_empty(&clip(&beyond, [90, 60])));
        let broken = clip(&[f32::NAN, f32::NEG_INFINITY, f32::INFINITY, 5.0], [90, 60]);
        assert!(broken[0].is_nan());
        assert_eq!(broken[1..], [0.0, 60.0, 5.0]);
    }

    #[test]
    fn boxes_without_area_and_without_numbers_are_empty() {
        assert!(!is_empty(&[0.0, 0.0, 1e-6, 1e-6]));
        for corners in [
            [1.0, 1.0, 1.0, 2.0],
            [1.0, 2.0, 3.0, 2.0],
            [3.0, 0.0, 1.0, 2.0],
            [0.0, 0.0, f32::NAN, 2.0],
            [0.0, f32::NAN, 1.0, 2.0],
            [f32::INFINITY, 0.0, f32::INFINITY, 2.0],
        ] {
            assert!(is_empty(&corners), "{corners:?}");
        }
    }
}
