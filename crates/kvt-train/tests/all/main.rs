//! Everything that is checked through the public interface: the engine, and the real binary.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod accumulate;
mod bad_input;
mod bench;
mod compare;
mod documents;
mod ema;
mod epochs;
mod evaluation;
mod families;
mod predict_logits;
mod restore;
#[cfg(unix)]
mod resume;
mod schedule;
mod support;
mod trajectory;
mod weights;
#[cfg(feature = "wgpu")]
mod wgpu;
