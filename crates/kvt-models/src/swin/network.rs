//! The modules of a Swin, in the order of the paper.

use burn::module::Module;
use burn::nn::{LayerNorm, Linear};
use burn::tensor::{Device, Tensor, TensorData};
use kvt_ops::{Key, Phase, layer_norm, linear};

use super::attention::WindowAttention;
use super::config::{StageSize, SwinConfig};
use super::window::pad;
use super::{layout, table};
use crate::architecture::Network;
use crate::layers::{
    Activation, Block, BlockKind, Init, PatchEmbed, drop_path_rates, forward_blocks,
};
use crate::model::Logits;
use crate::weights::StateDict;

/// The original's epsilon of all layer norms.
const NORM_EPSILON: f64 = 1e-5;

const BLOCK: BlockKind = BlockKind {
    norm_epsilon: NORM_EPSILON,
    activation: Activation::Gelu,
};

/// A Swin.
#[derive(Module, Debug)]
pub struct Swin {
    patch_embed: PatchEmbed,
    layers: Vec<Stage>,
    norm: LayerNorm,
    head: Head,
    #[module(skip)]
    config: SwinConfig,
}

/// Blocks at one resolution; before them, in all stages but the first, a halving of the resolution.
#[derive(Module, Debug)]
struct Stage {
    downsample: Option<PatchMerging>,
    blocks: Vec<Block<WindowAttention>>,
}

/// Makes one token of twice the channels out of 2 x 2.
#[derive(Module, Debug)]
struct PatchMerging {
    norm: LayerNorm,
    reduction: Linear,
}

/// The classifier, one level deeper than elsewhere in timm's names.
#[derive(Module, Debug)]
struct Head {
    fc: Linear,
}

impl Swin {
    /// The map after the last block and its norm.
    ///
    /// # Shapes
    ///
    /// `[batch, in_chans, img_size, img_size]` to `[batch, map, map, num_features]`.
    pub fn forward_features(&self, images: Tensor<4>, phase: Phase) -> Tensor<4> {
        let grid = self.config.grid_size();
        let x = self.patch_embed.forward(images);
        let [batch, _, dim] = x.dims();
        let map = x.reshape([batch, grid, grid, dim]);

        let phase = phase.named("layers");
        let map = (0..)
            .zip(&self.layers)
            .fold(map, |map, (s, stage)| stage.forward(map, phase.child(s)));
        layer_norm(&self.norm, map, NORM_EPSILON)
    }
}

impl Stage {
    fn new(init: &Init<'_>, size: &StageSize, first: bool, rates: &[f64]) -> Self {
        let blocks = init.child("blocks");
        let shifts = [size.windows, size.windows.shifted()].into_iter().cycle();
        Self {
            downsample: (!first)
                .then(|| PatchMerging::new(&init.child("downsample"), size.block.dim)),
            blocks: rates
                .iter()
                .zip(shifts)
                .enumerate()
                .map(|(i, (rate, windows))| {
                    let init = blocks.child(&i.to_string());
                    let attn = WindowAttention::new(&init.child("attn"), size, windows);
                    Block::new(&init, BLOCK, size.block, attn, *rate)
                })
                .collect(),
        }
    }

    /// # Shapes
    ///
    /// `[batch, map, map, dim]` to the same in the first stage; in the others from `dim / 2`
    /// channels and a map of twice the size.
    fn forward(&self, map: Tensor<4>, phase: Phase) -> Tensor<4> {
        let map = match &self.downsample {
            Some(downsample) => downsample.forward(map),
            None => map,
        };
        forward_blocks(&self.blocks, map, phase)
    }
}

impl PatchMerging {
    /// Four tokens of `dim / 2` channels become one of `dim`.
    fn new(init: &Init<'_>, dim: usize) -> Self {
        Self {
            norm: init.layer_norm(2 * dim, NORM_EPSILON),
            reduction: init.linear("reduction", 2 * dim, dim, false),
        }
    }

    /// # Shapes
    ///
    /// `[batch, map, map, dim / 2]` to `[batch, ceil(map / 2), ceil(map / 2), dim]`.
    fn forward(&self, map: Tensor<4>) -> Tensor<4> {
        let merged = layer_norm(&self.norm, merge(map), NORM_EPSILON);
        linear(&self.reduction, merged)
    }
}

/// The channels of 2 x 2 tokens one after another: top left, bottom left, top right, bottom right.
/// A map of an odd size is padded with zeros.
///
/// # Shapes
///
/// `[batch, map, map, dim]` to `[batch, ceil(map / 2), ceil(map / 2), 4 * dim]`.
fn merge(map: Tensor<4>) -> Tensor<4> {
    let [batch, size, _, dim] = map.dims();
    let half = size.div_ceil(2);
    pad(map, 2 * half - size)
        .reshape([batch, half, 2, half, 2, dim])
        .permute([0, 1, 3, 4, 2, 5])
        .reshape([batch, half, half, 4 * dim])
}

impl Network for Swin {
    type Config = SwinConfig;

    const FAMILY: &'static str = "Swin";
    const MARK: &'static str = "layers.0.blocks.0.attn.qkv.weight";
    const NO_WEIGHT_DECAY: &'static [&'static str] = &["relative_position_bias_table"];
    const CLASSIFIERS: &'static [&'static str] = &["head.fc"];

    fn new(config: SwinConfig, device: &Device, key: Key) -> Self {
        let init = Init::new(device, key);
        let layers = init.child("layers");
        let rates: Vec<f64> =
            drop_path_rates(config.common.drop_path, config.stages.depth.iter().sum()).collect();
        let mut rates = rates.as_slice();
        let stages = config.stages().enumerate().map(|(s, size)| {
            let (own, rest) = rates.split_at(size.config.depth);
            rates = rest;
            Stage::new(&layers.child(&s.to_string()), &size, s == 0, own)
        });
        let layers = stages.collect();
        let features = config.num_features();
        Self {
            patch_embed: PatchEmbed::new(
                &init.child("patch_embed"),
                config.common.in_chans,
                config.embed_dim,
                config.patch_size,
            )
            .with_norm(&init.child("patch_embed"), NORM_EPSILON),
            layers,
            norm: init.layer_norm(features, NORM_EPSILON),
            head: Head {
                fc: init
                    .child("head")
                    .linear("fc", features, config.common.num_classes, true),
            },
            config,
        }
    }

    fn config(&self) -> &SwinConfig {
        &self.config
    }

    fn forward_heads(&self, images: Tensor<4>, phase: Phase) -> Logits {
        let map = self.forward_features(images, phase);
        let [batch, rows, columns, dim] = map.dims();
        let tokens = map.reshape([batch, rows * columns, dim]);
        Logits {
            class: linear(&self.head.fc, tokens.mean_dim(1).squeeze_dim::<2>(1)),
            distillation: None,
        }
    }

    fn resize(&self, name: &str, shape: &[usize], weight: &TensorData) -> Option<TensorData> {
        match (name.ends_with(".relative_position_bias_table"), shape) {
            (true, [places, _]) => table::resample(weight, places.isqrt()),
            _ => None,
        }
    }

    fn is_official(weights: &StateDict) -> bool {
        layout::is_official(weights)
    }

    fn timm_name(official: &str) -> String {
        layout::timm_name(official)
    }

    fn official_name(timm: &str) -> String {
        layout::official_name(timm)
    }

    fn is_computed(name: &str) -> bool {
        layout::is_computed(name)
    }
}

#[cfg(test)]
mod tests;
