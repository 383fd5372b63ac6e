//! Sizes of a VOLO, and their cost.

use std::iter;

use kvt_attention::{AttentionConfig, Macs};

use super::POOLING;
use super::stage::{class_summary, outlook_summary};
use crate::error::ModelError;
use crate::family::FamilyConfig;
use crate::family::blocks::BlockGroup;
use crate::family::common::{CommonConfig, joined, unusual};
use crate::family::cost::StageSummary;
use crate::family::model_keys::{ModelOverrides, per_stage};
use crate::family::transformer::Transformer;
use crate::family::validate;
use crate::head::Classifier;
use crate::layers::{ConvSettings, Init};
use crate::weights::pos_embed::{Bicubic, Form};

/// Sizes and settings of a VOLO. Lists have one entry for the outlookers, and one for each stage of transformer
/// blocks.
#[derive(Clone, Debug, PartialEq)]
pub struct VoloConfig {
    /// What VOLO shares with the other families.
    pub common: CommonConfig,
    /// Stride of the first convolution, and side of the patches that its map is cut into.
    pub strides: [usize; 2],
    /// Channels of the convolutions before the patches.
    pub stem_dim: usize,
    /// Channels of a token: those of the outlookers, and one number for all stages after them.
    pub embed_dim: Vec<usize>,
    /// Blocks of each stage.
    pub depth: Vec<usize>,
    /// Attention heads of each stage; each divides the channels. The class token has those of the last stage.
    pub num_heads: Vec<usize>,
    /// The attention of each stage but the outlookers, whose weights do not come from keys.
    pub attention: Vec<AttentionConfig>,
    /// The attention of the class token.
    pub class_attention: AttentionConfig,
}

/// A named size: channels of the outlookers, of which the other stages have twice as many, blocks, heads, MLP ratio and channels of
/// the stem, sides of images.
type Size = (
    &'static str,
    usize,
    [usize; 4],
    [usize; 2],
    (f64, usize),
    &'static [usize],
);
const SIZES: [Size; 5] = [
    ("d1", 192, [4, 4, 8, 2], [6, 12], (3.0, 64), &[224, 384]),
    ("d2", 256, [6, 4, 10, 4], [8, 16], (3.0, 64), &[224, 384]),
    ("d3", 256, [8, 8, 16, 4], [8, 16], (3.0, 64), &[224, 448]),
    ("d4", 384, [8, 8, 16, 4], [12, 16], (3.0, 64), &[224, 448]),
    (
        "d5",
        384,
        [12, 12, 20, 4],
        [12, 16],
        (4.0, 128),
        &[224, 448, 512],
    ),
];
/// The strides that names do not mention.
const STRIDES: [usize; 2] = [2, 4];
/// Kernel of the first convolution, which is padded to keep the size at stride 1.
const STEM_KERNEL: usize = 7;
/// Blocks of the class token.
const CLASS_BLOCKS: usize = 2;

/// A list for four stages; all but the first are equal.
fn four([first, other]: [usize; 2]) -> Vec<usize> {
    vec![first, other, other, other]
}

impl VoloConfig {
    /// Tokens along a side of the fine and of the coarse map of an image; 0 if it is too small.
    pub(super) fn grids(&self, img_size: usize) -> [usize; 2] {
        let [(_, first), ..] = self.stem();
        let fine = first
            .output_size(img_size)
            .checked_div(self.strides[1])
            .unwrap_or(0);
        [fine, fine / POOLING]
    }

    /// The convolutions before the patches, each with its place in the original's list.
    pub(super) fn stem(&self) -> [(usize, ConvSettings); 3] {
        let conv = |in_channels, kernel, stride| {
            ConvSettings::centred([in_channels, self.stem_dim], kernel, stride).without_bias()
        };
        [
            (0, conv(self.common.in_chans, STEM_KERNEL, self.strides[0])),
            (3, conv(self.stem_dim, 3, 1)),
            (6, conv(self.stem_dim, 3, 1)),
        ]
    }

    /// The outlookers, with the place of an attention of the whole fine map.
    pub(super) fn outlook(&self) -> Transformer {
        let lists = [&self.embed_dim, &self.depth, &self.num_heads];
        let sizes = lists.map(|list| list.first().copied().unwrap_or(0));
        let [grid, _] = self.grids(self.common.side());
        self.common
            .transformer(sizes, &AttentionConfig::dense(), 0, [grid; 2])
    }

