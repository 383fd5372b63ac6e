//! A trained model for other programs: the folder that timm loads, and what a file needs to say beside the weights.

use std::collections::BTreeMap;
use std::path::Path;

use kvt_data::fs::{write_folder, write_text};
use kvt_models::ModelConfig;
use kvt_models::weights::StateDict;
use serde_json::{Value, json};

use super::{Trained, TrainedError};
use kvt_data::augment::{CropMode, Interpolation};
use kvt_train::task::{TaskKind, write_weights};

impl Trained {
    /// Writes the folder that `timm.create_model("local-dir:FOLDER", pretrained=True)` loads, in the layout of the hub: the weights as
    /// `model.safetensors`, and a `config.json` with the architecture, how images are prepared, and the names of the classes.
    ///
    /// # Errors
    /// If timm does not have the model, or the folder cannot be written or is not empty.
    pub fn write_timm(&self, folder: &Path) -> Result<(), TrainedError> {
        let config = timm_config(
            &self.model.config(),
            self.preparation(),
            self.classes.as_deref(),
        )?;
        let text = serde_json::to_string_pretty(&config).map_err(std::io::Error::from)?;
        let weights = StateDict::from_model(&self.model)?;
        write_folder(folder, |folder| {
            write_weights(
                &folder.join("model.safetensors"),
                &weights,
                &BTreeMap::new(),
            )?;
            Ok(write_text(&folder.join("config.json"), &(text + "\n"))?)
        })
    }

    /// The name of the model, the names of its classes, what makes probabilities of its logits, and how images are prepared, as JSON
    /// values under names.
    pub fn facts(&self) -> BTreeMap<String, String> {
        let mut facts = self.preparation();
        let activation = match self.plan.task {
            TaskKind::MultiLabel => "sigmoid",
            TaskKind::Classify | TaskKind::Dino | TaskKind::Segment | TaskKind::Detect => "softmax",
        };
        facts["activation"] = json!(activation);
        facts["model"] = json!(self.model.config().name());
        if let Some(names) = &self.classes {
            facts["classes"] = json!(names);
        }
        let facts = facts.as_object().into_iter().flatten();
        facts
            .map(|(key, value)| (key.clone(), value.to_string()))
            .collect()
    }

    /// timm's settings of how images are prepared for evaluation.
    fn preparation(&self) -> Value {
        let (augment, config) = (&self.plan.augment, self.model.config());
        let interpolation = match augment.interpolation {
            Interpolation::Bilinear => "bilinear",
            // A filter that is drawn for each image is bicubic in evaluation.
            Interpolation::Bicubic | Interpolation::Random => "bicubic",
        };
        let crop_mode = match augment.crop_mode {
            CropMode::Center => "center",
            CropMode::Squash => "squash",
            CropMode::Border => "border",
        };
        json!({
            "input_size": [config.in_chans(), self.size.0, self.size.1],
            "interpolation": interpolation,
            "crop_pct": augment.crop_pct,
            "crop_mode": crop_mode,
            "mean": augment.mean,
            "std": augment.std,
        })
    }
}

/// The content of `config.json`.
fn timm_config(
    config: &ModelConfig,
    mut pretrained: Value,
    classes: Option<&[String]>,
) -> Result<Value, TrainedError> {
    let not_there = || TrainedError::NotInTimm(config.name());
    let name = config.in_timm().ok_or_else(not_there)?;
    let usual = ModelConfig::by_name(&name).map_err(|_| not_there())?;
    pretrained["num_classes"] = json!(config.num_classes());
    // timm's models have one size unless they are told another.
    pretrained["fixed_input_size"] = json!(true);
    let mut arguments = json!({});
    if config.img_size() != usual.img_size() {
        arguments["img_size"] = json!(config.img_size());
    }
    if config.in_chans() != usual.in_chans() {
        arguments["in_chans"] = json!(config.in_chans());
    }
    let mut all = json!({
        "architecture": name,
        "num_classes": config.num_classes(),
        "model_args": arguments,
        "pretrained_cfg": pretrained,
    });
    if let Some(names) = classes {
        all["label_names"] = json!(names);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use kvt_attention::{AttentionConfig, Neighbors};
    use kvt_models::ModelOverrides;

    use super::*;

    fn written(name: &str, overrides: &ModelOverrides) -> Result<Value, TrainedError> {
        let config = ModelConfig::by_name(name).unwrap().with(overrides).unwrap();
        timm_config(
            &config,
            json!({}),
            Some(&["cat".to_owned(), "dog".to_owned()]),
        )
    }

    /// The keys that `_parse_model_cfg` of timm 1.0 reads.
    #[test]
    fn timm_is_told_what_differs_from_its_own_model() {
        let overrides = ModelOverrides {
            img_size: Some(96.into()),
            num_classes: Some(2),
            drop_path: Some(0.1),
            ..ModelOverrides::default()
        };
        let config = written("deit_tiny_patch16_224", &overrides).unwrap();
        assert_eq!(config["architecture"], "deit_tiny_patch16_224");
        assert_eq!(config["num_classes"], 2);
        assert_eq!(config["model_args"], json!({ "img_size": 96 }));
        assert_eq!(config["pretrained_cfg"]["num_classes"], 2);
        assert_eq!(config["label_names"], json!(["cat", "dog"]));
        let wide = ModelOverrides {
            img_size: Some([64, 96].into()),
            ..ModelOverrides::default()
        };
        let config = written("deit_tiny_patch16_224", &wide).unwrap();
        assert_eq!(config["model_args"], json!({ "img_size": [64, 96] }));
    }

    /// Loaded there, these would be other models.
    #[test]
    fn models_that_timm_lacks_are_refused() {
        let knn = ModelOverrides {
            attention: Some(AttentionConfig::knn(Neighbors::fraction(0.5).unwrap())),
            ..ModelOverrides::default()
        };
        let deeper = ModelOverrides {
            depth: Some(13.into()),
            ..ModelOverrides::default()
        };
        let plain = ModelOverrides::default();
        let cases = [
            ("deit_tiny_patch16_224", &knn),
            ("deit_tiny_patch16_224", &deeper),
            ("t2t_vit_7", &plain),
        ];
        for (name, overrides) in cases {
            let error = written(name, overrides).unwrap_err().to_string();
            assert!(error.starts_with("timm has no"), "{name}: {error}");
        }
        assert!(written("swin_tiny_patch4_window7_224", &plain).is_ok());
    }
}
