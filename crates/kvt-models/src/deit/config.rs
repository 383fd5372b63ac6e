//! Sizes of a DeiT, and their cost.

use burn::tensor::TensorData;
use kvt_attention::{AttentionConfig, Macs, Place};

use crate::error::ModelError;
use crate::family::FamilyConfig;
use crate::family::common::CommonConfig;
use crate::family::overrides::ModelOverrides;
use crate::family::summary::{BlockSize, StageSummary, Summary};
use crate::family::validate;
use crate::head::{Classifier, Reads};
use crate::layers::Init;
use crate::weights::pos_embed;

/// Sizes and settings of a DeiT.
#[derive(Clone, Debug, PartialEq)]
pub struct DeitConfig {
    /// What DeiT shares with the other families.
    pub common: CommonConfig,
    /// Side of a patch in pixels; divides `img_size`.
    pub patch_size: usize,
    /// Channels of a token.
    pub embed_dim: usize,
    /// Blocks.
    pub depth: usize,
    /// Attention heads; divides `embed_dim`.
    pub num_heads: usize,
    /// Whether there are a distillation token and its head.
    pub distilled: bool,
    /// The attention of all blocks.
    pub attention: AttentionConfig,
}

/// A size of timm's `vit_*` models: name, channels, blocks, sides of a patch. Every head has 64 channels.
type Vit = (&'static str, usize, usize, &'static [usize]);
const VITS: [Vit; 4] = [
    ("tiny", 192, 12, &[16]),
    ("small", 384, 12, &[16, 32, 8]),
    ("base", 768, 12, &[16, 32, 8]),
    ("large", 1024, 24, &[16, 32]),
];

impl DeitConfig {
    /// Patches along a side of the image.
    pub fn grid_size(&self) -> usize {
        self.common
            .img_size
            .checked_div(self.patch_size)
            .unwrap_or(0)
    }

    /// Tokens before the patches: the class token, and the distillation token.
    pub fn num_prefix_tokens(&self) -> usize {
        1 + usize::from(self.distilled)
    }

    /// Tokens of a block: queries, and the keys that each of them chooses from.
    pub fn tokens(&self) -> usize {
        self.num_prefix_tokens() + self.grid_size().pow(2)
    }

    /// The sizes of a block.
    pub(super) fn block(&self) -> BlockSize {
        self.common.block(self.embed_dim)
    }

    /// The place of attention in a block.
    pub(super) fn place(&self) -> Place {
        Place {
            prefix: self.num_prefix_tokens(),
            grid: Some([self.grid_size(); 2]),
            dropout: self.common.attn_drop,
            ..Place::new(self.tokens(), self.embed_dim, self.num_heads)
        }
    }
}

impl FamilyConfig for DeitConfig {
    fn named() -> Vec<Self> {
        let sizes = [(192, 3), (384, 6), (768, 12)];
        let kinds = [(false, 224), (false, 384), (true, 224), (true, 384)];
        let configs = sizes.into_iter().flat_map(|(embed_dim, num_heads)| {
            kinds.map(|(distilled, img_size)| Self {
                common: CommonConfig::imagenet(img_size),
                patch_size: 16,
                embed_dim,
                depth: 12,
                num_heads,
                distilled,
                attention: AttentionConfig::dense(),
            })
        });
        configs.collect()
    }

    fn aliases() -> Vec<(String, Self)> {
        let alias = |&(size, embed_dim, depth, patches): &Vit| {
            let sides = [224, 384].into_iter();
            sides.flat_map(move |img_size| {
                patches.iter().map(move |&patch_size| {
                    let name = format!("vit_{size}_patch{patch_size}_{img_size}");
                    let config = Self {
                        common: CommonConfig::imagenet(img_size),
                        patch_size,
                        embed_dim,
                        depth,
                        num_heads: embed_dim / 64,
                        distilled: false,
                        attention: AttentionConfig::dense(),
                    };
                    (name, config)
                })
            })
        };
        VITS.iter().flat_map(alias).collect()
    }

    fn with(self, overrides: &ModelOverrides) -> Result<Self, ModelError> {
        let own = [self.embed_dim, self.depth, self.num_heads];
        let [embed_dim, depth, num_heads] = overrides.blocks(own)?;
        Ok(Self {
            common: self.common.with(overrides),
            patch_size: overrides.patch_size.unwrap_or(self.patch_size),
            embed_dim,
            depth,
            num_heads,
            distilled: self.distilled,
            attention: overrides.attentions(&[self.attention], 1)?.swap_remove(0),
        })
    }

    fn validate(&self) -> Result<(), ModelError> {
        self.common.validate()?;
        validate::sizes(&[("patch_size", self.patch_size)])?;
        validate::whole_patches(self.common.img_size, self.patch_size)?;
        validate::tokens(self.grid_size())?;
        let (dim, depth) = (self.embed_dim, self.depth);
        self.common
            .validate_stage(dim, depth, &self.attention, &self.place())
    }

    fn name(&self) -> String {
        let size = match (self.embed_dim, self.depth, self.num_heads) {
            (192, 12, 3) => "tiny".to_owned(),
            (384, 12, 6) => "small".to_owned(),
            (768, 12, 12) => "base".to_owned(),
            (dim, depth, _) => format!("{dim}x{depth}"),
        };
        let distilled = if self.distilled { "_distilled" } else { "" };
        let (patch, img) = (self.patch_size, self.common.img_size);
        format!("deit_{size}{distilled}_patch{patch}_{img}")
    }

    fn common(&self) -> &CommonConfig {
        &self.common
    }

    fn summary(&self) -> Summary {
        let (dim, tokens) = (self.embed_dim, self.tokens());
        let patch_inputs = self.common.in_chans * self.patch_size.pow(2);
        let heads = self.num_prefix_tokens();
        let blocks = StageSummary::of_blocks(
            "blocks".to_owned(),
            self.depth,
            self.block(),
            &self.attention,
            &self.place(),
        );

        let patch_embed = (patch_inputs + 1) * dim;
        let embeddings = (heads + tokens) * dim;
        let classifiers = heads * (dim + 1) * self.common.num_classes;
        let patches = self.grid_size().pow(2);
        let outside =
            Macs::linear(patches * patch_inputs * dim + heads * dim * self.common.num_classes);
        let params = patch_embed + embeddings + 2 * dim + classifiers;
        Summary::new(self.name(), vec![blocks], params, outside)
    }

    fn is_distilled(&self) -> bool {
        self.distilled
    }

    fn classifier(&self, init: &Init<'_>) -> Classifier {
        let sizes = [self.embed_dim, self.common.num_classes];
        let outputs = ("head", self.distilled.then_some("head_dist"));
        Classifier::init(init, outputs, sizes, Reads::Prefix)
    }

    fn resize(&self, name: &str, _shape: &[usize], weight: &TensorData) -> Option<TensorData> {
        match name {
            "pos_embed" => {
                pos_embed::resample(weight, [self.grid_size(); 2], self.num_prefix_tokens())
            }
            _ => None,
        }
    }
}
