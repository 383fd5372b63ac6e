//! From images to features: the interface of the backbones, and what can be requested of them.

use burn::module::Module;
use burn::tensor::Tensor;
use kvt_ops::Phase;

use crate::layers::Pass;
use crate::observe::{BlockIndex, Observer, Prefix, Watch};
use crate::precision::Precision;

/// Changes the patch tokens `[batch, rows * columns, dim]` of a map of `[rows, columns]`, for example by mixing the
/// patches of two images.
pub type TokenMix<'a> = dyn Fn(Tensor<3>, [usize; 2]) -> Tensor<3> + 'a;

/// Changes the tokens `[batch, rows * columns, dim]` at the end of a stage, which is given by its number.
pub type StageEnd<'a> = dyn Fn(usize, Tensor<3>) -> Tensor<3> + 'a;

/// How position embeddings are adapted to images of another size than the configured one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Positions {
    /// As in the original of the family.
    #[default]
    Family,
    /// As in DINO for its small crops: bicubic, with the factor `(patches + 0.1) / patches before`. Only for ViT,
    /// which is DINO's backbone; other families use [`Family`](Self::Family).
    Dino,
}

/// Requests to a backbone besides its tokens; none by default, at no cost.
#[derive(Clone, Copy, Default)]
pub struct Ask<'a> {
    /// Whether to return the map of every stage.
    pub maps: bool,
    /// How many of the last blocks of the last stage return their tokens.
    pub blocks: usize,
    /// Applied to the patch tokens before they get a position.
    pub mix: Option<&'a TokenMix<'a>>,
    /// Applied at the end of each stage, before its map is returned and the next stage begins. Only for Twins, whose dense
    /// networks have norms there.
    pub stage_end: Option<&'a StageEnd<'a>>,
    /// How positions are interpolated.
    pub positions: Positions,
    /// Receives intermediate results of the blocks.
    pub observer: Option<&'a dyn Observer>,
    /// The type of products; a [`Model`](crate::Model) replaces it by its own.
    pub precision: Precision,
}

impl<'a> Ask<'a> {
    /// Casts activations that enter a product.
    pub(crate) fn lower<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        self.precision.lower(x)
    }

    /// The patch tokens, mixed if requested.
    pub(crate) fn mixed(&self, tokens: Tensor<3>, grid: [usize; 2]) -> Tensor<3> {
        match self.mix {
            Some(mix) => mix(tokens, grid),
            None => tokens,
        }
    }

    /// How many of the last blocks of a stage return their tokens: none, unless it is the last of so many.
    pub(crate) fn blocks_of(&self, stage: usize, stages: usize) -> usize {
        if stage + 1 == stages { self.blocks } else { 0 }
    }

    /// The context of the blocks of a stage, whose tokens are a map.
    pub(crate) fn pass(&self, stage: usize, grid: [usize; 2], phase: Phase) -> Pass<'a> {
        let watch = Watch {
            observer: self.observer,
            block: BlockIndex { stage, block: 0 },
            prefix: Prefix::default(),
        };
        Pass {
            phase,
            grid,
            watch,
            precision: self.precision,
            rotary: None,
        }
    }
}

/// The output of a backbone.
#[derive(Clone, Debug)]
pub struct Features {
    /// The tokens after the final norm, `[batch, tokens, num_features]`: first the prefix tokens, then the map row by
    /// row. PiT and CvT, like their originals, normalise and return only the class tokens.
    pub tokens: Tensor<3>,
    /// How many of the tokens come before the map: the class token, the distillation token and registers.
    pub prefix: usize,
    /// How many of these are registers, which come last and say nothing of the image.
    pub registers: usize,
    /// The vector of each image, `[batch, num_features]`, if the backbone makes it of all patches in its own way.
    pub vector: Option<Tensor<2>>,
    /// If requested, the map of every stage, without prefix tokens and before any final norm,
    /// `[batch, channels, height, width]`.
    pub maps: Vec<Tensor<4>>,
    /// If requested, all tokens after each of the last stage's last blocks and the final norm,
    /// `[batch, tokens, num_features]`; fewer if the stage has fewer blocks.
    pub blocks: Vec<Tensor<3>>,
}

impl Features {
    /// Those of a model whose tokens and blocks get a final norm, without registers and without a vector of its own.
    pub(crate) fn normed<T>(
        prefix: usize,
        tokens: T,
        blocks: Vec<T>,
        maps: Vec<Tensor<4>>,
        norm: impl Fn(T) -> Tensor<3>,
    ) -> Self {
        Self {
            tokens: norm(tokens),
            prefix,
            registers: 0,
            vector: None,
            maps,
            blocks: blocks.into_iter().map(norm).collect(),
        }
    }

