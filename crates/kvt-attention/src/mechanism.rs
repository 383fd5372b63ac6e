//! The interface of the attention mechanisms, and their inputs.

use burn::module::Module;
use burn::tensor::{Bool, Tensor};
use kvt_ops::{Phase, permute_reshape};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{AttentionError, Cost, Dropout, ParamInit, Rotary};

/// From queries, keys and values to an output.
pub trait Mechanism: Module {
    /// # Shapes
    /// - `q`: `[batch, heads, query, head_dim]`
    /// - `k`: `[batch, heads, key, head_dim]`
    /// - `v`: `[batch, heads, key, value_dim]`
    /// - output: `[batch, heads, query, value_dim]`
    ///
    /// Swin folds its windows into the heads: the second dimension is then `windows * heads`, window by window.
    fn attend(&self, q: Tensor<4>, k: Tensor<4>, v: Tensor<4>, context: Context) -> Tensor<4>;

    /// Self-attention from one projection, of the tokens of each of the [windows](Context::windows).
    ///
    /// # Shapes
    /// - `qkv`: `[batch * windows, tokens, 3 * dim]`, in the order `(3, heads, head_dim)`
    /// - output: `[batch * windows, tokens, dim]`
    fn attend_packed(&self, qkv: Tensor<3>, heads: usize, context: Context) -> Tensor<3> {
        let windows = context.windows;
        let [q, k, v] = split_windows(qkv, heads, windows);
        merge_windows(self.attend(q, k, v, context), windows)
    }

    /// The attention probabilities before dropout, for inspection; `None` for mechanisms that have none.
    ///
    /// # Shapes
    /// As for [`attend`](Self::attend); output: `[batch, heads, query, key]`
    fn probabilities(&self, _q: Tensor<4>, _k: Tensor<4>, _context: &Context) -> Option<Tensor<4>> {
        None
    }

    /// Whether the bias takes part in choosing keys. Where it does not, a key that a bias of -100
    /// hides must be hidden by a mask as well.
    fn ranks_with_bias(&self) -> bool {
        true
    }
}

/// What is added to the scores before the selection, broadcastable to `[batch, heads, query, key]`.
///
/// Where windows are folded into the heads, the bias may have the heads of one window, which are repeated for every
/// window, and the mask one matrix per window.
#[derive(Clone, Debug, Default)]
pub struct Score {
    /// An additive bias, after scale and temperature.
    pub bias: Option<Tensor<4>>,
    /// `true` hides a key.
    pub mask: Option<Tensor<4, Bool>>,
}

/// The inputs of a mechanism besides queries, keys and values. [`Place::context`] makes one.
#[derive(Clone, Debug)]
pub struct Context {
    /// Multiplies the products of queries and keys.
    pub scale: f64,
    /// Bias and mask.
    pub score: Score,
    /// Dropout of the attention weights.
    pub dropout: Option<Dropout>,
    /// Tokens before the map: class token and distillation token.
    pub prefix: usize,
    /// Rows and columns of the map that the queries after the prefix form, row by row.
    pub grid: Option<[usize; 2]>,
    /// Evaluation, or training with the key from which a mechanism draws.
    pub phase: Phase,
    /// How a layer turns queries and keys. Those that a mechanism gets are turned.
    pub rotary: Option<Rotary>,
    /// Windows of an image, each of which is a sequence by itself. The score has them folded into the heads, and so have queries,
    /// keys and values; of a packed projection each window is an image. 1 without windows.
    pub windows: usize,
}

/// A place of attention in a model: what is needed to validate, cost and build a mechanism.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Place {
    /// Queries of one image; 0 if their number is not known beforehand.
    pub queries: usize,
    /// Keys of one image; 0 if their number is not known beforehand.
    pub keys: usize,
    /// Attention heads.
    pub heads: usize,
    /// Channels of a head.
    pub head_dim: usize,
    /// Tokens before the map: class token and distillation token.
    pub prefix: usize,
    /// Rows and columns of the map that the queries after the prefix form, row by row.
    pub grid: Option<[usize; 2]>,
    /// Whether a bias is added to the scores.
    pub bias: bool,
    /// Whether keys are hidden from some queries.
    pub mask: bool,
    /// Dropout of the attention weights, in [0, 1).
    pub dropout: f64,
    /// Why only softmax attention can be used here; `None` where every kind can.
    pub softmax_only: Option<SoftmaxOnly>,
}

