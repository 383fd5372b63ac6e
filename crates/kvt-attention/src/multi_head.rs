//! Multi-head self-attention as a Burn module.

use burn::config::Config;
use burn::module::{Module, Param};
use burn::nn::{LayerNorm, LayerNormConfig, Linear};
use burn::tensor::{Device, Tensor};
use kvt_ops::{Phase, in_type, layer_norm, linear, linear_add};

use crate::error::check_dropout;
use crate::mechanism::{merge_heads, split_heads};
use crate::{
    AttentionConfig, AttentionError, BurnInit, Context, Law, Mechanism, Mixer, ParamInit, Place,
};

/// Makes a [`MultiHeadAttention`].
#[derive(Config, Debug, PartialEq)]
pub struct MultiHeadAttentionConfig {
    /// Channels of a token; a multiple of `num_heads`.
    pub d_model: usize,
    /// Attention heads.
    pub num_heads: usize,
    /// The mechanism; dense by default.
    #[config(default = "AttentionConfig::dense()")]
    pub attention: AttentionConfig,
    /// Dropout of the attention weights, in [0, 1).
    #[config(default = 0.0)]
    pub dropout: f64,
    /// Whether queries, keys and values have a bias.
    #[config(default = true)]
    pub qkv_bias: bool,
    /// Tokens of a sequence, prefix and map together. Mechanisms with a weight for every token need this number; a
    /// `grid` implies it.
    pub tokens: Option<usize>,
    /// Tokens before the map, such as a class token, for mechanisms that use positions.
    #[config(default = 0)]
    pub prefix: usize,
    /// Rows and columns of the map that the other tokens form, for mechanisms that use positions.
    pub grid: Option<[usize; 2]>,
}

impl MultiHeadAttentionConfig {
    /// Builds the module with Burn's initialisers.
    ///
    /// # Errors
    /// If channels do not divide among the heads, the dropout is not in [0, 1), tokens, prefix and grid
    /// contradict each other, or the mechanism does not fit.
    pub fn init(&self, device: &Device) -> Result<MultiHeadAttention, AttentionError> {
        self.init_with(&BurnInit::new(device))
    }

    /// Builds the module with an initialiser of the caller's choice.
    ///
    /// # Errors
    /// As [`init`](Self::init).
    pub fn init_with(&self, init: &impl ParamInit) -> Result<MultiHeadAttention, AttentionError> {
        let Self {
            d_model, num_heads, ..
        } = *self;
        if num_heads == 0 || d_model == 0 || !d_model.is_multiple_of(num_heads) {
            return Err(AttentionError::Heads { d_model, num_heads });
        }
        check_dropout(self.dropout)?;
        let place = Place {
            prefix: self.prefix,
            grid: self.grid,
            dropout: self.dropout,
            ..Place::new(self.count()?, d_model, num_heads)
        };
        self.attention.validate_at(&place)?;
        Ok(MultiHeadAttention::new(
            init,
            &self.attention,
            place,
            self.qkv_bias,
        ))
    }

    /// Tokens of a sequence; 0 if not given.
    fn count(&self) -> Result<usize, AttentionError> {
        let (tokens, prefix, grid) = (self.tokens, self.prefix, self.grid);
        let expected =
            prefix.saturating_add(grid.map_or(0, |[rows, columns]| rows.saturating_mul(columns)));
        match tokens {
            None if grid.is_none() => Ok(0),
            None => Ok(expected),
            Some(tokens) if tokens == expected || (grid.is_none() && tokens > prefix) => Ok(tokens),
            Some(tokens) => Err(AttentionError::Tokens {
                tokens,
                prefix,
                grid,
                expected,
            }),
        }
    }
}

/// Multi-head self-attention with timm's parameter names: `qkv` (dim to 3 dim, in the order
/// `(3, heads, head_dim)`) and `proj`. Parameters of the mechanism are below `mixer`. Scores are scaled by
/// `head_dim^-0.5`. Queries and keys can have a norm, which comes before rotary positions, and these before the mechanism.
#[derive(Module, Debug)]
pub struct MultiHeadAttention {
    /// Queries, keys and values in one projection.
    pub qkv: Linear,
    /// The output projection.
    pub proj: Linear,
    /// The biases of `qkv` where keys have none.
    q_bias: Option<Param<Tensor<1>>>,
    v_bias: Option<Param<Tensor<1>>>,
    q_norm: Option<LayerNorm>,
    k_norm: Option<LayerNorm>,
    mixer: Mixer,
    #[module(skip)]
    place: Place,
    #[module(skip)]
    norm_epsilon: f64,
}

impl MultiHeadAttention {
    /// For callers that have validated `attention` at `place`; others use [`MultiHeadAttentionConfig`].
    pub fn new(
        init: &impl ParamInit,
        attention: &AttentionConfig,
        place: Place,
        qkv_bias: bool,
    ) -> Self {
        let dim = place.dim();
        Self {
            qkv: init.linear("qkv", dim, 3 * dim, qkv_bias),
            proj: init.linear("proj", dim, dim, true),
            q_bias: None,
            v_bias: None,
            q_norm: None,
            k_norm: None,
            mixer: attention.init(&place, &init.child("mixer")),
            place,
            norm_epsilon: 0.0,
        }
    }

