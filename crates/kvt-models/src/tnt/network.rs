//! The modules of a TNT, in the order of the paper.

use burn::module::{Module, Param};
use burn::nn::{LayerNorm, Linear};
use burn::tensor::Tensor;
use kvt_ops::{Phase, layer_norm, linear, permute_reshape, widened};

use super::TntConfig;
use super::attention::Attention;
use crate::backbone::{Ask, Backbone, Features};
use crate::family::transformer::Transformer;
use crate::layers::{Block, BlockKind, Conv2d, Init, Pass, drop_path_rates, to_map, to_tokens};
use crate::weights::pos_embed::Bicubic;

/// timm's and the original's epsilon of all layer norms.
const NORM_EPSILON: f64 = 1e-5;

const BLOCK: BlockKind = BlockKind::vit(NORM_EPSILON);

/// The class token.
const PREFIX: usize = 1;

/// The stages of an observer.
const INNER: usize = 0;
const OUTER: usize = 1;

/// The backbone of a TNT.
#[derive(Module, Debug)]
pub struct Tnt {
    cls_token: Param<Tensor<3>>,
    patch_pos: Param<Tensor<3>>,
    /// `[1, inner_dim, side, side]`, the same for every patch.
    pixel_pos: Param<Tensor<4>>,
    pixel_embed: PixelEmbed,
    norm1_proj: LayerNorm,
    proj: Linear,
    norm2_proj: LayerNorm,
    blocks: Vec<TntBlock>,
    norm: LayerNorm,
    /// Patches along a side of an image of the configured size.
    #[module(skip)]
    grid: usize,
}

/// The pixels of every patch.
#[derive(Module, Debug)]
struct PixelEmbed {
    proj: Conv2d,
    #[module(skip)]
    patch_size: usize,
    #[module(skip)]
    legacy: bool,
}

/// An inner transformer block, the projection of its pixels onto their patches, and an outer transformer block. In
/// weights, the parts of both blocks have other names (`weight_names.rs`).
#[derive(Module, Debug)]
struct TntBlock {
    inner: Block<Attention>,
    norm1_proj: LayerNorm,
    proj: Linear,
    /// `None` in a legacy model, whose first norm is for single pixels.
    norm2_proj: Option<LayerNorm>,
    outer: Block<Attention>,
}

impl Tnt {
    /// With the original's initialisation.
    pub(crate) fn new(config: &TntConfig, init: &Init<'_>) -> Self {
        let (dim, grid, side) = (
            config.embed_dim,
            config.grid_size(),
            config.inner_grid_size(),
        );
        let numbers = config.pixel_numbers();
        let blocks = init.child("blocks");
        let rates = drop_path_rates(config.common.drop_path, config.depth).enumerate();
        Self {
            cls_token: init.token("cls_token", PREFIX, dim),
            patch_pos: init.token("patch_pos", PREFIX + grid.pow(2), dim),
            pixel_pos: init.trunc_normal("pixel_pos", [1, config.inner_dim, side, side]),
            pixel_embed: PixelEmbed {
                proj: init.child("pixel_embed").conv("proj", config.pixel_embed()),
                patch_size: config.patch_size,
                legacy: config.legacy,
            },
            norm1_proj: init.layer_norm(numbers, NORM_EPSILON),
            proj: init.linear("proj", numbers, dim, true),
            norm2_proj: init.layer_norm(dim, NORM_EPSILON),
            blocks: rates
                .map(|(i, rate)| TntBlock::new(config, &blocks.child(&i.to_string()), rate))
                .collect(),
            norm: init.layer_norm(dim, NORM_EPSILON),
            grid,
        }
    }

    /// The position embeddings for a map of patches, the class token's first.
    fn positions(&self, grid: [usize; 2]) -> Tensor<3> {
        let embedding = self.patch_pos.val();
        Bicubic::Antialiased.interpolated_behind(PREFIX, embedding, [self.grid; 2], grid)
    }
}

impl Backbone for Tnt {
    fn features(&self, images: Tensor<4>, ask: &Ask<'_>, phase: Phase) -> Features {
        let [batch, _, height, width] = images.dims();
        let grid = [height, width].map(|side| side / self.pixel_embed.patch_size);
        let mut pixels = self
            .pixel_embed
            .forward(ask.lower(images), self.pixel_pos.val());
        if ask.mix.is_some() {
            // The patches are made of their pixels, so the pixels are mixed.
            let shape = pixels.dims();
            pixels = ask.mixed(flattened(pixels, batch), grid).reshape(shape);
        }

        let patches = layer_norm(
            &self.norm1_proj,
            flattened(pixels.clone(), batch),
            NORM_EPSILON,
        );
        let patches = linear(&self.proj, ask.lower(patches));
        let patches = layer_norm(&self.norm2_proj, patches, NORM_EPSILON);
        let class = self.cls_token.val().expand([batch as i64, -1, -1]);
        let mut x = Tensor::cat(vec![class, patches], 1) + self.positions(grid);

        let [_, _, rows, columns] = self.pixel_pos.dims();
        let mut inner = ask.pass(INNER, [rows, columns], phase);
        let mut outer = ask.pass(OUTER, grid, phase).behind(PREFIX, 0);
        let phase = phase.named("blocks");
        let mut blocks = Vec::new();
        for (i, block) in self.blocks.iter().enumerate() {
            let phase = phase.child(i as u64);
            inner.phase = phase.named("inner");
            outer.phase = phase.named("outer");
            (inner.watch.block.block, outer.watch.block.block) = (i, i);
            (pixels, x) = block.forward(pixels, x, inner, outer);
            if i + ask.blocks >= self.blocks.len() {
                blocks.push(x.clone());
            }
        }
        let map = ask.maps.then(|| to_map(x.clone(), PREFIX, grid));
        let norm = |x| layer_norm(&self.norm, x, NORM_EPSILON);
        Features::normed(PREFIX, x, blocks, map.into_iter().collect(), norm)
    }
}

