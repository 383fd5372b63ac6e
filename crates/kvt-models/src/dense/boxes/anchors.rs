//! The anchors of a map, as mmdet's `AnchorGenerator` with one scale of 8 and ratios of 0.5, 1 and 2.

use super::Corners;

/// The side of a square anchor, in strides.
const SCALE: f32 = 8.0;
/// Heights over widths.
const RATIOS: [f32; ANCHORS_PER_CELL] = [0.5, 1.0, 2.0];

/// How many anchors each cell of a map has.
pub const ANCHORS_PER_CELL: usize = 3;

/// The cells of one level of a pyramid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// `[height, width]` of the map, in cells.
    pub size: [usize; 2],
    /// The side of a cell in pixels of the image.
    pub stride: usize,
}

impl Grid {
    /// How many anchors the map has.
    pub fn anchor_count(&self) -> usize {
        self.size[0] * self.size[1] * ANCHORS_PER_CELL
    }

    /// All anchors, row by row, cell by cell, the widest of a cell first: the anchor of ratio `r` at row `y` and column
    /// `x` is at `(y * width + x) * 3 + r`.
    ///
    /// An anchor lies around the first corner of its cell, not around the middle. It is neither rounded nor clipped, and
    /// all ratios have the same area. (torchvision rounds.)
    pub fn anchors(&self) -> Vec<Corners> {
        let around_zero = RATIOS.map(|ratio| self.around_zero(ratio));
        let anchors = self.cells().flat_map(|[y, x]| {
            let [y, x] = [y as f32, x as f32];
            around_zero.map(|[x1, y1, x2, y2]| [x1 + x, y1 + y, x2 + x, y2 + y])
        });
        anchors.collect()
    }

    /// Of each anchor, whether its cell begins in the first `[height, width]` pixels, as mmdet's `valid_flags`.
    ///
    /// A batch is as large as its largest image. The cells beyond the padded size of a smaller image see only padding,
    /// so they must not count as background.
    pub fn covered(&self, pixels: [usize; 2]) -> Vec<bool> {
        let covered = self.cells().map(|[y, x]| y < pixels[0] && x < pixels[1]);
        let covered = covered.flat_map(|is_covered| [is_covered; ANCHORS_PER_CELL]);
        covered.collect()
    }

    /// Where the cells begin in the image, row by row, as `[y, x]`.
    fn cells(&self) -> impl Iterator<Item = [usize; 2]> {
        let ([height, width], stride) = (self.size, self.stride);
        let rows = 0..height;
        rows.flat_map(move |row| (0..width).map(move |column| [row * stride, column * stride]))
    }

    fn around_zero(&self, ratio: f32) -> Corners {
        let (stride, root) = (self.stride as f32, ratio.sqrt());
        // In mmdet's order: another one rounds otherwise.
        let half_width = 0.5 * (stride * (1.0 / root) * SCALE);
        let half_height = 0.5 * (stride * root * SCALE);
        [-half_width, -half_height, half_width, half_height]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_anchors_are_as_worked_by_hand() {
        let grid = Grid {
            size: [2, 3],
            stride: 4,
        };
        let anchors = grid.anchors();
        assert_eq!(anchors.len(), grid.anchor_count());
        let (long, short) = (22.627_417, 11.313_708);
        let expected = [
            [-long, -short, long, short],
            [-16.0, -16.0, 16.0, 16.0],
            [-short, -long, short, long],
        ];
        for (found, expected) in anchors.iter().zip(&expected) {
            for (a, b) in found.iter().zip(expected) {
                assert!((a - b).abs() < 1e-5, "{found:?} for {expected:?}");
            }
        }
        // Row 1, column 2, ratio 1.
        assert_eq!(anchors[(3 + 2) * 3 + 1], [-8.0, -12.0, 24.0, 20.0]);
    }

    #[test]
    fn an_image_of_800_by_1344_has_268569_anchors() {
        let mut size = [200, 336];
        let mut total = 0;
        for stride in [4, 8, 16, 32, 64] {
            total += Grid { size, stride }.anchor_count();
            size = size.map(|side: usize| side.div_ceil(2));
        }
        assert_eq!(total, 268_569);
    }

    #[test]
    fn cells_beyond_a_smaller_image_are_not_covered() {
        let grid = Grid {
            size: [2, 3],
            stride: 32,
        };
        let cells = |pixels| -> Vec<bool> { grid.covered(pixels).into_iter().step_by(3).collect() };
        assert_eq!(cells([32, 64]), [true, true, false, false, false, false]);
        assert_eq!(cells([33, 65]), [true; 6]);
        assert_eq!(cells([64, 96]), [true; 6]);
        assert_eq!(
            grid.covered([32, 64])[3..9],
            [true, true, true, false, false, false]
        );
    }
}
