//! Boxes as differences from other boxes, as mmdet's `DeltaXYWHBBoxCoder` with means of 0.

use super::Corners;

/// How a box differs from another one: the shift of its centre in widths and heights of the other box, then the
/// logarithms of the ratios of widths and heights, each divided by its standard deviation.
pub type Deltas = [f32; 4];

/// The largest logarithm of a ratio that a decoded box has, in both directions: ln(1000 / 16). The exponential of an
/// early, wild prediction is infinite without it.
const LARGEST_LOG_RATIO: f32 = 4.135_166_6;

/// Encodes and decodes boxes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Coder {
    /// The standard deviations of the four differences: a network learns differences divided by them.
    pub stds: [f32; 4],
}

impl Coder {
    /// The coder of a region proposal network, from anchors to proposals.
    pub const RPN: Self = Self { stds: [1.0; 4] };
    /// The coder of a box head, from proposals to detections.
    pub const ROI: Self = Self {
        stds: [0.1, 0.1, 0.2, 0.2],
    };

    /// How `target` differs from `prior`. Both need an area: other boxes have differences that are not finite.
    pub fn encode(&self, prior: &Corners, target: &Corners) -> Deltas {
        let [x, y, width, height] = centre_and_size(prior);
        let [target_x, target_y, target_width, target_height] = centre_and_size(target);
        let [std_x, std_y, std_width, std_height] = self.stds;
        [
            (target_x - x) / width / std_x,
            (target_y - y) / height / std_y,
            (target_width / width).ln() / std_width,
            (target_height / height).ln() / std_height,
        ]
    }

    /// The box that differs from `prior` by `deltas`. Its sides are between 16/1000 and 1000/16 of the prior's. A NaN makes the borders
    /// of its axis NaN.
    pub fn decode(&self, prior: &Corners, deltas: &Deltas) -> Corners {
        let [x, y, width, height] = centre_and_size(prior);
        let [std_x, std_y, std_width, std_height] = self.stds;
        let centre_x = x + width * (deltas[0] * std_x);
        let centre_y = y + height * (deltas[1] * std_y);
        let half_width = width * ratio(deltas[2] * std_width) * 0.5;
        let half_height = height * ratio(deltas[3] * std_height) * 0.5;
        [
            centre_x - half_width,
            centre_y - half_height,
            centre_x + half_width,
            centre_y + half_height,
        ]
    }
}

fn ratio(logarithm: f32) -> f32 {
    logarithm.clamp(-LARGEST_LOG_RATIO, LARGEST_LOG_RATIO).exp()
}

fn centre_and_size(corners: &Corners) -> [f32; 4] {
    let [x1, y1, x2, y2] = corners;
    [(x1 + x2) * 0.5, (y1 + y2) * 0.5, x2 - x1, y2 - y1]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dense::boxes::{clip, is_empty};

    const PRIOR: Corners = [10.0, 20.0, 50.0, 100.0];
    const TARGET: Corners = [14.0, 16.0, 54.0, 116.0];

    fn assert_near(found: &[f32; 4], expected: &[f32; 4]) {
        for (a, b) in found.iter().zip(expected) {
            assert!(
                (a - b).abs() <= 1e-6 * b.abs().max(1.0),
                "{found:?} for {expected:?}"
            );
        }
    }

    #[test]
    fn the_limit_is_the_logarithm() {
        assert_eq!(LARGEST_LOG_RATIO, (1000.0_f64 / 16.0).ln() as f32);
    }

    #[test]
    fn differences_are_as_worked_by_hand() {
        let encoded = Coder::RPN.encode(&PRIOR, &TARGET);
        assert_near(&encoded, &[0.1, 0.075, 0.0, 0.223_143_55]);
        assert_near(&Coder::RPN.decode(&PRIOR, &encoded), &TARGET);
        let encoded = Coder::ROI.encode(&PRIOR, &TARGET);
        assert_near(&encoded, &[1.0, 0.75, 0.0, 1.115_717_8]);
        assert_near(&Coder::ROI.decode(&PRIOR, &encoded), &TARGET);
    }

    #[test]
    fn ratios_have_limits_in_both_directions() {
        let deltas = [0.0, 0.0, 100.0, -100.0];
        let clipped = clip(&Coder::ROI.decode(&PRIOR, &deltas), [90, 60]);
        assert_near(&clipped, &[0.0, 59.36, 60.0, 60.64]);
        let whole = Coder::ROI.decode(&PRIOR, &deltas);
        assert_near(&whole, &[-1220.0, 59.36, 1280.0, 60.64]);
    }

    #[test]
    fn deltas_that_are_not_finite_decode_without_a_panic() {
        let broken = clip(
            &Coder::RPN.decode(&PRIOR, &[f32::NAN, 0.0, 0.0, 0.0]),
            [90, 60],
        );
        assert!(broken[0].is_nan() && broken[2].is_nan());
        assert_eq!([broken[1], broken[3]], [20.0, 90.0]);
        let broken = clip(
            &Coder::RPN.decode(&PRIOR, &[0.0, 0.0, 0.0, f32::NAN]),
            [90, 60],
        );
        assert!(broken[1].is_nan() && broken[3].is_nan());
        let infinite = [0.0, 0.0, f32::INFINITY, f32::NEG_INFINITY];
        let limited = clip(&Coder::ROI.decode(&PRIOR, &infinite), [90, 60]);
        assert_near(&limited, &[0.0, 59.36, 60.0, 60.64]);
        let far = clip(
            &Coder::RPN.decode(&PRIOR, &[f32::INFINITY, 0.0, 0.0, 0.0]),
            [90, 60],
        );
        assert!(is_empty(&far), "{far:?}");
    }
}
