//! CvT: a vision transformer that shrinks its map of tokens by convolutions, and makes queries, keys
//! and values by convolutions too.
//!
//! - Paper: Wu et al., *CvT: Introducing Convolutions to Vision Transformers*,
//!   <https://arxiv.org/abs/2103.15808>
//! - Upstream: <https://github.com/microsoft/CvT>, whose parameter names these are; timm has no CvT
//!
//! In every stage a token attends to the tokens of a map that the convolution of keys and values has
//! halved (`kv_stride`), and keeps as many of these keys as the configured attention of the stage
//! says. The class token joins in the last stage, as a query and as a key.
//!
//! Scores are scaled by the full width `dim^-0.5`, not by that of a head, as in the original. There
//! are no position embeddings, so that the weights are the same for every image size.

mod attention;
mod config;
mod network;
mod stage;

pub use config::CvtConfig;
pub use network::Cvt;