    /// The same with biases `q_bias` and `v_bias` of queries and values alone, as in BEiT: a bias of keys adds the same to all
    /// scores of a query. For a layer whose projection has no bias.
    #[must_use]
    pub fn with_unbiased_keys(self, init: &impl ParamInit) -> Self {
        let bias = |name: &str| Some(init.param(name, [self.place.dim()], Law::Constant(0.0)));
        Self {
            q_bias: bias("q_bias"),
            v_bias: bias("v_bias"),
            ..self
        }
    }

    /// The same with a layer norm of the queries of each head, `q_norm`, and one of the keys, `k_norm`.
    #[must_use]
    pub fn with_norms(self, init: &impl ParamInit, epsilon: f64) -> Self {
        let norm = LayerNormConfig::new(self.place.head_dim).with_epsilon(epsilon);
        Self {
            q_norm: Some(norm.init(init.device())),
            k_norm: Some(norm.init(init.device())),
            norm_epsilon: epsilon,
            ..self
        }
    }

    /// Switches to another kind of attention, or to other settings of the same kind. The weights of `qkv` and `proj` stay, and so
    /// do dropout, tokens, prefix and grid.
    ///
    /// # Errors
    /// As [`MultiHeadAttentionConfig::init`], or if the old or the new kind has weights of its own: the switch would lose
    /// the trained ones, or begin with untrained ones. The layer is then as before.
    pub fn set_attention(&mut self, attention: &AttentionConfig) -> Result<(), AttentionError> {
        attention.validate_at(&self.place)?;
        let init = BurnInit::new(&self.qkv.weight.device());
        let mixer = attention.init(&self.place, &init.child("mixer"));
        if self.mixer.num_params() + mixer.num_params() > 0 {
            let reason =
                "cannot take the place of another kind where one of the two has weights of its own";
            let help =
                "build a layer of this kind, and set its `qkv` and `proj` to those of the old one";
            return Err(AttentionError::misplaced(attention.kind(), reason, help));
        }
        self.mixer = mixer;
        Ok(())
    }

    /// # Shapes
    /// - `x`: `[batch, tokens, dim]`
    /// - output: `[batch, tokens, dim]`
    pub fn forward(&self, x: Tensor<3>, phase: Phase) -> Tensor<3> {
        linear(&self.proj, self.attend(x, self.context(phase)))
    }

    /// [`Self::forward`] added to `residual`, `[batch, tokens, dim]`.
    pub fn forward_add(&self, x: Tensor<3>, residual: Tensor<3>, phase: Phase) -> Tensor<3> {
        linear_add(&self.proj, self.attend(x, self.context(phase)), residual)
    }

    /// The context of a call of this module.
    pub fn context(&self, phase: Phase) -> Context {
        self.place.context(phase)
    }

    /// The output of the attention, before the output projection.
    ///
    /// # Shapes
    /// - `x`: `[batch, tokens, dim]`
    /// - output: `[batch, tokens, dim]`
    pub fn attend(&self, x: Tensor<3>, context: Context) -> Tensor<3> {
        let qkv = self.projected(x);
        if self.q_norm.is_none() && context.rotary.is_none() {
            return self.mixer.attend_packed(qkv, self.place.heads, context);
        }
        let [q, k, v] = self.heads(qkv, &context);
        merge_heads(self.mixer.attend(q, k, v, context))
    }

    /// The attention probabilities before dropout; `None` for mechanisms that have none.
    ///
    /// # Shapes
    /// - `x`: `[batch, tokens, dim]`
    /// - output: `[batch, heads, query, key]`
    pub fn probabilities(&self, x: Tensor<3>, context: &Context) -> Option<Tensor<4>> {
        let [q, k, _] = self.heads(self.projected(x), context);
        self.mixer.probabilities(q, k, context)
    }

    /// Queries, keys and values, `[batch, tokens, 3 * dim]`.
    fn projected(&self, x: Tensor<3>) -> Tensor<3> {
        let (Some(q), Some(v)) = (&self.q_bias, &self.v_bias) else {
            return linear(&self.qkv, x);
        };
        let none = q.val().zeros_like();
        let bias = Tensor::cat(vec![q.val(), none, v.val()], 0);
        let layer = Linear {
            weight: self.qkv.weight.clone(),
            bias: Some(Param::initialized(q.id, bias)),
        };
        linear(&layer, x)
    }

    /// Queries, keys and values of each head, `[batch, heads, tokens, head_dim]`: the first two normalised and turned.
    fn heads(&self, qkv: Tensor<3>, context: &Context) -> [Tensor<4>; 3] {
        let [q, k, v] = split_heads(qkv, self.place.heads);
        let dtype = v.dtype();
        let prepared = |x: Tensor<4>, norm: &Option<LayerNorm>| {
            let x = match norm {
                Some(norm) => layer_norm(norm, x, self.norm_epsilon),
                None => x,
            };
            let x = match &context.rotary {
                Some(rotary) => rotary.turn(x),
                None => x,
            };
            in_type(x, dtype)
        };
        [prepared(q, &self.q_norm), prepared(k, &self.k_norm), v]
    }
}
