//! Random erasing: rectangles of a normalised image are overwritten.

use kvt_ops::Key;

use super::AugmentConfig;

/// A rectangle and what it is overwritten with.
#[derive(Clone, Debug, PartialEq)]
pub struct Patch {
    /// First row.
    pub top: usize,
    /// First column.
    pub left: usize,
    /// Rows.
    pub height: usize,
    /// Columns.
    pub width: usize,
    /// Normalised values, `[3, height, width]`.
    pub values: Vec<f32>,
}

/// Random erasing with its settings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RandomErasing;

impl RandomErasing {
    /// The erasing of a configuration, where it has one.
    #[must_use]
    pub fn new(_config: &AugmentConfig) -> Option<Self> {
        None
    }

    /// The patches of an image of `size` (height, width), in the order in which they are written.
    pub fn patches(&self, _size: (usize, usize), _key: Key) -> Vec<Patch> {
        Vec::new()
    }
}
