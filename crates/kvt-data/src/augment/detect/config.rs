//! `[multiscale]`: the settings of images with objects.

use crate::schema::section;

section! {
    /// From an image and its objects to an example: both are flipped and resized together, as DETR, and mmdetection after it, do it. Mean
    /// and deviation are those of `[augment]`, of which nothing else applies.
    pub struct MultiscaleConfig {
        /// Shorter sides of a training image in pixels, of which one is drawn. An evaluation takes the largest.
        pub sizes: Vec<u32> = (480..=800).step_by(32).collect(), "minItems" = 1, "x-range" = "[1, 65500]";
        /// The longer side of an image has at most this many pixels: then the shorter one has fewer.
        pub max: u32 = 1333, "x-range" = "[1, 65500]";
        /// Whether half of the training images are cropped before: resized to a shorter side of 400, 500 or 600 px, and cut to sides of 384
        /// to 600 px.
        pub crop_before: bool = true;
        /// Probability of a horizontal flip.
        pub hflip: f64 = 0.5, "x-range" = "[0, 1]";
    }
}

impl MultiscaleConfig {
    /// The largest of the shorter sides.
    pub fn largest(&self) -> u32 {
        self.sizes.iter().copied().max().unwrap_or(self.max)
    }

    /// A key whose value does not fit the others, with the value and what is expected.
    pub fn misfit(&self) -> Option<(&'static str, String, String)> {
        (self.max < self.largest()).then(|| {
            let expected = format!("at least {}, the largest of `sizes`", self.largest());
            ("max", self.max.to_string(), expected)
        })
    }
}
