//! Multi-head self-attention as a Burn module.

use burn::module::Module;
use burn::nn::Linear;
use burn::tensor::Tensor;

use crate::attention::self_attend;
use kvt_ops::{Phase, linear, linear_add};

use crate::{Attention, Dropout, Score, probabilities};

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
        linear(&self.proj, self.attend(x, phase))
    }

    /// [`Self::forward`] added to `residual`, `[batch, tokens, dim]`.
    pub fn forward_add(&self, x: Tensor<3>, residual: Tensor<3>, phase: Phase) -> Tensor<3> {
        linear_add(&self.proj, self.attend(x, phase), residual)
    }

    /// What every token takes from the others, before the output projection.
    ///
    /// # Shapes
    /// - `x`: `[batch, tokens, dim]`
    /// - output: `[batch, tokens, dim]`
    pub fn attend(&self, x: Tensor<3>, phase: Phase) -> Tensor<3> {
        let dim = x.dims()[2];
        let head_dim = dim / self.num_heads;
        let dropout = Dropout::in_phase(phase, self.attn_drop);
        let scale = (head_dim as f64).powf(-0.5);
        let qkv = linear(&self.qkv, x);
        self_attend(qkv, self.num_heads, scale, &self.attention, dropout)
    }

    /// The attention probabilities, before dropout.
    ///
    /// # Shapes
    /// - `x`: `[batch, tokens, dim]`
    /// - output: `[batch, heads, query, key]`
    pub fn probabilities(&self, x: Tensor<3>) -> Tensor<4> {
        let [batch, tokens, dim] = x.dims();
        let (heads, head_dim) = (self.num_heads, dim / self.num_heads);
        let qkv = linear(&self.qkv, x);
        let part = |i| {
            let part = qkv.clone().narrow(2, i * dim, dim);
            part.reshape([batch, tokens, heads, head_dim])
                .swap_dims(1, 2)
        };
        let scale = (head_dim as f64).powf(-0.5);
        probabilities(part(0), part(1), Score::default(), scale, &self.attention)
    }
}
