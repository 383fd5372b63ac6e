//! `[mix]`: the mixing of the images of a batch.

use kvt_data::schema::section;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

section! {
    /// Mixing the images of a batch: mixup, CutMix and MixToken. Off unless `mixup`, `cutmix`, `cutmix_minmax` or `mix_token` is
    /// set.
    pub struct MixConfig {
        /// Alpha of mixup: two images are blended with a weight from Beta(alpha, alpha). 0 is off.
        pub mixup: f64 = 0.0, "x-range" = "[0, 1000]";
        /// Alpha of CutMix: a rectangle comes from another image, its share of the area is 1 - Beta(alpha, alpha). 0 is off.
        pub cutmix: f64 = 0.0, "x-range" = "[0, 1000]";
        /// Smallest and largest side of the CutMix rectangle as a share of the image's side, instead of drawing its area;
        /// switches CutMix on.
        pub cutmix_minmax: Option<[f64; 2]> = None, "x-range" = "[0, 1]", "x-order" = "rising", "x-default" = "none: by `cutmix`";
        /// Alpha of MixToken: the tokens of a rectangle come from another image, its share of the map is about
        /// 1 - Beta(alpha, alpha), the same rectangle for a micro-batch. Only for models with an output for every token: VOLO.
        /// 0 is off.
        pub mix_token: f64 = 0.0, "x-range" = "[0, 1000]";
        /// Probability that a batch, or with the other modes a pair or an image, is mixed.
        pub prob: f64 = 1.0, "x-range" = "[0, 1]";
        /// Probability of CutMix where mixup and CutMix are both on.
        pub switch_prob: f64 = 0.5, "x-range" = "[0, 1]";
        /// What shares one draw: the micro-batch, a pair of images, or each image has its own.
        pub mode: MixMode = MixMode::Batch;
        /// Whether images are mixed after random erasing, as DeiT does, or before, as 8-bit pixels, as timm's prefetching
        /// loader does.
        pub order: MixOrder = MixOrder::EraseMix;
        /// Epochs from this one on, counted from 0, are not mixed; 0 mixes in all of them.
        pub off_epoch: u32 = 0;
    }
}

impl MixConfig {
    /// Whether images or tokens are ever mixed.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.mixes_images() || self.mixes_tokens()
    }

    /// Whether tokens are ever mixed.
    #[must_use]
    pub fn mixes_tokens(&self) -> bool {
        self.mix_token > 0.0
    }

    fn mixes_images(&self) -> bool {
        self.mixup > 0.0 || self.has_cutmix()
    }

    /// Whether images or tokens are mixed in an epoch, counted from 0.
    #[must_use]
    pub fn is_on_in(&self, epoch: u32) -> bool {
        self.is_on() && (self.off_epoch == 0 || epoch < self.off_epoch)
    }

    /// Whether images are mixed before erasing, so that erasing is done on the device.
    #[must_use]
    pub fn mixes_first(&self) -> bool {
        self.mixes_images() && self.order == MixOrder::MixErase
    }

    pub(super) fn has_cutmix(&self) -> bool {
        self.cutmix > 0.0 || self.cutmix_minmax.is_some()
    }
}

/// What shares one draw. Image `i` of `n` is always mixed with image `n - 1 - i`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MixMode {
    /// All images of a micro-batch.
    Batch,
    /// An image and its partner.
    Pair,
    /// Nothing: each image has its own.
    Elem,
}

/// What comes first, random erasing or mixing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MixOrder {
    /// Erased, normalised images are mixed as floating-point numbers (DeiT, Swin, Twins, Visformer).
    EraseMix,
    /// 8-bit images are mixed and rounded, then normalised and erased (timm's training script, T2T, TNT, So-ViT).
    MixErase,
}