impl PixelEmbed {
    /// # Shapes
    ///
    /// Images of any type, `[batch, in_chans, height, width]`, and `[1, inner_dim, side, side]` to
    /// `[batch * patches, side * side, inner_dim]`, patch by patch, row by row.
    fn forward(&self, images: Tensor<4>, positions: Tensor<4>) -> Tensor<3> {
        let pixels = if self.legacy {
            let side = self.patch_size / self.proj.settings().stride;
            cut(self.proj.forward(images), side)
        } else {
            // Each patch has its own border of zeros.
            self.proj.forward(cut(images, self.patch_size))
        };
        to_tokens(widened(pixels) + positions)
    }
}

impl TntBlock {
    fn new(config: &TntConfig, init: &Init<'_>, rate: f64) -> Self {
        let (dim, numbers) = (config.embed_dim, config.pixel_numbers());
        let block = |name, of: &Transformer| {
            let init = init.child(name);
            let attn = Attention::new(&init.child("attn"), of);
            Block::new(&init, BLOCK, of.block, attn, rate)
        };
        let normed = if config.legacy {
            config.inner_dim
        } else {
            numbers
        };
        Self {
            inner: block("inner", &config.inner()),
            norm1_proj: init.layer_norm(normed, NORM_EPSILON),
            proj: init.linear("proj", numbers, dim, config.legacy),
            norm2_proj: (!config.legacy).then(|| init.layer_norm(dim, NORM_EPSILON)),
            outer: block("outer", &config.outer()),
        }
    }

    /// # Shapes
    ///
    /// Pixels `[batch * patches, side * side, inner_dim]` and patches `[batch, 1 + patches, dim]` to the same shapes.
    fn forward(
        &self,
        pixels: Tensor<3>,
        x: Tensor<3>,
        inner: Pass<'_>,
        outer: Pass<'_>,
    ) -> (Tensor<3>, Tensor<3>) {
        // A row of this batch is a patch: drop path drops a branch of single patches.
        let pixels = self.inner.forward(pixels, inner);
        let [batch, tokens, _] = x.dims();
        let class = x.clone().narrow(1, 0, PREFIX);
        let patches =
            x.narrow(1, PREFIX, tokens - PREFIX) + self.projected(pixels.clone(), batch, outer);
        let x = Tensor::cat(vec![class, patches], 1);
        (pixels, self.outer.forward(x, outer))
    }

    /// The pixels projected onto their patches, in f32.
    ///
    /// # Shapes
    ///
    /// `[batch * patches, side * side, inner_dim]` to `[batch, patches, dim]`.
    fn projected(&self, pixels: Tensor<3>, batch: usize, pass: Pass<'_>) -> Tensor<3> {
        match &self.norm2_proj {
            Some(norm2) => {
                let pixels = flattened(pixels, batch);
                let normed = pass.normed(&self.norm1_proj, pixels, NORM_EPSILON);
                layer_norm(norm2, linear(&self.proj, normed), NORM_EPSILON)
            }
            None => {
                let normed = pass.normed(&self.norm1_proj, pixels, NORM_EPSILON);
                widened(linear(&self.proj, flattened(normed, batch)))
            }
        }
    }
}

/// The concatenated pixels of a patch, pixel by pixel.
///
/// # Shapes
///
/// `[batch * patches, pixels, dim]` to `[batch, patches, pixels * dim]`.
fn flattened(pixels: Tensor<3>, batch: usize) -> Tensor<3> {
    let [rows, numbers, dim] = pixels.dims();
    pixels.reshape([batch, rows / batch.max(1), numbers * dim])
}

/// Squares of a map, row by row.
///
/// # Shapes
///
/// `[batch, channels, rows * side, columns * side]` to `[batch * rows * columns, channels, side, side]`.
fn cut(map: Tensor<4>, side: usize) -> Tensor<4> {
    let [batch, channels, height, width] = map.dims();
    let (rows, columns) = (height / side, width / side);
    let map = map.reshape([batch, channels, rows, side, columns, side]);
    let shape = [batch * rows * columns, channels, side, side];
    permute_reshape(map, [0, 2, 4, 1, 3, 5], shape)
}

#[cfg(test)]
mod tests;