/// Why a place takes only [softmax attention](crate::AttentionConfig::is_softmax): the two halves of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SoftmaxOnly {
    /// What is there; the sentence continues after "cannot be used where".
    pub reason: &'static str,
    /// What can be used there, or where the kind can be used.
    pub help: &'static str,
}

impl Place {
    /// Self-attention of `tokens` tokens of `dim` channels, with neither bias, mask nor dropout.
    pub fn new(tokens: usize, dim: usize, heads: usize) -> Self {
        Self {
            queries: tokens,
            keys: tokens,
            heads,
            head_dim: dim.checked_div(heads).unwrap_or(0),
            prefix: 0,
            grid: None,
            bias: false,
            mask: false,
            dropout: 0.0,
            softmax_only: None,
        }
    }

    /// Channels of a token.
    pub fn dim(&self) -> usize {
        self.heads * self.head_dim
    }

    /// The context of a call at this place: scale `head_dim^-0.5`, neither bias nor mask.
    pub fn context(&self, phase: Phase) -> Context {
        Context {
            scale: (self.head_dim as f64).powf(-0.5),
            score: Score::default(),
            dropout: Dropout::in_phase(phase, self.dropout),
            prefix: self.prefix,
            grid: self.grid,
            phase,
            rotary: None,
            windows: 1,
        }
    }

    /// Refuses a bias and a mask, for mechanisms that cannot add them to all scores.
    ///
    /// # Errors
    /// [`AttentionError::Misplaced`].
    pub fn without_bias(&self, kind: &'static str) -> Result<(), AttentionError> {
        let reason = match (self.bias, self.mask) {
            (false, false) => return Ok(()),
            (true, false) => "a bias cannot be added",
            (false, true) => "keys cannot be hidden",
            (true, true) => "a bias and a mask cannot be added",
        };
        let reason = format!(
            "does not compute a score for each pair of a query and a key, so {reason} here"
        );
        let help = "use `dense` or `knn`, or a model without them";
        Err(AttentionError::misplaced(kind, reason, help))
    }

    /// Refuses a bias, a mask and dropout, for mechanisms that make no scores and would ignore them.
    ///
    /// # Errors
    /// [`AttentionError::Misplaced`].
    pub fn without_scores(&self, kind: &'static str) -> Result<(), AttentionError> {
        let (reason, help) = if self.bias || self.mask {
            (
                "makes no scores, to which a bias or a mask is added here",
                "use `dense` or `knn`, or a model without them",
            )
        } else if self.dropout > 0.0 {
            (
                "makes no attention weights that could be dropped",
                "set `attn_drop` to 0",
            )
        } else {
            return Ok(());
        };
        Err(AttentionError::misplaced(kind, reason, help))
    }
}

/// Names of mechanism parameters that are exempt from weight decay: learned points, scales, shares of a mixture, and
/// biases of any shape. Other parameters of one dimension do not decay either.
pub const UNDECAYED: [&str; 5] = ["points", "sigma", "near", "far", "bias"];

/// Settings whose values have ranges.
pub trait Ranged {
    /// Refuses a value out of its range.
    ///
    /// # Errors
    /// [`AttentionError::Range`].
    fn check_ranges(&self) -> Result<(), AttentionError>;
}

