//! Sizes of a CvT, and what they cost.

use kvt_attention::Attention;

use super::Cvt;
use super::stage::StageSize;
use crate::architecture::Architecture;
use crate::error::ModelError;
use crate::layers::ConvSettings;
use crate::overrides::{self, ModelOverrides};
use crate::summary::{BlockSize, Macs, StageSummary, Summary};
use crate::validate;

/// Sizes and settings of a CvT.
#[derive(Clone, Debug, PartialEq)]
pub struct CvtConfig {
    /// Side of the square input image in pixels.
    pub img_size: usize,
    /// Channels of the input image.
    pub in_chans: usize,
    /// Classes.
    pub num_classes: usize,
    /// Side of a patch in pixels: the kernel of the first embedding, which is padded by a third of
    /// it. Those of the other stages are 3 wide.
    pub patch_size: usize,
    /// Pixels from one patch to the next. The other stages halve the map.
    pub patch_stride: usize,
    /// Channels of a token in each stage.
    pub embed_dim: Vec<usize>,
    /// Blocks of each stage.
    pub depth: Vec<usize>,
    /// Attention heads of each stage; each divides `embed_dim`.
    pub num_heads: Vec<usize>,
    /// Hidden channels of the MLP in each stage as a multiple of `embed_dim`.
    pub mlp_ratio: Vec<f64>,
    /// Whether queries, keys and values have a bias.
    pub qkv_bias: bool,
    /// Stride of the convolution that makes keys and values: at 2 there is one key for four tokens.
    pub kv_stride: usize,
    /// Stochastic depth of the last block, in [0, 1); falls linearly to 0 in the first block of the
    /// last stage. The other stages have none.
    pub drop_path: f64,
    /// Dropout of the attention weights, in [0, 1).
    pub attn_drop: f64,
    /// The attention of each stage.
    pub attention: Vec<Attention>,
}

