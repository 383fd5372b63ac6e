//! The named models that weights fit.

use super::layout::{family_of, layout};
use crate::ModelConfig;
use crate::family::families::{aliased, named};
use crate::family::overrides::ModelOverrides;
use crate::weights::Layout;
use crate::weights::{StateDict, WeightsError};

/// The names of the models that weights fit, as far as their numbers show: models of the family that the names of the
/// weights indicate, with as many parameters outside the classifier as the weights have numbers. An alias is listed
/// only if no model has the size under its main name.
///
/// Several models fit if they differ in nothing that is stored, as CvT at two image sizes. No model fits weights of
/// an unknown family or of a custom size.
///
/// # Errors
///
/// [`WeightsError::Variant`] for weights of another model with the names of a family.
pub fn identify(weights: &StateDict) -> Result<Vec<String>, WeightsError> {
    let Some(family) = family_of(weights) else {
        return Ok(Vec::new());
    };
    family.check_variant(weights)?;
    let to_timm = match layout(family, weights) {
        Layout::Timm => str::to_owned,
        Layout::Official => family.official.names.to_name,
    };
    let is_parameter = |name: &str| {
        let is_statistic = name.ends_with(".running_mean") || name.ends_with(".running_var");
        !(is_statistic || family.is_computed(name) || family.is_of_head(name))
    };
    let numbers = weights
        .iter()
        .filter(|(name, _)| is_parameter(&to_timm(name)));
    let numbers: usize = numbers.map(|(_, data)| data.num_elements()).sum();
    let fits = |config: &ModelConfig| {
        config.family().name == family.name
            && backbone_numbers(config) == Some(numbers)
            && config.of_family().fits(weights)
    };
    let mut found: Vec<String> = named()
        .into_iter()
        .filter(fits)
        .map(|config| config.name())
        .collect();
    if found.is_empty() {
        let aliases = aliased().into_iter().filter(|(_, config)| fits(config));
        found.extend(aliases.map(|(alias, _)| alias));
    }
    Ok(found)
}

/// Numbers outside the classifier, whose parameters are proportional to the classes.
fn backbone_numbers(config: &ModelConfig) -> Option<usize> {
    let with_classes = |classes| {
        let overrides = ModelOverrides {
            num_classes: Some(classes),
            ..ModelOverrides::default()
        };
        Some(config.clone().with(&overrides).ok()?.summary().params)
    };
    let parameters = (2 * with_classes(1)?).checked_sub(with_classes(2)?)?;
    Some(parameters + config.of_family().fixed_numbers())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use burn::tensor::{Device, TensorData};
    use kvt_ops::Key;

    use super::*;
    use crate::weights::{Recognised, recognise};

    fn weights(name: &str, layout: Layout) -> StateDict {
        let overrides = ModelOverrides {
            num_classes: Some(7),
            ..ModelOverrides::default()
        };
        let config = ModelConfig::by_name(name)
            .unwrap()
            .with(&overrides)
            .unwrap();
        let model = config.init(&Device::flex(), Key::new(1)).unwrap();
        model.rename(&StateDict::from_model(&model).unwrap(), layout)
    }

    #[test]
    fn numbers_tell_the_model() {
        for (name, layout, expected) in [
            (
                "deit_tiny_patch16_224",
                Layout::Timm,
                &["deit_tiny_patch16_224"][..],
            ),
            (
                "deit_tiny_distilled_patch16_384",
                Layout::Timm,
                &["deit_tiny_distilled_patch16_384"],
            ),
            (
                "vit_small_patch32_224",
                Layout::Timm,
                &["vit_small_patch32_224"],
            ),
            (
                "vit_tiny_patch16_384",
                Layout::Timm,
                &["deit_tiny_patch16_384"],
            ),
            ("pit_xs_224", Layout::Official, &["pit_xs_224"]),
            (
                "swin_tiny_patch4_window7_224",
                Layout::Official,
                &["swin_tiny_patch4_window7_224"],
            ),
            // Nothing that is stored depends on the size of the images.
            ("cvt_13", Layout::Official, &["cvt_13", "cvt_13_384"]),
            // Its positions are in the file, but are not parameters.
            ("so_vit_7", Layout::Official, &["so_vit_7"]),
            // State that is saved but not trained is not a parameter.
            ("t2t_vit_7", Layout::Official, &["t2t_vit_7"]),
            ("twins_svt_small", Layout::Timm, &["twins_svt_small"]),
        ] {
            let mut weights = weights(name, layout);
            assert_eq!(identify(&weights).unwrap(), expected, "{name}");
            let Recognised { classes, .. } = recognise(&weights).unwrap();
            assert_eq!(classes, Some(7));
            weights.insert("another", TensorData::new(vec![0.0f32; 3], [3]));
            assert_eq!(identify(&weights).unwrap(), [""; 0], "{name}");
        }
        assert_eq!(identify(&StateDict::default()).unwrap(), [""; 0]);
    }
    #[test]
    fn another_model_under_the_same_names_is_told() {
        let mut weights = weights("deit_tiny_patch16_224", Layout::Timm);
        let norm = weights.get("norm.weight").unwrap().clone();
        weights.insert("blocks.0.mlp.norm.weight", norm);
        let error = identify(&weights).unwrap_err().to_string();
        assert!(
            error.contains("`blocks.0.mlp.norm.weight`")
                && error.contains("a norm within its MLPs"),
            "{error}"
        );
    }
}
