//! Tests of the attention on every available device: the CPU backend, and wgpu if an adapter is found.
//! `KVT_REQUIRE_GPU=1` turns a missing adapter into a failure.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod added;
mod compare;
mod dropout;
mod golden;
mod half;
mod images;
mod implementations;
mod lemmas;
mod module;
mod operation;
mod outside;
mod probabilities;
mod views;

use kvt_testing::{devices, naive};
