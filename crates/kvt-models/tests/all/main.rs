//! Tests of the public interface.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod cases;
mod counts;
mod dense;
mod dropping;
mod features;
mod freezing;
mod golden;
mod half;
mod kinds;
mod layers;
mod observer;
mod overrides;
mod seeded;
mod sizes;
mod sketch;
mod small;
mod state;
mod vit;