/// The settings of one kind of attention: the keys of `[model.attention]` that belong to the kind.
/// Doc comments, defaults and ranges of the fields become the JSON schema and the reference page.
pub trait MechanismConfig:
    Ranged + Clone + Default + Serialize + DeserializeOwned + JsonSchema
{
    /// The value of `kind`.
    const KIND: &'static str;

    /// Whether this is softmax attention over the given keys, with a score for each of them. It can be used wherever
    /// a family has attention, even where others [cannot](Place::softmax_only).
    const IS_SOFTMAX: bool = false;

    /// Whether the parameters fit only one number of keys, and the model therefore only one image size.
    const FIXES_KEYS: bool = false;

    /// The mechanism that these settings make.
    type Mechanism: Mechanism;

    /// The number of stages that lists among the settings have entries for; 1 if there are no lists.
    fn stages(&self) -> usize {
        1
    }

    /// The settings of stage number `stage` of a model with `stages` stages.
    ///
    /// # Errors
    /// [`AttentionError::PerStage`], if a list fits neither one stage nor all of them.
    fn at_stage(&self, _stage: usize, _stages: usize) -> Result<Self, AttentionError> {
        Ok(self.clone())
    }

    /// Refuses settings that are invalid at every place.
    ///
    /// # Errors
    /// A value out of its range, or values that exclude each other.
    fn validate(&self) -> Result<(), AttentionError> {
        self.check_ranges()
    }

    /// Refuses a place where valid settings cannot be used: by default one with a bias, a mask or dropout.
    ///
    /// # Errors
    /// [`AttentionError::Misplaced`].
    fn fits(&self, place: &Place) -> Result<(), AttentionError> {
        place.without_scores(Self::KIND)
    }

    /// What the mechanism costs at a place where it fits.
    fn cost(&self, place: &Place) -> Cost;

    /// The module for a place where it fits. Parameters are requested from `init` under the names of the module's
    /// fields.
    fn init(&self, place: &Place, init: &impl ParamInit) -> Self::Mechanism;
}

/// `N` tensors `[batch, heads, tokens, head_dim]` from one projection `[batch, tokens, N * dim]`, in the order
/// `(N, heads, head_dim)`: queries, keys and values, or some of them.
pub fn split_heads<const N: usize>(packed: Tensor<3>, heads: usize) -> [Tensor<4>; N] {
    let [batch, tokens, width] = packed.dims();
    // [N, batch, heads, tokens, head_dim]
    let parts = packed
        .reshape([batch, tokens, N, heads, width / N / heads])
        .permute([2, 0, 3, 1, 4]);
    std::array::from_fn(|i| parts.clone().narrow(0, i, 1).squeeze_dim::<4>(0))
}

/// As [`split_heads`], with the windows, which are images of the projection, folded into the heads, window by window.
///
/// # Shapes
/// `[batch * windows, tokens, N * heads * head_dim]` to `N` of `[batch, windows * heads, tokens, head_dim]`.
pub fn split_windows<const N: usize>(
    packed: Tensor<3>,
    heads: usize,
    windows: usize,
) -> [Tensor<4>; N] {
    if windows == 1 {
        return split_heads(packed, heads);
    }
    let [images, tokens, width] = packed.dims();
    let (batch, head_dim) = (images / windows, width / N / heads);
    let packed = packed.reshape([batch, windows, tokens, N, heads, head_dim]);
    let shape = [N, batch, windows * heads, tokens, head_dim];
    let parts = permute_reshape(packed, [3, 0, 1, 4, 2, 5], shape);
    std::array::from_fn(|i| parts.clone().narrow(0, i, 1).squeeze_dim::<4>(0))
}

/// `[batch, heads, tokens, head_dim]` to `[batch, tokens, heads * head_dim]`.
pub fn merge_heads(x: Tensor<4>) -> Tensor<3> {
    let [batch, heads, tokens, head_dim] = x.dims();
    x.swap_dims(1, 2).reshape([batch, tokens, heads * head_dim])
}

/// The inverse of [`split_windows`] for the output of attention.
pub(crate) fn merge_windows(x: Tensor<4>, windows: usize) -> Tensor<3> {
    if windows == 1 {
        return merge_heads(x);
    }
    let [batch, all, tokens, head_dim] = x.dims();
    let heads = all / windows;
    // On the CPU the output is a view; a reshape would copy it on one thread.
    let apart = [batch, windows, heads, tokens, head_dim];
    let x = permute_reshape(x, [0, 1, 2, 3], apart);
    let shape = [batch * windows, tokens, heads * head_dim];
    permute_reshape(x, [0, 1, 3, 2, 4], shape)
}
