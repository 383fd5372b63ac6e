//! What can be wrong with an annotation.

/// What is wrong with an annotation.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// A box that is no list of four numbers, but of so many.
    #[error("`bbox` has {0} numbers: expected `[x, y, width, height]`")]
    Box(usize),
    /// A polygon that is no list of three or more corners, but of so many numbers.
    #[error("a polygon of {0} numbers: expected `x, y` of three corners or more")]
    Corners(usize),
    /// A number where a polygon is expected.
    #[error(
        "`segmentation` is a list of numbers, such as `{0}`: expected a list of polygons, `[[x, y, x, y, x, y]]`"
    )]
    Flat(f64),
    /// A coordinate that is far outside of any image.
    #[error("`{0:?}` is no coordinate of an image in pixels")]
    Coordinate(f64),
    /// An outline that is longer than that of any object.
    #[error("the outline of a polygon is too long to be that of an object")]
    Outline,
    /// A run that is no number of pixels.
    #[error("run {position} of `counts` is `{value}`: expected a whole number of pixels")]
    Count {
        /// Its place, from 0.
        position: usize,
        /// Its value.
        value: f64,
    },
    /// Runs without a part of their description.
    #[error(
        "`segmentation` has no `{0}`: runs are `{{\"size\": [height, width], \"counts\": ...}}`"
    )]
    Lacks(&'static str),
    /// A mask of another size than the image.
    #[error("its mask has `{} x {}` pixels, the image `{} x {}` (height x width)", found.0, found.1, image.0, image.1)]
    Size {
        /// Height and width of the mask.
        found: (u32, u32),
        /// Height and width of the image.
        image: (u32, u32),
    },
    /// Runs that do not cover the image.
    #[error("the runs count `{total}` pixels, the image has `{pixels}` (`{height} x {width}`)", pixels = u64::from(*height) * u64::from(*width))]
    Total {
        /// Sum of the runs.
        total: u64,
        /// Height of the image.
        height: u32,
        /// Width of the image.
        width: u32,
    },
    /// A character, by its place from 0, that no group of bits has.
    #[error("character {0} is not one of an encoded mask (`0` to `o`)")]
    Character(usize),
    /// A number, by its place among the runs from 0, that is cut off, negative, or too large for an image.
    #[error("number {0} is cut off, negative or too large")]
    Number(usize),
}
