//! `[augment]`: the settings of a [`Transform`](super::Transform).

use super::{AutoAugment, AutoError, EraseMode};
use crate::schema::section;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

section! {
    /// From a decoded image to the input of the model.
    pub struct AugmentConfig {
        /// Random resized crop and flip, random crop with padding and flip, or nothing.
        pub preset: Preset = Preset::Imagenet;
        /// Smallest and largest area of the random resized crop as a share of the image; only imagenet.
        pub scale: [f64; 2] = [0.08, 1.0], "x-range" = "(0, 1]", "x-order" = "rising";
        /// Smallest and largest width / height of the random resized crop; only imagenet.
        pub ratio: [f64; 2] = [3.0 / 4.0, 4.0 / 3.0], "x-range" = "(0, inf)", "x-order" = "rising";
        /// Probability of a horizontal flip.
        pub hflip: f64 = Preset::Imagenet.hflip(),
            "x-range" = "[0, 1]", "x-default" = "`0.5`, with none `0.0`";
        /// Pixels of black border that the random crop may reach into; only cifar.
        pub padding: u32 = 4, "x-range" = "[0, 65535]";
        /// Probability of a vertical flip.
        pub vflip: f64 = 0.0, "x-range" = "[0, 1]";
        /// Automatic augmentation after crop and flips, in timm's words: RandAugment as in `rand-m9-mstd0.5-inc1`, AugMix as in
        /// `augmix-m5-w4-d2`, AutoAugment `original`, `originalr`, `v0` or `v0r`, 3-Augment `3a`. Empty: none.
        pub auto: String = String::new();
        /// Brightness, contrast and saturation are multiplied by 1 ± this, in random order, after `auto`. As in timm it
        /// is 0 beside an `auto` that does not contain `3a`.
        pub color_jitter: f64 = 0.0, "x-range" = "[0, 100]";
        /// Filter for resizing and for what `auto` turns, shears and shifts. `random`: bilinear or bicubic, drawn for each
        /// image and each of its operations; evaluation is bicubic then.
        pub interpolation: Interpolation = Interpolation::Bicubic;
        /// Mean of each channel, subtracted from values in [0, 1]. One number is that of all channels; three are averaged for a model of 1 or
        /// 4, as in timm.
        pub mean: Vec<f64> = vec![0.485, 0.456, 0.406], "x-range" = "[-1e6, 1e6]", "minItems" = 1, "maxItems" = 4;
        /// Standard deviation of each channel, divided by after the mean; as many numbers as `mean`.
        pub std: Vec<f64> = vec![0.229, 0.224, 0.225], "x-range" = "[1e-6, 1e6]", "minItems" = 1, "maxItems" = 4;
        /// Evaluation resizes the shorter side to `img_size / crop_pct` and cuts out the centre; where `img_size` is a height and a width,
        /// both sides cover theirs. Above 1 the image becomes smaller than `img_size` and gets a black border.
        // At the minimum fraction, the resized image has a hundred times the pixels that are used.
        pub crop_pct: f64 = Preset::Imagenet.crop_pct(),
            "x-range" = "[0.1, 2]", "x-default" = "`0.875` with imagenet, else `1.0`";
        /// How evaluation fits an image that is not square.
        pub crop_mode: CropMode = CropMode::Center;
        /// Probability that rectangles of a normalised training image are overwritten (random erasing).
        pub erase: f64 = 0.0, "x-range" = "[0, 1]";
        /// What the rectangles show.
        pub erase_mode: EraseMode = EraseMode::Pixel;
        /// Most rectangles of one image; the number is uniform from 1, and they share the area of one.
        pub erase_count: u32 = 1, "x-range" = "[1, 1000]";
    }
}

impl AugmentConfig {
    /// The channels of the images: 1 is grey, 3 red, green and blue, 4 these and alpha.
    pub fn channels(&self) -> usize {
        self.mean.len()
    }

    /// Gives `mean` and `std` a number for each channel, as timm: one number is repeated (its `resolve_data_config`), others are averaged
    /// where there are more or fewer than channels (`adapt_to_chs` of its loader).
    pub fn adapt_to(&mut self, channels: usize) {
        for values in [&mut self.mean, &mut self.std] {
            if values.len() != channels {
                let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
                *values = vec![mean; channels];
            }
        }
    }

    /// Whether `auto` is a policy for images of these channels, or empty.
    pub fn check_auto(&self) -> Result<(), AutoError> {
        AutoAugment::new(self).map(|_| ())
    }

    /// timm's rule: colour jitter is skipped if there is an automatic augmentation other than 3-Augment.
    pub fn jitters(&self) -> bool {
        self.color_jitter > 0.0 && (self.auto.is_empty() || self.auto.contains("3a"))
    }

    /// The mean of the data as a colour and its alpha; grey is repeated.
    pub(super) fn mean_color(&self) -> ([u8; 3], u8) {
        let level = |channel: usize| {
            let mean = self.mean.get(channel).or(self.mean.first());
            (255.0 * mean.copied().unwrap_or(0.0)).round_ties_even() as u8
        };
        ([level(0), level(1), level(2)], level(3))
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
    pub fn hflip(self) -> f64 {
        match self {
            Self::Imagenet | Self::Cifar => 0.5,
            Self::None => 0.0,
        }
    }

    /// The default of `augment.crop_pct`.
    pub fn crop_pct(self) -> f64 {
        match self {
            Self::Imagenet => 0.875,
            Self::Cifar | Self::None => 1.0,
        }
    }
}

/// How evaluation fits an image into the square (or other rectangle) of the model, as timm's `crop_mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CropMode {
    /// The shorter side fits, the longer is cut.
    Center,
    /// Both sides fit: the proportions change.
    Squash,
    /// The longer side fits, and a border in the data's mean fills the rest.
    Border,
}

/// The kernel of a resize, stretched when the image shrinks (antialiasing), as in Pillow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Interpolation {
    /// Cubic with a = -0.5.
    Bicubic,
    /// Triangle.
    Bilinear,
    /// Bilinear or bicubic, each with probability one half.
    Random,
}

impl Interpolation {
    /// Whether an image is interpolated bilinearly: as `drawn` says where that is random.
    pub(super) fn is_bilinear(self, drawn: impl FnOnce() -> bool) -> bool {
        match self {
            Self::Bicubic => false,
            Self::Bilinear => true,
            Self::Random => drawn(),
        }
    }
}