/// The sizes with a name: channels, blocks, heads.
type Size = (&'static str, [usize; 3], [usize; 3], [usize; 3]);
const SIZES: [Size; 3] = [
    ("13", [64, 192, 384], [1, 2, 10], [1, 3, 6]),
    ("21", [64, 192, 384], [1, 4, 16], [1, 3, 6]),
    ("w24", [192, 768, 1024], [2, 2, 20], [3, 12, 16]),
];
/// Kernel and stride of the first embedding that go without saying in a name.
const PATCH: [usize; 2] = [7, 4];
const KV_STRIDE: usize = 2;

impl CvtConfig {
    /// Channels of a token at the end.
    pub(super) fn num_features(&self) -> usize {
        self.embed_dim.last().copied().unwrap_or(0)
    }

    /// The stages, first to last.
    pub(super) fn stages(&self) -> Vec<StageSize> {
        let last = self.depth.len().saturating_sub(1);
        let (mut channels, mut before) = (self.in_chans, self.img_size);
        let lists = self.embed_dim.iter().zip(&self.depth).zip(&self.num_heads);
        let lists = lists.zip(self.mlp_ratio.iter().zip(&self.attention));
        let stages = lists.enumerate().map(|(stage, lists)| {
            let (((&dim, &depth), &num_heads), (&mlp_ratio, &attention)) = lists;
            let (kernel, stride) = match stage {
                0 => (self.patch_size, self.patch_stride),
                _ => (3, 2),
            };
            let embed = ConvSettings {
                in_channels: channels,
                out_channels: dim,
                kernel,
                stride,
                // The original's 2 for 7, and 1 for 3.
                padding: kernel / 3,
                groups: 1,
                bias: true,
            };
            let size = StageSize {
                block: BlockSize {
                    dim,
                    hidden: validate::mlp_hidden(dim, mlp_ratio),
                    qkv_bias: self.qkv_bias,
                },
                depth,
                num_heads,
                attention,
                attn_drop: self.attn_drop,
                embed,
                before,
                grid: embed.output_size(before),
                kv_stride: self.kv_stride,
                prefix: usize::from(stage == last),
            };
            (channels, before) = (dim, size.grid);
            size
        });
        stages.collect()
    }
}

impl Architecture for CvtConfig {
    type Network = Cvt;

    fn named() -> Vec<Self> {
        let configs = [224, 384].into_iter().flat_map(|img_size| {
            SIZES.map(|(_, embed_dim, depth, num_heads)| Self {
                img_size,
                in_chans: 3,
                num_classes: 1000,
                patch_size: PATCH[0],
                patch_stride: PATCH[1],
                embed_dim: embed_dim.to_vec(),
                depth: depth.to_vec(),
                num_heads: num_heads.to_vec(),
                mlp_ratio: vec![4.0; 3],
                qkv_bias: true,
                kv_stride: KV_STRIDE,
                drop_path: 0.0,
                attn_drop: 0.0,
                attention: vec![Attention::dense(); 3],
            })
        });
        configs.collect()
    }

    fn with(self, overrides: &ModelOverrides) -> Result<Self, ModelError> {
        overrides.refuse("CvT", &["window_size"])?;
        let stages = overrides.stages(self.depth.len());
        let per_stage =
            |field, given: &[usize], own: &[usize]| overrides::per_stage(field, given, own, stages);
        let mlp_ratio = overrides.mlp_ratio.or(self.mlp_ratio.first().copied());
        let mlp_ratio = match overrides.mlp_ratio {
            None if self.mlp_ratio.len() == stages => self.mlp_ratio,
            _ => mlp_ratio.map_or_else(Vec::new, |ratio| vec![ratio; stages]),
        };
        Ok(Self {
            img_size: overrides.img_size.unwrap_or(self.img_size),
            in_chans: overrides.in_chans.unwrap_or(self.in_chans),
            num_classes: overrides.num_classes.unwrap_or(self.num_classes),
            patch_size: overrides.patch_size.unwrap_or(self.patch_size),
            patch_stride: overrides.patch_stride.unwrap_or(self.patch_stride),
            embed_dim: per_stage("embed_dim", &overrides.embed_dim, &self.embed_dim)?,
            depth: per_stage("depth", &overrides.depth, &self.depth)?,
            num_heads: per_stage("num_heads", &overrides.num_heads, &self.num_heads)?,
            mlp_ratio,
            qkv_bias: overrides.qkv_bias.unwrap_or(self.qkv_bias),
            kv_stride: overrides.kv_stride.unwrap_or(self.kv_stride),
            drop_path: overrides.drop_path.unwrap_or(self.drop_path),
            attn_drop: overrides.attn_drop.unwrap_or(self.attn_drop),
            attention: overrides.attentions(&self.attention, stages),
        })
    }

    fn validate(&self) -> Result<(), ModelError> {
        let stages = self.depth.len();
        validate::sizes(&[
            ("img_size", self.img_size),
            ("in_chans", self.in_chans),
            ("num_classes", self.num_classes),
            ("patch_size", self.patch_size),
            ("patch_stride", self.patch_stride),
            ("kv_stride", self.kv_stride),
            ("depth", stages),
        ])?;
        validate::per_stage(
            stages,
            &[
                ("embed_dim", self.embed_dim.len()),
                ("num_heads", self.num_heads.len()),
                ("mlp_ratio", self.mlp_ratio.len()),
                ("attention", self.attention.len()),
            ],
        )?;
        validate::rates(self.drop_path, self.attn_drop)?;
        for (stage, mlp_ratio) in self.stages().iter().zip(&self.mlp_ratio) {
            let dim = stage.block.dim;
            validate::sizes(&[
                ("embed_dim", dim),
                ("depth", stage.depth),
                ("num_heads", stage.num_heads),
            ])?;
            // Only the first map can be too small: the other embeddings make one token of one.
            if stage.grid == 0 {
                return Err(ModelError::ImageTooSmall {
                    img_size: self.img_size,
                    family: "CvT with such patches",
                    least: stage.embed.kernel - 2 * stage.embed.padding,
                });
            }
            validate::tokens(stage.grid)?;
            validate::whole_heads(dim, stage.num_heads)?;
            validate::mlp(dim, *mlp_ratio)?;
            stage.attention.validate()?;
        }
        Ok(())
    }

    /// timm has no CvT: the original's name, with the image size where it is not 224.
    fn name(&self) -> String {
        let sizes = (
            self.embed_dim.as_slice(),
            self.depth.as_slice(),
            self.num_heads.as_slice(),
        );
        let list = |sizes: &[usize]| {
            let sizes: Vec<String> = sizes.iter().map(usize::to_string).collect();
            sizes.join("-")
        };
        let known = SIZES
            .iter()
            .find(|(_, dims, depth, heads)| sizes == (dims, depth, heads));
        let mut name = match known {
            Some((size, ..)) => format!("cvt_{size}"),
            None => format!("cvt_{}x{}", list(&self.embed_dim), list(&self.depth)),
        };
        let patch @ [size, stride] = [self.patch_size, self.patch_stride];
        if patch != PATCH {
            name += &format!("_patch{size}_stride{stride}");
        }
        if self.kv_stride != KV_STRIDE {
            name += &format!("_kv{}", self.kv_stride);
        }
        if self.img_size != 224 {
            name += &format!("_{}", self.img_size);
        }
        name
    }

    fn img_size(&self) -> usize {
        self.img_size
    }

    fn in_chans(&self) -> usize {
        self.in_chans
    }

    fn num_classes(&self) -> usize {
        self.num_classes
    }

    fn summary(&self) -> Summary {
        let stages = self.stages();
        let stages = stages.iter().enumerate().map(|(i, stage)| stage.summary(i));
        let stages: Vec<StageSummary> = stages.collect();
        let features = self.num_features();
        let classifier = (features + 1) * self.num_classes;
        let of_stages: usize = stages.iter().map(|stage| stage.params).sum();
        Summary {
            name: self.name(),
            params: of_stages + 2 * features + classifier,
            macs: stages.iter().map(|stage| stage.macs).sum::<Macs>()
                + Macs::linear(features * self.num_classes),
            stages,
        }
    }
}

#[cfg(test)]
mod tests;
