//! `[dense]`: the settings of images with masks.

use crate::schema::section;

section! {
    /// From an image and its mask to an example: both are resized, cropped and flipped together, as mmsegmentation does it. Mean and
    /// deviation are those of `[augment]`, of which nothing else applies.
    pub struct DenseConfig {
        /// Longest and shortest side that an image is resized to, in pixels: the larger size that keeps both. An evaluation
        /// resizes to it; training multiplies it by a random number.
        pub scale: [u32; 2] = [2048, 512], "x-range" = "[1, 65500]", "x-order" = "falling";
        /// Smallest and largest of these numbers.
        pub ratio: [f64; 2] = [0.5, 2.0], "x-range" = "[0.01, 100]", "x-order" = "rising";
        /// Height and width of the random crop in pixels, and of a training image: a smaller one gets a border that is ignored.
        pub crop: [u32; 2] = [512, 512], "x-range" = "[1, 65500]";
        /// A crop is drawn again, up to ten times, while a class has this share of its pixels or more, or has all of them; 1 keeps the
        /// first.
        pub cat_max_ratio: f64 = 0.75, "x-range" = "(0, 1]";
        /// Probability of a horizontal flip.
        pub hflip: f64 = 0.5, "x-range" = "[0, 1]";
        /// Whether training changes brightness, contrast, saturation and hue, each with probability one half.
        pub photometric: bool = true;
    }
}
