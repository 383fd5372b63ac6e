//! Tests of the operations on every available device: the CPU backend, and wgpu if an adapter is found.
//! `KVT_REQUIRE_GPU=1` turns a missing adapter into a failure.

#![expect(clippy::unwrap_used, reason = "tests")]

mod adamw;
mod attention;
mod autodiff;
mod batch_norm;
mod contiguous;
mod conv;
mod depthwise;
mod gelu;
mod golden;
mod half;
mod layers;
mod max_pool;
mod mixed;
mod mlp;
mod pixel_cross_entropy;
mod resize;
mod roi_align;
mod rows;
mod semantics;
mod sparse;
mod unfold;