    /// The stages of transformer blocks, first to last.
    pub(super) fn stages(&self) -> impl Iterator<Item = Transformer> {
        let [_, grid] = self.grids(self.common.side());
        let lists = self.embed_dim.iter().zip(&self.depth).zip(&self.num_heads);
        let lists = lists.skip(1).zip(&self.attention);
        lists.map(move |(((&dim, &depth), &heads), attention)| {
            let sizes = [dim, depth, heads];
            let blocks = self.common.transformer(sizes, attention, 0, [grid; 2]);
            blocks.softmax_only(
                "no other attention has been tested, as after the outlookers of a VOLO",
            )
        })
    }

    /// The blocks of the class token.
    pub(super) fn class(&self) -> Transformer {
        let [_, grid] = self.grids(self.common.side());
        let heads = self.num_heads.last().copied().unwrap_or(0);
        let sizes = [self.num_features(), CLASS_BLOCKS, heads];
        let mut class = self
            .common
            .transformer(sizes, &self.class_attention, 1, [grid; 2]);
        (class.place.queries, class.place.grid) = (1, None);
        class.softmax_only("only the class token is a query, as at the end of a VOLO")
    }

    /// Refuses stages that do not fit together.
    fn validate_lists(&self) -> Result<(), ModelError> {
        let count = self.depth.len();
        let expected = "at least 2 entries of `depth`: outlookers, and transformer blocks";
        validate::within("number of stages", count as f64, count >= 2, expected)?;
        for (field, given) in [
            ("embed_dim", self.embed_dim.len()),
            ("num_heads", self.num_heads.len()),
            ("attention", self.attention.len() + 1),
        ] {
            validate::per_stage(field, given, count)?;
        }
        let last = self.num_features();
        let mut others = self.embed_dim.iter().enumerate().skip(1);
        match others.find(|(_, embed_dim)| **embed_dim != last) {
            Some((s, &embed_dim)) => {
                let error = ModelError::ChannelsChange { embed_dim, last };
                Err(error.in_stage(stage_name(s + 1)))
            }
            None => Ok(()),
        }
    }
}

impl FamilyConfig for VoloConfig {
    fn named() -> Vec<Self> {
        let sizes = SIZES.into_iter();
        let configs = sizes.flat_map(|(_, dim, depth, heads, (mlp_ratio, stem_dim), sides)| {
            sides.iter().map(move |&img_size| Self {
                common: CommonConfig {
                    mlp_ratio,
                    qkv_bias: false,
                    ..CommonConfig::imagenet(img_size)
                },
                strides: STRIDES,
                stem_dim,
                embed_dim: four([dim, 2 * dim]),
                depth: depth.to_vec(),
                num_heads: four(heads),
                attention: vec![AttentionConfig::dense(); depth.len() - 1],
                class_attention: AttentionConfig::dense(),
            })
        });
        configs.collect()
    }

    fn with(mut self, overrides: &ModelOverrides) -> Result<Self, ModelError> {
        let count = overrides.stages(self.depth.len());
        let sizes = |field, given, own: &[usize]| per_stage(field, given, own, count);
        self.strides = overrides.strides(self.strides, "the first convolution and the patches")?;
        self.embed_dim = sizes("embed_dim", &overrides.embed_dim, &self.embed_dim)?;
        self.depth = sizes("depth", &overrides.depth, &self.depth)?;
        self.num_heads = sizes("num_heads", &overrides.num_heads, &self.num_heads)?;
        self.attention = overrides.attentions(&self.attention, count.saturating_sub(1))?;
        let class_attention = overrides.class_attention.clone();
        self.class_attention = class_attention.unwrap_or(self.class_attention);
        self.stem_dim = overrides.stem_dim.unwrap_or(self.stem_dim);
        Ok(self)
    }

    fn validate(&self) -> Result<(), ModelError> {
        self.validate_lists()?;
        validate::sizes(&[
            ("strides", self.strides[0]),
            ("strides", self.strides[1]),
            ("stem_dim", self.stem_dim),
        ])?;
        let [fine, coarse] = self.grids(self.common.side());
        self.common
            .at_least(self.input_sides()[0], coarse > 0, "VOLO with such strides")?;
        validate::tokens(fine)?;
        let stages = (2..).zip(self.stages());
        for (place, blocks) in iter::once((0, self.outlook())).chain(stages) {
            let valid = blocks.validate(self.common.mlp_ratio);
            valid.map_err(|error| error.in_stage(stage_name(place)))?;
        }
        let class = self.class();
        let valid = class.attention.validate_at(&class.place);
        valid.map_err(|error| ModelError::from(error).in_stage(CLASS_STAGE))
    }

