#![doc = include_str!("../README.md")]
//!
//! # Contents
//! - [`MultiHeadAttention`]: a Burn module with its projections, made from a [`MultiHeadAttentionConfig`].
//! - [`AttentionConfig`]: the kinds of attention with their settings, which are validated, costed and built for a
//!   [`Place`]. Each kind is a [`MechanismConfig`] that makes a [`Mechanism`]; [`Mixer`] is any of them.
//! - [`SoftmaxAttention`], [`attend`] and [`attend_unchecked`]: softmax attention from q, k, v to an output.
//! - [`Neighbors`]: how many keys a query keeps. [`Rotary`]: what turns queries and keys before.

mod cost;
mod dropout;
mod error;
mod init;
mod mechanism;
mod mechanisms;
mod multi_head;
mod neighbors;
mod per_stage;
mod rotary;
mod softmax;

pub use cost::{Cost, Macs};
pub use dropout::Dropout;
pub use error::AttentionError;
pub use init::{BurnInit, Law, ParamInit};
pub use kvt_ops::{Key, Phase};
pub use mechanism::{
    Context, Mechanism, MechanismConfig, Place, Ranged, Score, SoftmaxOnly, UNDECAYED, merge_heads,
    split_heads, split_windows,
};
pub use mechanisms::*;
pub use multi_head::{MultiHeadAttention, MultiHeadAttentionConfig};
pub use neighbors::{Neighbors, NeighborsError};
pub use per_stage::PerStage;
pub use rotary::Rotary;
pub use softmax::{
    Implementation, Selection, SoftmaxAttention, attend, attend_unchecked, probabilities,
};
