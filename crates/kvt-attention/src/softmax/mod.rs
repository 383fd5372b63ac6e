//! Softmax attention over all keys or over the best of them, on `[batch, heads, tokens, head_dim]`.

use burn::module::Module;
use burn::tensor::{DType, Tensor};
use kvt_ops::{AttentionSettings, Packing};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::mechanism::{merge_windows, split_windows};
use crate::{AttentionError, Context, Cost, Dropout, Mechanism, Neighbors, Place, Score};

mod check;
mod stored;

use check::check;

/// Temperatures outside this range make all scores equal in f32, or infinite.
pub(crate) const TEMPERATURES: [f64; 2] = [1e-6, 1e6];

/// How a query ranks its keys.
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
    /// The best one for the request: fused for dot products, masked for distances.
    #[default]
    Auto,
    /// Custom operations: one from q, k and v to the output, or, where there is dropout, one from scores
    /// to probabilities. Dot products only.
    Fused,
    /// As `Fused`, but without bias, mask and dropout a GPU never writes scores to its memory. If its kernels cannot
    /// run (rows of scores exceed its shared memory, or vectors have more than 512 numbers, fewer on some devices),
    /// attention is composed of matrix products; the CPU, which stores no scores anyway, runs `Fused`. Dot products
    /// only.
    Flash,
    /// Burn's own operations: a threshold, a mask, a dense softmax (Algorithm 1).
    Masked,
    /// Gathers the k kept keys and values of every query, `[batch, heads, query, k, head_dim]`: the paper's slow
    /// version, with its memory. A bias is gathered too.
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

/// `softmax(top_k(scale / temperature * q k^T + bias)) v`: the mechanism of dense and of k-NN
/// attention, which differ in the number of keys that a query keeps.
#[derive(Module, Copy, Debug, PartialEq)]
pub struct SoftmaxAttention {
    /// How many keys a query keeps.
    #[module(skip)]
    pub neighbors: Neighbors,
    /// How a query ranks its keys.
    #[module(skip)]
    pub selection: Selection,
    /// How the selection is carried out.
    #[module(skip)]
    pub implementation: Implementation,
    /// Divides the scaled scores before the softmax (Table 3 of the paper); 1 leaves them unchanged.
    #[module(skip)]
    pub temperature: f64,
}

impl SoftmaxAttention {
    /// Attention over all keys.
    pub fn dense() -> Self {
        Self::knn(Neighbors::All)
    }

