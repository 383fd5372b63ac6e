//! Tests of the attention on every device at hand: the CPU backend, and wgpu where an adapter is
//! found. `KVT_REQUIRE_GPU=1` turns a missing adapter into a failure.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "tests"
)]

mod compare;
mod contiguous;
mod depthwise;
mod devices;
mod dropout;
mod gelu;
mod golden;
mod half;
mod images;
mod implementations;
mod layers;
mod lemmas;
mod module;
mod naive;
mod operation;
mod optimizer;
mod semantics;
mod views;
