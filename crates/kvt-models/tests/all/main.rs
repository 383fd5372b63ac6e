//! Everything that is checked through the public interface.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod cases;
mod counts;
mod dropping;
mod golden;
mod gpu;
mod sketch;
