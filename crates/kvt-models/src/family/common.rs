//! Sizes and settings that all families share.

use kvt_attention::{AttentionConfig, Place};

use crate::error::ModelError;
use crate::family::cost::BlockSize;
use crate::family::img_size::ImgSize;
use crate::family::model_keys::ModelOverrides;
use crate::family::transformer::Transformer;
use crate::family::validate;
use crate::layers::WindowPadding;

/// The sizes and settings of a classifier of any family.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CommonConfig {
    /// Size of the input image; square unless the family is ViT.
    pub img_size: ImgSize,
    /// Channels of the input image.
    pub in_chans: usize,
    /// Classes.
    pub num_classes: usize,
    /// Hidden channels of an MLP as a multiple of the channels of a token.
    pub mlp_ratio: f64,
    /// Whether queries, keys and values have a bias.
    pub qkv_bias: bool,
    /// Rate of stochastic depth in the last block, in [0, 1). It rises linearly from 0 in the first block of the model. In
    /// CvT it rises from the first block of the last stage, since the other stages have no stochastic depth.
    pub drop_path: f64,
    /// Dropout of the attention weights, in [0, 1).
    pub attn_drop: f64,
    /// The backbone of a dense network, which takes images of any size, and how it treats the padding of windows; `None` for a
    /// classifier, and always of families other than Swin and Twins. The same weights of a Swin give other maps, except where all of them
    /// divide into windows.
    pub dense: Option<WindowPadding>,
}

impl CommonConfig {
    /// For ImageNet at an image size, without dropout.
    pub(crate) fn imagenet(img_size: usize) -> Self {
        Self {
            img_size: img_size.into(),
            in_chans: 3,
            num_classes: 1000,
            mlp_ratio: 4.0,
            qkv_bias: true,
            drop_path: 0.0,
            attn_drop: 0.0,
            dense: None,
        }
    }

    /// This with some values replaced.
    pub(crate) fn with(self, overrides: &ModelOverrides) -> Self {
        Self {
            img_size: overrides.img_size.unwrap_or(self.img_size),
            in_chans: overrides.in_chans.unwrap_or(self.in_chans),
            num_classes: overrides.num_classes.unwrap_or(self.num_classes),
            mlp_ratio: overrides.mlp_ratio.unwrap_or(self.mlp_ratio),
            qkv_bias: overrides.qkv_bias.unwrap_or(self.qkv_bias),
            drop_path: overrides.drop_path.unwrap_or(self.drop_path),
            attn_drop: overrides.attn_drop.unwrap_or(self.attn_drop),
            dense: self.dense,
        }
    }

    /// Side of the square input image in pixels.
    pub(crate) fn side(&self) -> usize {
        self.img_size.side()
    }

    /// The end of a model's name that tells its image size, if that is not 224.
    pub(crate) fn size_suffix(&self) -> String {
        match self.side() {
            224 => String::new(),
            side => format!("_{side}"),
        }
    }

    /// Refuses images that are too small: in pixels, for `family`.
    pub(crate) fn at_least(
        &self,
        least: usize,
        fits: bool,
        family: &'static str,
    ) -> Result<(), ModelError> {
        if fits {
            return Ok(());
        }
        Err(ModelError::ImageTooSmall {
            img_size: self.side(),
            family,
            least,
        })
    }

    /// Refuses settings that are invalid whatever the channels.
    pub(crate) fn validate(&self) -> Result<(), ModelError> {
        validate::sizes(&[
            ("img_size", self.img_size.height),
            ("img_size", self.img_size.width),
            ("in_chans", self.in_chans),
            ("num_classes", self.num_classes),
        ])?;
        validate::rate("drop_path", self.drop_path)?;
        validate::rate("attn_drop", self.attn_drop)
    }

    /// A block of `dim` channels.
    pub(crate) fn block(&self, dim: usize) -> BlockSize {
        BlockSize {
            dim,
            hidden: (dim as f64 * self.mlp_ratio) as usize,
            qkv_bias: self.qkv_bias,
        }
    }

    /// Blocks for `prefix` tokens before a map, all of which see each other, from their channels, number and heads.
    pub(crate) fn transformer(
        &self,
        [dim, depth, heads]: [usize; 3],
        attention: &AttentionConfig,
        prefix: usize,
        grid: [usize; 2],
    ) -> Transformer {
        let tokens = prefix + grid.iter().product::<usize>();
        Transformer {
            block: self.block(dim),
            depth,
            attention: attention.clone(),
            place: Place {
                prefix,
                grid: Some(grid),
                dropout: self.attn_drop,
                ..Place::new(tokens, dim, heads)
            },
        }
    }
}

/// A part of a name: `_`, what the numbers are, and the [numbers](joined). Nothing if they are those that names do not mention.
pub(crate) fn unusual(what: &str, numbers: &[usize], usual: &[usize]) -> String {
    if numbers == usual {
        String::new()
    } else {
        format!("_{what}{}", joined(numbers))
    }
}

/// Numbers in a name, one per stage: `2-2-6-2`.
pub(crate) fn joined(numbers: &[usize]) -> String {
    let numbers: Vec<String> = numbers.iter().map(usize::to_string).collect();
    numbers.join("-")
}
