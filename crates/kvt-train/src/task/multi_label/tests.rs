#![expect(clippy::unwrap_used, reason = "tests")]

mod config;
mod run;
mod scores;

use super::*;
