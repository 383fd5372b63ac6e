//! Sizes of a TNT, and their cost.

use burn::tensor::TensorData;
use kvt_attention::{AttentionConfig, Macs};

use super::weight_names;
use crate::error::ModelError;
use crate::family::FamilyConfig;
use crate::family::blocks::BlockGroup;
use crate::family::common::CommonConfig;
use crate::family::cost::StageSummary;
use crate::family::model_keys::ModelOverrides;
use crate::family::transformer::Transformer;
use crate::family::validate;
use crate::layers::ConvSettings;
use crate::weights::pos_embed::{Bicubic, Form};

/// Sizes and settings of a TNT.
#[derive(Clone, Debug, PartialEq)]
pub struct TntConfig {
    /// What TNT shares with the other families.
    pub common: CommonConfig,
    /// Side of a patch in pixels; divides `img_size`.
    pub patch_size: usize,
    /// Channels of a patch.
    pub embed_dim: usize,
    /// Blocks, each with an inner and an outer transformer.
    pub depth: usize,
    /// Attention heads of the outer transformers; divides `embed_dim`.
    pub num_heads: usize,
    /// Channels of a pixel.
    pub inner_dim: usize,
    /// Attention heads of the inner transformers; divides `inner_dim`.
    pub inner_num_heads: usize,
    /// Stride of the convolution that makes the pixels of a patch.
    pub inner_stride: usize,
    /// timm's legacy model: the convolution sees the whole image, and blocks project pixels that are normalised
    /// individually.
    pub legacy: bool,
    /// The attention of the inner and of the outer transformers.
    pub attention: [AttentionConfig; 2],
}

/// The named sizes, at patches of 16 pixels: channels and heads of patches, channels of pixels.
const SIZES: [(&str, usize, usize, usize); 2] = [("s", 384, 6, 24), ("b", 640, 10, 40)];
const DEPTH: usize = 12;
const INNER_HEADS: usize = 4;
const INNER_STRIDE: usize = 4;
/// Width of the inner MLP as a multiple of `inner_dim`.
const INNER_MLP_RATIO: usize = 4;

impl TntConfig {
    /// Patches along a side of the image.
    pub fn grid_size(&self) -> usize {
        let side = self.common.side().checked_div(self.patch_size);
        side.unwrap_or(0)
    }

    /// Pixels along a side of a patch, after the convolution.
    pub fn inner_grid_size(&self) -> usize {
        self.patch_size.div_ceil(self.inner_stride.max(1))
    }

    /// Channels of all pixels of a patch together.
    pub(super) fn pixel_numbers(&self) -> usize {
        self.inner_grid_size().pow(2) * self.inner_dim
    }

    /// The convolution of a patch, or of the image.
    pub(super) fn pixel_embed(&self) -> ConvSettings {
        let channels = [self.common.in_chans, self.inner_dim];
        ConvSettings::centred(channels, 7, self.inner_stride)
    }

    /// The inner transformers.
    pub(super) fn inner(&self) -> Transformer {
        let sizes = [self.inner_dim, self.depth, self.inner_num_heads];
        let grid = [self.inner_grid_size(); 2];
        let mut inner = self.common.transformer(sizes, &self.attention[0], 0, grid);
        inner.block.hidden = INNER_MLP_RATIO * self.inner_dim;
        inner.softmax_only(
            "queries and keys are the few pixels of a patch, as in the inner transformers of a TNT",
        )
    }

    /// The outer transformers.
    pub(super) fn outer(&self) -> Transformer {
        let sizes = [self.embed_dim, self.depth, self.num_heads];
        let grid = [self.grid_size(); 2];
        self.common.transformer(sizes, &self.attention[1], 1, grid)
    }

    /// Parameters between an inner and an outer block.
    fn projection_params(&self) -> usize {
        let (numbers, dim) = (self.pixel_numbers(), self.embed_dim);
        let rest = if self.legacy {
            2 * self.inner_dim + dim
        } else {
            2 * numbers + 2 * dim
        };
        numbers * dim + rest
    }

    /// Inner and outer blocks.
    fn stages(&self) -> Vec<StageSummary> {
        let (patches, depth) = (self.grid_size().pow(2), self.depth);
        let projection = Macs::linear(patches * self.pixel_numbers() * self.embed_dim);
        let (inner, outer) = (self.inner(), self.outer().summary("outer"));
        let macs = inner.block.macs(inner.place.queries) * patches;
        vec![
            inner.summary_of("inner", (inner.block.params(), macs), patches),
            outer.with_modules(depth * self.projection_params(), projection * depth),
        ]
    }
}

