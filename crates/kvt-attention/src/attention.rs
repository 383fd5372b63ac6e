//! k-NN scaled dot-product attention on `[batch, heads, tokens, head_dim]`: the front door.

use burn::tensor::{Bool, DType, Tensor};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Neighbors;
use kvt_ops::AttentionSettings;

mod check;
mod dropout;
mod stored;

pub use check::AttentionError;
use check::check;
pub use dropout::Dropout;

/// By what a query ranks its keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Selection {
    /// By the score `scale * q.k + bias` (the paper's fast version, Algorithm 1).
    #[default]
    DotProduct,
    /// By the Euclidean distance of the query to the key (the paper's slow version). As
    /// `|q - k|^2 = |q|^2 - 2 q.k + |k|^2`, this ranks by `q.k - |k|^2 / 2`, without the bias.
    Euclidean,
}

/// How the selection is carried out. All give the same result up to rounding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Implementation {
    /// The best that can do what is asked: fused for dot products, masked for distances.
    #[default]
    Auto,
    /// Custom operations: one from q, k and v to the output where there is neither bias, mask nor
    /// dropout, else one from scores to probabilities. Dot products only.
    Fused,
    /// The same, but where there is neither bias, mask nor dropout a GPU never writes a score to its
    /// memory. What its cores cannot do (rows of scores that do not fit into their memory, vectors of
    /// more than 512 numbers) is composed of matrix products; the CPU, which stores no scores anyway,
    /// does as for `Fused`. Dot products only.
    Flash,
    /// Burn's own operations: a threshold, a mask, a dense softmax (Algorithm 1).
    Masked,
    /// Gathers the k kept keys and values of every query, `[batch, heads, query, k, head_dim]`: the
    /// paper's slow version, with its memory. No bias on the keys is lost, it is gathered too.
    Gathered,
}

impl Implementation {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Auto,
        Self::Fused,
        Self::Flash,
        Self::Masked,
        Self::Gathered,
    ];

    /// Its name in configurations and results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Fused => "fused",
            Self::Flash => "flash",
            Self::Masked => "masked",
            Self::Gathered => "gathered",
        }
    }
}

/// Which attention a stage of a model uses.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Attention {
    /// How many keys a query keeps.
    pub neighbors: Neighbors,
    /// By what it ranks them.
    pub selection: Selection,
    /// How that is carried out.
    pub implementation: Implementation,
    /// Divides the scaled scores before the softmax (Table 3 of the paper); 1 leaves them alone.
    pub temperature: f64,
}

impl Attention {
    /// Attention over all keys.
    pub fn dense() -> Self {
        Self::knn(Neighbors::All)
    }

    /// The paper's attention: the `neighbors` best keys by dot product.
    pub fn knn(neighbors: Neighbors) -> Self {
        Self {
            neighbors,
            selection: Selection::default(),
            implementation: Implementation::default(),
            temperature: 1.0,
        }
    }

    /// Whether the selection is made by the fused operations for this number of keys.
    fn is_fused(&self, keys: usize) -> bool {
        let asked = match self.implementation {
            Implementation::Auto | Implementation::Fused | Implementation::Flash => {
                self.selection == Selection::DotProduct
            }
            Implementation::Masked | Implementation::Gathered => false,
        };
        asked || self.neighbors.resolve(keys) == keys
    }

    /// What the operations are told of rows of so many keys, and a scale without the temperature.
    fn settings(&self, scale: f64, keys: usize) -> AttentionSettings {
        AttentionSettings {
            scale: scale / self.temperature,
            kept: self.neighbors.resolve(keys).max(1),
            flash: self.implementation == Implementation::Flash,
        }
    }

    /// Refuses settings that make no sense, alone or together.
    ///
    /// # Errors
    /// If the temperature is not positive, the share of neighbours is none, or the fused
    /// implementation is asked to rank by distance.
    pub fn validate(&self) -> Result<(), AttentionError> {
        if !(self.temperature > 0.0 && self.temperature.is_finite()) {
            return Err(AttentionError::Setting(
                "`temperature` must be a positive number",
            ));
        }
        if let Neighbors::Fraction(share) = self.neighbors {
            Neighbors::fraction(share)?;
        }
        let dot_products_only = matches!(
            self.implementation,
            Implementation::Fused | Implementation::Flash
        );
        if self.selection == Selection::Euclidean && dot_products_only {
            return Err(AttentionError::Setting(
                "the implementations `fused` and `flash` rank by dot product: with \
                 `selection = \"euclidean\"` use `implementation = \"auto\"`, `\"masked\"` or `\"gathered\"`",
            ));
        }
        Ok(())
    }
}