    fn input_sides(&self) -> [usize; 2] {
        // So many leave a token of the coarse map.
        let least = self.strides[0] * (POOLING * self.strides[1]).saturating_sub(1) + 1;
        [least, 1]
    }

    /// timm's name; if it has none, channels, blocks and other unusual settings.
    fn name(&self) -> String {
        let own = (self.common.mlp_ratio, self.stem_dim);
        let known = SIZES.iter().find(|(_, dim, depth, heads, others, _)| {
            let lists = (four([*dim, 2 * dim]), four(*heads));
            (&self.embed_dim, &self.num_heads) == (&lists.0, &lists.1)
                && self.depth == depth
                && own == *others
        });
        let size = match known {
            Some((size, ..)) => (*size).to_owned(),
            None => format!("{}x{}", joined(&self.embed_dim), joined(&self.depth)),
        };
        let stride = unusual("stride", &self.strides, &STRIDES);
        format!("volo_{size}{stride}_{}", self.common.side())
    }

    fn num_features(&self) -> usize {
        self.embed_dim.last().copied().unwrap_or(0)
    }

    fn cost(&self) -> (Vec<StageSummary>, usize, Macs) {
        let outlook = self.outlook();
        let dim = outlook.block.dim;
        let mut stages = vec![outlook_summary(stage_name(0), &outlook)];
        for (place, blocks) in (2..).zip(self.stages()) {
            // The coarser map is made before the first of them.
            let outputs = if place == 2 { blocks.block.dim } else { 0 };
            let inputs = dim * POOLING.pow(2);
            let macs = Macs::linear(blocks.place.queries * inputs * outputs);
            let summary = blocks.summary(stage_name(place));
            stages.push(summary.with_modules((inputs + 1) * outputs, macs));
        }
        stages.push(class_summary(CLASS_STAGE, &self.class()));

        let mut side = self.common.side();
        let (mut params, mut macs) = (0, Macs::default());
        for (_, conv) in self.stem() {
            macs = macs + Macs::linear(conv.macs(side));
            side = conv.output_size(side);
            // With weight and bias of its batch norm.
            params += conv.params() + 2 * conv.out_channels;
        }
        let ([fine, coarse], features) = (self.grids(self.common.side()), self.num_features());
        let patch = self.stem_dim * self.strides[1].pow(2);
        let tokens = coarse.pow(2);
        let classes = self.common.num_classes;
        // Patches; positions and class token; the output for every token.
        params += (patch + 1) * dim + (tokens + 1) * features + (features + 1) * classes;
        macs = macs + Macs::linear(patch * dim) * fine.pow(2);
        macs = macs + Macs::linear(tokens * features * classes);
        (stages, params, macs)
    }

    /// As in timm: the coarser map has its own layer.
    fn groups(&self) -> Vec<BlockGroup> {
        let stages = self.summary().stages.into_iter();
        let groups = stages.map(|stage| BlockGroup::new(stage.name, stage.depth));
        let mut groups: Vec<BlockGroup> = groups.collect();
        groups.insert(1, BlockGroup::new(stage_name(1), 1));
        groups
    }

    fn token_scale(&self) -> Option<usize> {
        Some(POOLING)
    }

    fn classifier(&self, init: &Init<'_>) -> Classifier {
        let [features, classes] = [self.num_features(), self.common.num_classes];
        Classifier {
            aux: Some(init.linear("aux_head", features, classes, true)),
            ..Classifier::init(init, ("head", None), [features, classes])
        }
    }

    fn positions(&self, name: &str) -> Option<(Bicubic, [usize; 2], Form)> {
        let [_, grid] = self.grids(self.common.side());
        (name == "pos_embed").then_some((Bicubic::Plain, [grid; 2], Form::ChannelsLast))
    }
}

/// The blocks of the class token, by their name among the parameters.
const CLASS_STAGE: &str = "post_network";

/// A stage by its place in the original's list, which makes the coarser map at place 1.
fn stage_name(place: usize) -> String {
    format!("network.{place}")
}

#[cfg(test)]
mod tests;
