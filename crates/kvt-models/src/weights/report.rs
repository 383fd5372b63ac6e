//! The outcome of loading weights into a model, key by key.

use std::collections::BTreeSet;
use std::fmt;

/// How many problems an error message lists.
const SHOWN: usize = 12;

/// The outcome of every key of the model and of the weights, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadReport {
    /// One row per key: the model's in the order of its modules, then the unused ones.
    pub rows: Vec<LoadRow>,
}

/// The outcome of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadRow {
    /// timm's name of the parameter, or the name of the unused weight.
    pub name: String,
    /// The parameter's shape in PyTorch's layout; `None` for an unused weight.
    pub expected: Option<Vec<usize>>,
    /// The weight's shape; `None` if there is no weight.
    pub found: Option<Vec<usize>>,
    /// What happened.
    pub outcome: Outcome,
}

/// The outcome of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// Loaded as it is.
    Matched,
    /// Loaded after it was resized to the model's image or window size: position embeddings, and tables
    /// of relative positions.
    Resized,
    /// The first convolution, loaded after it was summed or repeated for the model's channels.
    Adapted,
    /// A classification head, or a mechanism of attention, that stays as initialised on request.
    Reset,
    /// The weights lack this parameter.
    Missing,
    /// The weight has another shape.
    Mismatched,
    /// A table that the model computes itself, whether or not the weights have it, or a counter that it does not use.
    Computed,
    /// The model has no such parameter.
    Unused,
}

/// The parts of a model that some weights do not fit. Those that have a loading option can stay as initialised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misfit {
    /// Only the classification head: [`LoadOptions::reset_head`](crate::weights::LoadOptions::reset_head).
    Head,
    /// Only parameters of the mechanisms of attention:
    /// [`LoadOptions::reset_mixer`](crate::weights::LoadOptions::reset_mixer).
    Mixers,
    /// Both of these.
    HeadAndMixers,
    /// Also others.
    Others,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Matched => "matched",
            Self::Resized => "resized",
            Self::Adapted => "adapted",
            Self::Reset => "reset",
            Self::Missing => "missing",
            Self::Mismatched => "mismatched",
            Self::Computed => "computed",
            Self::Unused => "unused",
        })
    }
}

impl LoadRow {
    /// Whether the parameter should have got a weight but did not.
    pub(crate) fn is_problem(&self) -> bool {
        matches!(self.outcome, Outcome::Missing | Outcome::Mismatched)
    }
}

impl LoadReport {
    /// The names of the keys with this outcome.
    pub fn names(&self, outcome: Outcome) -> impl Iterator<Item = &str> {
        self.rows
            .iter()
            .filter(move |row| row.outcome == outcome)
            .map(|row| row.name.as_str())
    }

    /// Whether every parameter of the model has got its weight, or stays as initialised on request.
    pub fn fits(&self) -> bool {
        !self.rows.iter().any(LoadRow::is_problem)
    }

    /// The missing and mismatched keys, as one line.
    pub(crate) fn problems(&self) -> String {
        let problems: Vec<&LoadRow> = self.rows.iter().filter(|row| row.is_problem()).collect();
        let mut lines: Vec<String> = problems
            .iter()
            .take(SHOWN)
            .map(|row| match (&row.expected, &row.found) {
                (Some(expected), Some(found)) => {
                    format!("`{}` has shape {found:?}, expected {expected:?}", row.name)
                }
                _ => format!("`{}` is missing", row.name),
            })
            .collect();
        if problems.len() > SHOWN {
            lines.push(format!("and {} more", problems.len() - SHOWN));
        }
        lines.extend(self.unused());
        lines.join("; ")
    }

    /// The counts, the unused keys, and the parameters that stay as initialised.
    pub fn summary(&self) -> String {
        let parts = [Some(self.to_string()), self.unused(), self.reset()];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        parts.join("; ")
    }

    /// The names of the parameters that stay as initialised, if there are any.
    fn reset(&self) -> Option<String> {
        let names: Vec<&str> = self.names(Outcome::Reset).collect();
        let shown = names
            .iter()
            .take(SHOWN)
            .map(|name| format!("`{name}`"))
            .collect::<Vec<String>>()
            .join(", ");
        match names.len() {
            0 => None,
            count @ ..=SHOWN => Some(format!(
                "new {} {shown}",
                if count == 1 { "is" } else { "are" }
            )),
            count => Some(format!("new are {shown} and {} more", count - SHOWN)),
        }
    }

    /// How many keys are unused, with some of them, if there are any.
    fn unused(&self) -> Option<String> {
        let count = self.names(Outcome::Unused).count();
        let examples: Vec<String> = self
            .names(Outcome::Unused)
            .take(3)
            .map(|name| format!("`{name}`"))
            .collect();
        let are = if count == 1 { "key is" } else { "keys are" };
        let examples = examples.join(", ");
        (count > 0).then(|| format!("{count} {are} unused, such as {examples}"))
    }
}

impl fmt::Display for LoadReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let outcomes: BTreeSet<Outcome> = self.rows.iter().map(|row| row.outcome).collect();
        for (i, outcome) in outcomes.into_iter().enumerate() {
            let separator = if i == 0 { "" } else { ", " };
            write!(f, "{separator}{} {outcome}", self.names(outcome).count())?;
        }
        Ok(())
    }
}
