//! `[model]`: a named model and what differs from it.

use kvt_models::ModelOverrides;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