    /// One vector for each image: the backbone's own, or the class token, or the mean of the map of a model without one.
    ///
    /// # Shapes
    ///
    /// `[batch, num_features]`
    pub fn pooled(&self) -> Tensor<2> {
        let own = self.vector.clone();
        own.unwrap_or_else(|| self.pool(&self.tokens))
    }

    /// For each of the [`blocks`](Self::blocks), the class token, or the mean of the map of a model without one.
    pub fn pooled_blocks(&self) -> Vec<Tensor<2>> {
        let blocks = self.blocks.iter();
        blocks.map(|tokens| self.pool(tokens)).collect()
    }

    /// The mean of the tokens after the prefix; `None` if there are none.
    ///
    /// # Shapes
    ///
    /// `[batch, num_features]`
    pub fn mean_of_patches(&self) -> Option<Tensor<2>> {
        mean_behind(&self.tokens, self.prefix)
    }

    fn pool(&self, tokens: &Tensor<3>) -> Tensor<2> {
        let class = || tokens.clone().narrow(1, 0, 1).squeeze_dim(1);
        match self.prefix - self.registers {
            0 => mean_behind(tokens, self.prefix).unwrap_or_else(class),
            _ => class(),
        }
    }
}

/// The mean of the tokens after the first `prefix`, `[batch, tokens, dim]` to `[batch, dim]`; `None` if there are none.
pub(crate) fn mean_behind(tokens: &Tensor<3>, prefix: usize) -> Option<Tensor<2>> {
    let patches = match (prefix, tokens.dims()[1].checked_sub(prefix)?) {
        (_, 0) => return None,
        (0, _) => tokens.clone(),
        (_, patches) => tokens.clone().narrow(1, prefix, patches),
    };
    Some(patches.mean_dim(1).squeeze_dim(1))
}

/// A model without its head.
pub trait Backbone: Module {
    /// The features of a batch of images, f32 whatever the precision.
    ///
    /// # Shapes
    ///
    /// `[batch, in_chans, height, width]`; see [`Features`].
    ///
    /// # Panics
    ///
    /// On sizes that [`Model::check_size`](crate::Model::check_size) refuses, and on other channels.
    fn features(&self, images: Tensor<4>, ask: &Ask<'_>, phase: Phase) -> Features;
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use burn::tensor::Device;

    use super::*;

    fn numbers(tensor: Tensor<2>) -> Vec<f32> {
        tensor.into_data().try_to_vec().unwrap()
    }

    /// The outputs of another stage would stay in memory until the next has ended, and be used by nobody.
    #[test]
    fn only_the_last_stage_keeps_the_outputs_of_its_blocks() {
        let ask = Ask {
            blocks: 2,
            ..Ask::default()
        };
        let kept = [0, 1, 2, 3].map(|stage| ask.blocks_of(stage, 4));
        assert_eq!(kept, [0, 0, 0, 2]);
        assert_eq!(ask.blocks_of(0, 1), 2);
    }

    /// Three tokens of two numbers: one, two or none of them are before the map.
    #[test]
    fn an_image_is_its_class_token_or_the_mean_of_its_tokens() {
        let tokens =
            Tensor::<3>::from_data([[[1.0f32, 2.0], [3.0, 6.0], [8.0, 10.0]]], &Device::flex());
        let features = |prefix| Features {
            tokens: tokens.clone(),
            prefix,
            registers: 0,
            vector: None,
            maps: Vec::new(),
            blocks: vec![tokens.clone() * 2.0],
        };
        let found = [0, 1].map(|prefix| numbers(features(prefix).pooled()));
        assert_eq!(found, [[4.0, 6.0], [1.0, 2.0]]);
        let blocks = features(1).pooled_blocks();
        assert_eq!(
            blocks.into_iter().map(numbers).collect::<Vec<_>>(),
            [[2.0, 4.0]]
        );
        assert_eq!(numbers(features(1).mean_of_patches().unwrap()), [5.5, 8.0]);
        assert!(features(3).mean_of_patches().is_none());
        let registers = Features {
            registers: 1,
            ..features(1)
        };
        assert_eq!(numbers(registers.pooled()), [5.5, 8.0]);
        let own = Features {
            vector: Some(tokens.clone().narrow(1, 2, 1).squeeze_dim(1)),
            ..features(1)
        };
        assert_eq!(numbers(own.pooled()), [8.0, 10.0]);
    }
}
