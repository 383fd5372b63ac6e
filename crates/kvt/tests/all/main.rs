//! Tests of the public interface: the engine, and the real binary.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod accumulate;
mod analysis;
mod bad_data;
mod bad_input;
mod bench;
mod channels;
mod compare;
#[cfg(unix)]
mod damage;
mod demo;
mod detect_verbs;
mod dino;
mod dino_families;
mod documents;
mod dropout;
mod ema;
mod epochs;
mod evaluation;
mod export;
mod families;
#[cfg(feature = "fetch")]
mod fetch;
mod figures;
mod finetune;
mod foreign;
mod kinds;
mod late;
mod mixing;
mod multi_label;
mod objects;
mod optimizers;
mod pages;
mod precision;
mod predict_logits;
mod preview;
mod probe;
mod processes;
mod recipe;
mod rectangle;
mod report;
mod reproduce;
mod restore;
#[cfg(unix)]
mod resume;
mod scenes;
mod schedule;
mod second_task;
#[path = "../../../kvt-models/tests/all/seeded.rs"]
mod seeded;
mod segment_verbs;
#[cfg(unix)]
mod signals;
mod sources;
mod support;
mod sweep;
mod token_labels;
mod trajectory;
mod weights;
#[cfg(feature = "wgpu")]
mod wgpu;
