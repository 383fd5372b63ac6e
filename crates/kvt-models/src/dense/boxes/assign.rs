//! Which object a box stands for, as mmdet's `MaxIoUAssigner` with `match_low_quality`.

use super::{Corners, iou};

/// What a box stands for in training.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Match {
    /// Nothing: the box overlaps too much for background and too little for an object, so no loss sees it.
    Neither,
    /// No object.
    Background,
    /// The object of this number, from 0.
    Object(usize),
}

/// The rule of IoUs by which boxes stand for objects.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Assigner {
    /// A box stands for its best object if their IoU is at least this.
    pub positive: f32,
    /// A box is background if its best IoU is less than this.
    pub negative: f32,
    /// An object claims its best boxes, however small their IoU, if it is at least this.
    pub min_positive: f32,
}

impl Assigner {
    /// The rule for anchors of a region proposal network.
    pub const RPN: Self = Self {
        positive: 0.7,
        negative: 0.3,
        min_positive: 0.3,
    };
    /// The rule for proposals of a box head.
    pub const ROI: Self = Self {
        positive: 0.5,
        negative: 0.5,
        min_positive: 0.5,
    };

    /// What each of the boxes stands for.
    ///
    /// The rule, each step over the ones before:
    /// 1. a box is [`Match::Neither`];
    /// 2. a box whose best IoU is less than `negative` is background;
    /// 3. a box whose best IoU is at least `positive` stands for that object, for the first one if several are as good;
    /// 4. each object in turn claims **all** boxes that have its best IoU, if that is at least `min_positive`. A box may
    ///    so stand for an object that is not its best one, and a later object takes boxes from an earlier one.
    ///
    /// Without objects every box is background. A box with a NaN is `Neither`, as in mmdet; here it does not spoil the
    /// best IoU of an object.
    pub fn assign(&self, boxes: &[Corners], objects: &[Corners]) -> Vec<Match> {
        if objects.is_empty() {
            return vec![Match::Background; boxes.len()];
        }
        // Of each box: its best IoU, and the object that has it. No IoU is below 0.
        let mut nearest = vec![(-1.0_f32, 0_usize); boxes.len()];
        // One row of the matrix of IoUs: the whole of it needs 20 MB for the anchors of an image with 20 objects.
        let mut row = vec![0.0_f32; boxes.len()];
        let mut claims = Vec::new();
        for (number, object) in objects.iter().enumerate() {
            for (place, corners) in row.iter_mut().zip(boxes) {
                *place = iou(object, corners);
            }
            for (nearest, found) in nearest.iter_mut().zip(&row) {
                if *found > nearest.0 {
                    *nearest = (*found, number);
                }
            }
            let best = row.iter().copied().fold(-1.0, f32::max);
            if best >= self.min_positive {
                let places = row.iter().enumerate();
                let best_places = places.filter(|(_, found)| **found == best);
                claims.extend(best_places.map(|(place, _)| (place, number)));
            }
        }
        let mut matches: Vec<Match> = nearest
            .iter()
            .map(|found| self.by_nearest(*found))
            .collect();
        for (place, number) in claims {
            matches[place] = Match::Object(number);
        }
        matches
    }

