//! The proposals of an image, as mmdet's `RPNHead` with `min_bbox_size = 0`.

use super::{Coder, Corners, Deltas, best, clip, is_empty, suppress_by_class};

/// A box that may contain an object.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Proposal {
    /// The box, inside the image and with an area.
    pub corners: Corners,
    /// The probability of an object, from 0 to 1.
    pub score: f32,
}

/// The proposals of an image of `[height, width]` pixels (without padding), best first.
///
/// `levels` says how many anchors each level has; of each anchor, `scores` has the probability of an object, from 0 to 1 (with
/// logits, scores that round to 1 would not be equal), and `deltas` how the object differs from it, for [`Coder::RPN`].
///
/// Of each level the best `per_level` anchors are decoded and clipped to the image, boxes without an area are left out, and
/// boxes whose IoU with a better one of their level is greater than `iou` go; the best `count` of all levels stay. Of equal scores
/// the one of the finer level, then the first one, is better. A NaN in a score or a box leaves out that anchor only.
///
/// # Panics
///
/// If there are fewer anchors, scores or deltas than the levels have.
pub fn proposals(
    levels: &[usize],
    anchors: &[Corners],
    scores: &[f32],
    deltas: &[Deltas],
    image: [usize; 2],
    [per_level, count]: [usize; 2],
    iou: f32,
) -> Vec<Proposal> {
    let (mut boxes, mut of_boxes, mut numbers) = (Vec::new(), Vec::new(), Vec::new());
    let mut first = 0;
    for (number, level) in levels.iter().enumerate() {
        for place in best(&scores[first..first + level], per_level) {
            let place = first + place;
            let corners = clip(&Coder::RPN.decode(&anchors[place], &deltas[place]), image);
            if !is_empty(&corners) {
                boxes.push(corners);
                of_boxes.push(scores[place]);
                numbers.push(number);
            }
        }
        first += level;
    }
    let places = suppress_by_class(&boxes, &of_boxes, &numbers, iou);
    let proposal = |place: usize| Proposal {
        corners: boxes[place],
        score: of_boxes[place],
    };
    places.into_iter().take(count).map(proposal).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FINE: [Corners; 4] = [
        [0.0, 0.0, 10.0, 10.0],
        [0.0, 0.0, 10.0, 9.0],
        [20.0, 20.0, 30.0, 30.0],
        [40.0, 40.0, 50.0, 50.0],
    ];
    const COARSE: [Corners; 2] = [[0.0, 0.0, 10.0, 9.0], [-20.0, 0.0, 4.0, 8.0]];

    fn found(scores: [&[f32]; 2], deltas: [&[Deltas]; 2], count: usize) -> Vec<Proposal> {
        let anchors = [&FINE[..], &COARSE[..]].concat();
        let (scores, deltas) = (scores.concat(), deltas.concat());
        let limits = [3, count];
        proposals(&[4, 2], &anchors, &scores, &deltas, [45, 60], limits, 0.7)
    }

    fn corners(proposals: &[Proposal]) -> Vec<Corners> {
        proposals.iter().map(|proposal| proposal.corners).collect()
    }

    #[test]
    fn boxes_go_within_their_level_and_the_best_of_all_stay() {
        let scores: [&[f32]; 2] = [&[0.9, 0.8, 0.1, 0.3], &[0.3, 0.5]];
        let proposals = found(scores, [&[[0.0; 4]; 4], &[[0.0; 4]; 2]], 4);
        // Box 2 of the first level is not among its best three, and box 1 overlaps with box 0; the same box of the
        // second level stays. Of equal scores the first level's is better.
        let clipped = [40.0, 40.0, 50.0, 45.0];
        let expected = [FINE[0], [0.0, 0.0, 4.0, 8.0], clipped, COARSE[0]];
        assert_eq!(corners(&proposals), expected);
        let scores: Vec<f32> = proposals.iter().map(|proposal| proposal.score).collect();
        assert_eq!(scores, [0.9, 0.5, 0.3, 0.3]);
    }

    #[test]
    fn fewer_stay_if_fewer_are_wanted() {
        let scores: [&[f32]; 2] = [&[0.9, 0.8, 0.1, 0.3], &[0.3, 0.5]];
        let proposals = found(scores, [&[[0.0; 4]; 4], &[[0.0; 4]; 2]], 2);
        assert_eq!(corners(&proposals), [FINE[0], [0.0, 0.0, 4.0, 8.0]]);
    }

    #[test]
    fn what_is_empty_or_not_a_number_is_left_out() {
        let scores: [&[f32]; 2] = [&[0.9, 0.8, 0.7, f32::NAN], &[0.5, 0.3]];
        // Decoded beyond the image, not decoded, untouched.
        let fine = [
            [-3.0, 0.0, 0.0, 0.0],
            [0.0, f32::NAN, 0.0, 0.0],
            [0.0; 4],
            [0.0; 4],
        ];
        let coarse = [[0.0, f32::INFINITY, 0.0, 0.0], [0.0; 4]];
        let all = found(scores, [&fine, &coarse], 4);
        assert_eq!(corners(&all), [FINE[2], [0.0, 0.0, 4.0, 8.0]]);
        assert!(proposals(&[], &[], &[], &[], [45, 60], [3, 4], 0.7).is_empty());
    }
}
