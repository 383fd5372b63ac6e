//! Mixup, CutMix and MixToken: mixing of the images of a batch, or of their tokens, and of their targets.
//!
//! - mixup: Zhang et al., [*mixup: Beyond Empirical Risk Minimization*](https://arxiv.org/abs/1710.09412).
//! - CutMix: Yun et al., [*CutMix*](https://arxiv.org/abs/1905.04899).
//! - The distributions, the modes and the partners are those of `timm.data.mixup` (1.0.31).
//!
//! The draws (`draw.rs`, [`draw()`]: a [`Mixing`]) are separate from their application (`apply.rs`, [`Mixing::images`] and
//! [`Mixing::own_shares`]), so that tests can fix the draws. Targets are mixed by [`mixed_targets`](super::mixed_targets); in a
//! step `task/mixer.rs` does all of it. Everything depends only on the key of the micro-batch.

mod apply;
mod config;
mod draw;
mod patches;
mod tokens;

pub use config::{MixConfig, MixMode, MixOrder};
pub use draw::{Blend, Mixing, Rect, draw};
pub use patches::write_patches;
pub use tokens::draw_tokens;

#[cfg(test)]
mod tests;
