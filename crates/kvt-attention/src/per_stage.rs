//! A setting that may differ from stage to stage.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::AttentionError;

/// One value for all stages of a model, or a list with one value per stage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(
    untagged,
    expecting = "expected one value, or a list with one per stage"
)]
pub enum PerStage<T> {
    /// The same for all stages.
    One(T),
    /// One per stage; a list of one holds for all stages.
    Each(Vec<T>),
}

impl<T: Copy> PerStage<T> {
    /// All values.
    pub fn values(&self) -> &[T] {
        match self {
            Self::One(value) => std::slice::from_ref(value),
            Self::Each(values) => values,
        }
    }

    /// The value of stage number `stage` of a model with so many `stages`.
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
        Self::One(value)
    }
}
