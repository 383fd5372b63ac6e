//! What timm says about weights.

use std::path::Path;

use serde_json::Value as Json;
use toml::{Table, Value};

use super::FinetuneError;
use super::named::of_name;
use kvt_data::fs::if_there;
use kvt_data::text::read_text;

/// The file that timm publishes next to weights.
const TIMM_CONFIG: &str = "config.json";
/// Maximum size in bytes: far more than needed.
const LARGEST_CONFIG: u64 = 1 << 20;

/// The keys of `[augment]` for weights without a run, and what they are. `names` are those of the weights or of their model, the
/// most certain first.
pub(super) fn normalisation<'a>(
    timm: &TimmConfig,
    names: impl IntoIterator<Item = &'a str>,
) -> (Table, String) {
    if let Some(augment) = timm.augment() {
        let with = "the mean and std of the weights' own description";
        return (augment, with.to_owned());
    }
    match names.into_iter().find_map(of_name) {
        Some((keys, name)) => (keys, format!("the mean and std that timm has for `{name}`")),
        None => {
            let usual = "ImageNet's mean and std, because the weights name none; change them with `--set augment.mean=...` and `augment.std`";
            (Table::new(), usual.to_owned())
        }
    }
}

/// The name of weights as far as it is known without looking into them: the user's, the description's, or the file's.
pub(super) fn name_of(model: Option<&str>, timm: &TimmConfig, file: &Path) -> String {
    match (model, timm.architecture.as_deref()) {
        (Some(name), _) | (None, Some(name)) => name.to_owned(),
        (None, None) => {
            let stem = file.file_stem().unwrap_or_default();
            stem.to_string_lossy().into_owned()
        }
    }
}

/// timm's description of published weights.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct TimmConfig {
    pub(super) architecture: Option<String>,
    /// The keys of `pretrained_cfg`.
    pretrained: serde_json::Map<String, Json>,
}

impl TimmConfig {
    /// From the `config.json` next to a file, if it is one of timm's.
    pub(super) fn beside(file: &Path) -> Result<Option<Self>, FinetuneError> {
        let path = file.with_file_name(TIMM_CONFIG);
        let Some(text) = if_there(read_text(&path, LARGEST_CONFIG))? else {
            return Ok(None);
        };
        let config: Json = serde_json::from_str(&text)
            .map_err(|error| FinetuneError::Description { path, error })?;
        let Some(architecture) = config.get("architecture").and_then(Json::as_str) else {
            return Ok(None);
        };
        let pretrained = config.get("pretrained_cfg").and_then(Json::as_object);
        Ok(Some(Self {
            architecture: Some(architecture.to_owned()),
            pretrained: pretrained.cloned().unwrap_or_default(),
        }))
    }

    /// From the metadata of a `.safetensors` file.
    pub(super) fn of_metadata(
        metadata: std::collections::BTreeMap<String, String>,
    ) -> Option<Self> {
        let architecture = metadata.get("architecture").cloned();
        let values = metadata.into_iter();
        let pretrained: serde_json::Map<_, _> = values
            .filter_map(|(key, text)| Some((key, serde_json::from_str(&text).ok()?)))
            .collect();
        let says = architecture.is_some() || pretrained.contains_key("mean");
        says.then_some(Self {
            architecture,
            pretrained,
        })
    }

    /// The keys of `[augment]` that are specified.
    fn augment(&self) -> Option<Table> {
        let three = |key: &str| {
            let list = self.pretrained.get(key)?.as_array()?.iter();
            let numbers: Vec<f64> = list.map(Json::as_f64).collect::<Option<_>>()?;
            (numbers.len() == 3).then(|| Value::from(numbers))
        };
        let mut keys = Table::from_iter([
            ("mean".to_owned(), three("mean")?),
            ("std".to_owned(), three("std")?),
        ]);
        let share = self.pretrained.get("crop_pct").and_then(Json::as_f64);
        if let Some(share) = share.filter(|share| (0.1..=2.0).contains(share)) {
            keys.insert("crop_pct".to_owned(), share.into());
        }
        let mode = self.pretrained.get("crop_mode").and_then(Json::as_str);
        if let Some(mode @ ("center" | "squash" | "border")) = mode {
            keys.insert("crop_mode".to_owned(), mode.into());
        }
        let filter = self.pretrained.get("interpolation").and_then(Json::as_str);
        if let Some(filter @ ("bicubic" | "bilinear")) = filter {
            keys.insert("interpolation".to_owned(), filter.into());
        }
        Some(keys)
    }
}
