//! The pre-norm transformer block of all families.

use burn::module::{Module, Param};
use burn::nn::{LayerNorm, Linear};
use burn::tensor::Tensor;
use kvt_attention::{Context, Mechanism, Mixer, MultiHeadAttention, Place, Rotary, split_heads};
use kvt_ops::{Phase, Residual, linear, linear_add};

use super::mlp::BlockMlp;
use super::scale::{LayerScale, factors, scale, scaled};
use super::{Activation, Init, ScaleKind, drop_path};
use crate::family::cost::BlockSize;
use crate::observe::{Point, Prefix, Watch};
use crate::precision::Precision;

/// The inputs of blocks besides their tokens.
#[derive(Clone, Copy)]
pub(crate) struct Pass<'a> {
    pub phase: Phase,
    /// Rows and columns of the map of tokens.
    pub grid: [usize; 2],
    pub watch: Watch<'a>,
    pub precision: Precision,
    /// What turns queries and keys, in a ViT that has such positions.
    pub rotary: Option<&'a Rotary>,
}

impl Pass<'_> {
    /// The same for blocks with `tokens` before the map, the last of which are `registers`.
    pub(crate) fn behind(mut self, tokens: usize, registers: usize) -> Self {
        self.watch.prefix = Prefix { tokens, registers };
        self
    }

    /// The attention of the tokens of one projection, in the order that fused attention reads without a copy.
    ///
    /// # Shapes
    ///
    /// `[batch, tokens, 3 * dim]` to `[batch, tokens, dim]`.
    pub(crate) fn attend(&self, mixer: &Mixer, place: &Place, qkv: Tensor<3>) -> Tensor<3> {
        let context = Context {
            grid: Some(self.grid),
            ..place.context(self.phase)
        };
        self.watch.probabilities(|| {
            let [q, k, _] = split_heads(qkv.clone(), place.heads);
            mixer.probabilities(q, k, &context)
        });
        mixer.attend_packed(qkv, place.heads, context)
    }

    /// Casts activations from a norm that enter a branch.
    pub(crate) fn lower<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        self.precision.lower(x)
    }

    /// The norm of the stream, cast as it enters a branch.
    pub(crate) fn normed<const D: usize>(
        &self,
        norm: &LayerNorm,
        x: Tensor<D>,
        epsilon: f64,
    ) -> Tensor<D> {
        self.precision.lowered_norm(norm, x, epsilon)
    }
}

/// The token mixing of a block: `D` is 3 for a sequence, and 4 for a map.
pub(crate) trait SelfAttention<const D: usize>: Module {
    /// The mixed tokens, before the last projection.
    ///
    /// # Shapes
    ///
    /// `[batch, .., dim]` to the input of [`project`](Self::project).
    fn mix(&self, x: Tensor<D>, pass: Pass<'_>) -> Tensor<D>;

    /// The last projection.
    fn proj(&self) -> &Linear;

    /// The last projection, each channel multiplied by a factor if there are some, `[dim]`, and added to a residual if there is one,
    /// in one operation if possible.
    ///
    /// # Shapes
    ///
    /// The output of [`mix`](Self::mix) to `[batch, .., dim]`.
    fn project(
        &self,
        mixed: Tensor<D>,
        residual: Option<Residual<D>>,
        factors: Option<Tensor<1>>,
        _: Pass<'_>,
    ) -> Tensor<D> {
        project(&scaled(self.proj(), factors), mixed, residual)
    }
}

impl SelfAttention<3> for MultiHeadAttention {
    fn mix(&self, x: Tensor<3>, pass: Pass<'_>) -> Tensor<3> {
        let context = Context {
            grid: Some(pass.grid),
            rotary: pass.rotary.cloned(),
            ..self.context(pass.phase)
        };
        pass.watch
            .probabilities(|| self.probabilities(x.clone(), &context));
        self.attend(x, context)
    }

    fn proj(&self) -> &Linear {
        &self.proj
    }
}

/// A branch, added to a residual if there is one.
pub(crate) fn plus<const D: usize>(branch: Tensor<D>, residual: Option<Residual<D>>) -> Tensor<D> {
    match residual {
        Some(residual) => residual.plus(branch),
        None => branch,
    }
}

/// A linear layer, added to a residual if there is one.
///
/// # Shapes
///
/// `[.., input]` to `[.., output]`.
pub(crate) fn project<const D: usize>(
    layer: &Linear,
    x: Tensor<D>,
    residual: Option<Residual<D>>,
) -> Tensor<D> {
    match residual {
        Some(residual) => linear_add(layer, x, residual),
        None => linear(layer, x),
    }
}

/// Self-attention and an MLP, each after a norm and added to a residual.
#[derive(Module, Debug)]
pub(crate) struct Block<A: Module> {
    norm1: LayerNorm,
    attn: A,
    ls1: Option<LayerScale>,
    gamma_1: Option<Param<Tensor<1>>>,
    norm2: LayerNorm,
    mlp: BlockMlp,
    ls2: Option<LayerScale>,
    gamma_2: Option<Param<Tensor<1>>>,
    #[module(skip)]
    pub(crate) drop_path: f64,
    #[module(skip)]
    norm_epsilon: f64,
}

/// The settings that the blocks of a family share, besides their attention.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockKind {
    /// Added to the variance in the layer norm before each branch.
    pub norm_epsilon: f64,
    /// Of the MLP.
    pub activation: Activation,
    /// Of both branches.
    pub scale: Option<ScaleKind>,
}

impl BlockKind {
    /// Layer norms and GELU, as in a ViT.
    pub(crate) const fn vit(norm_epsilon: f64) -> Self {
        Self {
            norm_epsilon,
            activation: Activation::Gelu,
            scale: None,
        }
    }
}