    /// Attention over all keys, with a temperature.
    pub fn at(temperature: f64) -> Self {
        Self {
            temperature,
            ..Self::dense()
        }
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

    /// The settings of the operations for rows of `keys` keys. `scale` does not include the temperature.
    fn settings(&self, scale: f64, keys: usize) -> AttentionSettings {
        AttentionSettings {
            scale: scale / self.temperature,
            kept: self.neighbors.resolve(keys).max(1),
            flash: self.implementation == Implementation::Flash,
        }
    }

    /// Two products over all keys, whatever the number that is kept.
    pub(crate) fn cost(&self, place: &Place) -> Cost {
        let products = 2 * place.queries * place.keys * place.dim();
        Cost::of_products(products, self.neighbors.resolve(place.keys))
    }

    /// Refuses invalid settings and combinations.
    ///
    /// # Errors
    /// If the temperature or the share of neighbours is out of its range, or the fused
    /// implementation is asked to rank by distance.
    pub fn validate(&self) -> Result<(), AttentionError> {
        let [coldest, hottest] = TEMPERATURES;
        if !(coldest..=hottest).contains(&self.temperature) {
            return Err(AttentionError::Setting(
                "`temperature` must be in [1e-6, 1e6]: outside of it all scores are equal in 32 bits, or infinite",
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

impl Mechanism for SoftmaxAttention {
    fn attend(&self, q: Tensor<4>, k: Tensor<4>, v: Tensor<4>, context: Context) -> Tensor<4> {
        let (scale, dropout) = (context.scale, context.dropout);
        attend_unchecked(q, k, v, context.score, scale, self, dropout)
    }

    /// Makes no copy of q, k and v if the operation is fused and there is no dropout.
    fn attend_packed(&self, qkv: Tensor<3>, heads: usize, context: Context) -> Tensor<3> {
        assert_not_f64(qkv.dtype());
        let [images, tokens, width] = qkv.dims();
        let windows = context.windows;
        let packing = Packing { heads, windows };
        // Burn's operations check what does not fit.
        let ordinary = images * tokens * width > 0 && width.is_multiple_of(3 * heads);
        let bias = context.score.bias.as_ref();
        let fits = bias.is_none_or(|bias| packing.takes(bias.dims()));
        if self.is_fused(tokens) && context.dropout.is_none() && ordinary && fits {
            let settings = self.settings(context.scale, tokens);
            let Score { bias, mask } = context.score;
            return kvt_ops::self_attention(qkv, packing, bias, mask, settings);
        }
        let [q, k, v] = split_windows(qkv, heads, windows);
        merge_windows(self.attend(q, k, v, context), windows)
    }

    fn probabilities(&self, q: Tensor<4>, k: Tensor<4>, context: &Context) -> Option<Tensor<4>> {
        let score = context.score.clone();
        Some(probabilities(q, k, score, context.scale, self))
    }

    fn ranks_with_bias(&self) -> bool {
        self.selection != Selection::Euclidean
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
/// `q`, `k`, `v` and a bias have one type: f32 or a half type. Half types are widened first, so that every
/// implementation makes, ranks and weighs scores in f32. The output has the type of the inputs.
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
    attention: &SoftmaxAttention,
    dropout: Option<Dropout>,
) -> Result<Tensor<4>, AttentionError> {
    check(&q, &k, &v, &score, attention, dropout)?;
    Ok(attend_unchecked(q, k, v, score, scale, attention, dropout))
}

/// [`attend`] for modules, whose shapes and settings fit by construction.
///
/// # Shapes
/// As for [`attend`].
///
/// # Panics
/// On shapes that do not fit, as Burn's operations do, and on f64.
pub fn attend_unchecked(
    q: Tensor<4>,
    k: Tensor<4>,
    v: Tensor<4>,
    score: Score,
    scale: f64,
    attention: &SoftmaxAttention,
    dropout: Option<Dropout>,
) -> Tensor<4> {
    assert_not_f64(q.dtype());
    let keys = k.dims()[2];
    let empty = |x: &Tensor<4>| x.shape().num_elements() == 0;
    let ordinary = dropout.is_none() && ![&q, &k, &v].into_iter().any(empty);
    if attention.is_fused(keys) && ordinary {
        let settings = attention.settings(scale, keys);
        let Score { bias, mask } = score;
        return kvt_ops::attention(q, k, v, bias, mask, settings);
    }
    stored::attend(q, k, v, score, scale, attention, dropout)
}

/// The attention probabilities: the output of [`attend`] for values that are the rows of the identity.
///
/// # Shapes
/// - `q`: `[batch, heads, query, head_dim]`
/// - `k`: `[batch, heads, key, head_dim]`
/// - output: `[batch, heads, query, key]`
///
/// # Panics
/// As [`attend_unchecked`].
pub fn probabilities(
    q: Tensor<4>,
    k: Tensor<4>,
    score: Score,
    scale: f64,
    attention: &SoftmaxAttention,
) -> Tensor<4> {
    let values = identity(&k);
    attend_unchecked(q, k, values, score, scale, attention, None)
}

/// Values for which the output of attention is its weights: for every key of `k` a row of the identity.
pub(crate) fn identity(k: &Tensor<4>) -> Tensor<4> {
    let [batch, heads, keys, _] = k.dims();
    let identity = Tensor::<2>::eye(keys, &k.device()).cast(k.dtype());
    identity
        .reshape([1, 1, keys, keys])
        .expand([batch, heads, keys, keys])
}

/// Callers that pass f64 expect more precision than f32 has.
fn assert_not_f64(dtype: DType) {
    assert!(
        dtype != DType::F64,
        "attention is computed in f32: cast f64 first"
    );
}
