//! A setting that may differ from stage to stage.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::AttentionError;

/// One value for all stages of a model, or a list with one value per stage. A list of one is the same as its
/// value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(
    from = "OneOrList<T>",
    into = "OneOrList<T>",
    bound(serialize = "T: Clone + Serialize")
)]
pub struct PerStage<T>(Vec<T>);

/// How it is written.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(
    untagged,
    expecting = "expected one value, or a list with one per stage"
)]
enum OneOrList<T> {
    One(T),
    List(#[schemars(length(min = 1))] Vec<T>),
}

impl<T> PerStage<T> {
    /// All values.
    pub fn values(&self) -> &[T] {
        &self.0
    }
}

impl<T: Copy> PerStage<T> {
    /// The value of stage number `stage` of a model with `stages` stages.
    ///
    /// # Errors
    /// If the list fits neither one stage nor all of them; the error names `key`.
    pub fn at(&self, key: &'static str, stage: usize, stages: usize) -> Result<T, AttentionError> {
        match self.values() {
            [value] => Ok(*value),
            values if values.len() == stages && stage < stages => Ok(values[stage]),
            values => Err(AttentionError::PerStage {
                key,
                given: values.len(),
                stages,
            }),
        }
    }
}

impl<T> From<T> for PerStage<T> {
    fn from(value: T) -> Self {
        Self(vec![value])
    }
}

impl<T> From<Vec<T>> for PerStage<T> {
    fn from(values: Vec<T>) -> Self {
        Self(values)
    }
}

impl<T> From<OneOrList<T>> for PerStage<T> {
    fn from(written: OneOrList<T>) -> Self {
        match written {
            OneOrList::One(value) => value.into(),
            OneOrList::List(values) => values.into(),
        }
    }
}

impl<T: Clone> From<PerStage<T>> for OneOrList<T> {
    fn from(PerStage(values): PerStage<T>) -> Self {
        match values.as_slice() {
            [value] => Self::One(value.clone()),
            _ => Self::List(values),
        }
    }
}
