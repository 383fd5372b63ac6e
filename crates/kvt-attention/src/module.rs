//! Multi-head self-attention as a Burn module.

use burn::module::Module;
use burn::nn::Linear;
use burn::tensor::Tensor;

use crate::attention::attend_unchecked;
use crate::{Attention, Dropout, Phase, Score};

/// Multi-head self-attention with timm's parameter names: `qkv` (dim to 3 dim, in the order
/// `(3, heads, head_dim)`) and `proj`. Scores are scaled by `head_dim^-0.5`.
#[derive(Module, Debug)]
pub struct MultiHeadAttention {
    /// Queries, keys and values in one projection.
    pub qkv: Linear,
    /// The output projection.
    pub proj: Linear,
    #[module(skip)]
    num_heads: usize,
    #[module(skip)]
    attention: Attention,
    #[module(skip)]
    attn_drop: f64,
}

impl MultiHeadAttention {
    /// Puts the module together from its projections.
    pub fn new(
        qkv: Linear,
        proj: Linear,
        num_heads: usize,
        attention: Attention,
        attn_drop: f64,
    ) -> Self {
        Self {
            qkv,
            proj,
            num_heads,
            attention,
            attn_drop,
        }
    }

    /// # Shapes
    /// - `x`: `[batch, tokens, dim]`
    /// - output: `[batch, tokens, dim]`
    pub fn forward(&self, x: Tensor<3>, phase: Phase) -> Tensor<3> {
        let [batch, tokens, dim] = x.dims();
        let head_dim = dim / self.num_heads;
        // [3, batch, heads, tokens, head_dim]
        let qkv = self
            .qkv
            .forward(x)
            .reshape([batch, tokens, 3, self.num_heads, head_dim])
            .permute([2, 0, 3, 1, 4]);
        let part = |i| qkv.clone().narrow(0, i, 1).squeeze_dim::<4>(0);
        let dropout = match phase {
            Phase::Train(key) if self.attn_drop > 0.0 => Some(Dropout {
                probability: self.attn_drop,
                key: key.named("attn_drop"),
            }),
            _ => None,
        };
        let out = attend_unchecked(
            part(0),
            part(1),
            part(2),
            Score::default(),
            (head_dim as f64).powf(-0.5),
            &self.attention,
            dropout,
        );
        self.proj
            .forward(out.swap_dims(1, 2).reshape([batch, tokens, dim]))
    }
}
