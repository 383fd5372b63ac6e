//! k-NN scaled dot-product attention for Burn: each query keeps only its k best keys
//! (KVT: k-NN Attention for Boosting Vision Transformers, ECCV 2022).
//!
//! - [`Neighbors`]: how many keys a query keeps.
//! - [`Attention`], [`attend`] and [`attend_unchecked`]: from q, k, v to an output.
//! - [`MultiHeadAttention`]: the same as a Burn module with its projections.
//!
//! # Semantics of the selection
//! Of a row of `n` scores exactly `min(k, n)` survive; of equal scores the lower index does, and
//! -0 equals +0. The selection is made on f32 values: half types are widened before scores are made. A hidden key ranks below every visible
//! one, and its weight is zero even if it fills up a row with fewer than k visible keys. `k >= n`
//! gives bit for bit the dense result of that implementation: it is the same code. A row that
//! holds a NaN or +inf, or that has no visible key, gives NaN throughout. Gradients flow through the survivors only.

mod attention;
mod module;
mod neighbors;

pub use attention::{
    Attention, AttentionError, Dropout, Implementation, Score, Selection, attend, attend_unchecked,
    probabilities,
};
pub use module::MultiHeadAttention;
pub use neighbors::{Neighbors, NeighborsError};
