//! From TOML files to a complete plan.
//!
//! A section of a file is a struct next to the code that uses it, a `section!` of `kvt_data::schema`. It is the only declaration
//! of its keys: the reference, the JSON schema, "did you mean", the checks, the file in a run's folder and the comparison
//! on resume are all derived from it.
//!
//! [`Document::load`] reads a file, its bases and the `--set` overrides and merges them; each value keeps its location,
//! so that a mistake in a base is reported there. [`Document::plan`] then checks names, types and ranges against the
//! schema, builds the structs from the valid values, applies the rules over several keys (`rules/`), and returns a
//! [`Plan`] or all problems found. [`warnings()`] lists settings that are allowed but probably not intended.

mod attention;
mod diff;
mod document;
mod layers;
mod model_section;
mod plan;
mod problem;
mod reference;
mod rules;
mod suggest;
mod warnings;

pub use attention::kinds_with;
pub(crate) use diff::leaves;
pub use diff::{Difference, diff};
pub use document::Document;
pub use model_section::ModelSection;
pub use plan::{Plan, load_plan, load_run_plan, resolved_toml};
pub use problem::{ConfigError, Location, Problem};
pub use reference::{key_meaning, keys_named, reading_order, reference, schema};
pub use warnings::{dense_stages, warnings};

#[cfg(test)]
mod tests;
