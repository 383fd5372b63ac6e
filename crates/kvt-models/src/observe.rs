//! Intermediate results of the blocks of a model: the stream of tokens, the outputs of the residual branches, and the
//! attention probabilities. Without an observer nothing extra is computed.

use burn::tensor::Tensor;
use kvt_ops::widened;

/// Which block of a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockIndex {
    /// The stage, from 0.
    pub stage: usize,
    /// The block of the stage, from 0.
    pub block: usize,
}

/// The tokens of a block before its map.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Prefix {
    /// The class token, the distillation token and registers.
    pub tokens: usize,
    /// How many of these are registers, which come last and say nothing of the image.
    pub registers: usize,
}

impl Prefix {
    /// Whether the first token is a class token.
    pub fn has_class_token(self) -> bool {
        self.tokens > self.registers
    }
}

/// A point of a block, in the order in which a block reaches them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Point {
    /// The stream that enters the block.
    Input,
    /// The attention probabilities, before dropout.
    Probabilities,
    /// The output of the attention branch, before drop path and before it joins the stream.
    Attention,
    /// The stream between attention and MLP.
    Middle,
    /// The output of the MLP branch, before drop path and before it joins the stream.
    Mlp,
    /// The stream that leaves the block.
    Output,
}

/// Receives tensors while a model runs, and cannot change the result. In training the tensors belong to the graph of
/// the pass: `detach` them to keep them. All of them are f32.
pub trait Observer {
    /// Whether the observer wants a point of a block. Branch outputs and probabilities are computed only for an
    /// observer that wants them, and cost another projection or another attention.
    fn wants(&self, block: BlockIndex, point: Point) -> bool;

    /// The stream or the output of a branch at a point. Where a class token alone passes a block, as in VOLO, `prefix`
    /// counts it, and nothing comes behind it.
    ///
    /// # Shapes
    ///
    /// `[batch, tokens, dim]`, prefix tokens first, then the map row by row. For attention within the patches of a
    /// TNT, `batch` counts the patches of all images.
    fn tokens(&self, block: BlockIndex, point: Point, tokens: Tensor<3>, prefix: Prefix);

    /// The attention probabilities of a block. Its keys, too, begin with the tokens of `prefix`.
    ///
    /// # Shapes
    ///
    /// `[batch, heads, query, key]`; for attention within windows, `heads` counts the heads of all windows:
    /// `[batch, windows * heads, area, area]`.
    fn probabilities(&self, _block: BlockIndex, _probabilities: Tensor<4>, _prefix: Prefix) {}
}

/// An optional observer at a block.
#[derive(Clone, Copy, Default)]
pub(crate) struct Watch<'a> {
    pub(crate) observer: Option<&'a dyn Observer>,
    pub(crate) block: BlockIndex,
    pub(crate) prefix: Prefix,
}

impl Watch<'_> {
    /// Passes tokens, `[batch, .., dim]`, to the observer; they are computed only if it wants them.
    pub(crate) fn tokens<const D: usize>(&self, point: Point, tokens: impl FnOnce() -> Tensor<D>) {
        if let Some(observer) = self.wanting(point) {
            let tokens = widened(tokens());
            let (batch, dim) = (tokens.dims()[0], tokens.dims()[D - 1]);
            let tokens = tokens.reshape([batch as i64, -1, dim as i64]);
            observer.tokens(self.block, point, tokens, self.prefix);
        }
    }

    /// Passes attention probabilities to the observer; they are computed only if it wants them, and only if the
    /// mechanism has any.
    pub(crate) fn probabilities(&self, probabilities: impl FnOnce() -> Option<Tensor<4>>) {
        if let Some(observer) = self.wanting(Point::Probabilities)
            && let Some(probabilities) = probabilities()
        {
            observer.probabilities(self.block, widened(probabilities), self.prefix);
        }
    }

    fn wanting(&self, point: Point) -> Option<&dyn Observer> {
        self.observer
            .filter(|observer| observer.wants(self.block, point))
    }
}
