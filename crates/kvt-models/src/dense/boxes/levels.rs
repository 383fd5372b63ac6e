//! Which level of a pyramid a box is read from, as mmdet's `SingleRoIExtractor`.

use super::{Corners, area};

/// mmdet's `finest_scale`, in pixels: level 0 is for sides below twice this one.
const FINEST_SIDE: f32 = 56.0;

/// The level of a box, from 0 for the finest, of a pyramid of `levels`. The side of a box, the root of its area, doubles
/// from level to level: level 0 is for sides below 112 pixels, level 1 for those below 224, and so on. A box without an
/// area, or with a NaN, is of level 0.
pub fn level(corners: &Corners, levels: usize) -> usize {
    let sides = area(corners).sqrt() / FINEST_SIDE;
    // mmdet adds the millionth so that the logarithm of no area is finite.
    let level = (sides + 1e-6).log2().floor();
    // A cast makes 0 of a negative number and of a NaN.
    (level as usize).min(levels.saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_side(side: f32) -> usize {
        level(&[3.0, 5.0, 3.0 + side, 5.0 + side], 4)
    }

    #[test]
    fn levels_are_as_worked_by_hand() {
        let sides = [1.0, 56.0, 111.99, 112.0, 223.9, 224.0, 447.9, 448.0, 5000.0];
        assert_eq!(sides.map(of_side), [0, 0, 0, 1, 1, 2, 2, 3, 3]);
    }

    /// mmdet's millionth moves the limit by 56 millionths of a pixel.
    #[test]
    fn a_side_just_below_the_limit_is_of_the_next_level() {
        assert_eq!(level(&[0.0, 0.0, 111.999_98, 111.999_98], 4), 1);
    }

    #[test]
    fn only_the_area_counts() {
        assert_eq!(level(&[0.0, 0.0, 224.0, 56.0], 4), 1);
        assert_eq!(level(&[0.0, 0.0, 56.0, 223.0], 4), 0);
        assert_eq!(level(&[0.0, 0.0, 900.0, 900.0], 2), 1);
    }

    #[test]
    fn boxes_without_area_or_numbers_are_of_level_0() {
        for corners in [[3.0; 4], [0.0, 0.0, -1.0, 1.0], [f32::NAN; 4]] {
            assert_eq!(level(&corners, 4), 0, "{corners:?}");
        }
    }
}
