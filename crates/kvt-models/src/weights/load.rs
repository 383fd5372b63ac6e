//! Weights into a model, with an account of every key.

use std::collections::BTreeSet;
use std::fmt;

use burn::tensor::TensorData;
use burn_store::{ModuleSnapshot, PyTorchToBurnAdapter, bridge};

use super::error::WeightsError;
use super::state_dict::StateDict;
use crate::model::{Model, Parameter};
use crate::weights::Layout;

/// How many problems an error message spells out.
const SHOWN: usize = 12;

/// How weights are loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadOptions {
    /// Whether a missing key or another shape is an error. Otherwise the parameter stays as
    /// initialised, and the report says so.
    pub strict: bool,
    /// Whether a classification head that is missing or of another size stays as initialised.
    pub reset_head: bool,
}

impl Default for LoadOptions {
    fn default() -> Self {
        Self {
            strict: true,
            reset_head: false,
        }
    }
}

/// What became of every key of the model and of the weights, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadReport {
    /// One row per key: the model's in the order of its modules, then the unused ones.
    pub rows: Vec<LoadRow>,
}

/// What became of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadRow {
    /// timm's name of the parameter, or the name of the unused weight.
    pub name: String,
    /// The parameter's shape in PyTorch's layout; `None` for an unused weight.
    pub expected: Option<Vec<usize>>,
    /// The weight's shape; `None` where there is no weight.
    pub found: Option<Vec<usize>>,
    /// What happened.
    pub outcome: Outcome,
}

/// What became of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// Loaded as it is.
    Matched,
    /// Loaded after it was resized to the model's image or window size: position embeddings, and tables
    /// of relative positions.
    Resized,
    /// A classification head that stays as initialised, as asked for.
    Reset,
    /// The weights lack this parameter.
    Missing,
    /// The weight has another shape.
    Mismatched,
    /// A table that the model computes itself, or a counter it has no use for.
    Computed,
    /// The model has no such parameter.
    Unused,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Matched => "matched",
            Self::Resized => "resized",
            Self::Reset => "reset",
            Self::Missing => "missing",
            Self::Mismatched => "mismatched",
            Self::Computed => "computed",
            Self::Unused => "unused",
        })
    }
}

impl LoadRow {
    fn is_problem(&self) -> bool {
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

    /// Whether every parameter of the model has got its weight, or stays as initialised because that
    /// was asked for.
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
}

impl LoadReport {
    /// The counts, and what was not used.
    pub fn summary(&self) -> String {
        let unused = self
            .unused()
            .map_or_else(String::new, |unused| format!("; {unused}"));
        format!("{self}{unused}")
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

impl Model {
    /// This model with the given weights, under timm's names or those of the original repository.
    ///
    /// Position embeddings of another image size are resized as timm does. Half-precision weights
    /// are widened, so that a model is always trained from 32-bit weights.
    ///
    /// # Errors
    ///
    /// In strict mode, a missing key or another shape; the error lists the first of them. In either mode,
    /// weights that are not floating point.
    pub fn load(
        mut self,
        weights: &StateDict,
        options: LoadOptions,
    ) -> Result<(Self, LoadReport), WeightsError> {
        let weights = &self.rename(weights, Layout::Timm);
        let mut report = LoadReport::default();
        let mut tensors = Vec::new();
        let mut used = BTreeSet::new();
        for Parameter { name, shape, .. } in self.state() {
            let found = weights.get(&name);
            let (outcome, data) = self.fit(&name, &shape, found, options)?;
            if let Some(data) = data {
                tensors.push(bridge::from_data(data, self.path(&name), None));
            }
            used.insert(name.clone());
            report.rows.push(LoadRow {
                name,
                expected: Some(shape),
                found: found.map(|data| data.shape().to_vec()),
                outcome,
            });
        }
        let others = weights.iter().filter(|(name, _)| !used.contains(*name));
        report.rows.extend(others.map(|(name, data)| LoadRow {
            name: name.to_owned(),
            expected: None,
            found: Some(data.shape().to_vec()),
            outcome: if self.is_computed(name) {
                Outcome::Computed
            } else {
                Outcome::Unused
            },
        }));
        if options.strict && !report.fits() {
            let mut problems = report.rows.iter().filter(|row| row.is_problem());
            let only_head = problems.all(|row| self.is_head(&row.name));
            return Err(WeightsError::Incompatible { report, only_head });
        }

        let applied = self.apply(tensors, None, Some(Box::new(PyTorchToBurnAdapter)), true);
        match applied.errors.first() {
            Some(error) => Err(WeightsError::Transfer {
                name: self.config().name(),
                reason: error.to_string(),
            }),
            None => Ok((self, report)),
        }
    }

    /// Whether a parameter belongs to a layer that turns features into class scores.
    fn is_head(&self, name: &str) -> bool {
        let layer = name.rsplit_once('.').map_or(name, |(layer, _)| layer);
        self.classifiers().contains(&layer)
    }

    /// What becomes of one parameter, and the data it gets.
    fn fit(
        &self,
        name: &str,
        shape: &[usize],
        found: Option<&TensorData>,
        options: LoadOptions,
    ) -> Result<(Outcome, Option<TensorData>), WeightsError> {
        let resets = options.reset_head && self.is_head(name);
        let Some(found) = found else {
            let outcome = if resets {
                Outcome::Reset
            } else {
                Outcome::Missing
            };
            return Ok((outcome, None));
        };
        let not_float = || WeightsError::NotFloat {
            name: name.to_owned(),
            dtype: found.dtype(),
        };
        if !found.dtype().is_float() {
            return Err(not_float());
        }
        let widened = || found.clone().try_cast_as::<f32>().map_err(|_| not_float());
        if found.shape().as_slice() == shape {
            return Ok((Outcome::Matched, Some(widened()?)));
        }
        if resets {
            return Ok((Outcome::Reset, None));
        }
        if let Some(data) = self.resize(name, shape, &widened()?) {
            return Ok((Outcome::Resized, Some(data)));
        }
        Ok((Outcome::Mismatched, None))
    }
}

#[cfg(test)]
mod tests;
