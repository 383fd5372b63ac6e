//! `[augment]`: the settings of a [`Transform`](super::Transform).

use crate::schema::section;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

section! {
    /// From a decoded image to the input of the model.
    pub struct AugmentConfig {
        /// Random resized crop and flip, random crop with padding and flip, or nothing.
        pub preset: Preset = Preset::Imagenet;
        /// Smallest and largest area of the random resized crop as a share of the image; only imagenet.
        pub scale: [f64; 2] = [0.08, 1.0], "x-range" = "(0, 1]";
        /// Smallest and largest width / height of the random resized crop; only imagenet.
        pub ratio: [f64; 2] = [3.0 / 4.0, 4.0 / 3.0], "x-range" = "(0, inf)";
        /// Probability of a horizontal flip.
        pub hflip: f64 = Preset::Imagenet.hflip(),
            "x-range" = "[0, 1]", "x-default" = "`0.5`, with none `0.0`";
        /// Pixels of black border that the random crop may reach into; only cifar.
        pub padding: u32 = 4, "x-range" = "[0, 65535]";
        /// Filter for resizing.
        pub interpolation: Interpolation = Interpolation::Bicubic;
        /// Mean of each channel, subtracted from values in [0, 1].
        pub mean: [f64; 3] = [0.485, 0.456, 0.406], "x-range" = "[-1e6, 1e6]";
        /// Standard deviation of each channel, divided by after the mean.
        pub std: [f64; 3] = [0.229, 0.224, 0.225], "x-range" = "[1e-6, 1e6]";
        /// Evaluation resizes the shorter side to `img_size / crop_pct` and cuts out the centre.
        // At the least share the resized image has a hundred times the pixels that are used.
        pub crop_pct: f64 = Preset::Imagenet.crop_pct(),
            "x-range" = "[0.1, 1]", "x-default" = "`0.875` with imagenet, else `1.0`";
    }
}

impl AugmentConfig {
    /// The pairs that do not have the smaller value first.
    pub(crate) fn reversed(&self) -> impl Iterator<Item = (&'static str, [f64; 2])> + use<> {
        let pairs = [("scale", self.scale), ("ratio", self.ratio)];
        pairs.into_iter().filter(|(_, [low, high])| low > high)
    }
}

/// Which steps a training image goes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Preset {
    /// Random resized crop and flip.
    Imagenet,
    /// Resize if the size differs, zero padding, random crop and flip.
    Cifar,
    /// Resize if the size differs.
    None,
}

impl Preset {
    /// The default of `augment.hflip`.
    pub(crate) fn hflip(self) -> f64 {
        match self {
            Self::Imagenet | Self::Cifar => 0.5,
            Self::None => 0.0,
        }
    }

    /// The default of `augment.crop_pct`.
    pub(crate) fn crop_pct(self) -> f64 {
        match self {
            Self::Imagenet => 0.875,
            Self::Cifar | Self::None => 1.0,
        }
    }
}

/// The kernel of a resize, stretched when the image shrinks (antialiasing), as in Pillow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Interpolation {
    /// Cubic with a = -0.5.
    Bicubic,
    /// Triangle.
    Bilinear,
}
