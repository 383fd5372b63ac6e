//! `[model]`: a named model and what differs from it.
//!
//! A [`Document`](super::Document) fills the section; its keys are those of kvt-models' `family/model_keys.rs`. [`ModelSection::config`]
//! hands them to [`ModelConfig::with`]; `with` in kvt-models' `family/common.rs` and in the `config.rs` of each family applies them.

use kvt_models::{ModelConfig, ModelOverrides};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::TrainError;

/// The backbone: a named model and what differs from it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(extend("additionalProperties" = false))]
pub struct ModelSection {
    /// Name of the model, as timm has it; `kvt models list` has them.
    #[schemars(extend("x-default" = "required"))]
    pub name: String,
    /// What differs from it.
    #[serde(flatten)]
    pub overrides: ModelOverrides,
}

impl ModelSection {
    /// The model, with the number of classes of the data if the section does not specify it.
    ///
    /// # Errors
    /// If there is no such model, or what differs from it conflicts.
    pub fn config(&self, classes: Option<usize>) -> Result<ModelConfig, TrainError> {
        let mut overrides = self.overrides.clone();
        overrides.num_classes = overrides.num_classes.or(classes);
        Ok(ModelConfig::by_name(&self.name)?.with(&overrides)?)
    }

    /// The model where only its backbone is used: the classification head has one output.
    ///
    /// # Errors
    /// As [`config`](Self::config).
    pub fn backbone(&self) -> Result<ModelConfig, TrainError> {
        let mut section = self.clone();
        section.overrides.num_classes = Some(1);
        section.config(None)
    }
}
