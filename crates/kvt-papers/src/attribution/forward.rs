//! A forward pass through the blocks of a DeiT that keeps every intermediate result and the gradient of each attention weight.

use std::cell::RefCell;

use burn::tensor::Tensor;
use kvt_attention::{BurnInit, Mechanism, Place};
use kvt_models::vit::VitConfig;
use kvt_models::{Ask, Backbone, BlockIndex, Model, Observer, Point, Prefix};
use kvt_ops::{Phase, gelu};

use super::AttributionError;
use super::weights::Weights;

/// timm's epsilon for the layer norms of a vision transformer.
const EPSILON: f64 = 1e-6;

/// A block's intermediate results for the rules, without autodiff.
pub(super) struct BlockValues {
    /// The input of the block, `[tokens, dim]`.
    pub(super) input: Tensor<2>,
    /// Output of the first norm, `[tokens, dim]`.
    pub(super) normed1: Tensor<2>,
    /// Queries, keys and values, `[heads, tokens, head_dim]` each.
    pub(super) qkv: [Tensor<3>; 3],
    /// Attention weights, `[heads, query, key]`.
    pub(super) weights: Tensor<3>,
    /// Concatenated outputs of the heads, `[tokens, dim]`.
    pub(super) mixed: Tensor<2>,
    /// The output of the attention branch, `[tokens, dim]`.
    pub(super) attention: Tensor<2>,
    /// The residual stream between the branches, `[tokens, dim]`.
    pub(super) middle: Tensor<2>,
    /// Output of the second norm, `[tokens, dim]`.
    pub(super) normed2: Tensor<2>,
    /// Output of the MLP's activation, `[tokens, hidden]`.
    pub(super) hidden: Tensor<2>,
    /// The output of the MLP, `[tokens, dim]`.
    pub(super) mlp: Tensor<2>,
}

/// The results of a forward pass.
pub(super) struct Forward {
    pub(super) blocks: Vec<BlockValues>,
    /// Output of the last norm, `[tokens, dim]`.
    pub(super) normed: Tensor<2>,
    /// `[1, classes]`, with the autodiff graph of the pass.
    pub(super) logits: Tensor<2>,
    /// Zeros `[heads, query, key]` that are added to the attention weights of each block: their gradient is the gradient of the weights.
    offsets: Vec<Tensor<3>>,
}

impl Forward {
    /// Runs an image `[1, 3, height, width]` through the network. The model itself computes the embedding.
    pub(super) fn run(
        model: &Model,
        config: &VitConfig,
        weights: &Weights,
        image: Tensor<4>,
    ) -> Result<Self, AttributionError> {
        let first = First::default();
        let ask = Ask {
            observer: Some(&first),
            ..Ask::default()
        };
        let _ = model.backbone.features(image, &ask, Phase::Eval);
        let Some(input) = first.0.into_inner() else {
            return Err(AttributionError::Blocks("no stream enters the first one"));
        };
        let [_, tokens, dim] = input.dims();
        let mut x: Tensor<2> = Tensor::from_inner(input.reshape([tokens, dim]));
        let device = x.device();
        let heads = config.num_heads;
        let place = Place::new(tokens, dim, heads);
        let context = place.context(Phase::Eval);
        let mixer = config.attention.init(&place, &BurnInit::new(&device));
        let (mut blocks, mut offsets) = (Vec::new(), Vec::new());
        for number in 0..config.depth {
            let name = |part: &str| format!("blocks.{number}.{part}");
            let input = x.clone();
            let normed1 = weights.norm(&name("norm1"), x.clone())?;
            let qkv = weights
                .linear(&name("attn.qkv"), normed1.clone())?
                .reshape([tokens, 3, heads, dim / heads])
                .permute([1, 2, 0, 3]);
            // `[1, heads, tokens, head_dim]` each.
            let [q, k, v] = [0, 1, 2].map(|part| qkv.clone().narrow(0, part, 1));
            let probabilities = mixer.probabilities(q.clone(), k.clone(), &context);
            let Some(probabilities) = probabilities else {
                return Err(AttributionError::Blocks("there are no attention weights"));
            };
            let probabilities = probabilities.squeeze_dim::<3>(0);
            let zeros = Tensor::<3>::zeros(probabilities.dims(), &device).require_grad();
            let [q, k, v] = [q, k, v].map(|part| part.squeeze_dim::<3>(0));
            let mixed = (probabilities.clone() + zeros.clone())
                .matmul(v.clone())
                .swap_dims(0, 1)
                .reshape([tokens, dim]);
            let attention = weights.linear(&name("attn.proj"), mixed.clone())?;
            let middle = x + attention.clone();
            let normed2 = weights.norm(&name("norm2"), middle.clone())?;
            let hidden = gelu(weights.linear(&name("mlp.fc1"), normed2.clone())?);
            let mlp = weights.linear(&name("mlp.fc2"), hidden.clone())?;
            x = middle.clone() + mlp.clone();
            offsets.push(zeros);
            blocks.push(BlockValues {
                input: input.inner(),
                normed1: normed1.inner(),
                qkv: [q, k, v].map(Tensor::inner),
                weights: probabilities.inner(),
                mixed: mixed.inner(),
                attention: attention.inner(),
                middle: middle.inner(),
                normed2: normed2.inner(),
                hidden: hidden.inner(),
                mlp: mlp.inner(),
            });
        }
        let normed = weights.norm("norm", x)?;
        let class = normed.clone().narrow(0, 0, 1);
        Ok(Self {
            blocks,
            logits: weights.linear("head", class)?,
            normed: normed.inner(),
            offsets,
        })
    }

    /// The gradient of a class's logit with respect to the attention weights of each block, `[heads, query, key]`.
    pub(super) fn gradients(&self, class: usize) -> Result<Vec<Tensor<3>>, AttributionError> {
        let gradients = self.logits.clone().narrow(1, class, 1).sum().backward();
        let of = |offset: &Tensor<3>| {
            let missing = AttributionError::Blocks("an attention weight has no gradient");
            offset.grad(&gradients).ok_or(missing)
        };
        self.offsets.iter().map(of).collect()
    }
}

impl Weights {
    /// A linear layer: `[tokens, inputs]` to `[tokens, outputs]`.
    fn linear(&self, name: &str, x: Tensor<2>) -> Result<Tensor<2>, AttributionError> {
        let (weight, bias) = self.affine::<2>(name)?;
        let (weight, bias) = (Tensor::from_inner(weight), Tensor::from_inner(bias));
        Ok(x.matmul(weight.transpose()) + bias.unsqueeze::<2>())
    }

    /// A layer norm of `[tokens, dim]`.
    fn norm(&self, name: &str, x: Tensor<2>) -> Result<Tensor<2>, AttributionError> {
        let (weight, bias) = self.affine::<1>(name)?;
        let [weight, bias] = [weight, bias].map(|part| Tensor::from_inner(part).unsqueeze::<2>());
        let centred = x.clone() - x.mean_dim(1);
        let deviation = (centred.clone().square().mean_dim(1) + EPSILON).sqrt();
        Ok(centred / deviation * weight + bias)
    }
}

/// Records the input of the first block.
#[derive(Default)]
struct First(RefCell<Option<Tensor<3>>>);

impl Observer for First {
    fn wants(&self, block: BlockIndex, point: Point) -> bool {
        block == BlockIndex::default() && point == Point::Input
    }

    fn tokens(&self, _: BlockIndex, _: Point, tokens: Tensor<3>, _: Prefix) {
        *self.0.borrow_mut() = Some(tokens);
    }
}
