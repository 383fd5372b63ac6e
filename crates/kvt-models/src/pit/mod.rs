//! PiT: a vision transformer whose map of tokens shrinks by pooling, as that of a convolutional
//! network does, with and without a distillation token.
//!
//! - Paper: Heo et al., *Rethinking Spatial Dimensions of Vision Transformers*,
//!   <https://arxiv.org/abs/2103.16302>
//! - Upstream: <https://github.com/naver-ai/pit>; parameter names as in timm's `pit.py`
//!
//! In every stage all tokens attend to all tokens, the class token (and the distillation token)
//! included, and each query keeps as many of these keys as the configured attention of the stage
//! says. Between stages the map is pooled by a convolution, and the class tokens by a linear layer.
//!
//! Position embeddings of another image size are resized as those of a DeiT are; the original and
//! timm refuse them. Drop path rates rise to the configured rate in the last block, as in timm; the
//! original's stay one step below it.

mod config;
mod network;
mod stage;

pub use config::PitConfig;
pub use network::Pit;
