//! The named models that weights fit.

use super::weight_names::{family_of, layout};
use crate::ModelConfig;
use crate::family::families::{FAMILIES, aliased, named};
use crate::family::model_keys::ModelOverrides;
use crate::family::{Family, Renaming};
use crate::vit::VitConfig;
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
        // A variant may lack what its family is recognised by.
        let mut families = FAMILIES.iter();
        families.try_for_each(|family| family.check_variant(weights))?;
        return Ok(Vec::new());
    };
    family.check_variant(weights)?;
    let numbers = numbers_of(weights, family);
    let fits = |config: &ModelConfig| {
        config.family().name == family.name
            && backbone_numbers(config) == Some(numbers)
            && is_alike(config, weights)
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

/// The named model from which weights of a known family differ least: only in sizes and in what its head reads, which keys of the
/// configuration change, and of such models, those with the same pool first, the one whose number of parameters is nearest. `None`
/// for an unknown family.
///
/// # Errors
///
/// [`WeightsError::NoModel`] if they differ from all in more.
pub fn nearest(weights: &StateDict) -> Result<Option<String>, WeightsError> {
    let Some(family) = family_of(weights) else {
        return Ok(None);
    };
    let numbers = numbers_of(weights, family);
    let mut models = named();
    models.retain(|config| config.family().name == family.name);
    let alike = models.iter().filter(|config| is_alike(config, weights));
    // One with another pool only if there is none with the same.
    let distance = |config: &&ModelConfig| {
        let distance = backbone_numbers(config).map(|own| own.abs_diff(numbers));
        let vit = config.vit();
        let pools_like = vit.is_none_or(|vit| vit.pools_like(weights));
        (!pools_like, distance.unwrap_or(usize::MAX))
    };
    match alike.min_by_key(distance) {
        Some(config) => Ok(Some(config.name())),
        None => {
            let vit = models.first().and_then(ModelConfig::vit);
            let parts = vit.map(|_| VitConfig::parts(weights));
            Err(WeightsError::NoModel {
                family: family.name,
                parts: parts.unwrap_or_default(),
            })
        }
    }
}

/// Whether weights are of a model that differs only in sizes and in its pool, as far as their names tell.
fn is_alike(config: &ModelConfig, weights: &StateDict) -> bool {
    config.vit().is_none_or(|vit| vit.is_alike(weights))
}

/// The numbers of weights outside the classifier.
fn numbers_of(weights: &StateDict, family: &Family) -> usize {
    let names = match layout(family, weights) {
        Layout::Timm => Renaming::NONE,
        Layout::Official => family.official.names,
    };
    let is_parameter = |name: &str| {
        let is_statistic = name.ends_with(".running_mean") || name.ends_with(".running_var");
        !(is_statistic || family.is_computed(name) || family.is_of_head(name))
    };
    let numbers = weights
        .iter()
        .filter(|(name, _)| is_parameter(&names.own(name)));
    numbers.map(|(_, data)| data.num_elements()).sum()
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
    use crate::vit::Pool;
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

    /// Of a custom size: the nearest model of the same parts, also if its head reads something else. Parts that no named model has
    /// together are named.
    #[test]
    fn the_nearest_model_has_the_same_parts() {
        let small = |name: &str, pool| {
            let overrides = ModelOverrides {
                img_size: Some(64.into()),
                depth: Some(1.into()),
                num_classes: Some(7),
                pool,
                ..ModelOverrides::default()
            };
            let config = ModelConfig::by_name(name).unwrap().with(&overrides);
            let model = config.unwrap().init(&Device::flex(), Key::new(1)).unwrap();
            StateDict::from_model(&model).unwrap()
        };
        for (name, pool, expected) in [
            ("deit_small_patch16_224", None, "deit_tiny_patch16_224"),
            (
                "vit_little_patch16_reg4_gap_256",
                None,
                "vit_little_patch16_reg4_gap_256",
            ),
            (
                "vit_base_patch16_clip_224",
                Some(Pool::Attention),
                "vit_base_patch16_clip_224",
            ),
            (
                "vit_base_patch16_siglip_224",
                None,
                "vit_base_patch16_siglip_224",
            ),
            (
                "vit_base_patch16_siglip_gap_224",
                None,
                "vit_base_patch16_siglip_gap_224",
            ),
            ("cvt_13", None, "cvt_13"),
        ] {
            let weights = small(name, pool);
            assert_eq!(identify(&weights).unwrap(), [""; 0], "{name}");
            assert_eq!(nearest(&weights).unwrap().unwrap(), expected, "{name}");
        }
        let mut weights = small("deit_small_patch16_224", None);
        for name in ["blocks.0.attn.q_norm.weight", "reg_token"] {
            weights.insert(name, TensorData::zeros::<f32, _>([1, 1, 64]));
        }
        assert_eq!(
            nearest(&weights).unwrap_err().to_string(),
            "the weights are of a ViT with register tokens, that normalises queries and keys: no model of `kvt models list` has \
             these parts together, so kvt cannot load them"
        );
        assert_eq!(nearest(&StateDict::default()).unwrap(), None);
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
        // EVA-02's larger models lack what a ViT is recognised by.
        let is_joint = |name: &str| name.contains(".attn.qkv.");
        let others = weights.into_iter().filter(|(name, _)| !is_joint(name));
        let mut weights: StateDict = others.collect();
        assert!(identify(&weights).is_err());
        let others = weights.into_iter();
        weights = others
            .filter(|(name, _)| !name.contains(".mlp.norm."))
            .collect();
        assert_eq!(identify(&weights).unwrap(), [""; 0]);
        let proj = TensorData::zeros::<f32, _>([192, 192]);
        weights.insert("blocks.0.attn.q_proj.weight", proj);
        let error = identify(&weights).unwrap_err().to_string();
        assert!(error.contains("as EVA-02 has them"), "{error}");
    }
}
