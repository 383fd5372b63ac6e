//! A class for each pixel of an image.

/// The label of a pixel without a class: it is neither trained on nor evaluated.
pub const IGNORED: u8 = 255;

/// The class of each pixel of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelMap {
    /// Labels, `[height, width]`: indices into the classes, or [`IGNORED`].
    pub labels: Vec<u8>,
    /// Height and width in pixels.
    pub size: (usize, usize),
}

impl LabelMap {
    /// Whether any pixel has a class.
    pub fn is_labelled(&self) -> bool {
        self.labels.iter().any(|label| *label != IGNORED)
    }
}
