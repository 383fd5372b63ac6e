//! From TOML files to one complete plan.
//!
//! A section of a file is one struct beside the code that uses it, a `section!` of `schema.rs`. It is the only
//! declaration of its keys: the reference, the JSON schema, "did you mean", the checks, the file in a run's folder and the
//! comparison on resume all follow from it.
//!
//! [`Document::load`] reads a file, its bases and the `--set` overrides and merges them; each value keeps its place, so
//! that a mistake in a base is reported there. [`Document::plan`] then checks names, types and ranges against the
//! schema, builds the structs of what is right, applies the rules over several keys (`rules.rs`), and gives a [`Plan`],
//! or every problem that it found. [`warnings()`] tells what is allowed and probably not meant.

mod attention;
mod diff;
mod document;
mod layers;
mod model;
mod plan;
mod problem;
mod reference;
mod rules;
mod warnings;

pub(crate) use attention::kinds_with;
pub use diff::{Difference, Effect, diff};
pub use document::Document;
pub use model::ModelSection;
pub use plan::{Plan, load_plan, resolved_toml};
pub use problem::{ConfigError, Location, Problem};
pub(crate) use reference::{key_meaning, keys_named, reading_order};
pub use reference::{reference, schema};
pub use warnings::warnings;

#[cfg(test)]
mod tests;
