//! From images to features: what every backbone does, and what it can be asked for.

use burn::module::Module;
use burn::tensor::Tensor;
use kvt_ops::Phase;

use crate::error::ModelError;
use crate::layers::Pass;
use crate::observe::{BlockIndex, Observer, Watch};
use crate::precision::Precision;

/// Changes the patch tokens `[batch, rows * columns, dim]` of a map of `[rows, columns]`, as mixing the
/// patches of two images does.
pub type TokenMix<'a> = dyn Fn(Tensor<3>, [usize; 2]) -> Tensor<3> + 'a;

/// How position embeddings become those of images of another size than the configured one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Positions {
    /// As the family's original does.
    #[default]
    Family,
    /// As DINO does for its small crops: bicubic, with the factor `(patches + 0.1) / patches before`. Of DeiT alone, which is
    /// DINO's backbone; others do it as with [`Family`](Self::Family).
    Dino,
}

/// What a backbone is asked for besides its tokens; by default nothing, at no cost.
#[derive(Clone, Copy, Default)]
pub struct Ask<'a> {
    /// Whether to give the map of every stage.
    pub maps: bool,
    /// How many of the last stage's blocks to give the tokens of.
    pub blocks: usize,
    /// Is applied to the patches right after they have become tokens, before they get a position.
    pub mix: Option<&'a TokenMix<'a>>,
    /// How positions are interpolated.
    pub positions: Positions,
    /// Receives what the blocks compute on the way.
    pub observer: Option<&'a dyn Observer>,
    /// The type of products; a [`Model`](crate::Model) has its own instead.
    pub precision: Precision,
}

impl<'a> Ask<'a> {
    /// Activations on their way into a product.
    pub(crate) fn lower<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        self.precision.lower(x)
    }

    /// The patch tokens, mixed if that was asked for.
    pub(crate) fn mixed(&self, tokens: Tensor<3>, grid: [usize; 2]) -> Tensor<3> {
        match self.mix {
            Some(mix) => mix(tokens, grid),
            None => tokens,
        }
    }

    /// Of how many of its last blocks a stage of `stages` keeps the tokens.
    pub(crate) fn blocks_of(&self, stage: usize, stages: usize) -> usize {
        if stage + 1 == stages { self.blocks } else { 0 }
    }

    /// What the blocks of a stage are told.
    pub(crate) fn pass(&self, stage: usize, grid: [usize; 2], phase: Phase) -> Pass<'a> {
        let watch = Watch {
            observer: self.observer,
            block: BlockIndex { stage, block: 0 },
        };
        Pass {
            phase,
            grid,
            watch,
            precision: self.precision,
        }
    }
}

/// What a backbone makes of images.
#[derive(Clone, Debug)]
pub struct Features {
    /// The tokens after the final norm, `[batch, tokens, num_features]`: first the prefix tokens, then
    /// the map row by row. PiT and CvT, like their originals, normalise the class tokens alone, and give
    /// no others.
    pub tokens: Tensor<3>,
    /// How many of the tokens come before the map: the class token and the distillation token.
    pub prefix: usize,
    /// If asked for, the map of every stage, without prefix tokens and before any final norm,
    /// `[batch, channels, height, width]`.
    pub maps: Vec<Tensor<4>>,
    /// If asked for, all tokens after each of the last stage's last blocks and the final norm,
    /// `[batch, tokens, num_features]`; fewer where the stage has fewer blocks.
    pub blocks: Vec<Tensor<3>>,
}

impl Features {
    /// One vector for each image: the class token, or the mean of the tokens of a model without one.
    ///
    /// # Shapes
    ///
    /// `[batch, num_features]`
    pub fn pooled(&self) -> Tensor<2> {
        pooled(&self.tokens, self.prefix)
    }

    /// The same of each of the [`blocks`](Self::blocks).
    pub fn pooled_blocks(&self) -> Vec<Tensor<2>> {
        let blocks = self.blocks.iter();
        blocks.map(|tokens| pooled(tokens, self.prefix)).collect()
    }

    /// The mean of the tokens behind the prefix; `None` where there are none.
    ///
    /// # Shapes
    ///
    /// `[batch, num_features]`
    pub fn mean_of_patches(&self) -> Option<Tensor<2>> {
        let patches = self.tokens.dims()[1].checked_sub(self.prefix)?;
        let patches = (patches > 0).then(|| self.tokens.clone().narrow(1, self.prefix, patches))?;
        Some(patches.mean_dim(1).squeeze_dim(1))
    }
}

fn pooled(tokens: &Tensor<3>, prefix: usize) -> Tensor<2> {
    match prefix {
        0 => tokens.clone().mean_dim(1).squeeze_dim(1),
        _ => tokens.clone().narrow(1, 0, 1).squeeze_dim(1),
    }
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
    /// On sizes that [`check_size`](Self::check_size) refuses, on other channels, and, where the attention has weights for
    /// one number of tokens, on all but the configured size ([`Model::check_size`](crate::Model::check_size) says both).
    fn features(&self, images: Tensor<4>, ask: &Ask<'_>, phase: Phase) -> Features;

    /// Refuses images of a size, `[height, width]` in pixels, that the backbone cannot take. It takes
    /// more sizes than the configured one: position embeddings are interpolated.
    ///
    /// # Errors
    ///
    /// [`ModelError::ImageSize`], which says what sizes are expected.
    fn check_size(&self, size: [usize; 2]) -> Result<(), ModelError>;
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use burn::tensor::Device;

    use super::*;

    fn numbers(tensor: Tensor<2>) -> Vec<f32> {
        tensor.into_data().try_to_vec().unwrap()
    }

    /// Three tokens of two numbers, of which one, two or none stand before the map.
    #[test]
    fn an_image_is_its_class_token_or_the_mean_of_its_tokens() {
        let tokens =
            Tensor::<3>::from_data([[[1.0f32, 2.0], [3.0, 6.0], [8.0, 10.0]]], &Device::flex());
        let features = |prefix| Features {
            tokens: tokens.clone(),
            prefix,
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
    }
}