impl Default for Attention {
    fn default() -> Self {
        Self::dense()
    }
}

/// What is added to the scores before the selection.
#[derive(Clone, Debug, Default)]
pub struct Score {
    /// An additive bias, broadcastable to `[batch, heads, query, key]`, after scale and temperature.
    pub bias: Option<Tensor<4>>,
    /// `true` hides a key; broadcastable to `[batch, heads, query, key]`.
    pub mask: Option<Tensor<4, Bool>>,
}

impl Score {
    /// Whether nothing is added and nothing hidden.
    fn is_plain(&self) -> bool {
        self.bias.is_none() && self.mask.is_none()
    }
}

/// `softmax(top_k(scale / temperature * q k^T + bias)) v`
///
/// # Shapes
/// - `q`: `[batch, heads, query, head_dim]`
/// - `k`: `[batch, heads, key, head_dim]`
/// - `v`: `[batch, heads, key, value_dim]`
/// - output: `[batch, heads, query, value_dim]`
///
/// # Types
/// All of one type: f32, or a half type, which is widened first, so that scores are made, ranked and
/// weighed in f32 whatever the implementation. The output has the type of the inputs.
///
/// # Errors
/// If shapes or types disagree, the type is f64, the temperature or dropout is out of range, or the fused
/// implementation is asked to rank by distance.
pub fn attend(
    q: Tensor<4>,
    k: Tensor<4>,
    v: Tensor<4>,
    score: Score,
    scale: f64,
    attention: &Attention,
    dropout: Option<Dropout>,
) -> Result<Tensor<4>, AttentionError> {
    check(&q, &k, &v, &score, attention, dropout)?;
    Ok(attend_unchecked(q, k, v, score, scale, attention, dropout))
}

/// [`attend`] for modules, whose shapes and settings fit by construction.
///
/// # Shapes
/// Those of [`attend`].
///
/// # Panics
/// On shapes that do not fit, as Burn's operations do, and on f64.
pub fn attend_unchecked(
    q: Tensor<4>,
    k: Tensor<4>,
    v: Tensor<4>,
    score: Score,
    scale: f64,
    attention: &Attention,
    dropout: Option<Dropout>,
) -> Tensor<4> {
    assert_not_f64(q.dtype());
    let keys = k.dims()[2];
    let empty = |x: &Tensor<4>| x.shape().num_elements() == 0;
    let ordinary = score.is_plain() && dropout.is_none() && ![&q, &k, &v].into_iter().any(empty);
    if attention.is_fused(keys) && ordinary {
        return kvt_ops::attention(q, k, v, attention.settings(scale, keys));
    }
    stored::attend(q, k, v, score, scale, attention, dropout)
}

/// In f32 more would be lost than who asks for f64 expects.
fn assert_not_f64(dtype: DType) {
    assert!(
        dtype != DType::F64,
        "attention is computed in f32: cast f64 first"
    );
}

/// [`attend`] of the tokens with each other, from the packed projection `qkv`
/// (`[batch, tokens, 3 * dim]`, in the order `(3, heads, head_dim)`) to `[batch, tokens, dim]`.
pub(crate) fn self_attend(
    qkv: Tensor<3>,
    heads: usize,
    scale: f64,
    attention: &Attention,
    dropout: Option<Dropout>,
) -> Tensor<3> {
    assert_not_f64(qkv.dtype());
    let [batch, tokens, width] = qkv.dims();
    let dim = width / 3;
    // What does not fit is for the checks of Burn's operations below.
    let ordinary = batch * tokens * width > 0 && width.is_multiple_of(3 * heads);
    if attention.is_fused(tokens) && dropout.is_none() && ordinary {
        return kvt_ops::self_attention(qkv, heads, attention.settings(scale, tokens));
    }
    // [3, batch, heads, tokens, head_dim]
    let qkv = qkv
        .reshape([batch, tokens, 3, heads, dim / heads])
        .permute([2, 0, 3, 1, 4]);
    let part = |i| qkv.clone().narrow(0, i, 1).squeeze_dim::<4>(0);
    let (q, k, v) = (part(0), part(1), part(2));
    attend_unchecked(q, k, v, Score::default(), scale, attention, dropout)
        .swap_dims(1, 2)
        .reshape([batch, tokens, dim])
}
