#![expect(clippy::unwrap_used, reason = "tests")]

mod config;
mod numbers;
mod run;
mod trajectory;

use std::path::Path;

use super::*;
use crate::engine::{End, Start};
use crate::run::Event;
use crate::task::DenseNetwork;
use crate::task::testing::{Workspace, evals, note_of_weights, plan_of, train};
