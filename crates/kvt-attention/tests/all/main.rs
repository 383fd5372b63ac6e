//! Tests of the attention on every device at hand: the CPU backend, and wgpu where an adapter is
//! found. `KVT_REQUIRE_GPU=1` turns a missing adapter into a failure.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "tests"
)]

mod compare;
#[path = "../../../kvt-ops/tests/all/devices.rs"]
mod devices;
mod dropout;
mod golden;
mod half;
mod images;
mod implementations;
mod lemmas;
mod module;
#[path = "../../../kvt-ops/tests/all/naive.rs"]
mod naive;
mod operation;
mod probabilities;
mod views;