impl FamilyConfig for TntConfig {
    fn named() -> Vec<Self> {
        let models = [(0, true), (0, false), (1, false)];
        let configs = models.into_iter().map(|(size, legacy)| {
            let (_, embed_dim, num_heads, inner_dim) = SIZES[size];
            Self {
                common: CommonConfig {
                    qkv_bias: false,
                    ..CommonConfig::imagenet(224)
                },
                patch_size: 16,
                embed_dim,
                depth: DEPTH,
                num_heads,
                inner_dim,
                inner_num_heads: INNER_HEADS,
                inner_stride: INNER_STRIDE,
                legacy,
                attention: [AttentionConfig::dense(), AttentionConfig::dense()],
            }
        });
        configs.collect()
    }

    fn with(mut self, overrides: &ModelOverrides) -> Result<Self, ModelError> {
        let own = [self.embed_dim, self.depth, self.num_heads];
        [self.embed_dim, self.depth, self.num_heads] = overrides.blocks(own)?;
        let mut given = overrides.attentions(&self.attention, 2)?.into_iter();
        let own_inner = self.attention[0].clone();
        let [inner, outer] = self.attention.map(|own| given.next().unwrap_or(own));
        // Attention that cannot be used in a patch applies only to the outer transformers.
        self.attention = if inner.is_softmax() {
            [inner, outer]
        } else {
            [own_inner, outer]
        };
        self.patch_size = overrides.patch_size.unwrap_or(self.patch_size);
        self.inner_dim = overrides.inner_dim.unwrap_or(self.inner_dim);
        self.inner_num_heads = overrides.inner_num_heads.unwrap_or(self.inner_num_heads);
        self.inner_stride = overrides.inner_stride.unwrap_or(self.inner_stride);
        Ok(self)
    }

    fn validate(&self) -> Result<(), ModelError> {
        validate::sizes(&[
            ("patch_size", self.patch_size),
            ("inner_dim", self.inner_dim),
            ("inner_num_heads", self.inner_num_heads),
            ("inner_stride", self.inner_stride),
        ])?;
        validate::whole_patches(self.common.side(), self.patch_size)?;
        [self.grid_size(), self.inner_grid_size()]
            .into_iter()
            .try_for_each(validate::tokens)?;
        // The width of the concatenated pixels of a patch.
        let numbers = "inner_dim times the pixels of a patch";
        validate::sizes(&[(numbers, self.pixel_numbers())])?;
        validate::whole_heads(
            ("inner_dim", self.inner_dim),
            ("inner_num_heads", self.inner_num_heads),
        )?;
        if self.legacy {
            let stride = self.inner_stride;
            validate::multiple(
                ("patch_size", self.patch_size),
                (stride, format!("`inner_stride` {stride}")),
                "a legacy TNT cuts the convolved image into patches",
            )?;
        }
        let inner = self.inner();
        let valid = inner.attention.validate_at(&inner.place);
        valid.map_err(|error| ModelError::from(error).in_stage("inner"))?;
        let valid = self.outer().validate(self.common.mlp_ratio);
        valid.map_err(|error| error.in_stage("outer"))
    }

    fn input_sides(&self) -> [usize; 2] {
        [1, self.patch_size]
    }

    fn name(&self) -> String {
        let sizes = (self.embed_dim, self.num_heads, self.inner_dim);
        let others = (self.depth, self.inner_num_heads, self.inner_stride);
        let known = SIZES.iter().find(|(_, dim, heads, inner)| {
            sizes == (*dim, *heads, *inner) && others == (DEPTH, INNER_HEADS, INNER_STRIDE)
        });
        let size = match known {
            Some((size, ..)) => (*size).to_owned(),
            None => format!("{}-{}x{}", self.embed_dim, self.inner_dim, self.depth),
        };
        let legacy = if self.legacy { "_legacy" } else { "" };
        let (patch, img) = (self.patch_size, self.common.side());
        format!("tnt_{size}{legacy}_patch{patch}_{img}")
    }

    fn num_features(&self) -> usize {
        self.embed_dim
    }

    fn cost(&self) -> (Vec<StageSummary>, usize, Macs) {
        let (dim, numbers) = (self.embed_dim, self.pixel_numbers());
        let (patches, conv) = (self.grid_size().pow(2), self.pixel_embed());
        let embedding = conv.params() + numbers + 2 * numbers + (numbers + 1) * dim + 2 * dim;
        let tokens = (2 + patches) * dim;
        // A patch has the same number of pixels whether it is cut out before or after the convolution.
        let macs = Macs::linear(patches * (numbers * conv.fan_in() + numbers * dim));
        (self.stages(), embedding + tokens, macs)
    }

    fn groups(&self) -> Vec<BlockGroup> {
        vec![BlockGroup::new("blocks", self.depth)]
    }

    fn reordered(&self, name: &str, weight: &TensorData) -> Option<TensorData> {
        weight_names::reordered(name, weight)
    }

    fn positions(&self, name: &str) -> Option<(Bicubic, [usize; 2], Form)> {
        let grid = [self.grid_size(); 2];
        (name == "patch_pos").then_some((Bicubic::Antialiased, grid, Form::Tokens(1)))
    }
}

#[cfg(test)]
mod tests;