impl<A: Module> Block<A> {
    /// A block whose branches are dropped at the rate `drop_path`.
    pub(crate) fn new(
        init: &Init<'_>,
        kind: BlockKind,
        size: BlockSize,
        attn: A,
        drop_path: f64,
    ) -> Self {
        let BlockSize { dim, hidden, .. } = size;
        let [(ls1, gamma_1), (ls2, gamma_2)] =
            [1, 2].map(|branch| scale(init, kind.scale, branch, dim));
        Self {
            norm1: init.layer_norm(dim, kind.norm_epsilon),
            attn,
            ls1,
            gamma_1,
            norm2: init.layer_norm(dim, kind.norm_epsilon),
            mlp: BlockMlp::new(&init.child("mlp"), dim, hidden, kind.activation),
            ls2,
            gamma_2,
            drop_path,
            norm_epsilon: kind.norm_epsilon,
        }
    }

    /// A block for each rate of drop path. Block `i` is made below the name `i`, its attention by `attn` below `i.attn`.
    pub(crate) fn stack(
        init: &Init<'_>,
        kind: BlockKind,
        size: BlockSize,
        rates: impl IntoIterator<Item = f64>,
        attn: impl Fn(&Init<'_>, usize) -> A,
    ) -> Vec<Self> {
        let blocks = rates.into_iter().enumerate().map(|(i, rate)| {
            let init = init.child(&i.to_string());
            Self::new(&init, kind, size, attn(&init.child("attn"), i), rate)
        });
        blocks.collect()
    }

    /// # Shapes
    ///
    /// `[batch, .., dim]` to the same shape.
    pub(crate) fn forward<const D: usize>(&self, x: Tensor<D>, pass: Pass<'_>) -> Tensor<D>
    where
        A: SelfAttention<D>,
    {
        self.forward_reading(x.clone(), x, pass)
    }

    /// The same if the attention reads other tokens, `read`, than those that change.
    pub(crate) fn forward_reading<const D: usize>(
        &self,
        read: Tensor<D>,
        x: Tensor<D>,
        pass: Pass<'_>,
    ) -> Tensor<D>
    where
        A: SelfAttention<D>,
    {
        pass.watch.tokens(Point::Input, || x.clone());
        let normed = pass.normed(&self.norm1, read, self.norm_epsilon);
        let attn = Pass {
            phase: pass.phase.named("attn"),
            ..pass
        };
        let mixed = self.attn.mix(normed, attn);
        let of_attention = factors(&self.ls1, &self.gamma_1);
        let project = |mixed, residual| {
            let factors = of_attention.clone();
            self.attn.project(mixed, residual, factors, attn)
        };
        let (rate, point) = (self.drop_path, Point::Attention);
        let x = add_branch(x, mixed, point, rate, pass, project);

        let normed = pass.normed(&self.norm2, x.clone(), self.norm_epsilon);
        let of_mlp = factors(&self.ls2, &self.gamma_2);
        let mlp = |normed, residual| self.mlp.forward(normed, residual, of_mlp.clone());
        add_branch(x, normed, Point::Mlp, rate, pass, mlp)
    }
}

/// Adds a branch of any type to the f32 stream. Only its last part, `project`, is missing: it adds the stream in the same
/// operation, and scales the branch if paths are dropped. An observer sees the branch at `point`, [`Point::Attention`] or
/// [`Point::Mlp`], and then the stream.
pub(crate) fn add_branch<const D: usize>(
    stream: Tensor<D>,
    branch: Tensor<D>,
    point: Point,
    rate: f64,
    pass: Pass<'_>,
    project: impl Fn(Tensor<D>, Option<Residual<D>>) -> Tensor<D>,
) -> Tensor<D> {
    let (name, after) = match point {
        Point::Attention => ("drop_path1", Point::Middle),
        _ => ("drop_path2", Point::Output),
    };
    pass.watch.tokens(point, || project(branch.clone(), None));
    let phase = pass.phase.named(name);
    let residual = match drop_path(rate, phase, stream.dims()[0], &stream.device()) {
        Some(scale) => Residual::scaled(stream, scale),
        None => stream.into(),
    };
    let stream = project(branch, Some(residual));
    pass.watch.tokens(after, || stream.clone());
    stream
}

/// All blocks of a stage, one after the other: the stream after the last, and after each of the last
/// `kept` blocks.
///
/// # Shapes
///
/// `[batch, .., dim]` to the same shape.
pub(crate) fn forward_blocks<const D: usize, A: SelfAttention<D>>(
    blocks: &[Block<A>],
    x: Tensor<D>,
    mut pass: Pass<'_>,
    kept: usize,
) -> (Tensor<D>, Vec<Tensor<D>>) {
    pass.phase = pass.phase.named("blocks");
    forward_each(blocks, x, pass, kept, Block::forward)
}

/// As [`forward_blocks`], of any blocks, each with its number in the phase: `forward` is one of them.
///
/// # Shapes
///
/// `[batch, .., dim]` to the same shape.
pub(crate) fn forward_each<'a, const D: usize, B>(
    blocks: &[B],
    mut x: Tensor<D>,
    mut pass: Pass<'a>,
    kept: usize,
    forward: impl Fn(&B, Tensor<D>, Pass<'a>) -> Tensor<D>,
) -> (Tensor<D>, Vec<Tensor<D>>) {
    let phase = pass.phase;
    let mut outputs = Vec::new();
    for (i, block) in blocks.iter().enumerate() {
        pass.phase = phase.child(i as u64);
        pass.watch.block.block = i;
        x = forward(block, x, pass);
        if i + kept >= blocks.len() {
            outputs.push(x.clone());
        }
    }
    (x, outputs)
}

#[cfg(test)]
mod tests;
