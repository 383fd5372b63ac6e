//! Mixup, CutMix and MixToken: images of a batch, or their tokens, are mixed with each other, and so are their targets.
//!
//! - mixup: Zhang et al., [*mixup: Beyond Empirical Risk Minimization*](https://arxiv.org/abs/1710.09412).
//! - CutMix: Yun et al., [*CutMix*](https://arxiv.org/abs/1905.04899).
//! - The laws, the modes and the partners are those of `timm.data.mixup` (1.0.31).
//!
//! What is drawn ([`draw()`]: a [`Mixing`]) is apart from how it is carried out ([`Mixing::images`] and
//! [`Mixing::own_shares`]), so that tests fix the draws. All of it depends on the key of the micro-batch alone.

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