    fn by_nearest(&self, (best, number): (f32, usize)) -> Match {
        if best >= self.positive {
            Match::Object(number)
        } else if (0.0..self.negative).contains(&best) {
            Match::Background
        } else {
            Match::Neither
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Match::{Background, Neither, Object};
    use super::*;

    const BOXES: [Corners; 8] = [
        [0.0, 0.0, 10.0, 10.0],
        [0.0, 0.0, 10.0, 8.0],
        [0.0, 0.0, 10.0, 5.0],
        [20.0, 20.0, 30.0, 30.0],
        [20.0, 20.0, 30.0, 29.0],
        [40.0, 40.0, 50.0, 50.0],
        [0.0, 5.0, 10.0, 15.0],
        [60.0, 60.0, 64.0, 64.0],
    ];
    const OBJECTS: [Corners; 4] = [
        [0.0, 0.0, 10.0, 10.0],
        [21.0, 21.0, 31.0, 31.0],
        [40.0, 40.0, 47.0, 47.0],
        [60.0, 60.0, 80.0, 80.0],
    ];

    #[test]
    fn matches_are_as_worked_by_hand() {
        let one = Object(0);
        assert_eq!(
            Assigner::RPN.assign(&BOXES, &OBJECTS),
            [
                one,
                one,
                Neither,
                Object(1),
                Neither,
                Object(2),
                Neither,
                Background
            ]
        );
        assert_eq!(
            Assigner::ROI.assign(&BOXES, &OBJECTS),
            [
                one,
                one,
                one,
                Object(1),
                Object(1),
                Background,
                Background,
                Background
            ]
        );
    }

    #[test]
    fn nothing_to_match_is_background() {
        assert_eq!(Assigner::RPN.assign(&BOXES, &[]), [Background; 8]);
        assert!(Assigner::RPN.assign(&[], &OBJECTS).is_empty());
    }

    #[test]
    fn the_first_of_equal_objects_is_the_best_and_the_last_one_claims() {
        let object = [0.0, 0.0, 10.0, 10.0];
        let boxes = [object, [0.0, 0.0, 10.0, 8.0]];
        // The first box has the best IoU of both objects, so the later one claims it.
        assert_eq!(
            Assigner::RPN.assign(&boxes, &[object, object]),
            [Object(1), Object(0)]
        );
    }

    #[test]
    fn an_object_claims_all_its_best_boxes() {
        let object = [0.0, 0.0, 10.0, 10.0];
        let boxes = [
            [0.0, 0.0, 10.0, 5.0],
            [0.0, 5.0, 10.0, 10.0],
            [0.0, 0.0, 10.0, 4.0],
        ];
        assert_eq!(
            Assigner::RPN.assign(&boxes, &[object]),
            [Object(0), Object(0), Neither]
        );
    }

    #[test]
    fn an_iou_equal_to_a_threshold_counts() {
        let (boxes, object) = ([[0.0, 0.0, 10.0, 5.0]], [0.0, 0.0, 10.0, 10.0]);
        let claims = Assigner {
            positive: 0.7,
            negative: 0.6,
            min_positive: 0.5,
        };
        assert_eq!(claims.assign(&boxes, &[object]), [Object(0)]);
        let stands = Assigner {
            positive: 0.5,
            min_positive: 0.6,
            ..claims
        };
        assert_eq!(stands.assign(&boxes, &[object]), [Object(0)]);
        let neither = Assigner {
            positive: 0.7,
            negative: 0.5,
            min_positive: 0.6,
        };
        assert_eq!(neither.assign(&boxes, &[object]), [Neither]);
    }

    /// The shares of mmdetection's `mask-rcnn_r50_fpn.py`, met and missed by boxes that cover so many percent of an object: beside a box
    /// that is the object, and alone.
    #[test]
    fn the_rules_are_those_of_the_recipe() {
        let part = |percent: f32| [0.0, 0.0, 10.0, percent];
        let object = part(100.0);
        for (rule, percent, beside, alone) in [
            (Assigner::RPN, 70.0, Object(0), Object(0)),
            (Assigner::RPN, 69.0, Neither, Object(0)),
            (Assigner::RPN, 30.0, Neither, Object(0)),
            (Assigner::RPN, 29.0, Background, Background),
            (Assigner::ROI, 50.0, Object(0), Object(0)),
            (Assigner::ROI, 49.0, Background, Background),
        ] {
            let found = rule.assign(&[object, part(percent)], &[object]);
            assert_eq!(found, [Object(0), beside], "{percent}");
            assert_eq!(
                rule.assign(&[part(percent)], &[object]),
                [alone],
                "{percent}"
            );
        }
    }

    #[test]
    fn a_box_that_is_not_a_number_is_neither() {
        let boxes = [[f32::NAN; 4], [0.0, 0.0, 10.0, 4.0], [0.0, 0.0, 1.0, 1.0]];
        assert_eq!(
            Assigner::RPN.assign(&boxes, &[[0.0, 0.0, 10.0, 10.0]]),
            [Neither, Object(0), Background]
        );
    }
}
