//! How timm prepares the images of weights, by their name.

use toml::{Table, Value};

use super::keys;
use kvt_train::fetch::Published;

/// Mean and standard deviation.
type Levels = ([f64; 3], [f64; 3]);

/// timm's `IMAGENET_INCEPTION_MEAN` and `_STD`, used for `vit_*` with Google's weights.
const HALF: Levels = ([0.5; 3], [0.5; 3]);
/// `OPENAI_CLIP_MEAN` and `_STD`.
const CLIP: Levels = (
    [0.48145466, 0.4578275, 0.40821073],
    [0.26862954, 0.26130258, 0.27577711],
);
/// `IMAGENET_DEFAULT_MEAN` and `_STD`.
const IMAGENET: Levels = ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]);
/// Of DINOv3's weights for pictures from satellites.
const SATELLITE: Levels = ([0.43, 0.411, 0.296], [0.213, 0.156, 0.143]);

/// What is so for names that have all of some parts; the first rule that fits counts.
type Rules<T> = [(&'static [&'static str], T)];

const LEVELS: &Rules<Levels> = &[
    (&[".sat493m"], SATELLITE),
    (&["_dinov"], IMAGENET),
    (&["_large_", "_clip_", ".laion2b"], HALF),
    (&["_clip_"], CLIP),
    (&[".bamboo"], CLIP),
    (&[".dino"], IMAGENET),
    (&[".mae"], IMAGENET),
    (&[".ijepa"], IMAGENET),
];

const CROP_PCT: &Rules<f64> = &[
    (&["_dinov"], 1.0),
    (&[".bamboo"], 1.0),
    (&["_large_", "_clip_"], 1.0),
    (&["_clip_384.openai_ft_in12k"], 0.95),
    (&["_clip_384"], 1.0),
    (&["_clip_", "_in12k_in1k"], 0.95),
    (&["_clip_", ".openai"], 0.9),
    (&["_clip_", ".laion2b_ft_in12k"], 0.9),
    (&["_clip_"], 1.0),
    (&["_siglip_", ".webli_ft"], 1.0),
    (&["_so400m_patch14_siglip_gap_378.webli"], 1.0),
    (&["_siglip_"], 0.9),
    (&["_gap_"], 0.95),
    (&["deit3_", ".fb_in22k"], 1.0),
    (&["volo_", "_224"], 0.96),
    (&["volo_d4_"], 1.15),
    (&["volo_d5_"], 1.15),
    (&["volo_"], 1.0),
    (&["_384"], 1.0),
    (&[], 0.9),
];

/// Whose images are squashed to a square instead of cut.
const SQUASHED: &Rules<()> = &[
    (&["_clip_384"], ()),
    (&["_clip_336", "_ft_"], ()),
    (&["_siglip_", ".webli_ft"], ()),
];

fn rule<T: Copy>(rules: &Rules<T>, name: &str) -> Option<T> {
    let mut rules = rules.iter();
    let found = rules.find(|(parts, _)| parts.iter().all(|part| name.contains(part)));
    found.map(|&(_, value)| value)
}

/// The keys of `[augment]` for weights of a name of timm's, `MODEL.TAG` or a model alone for timm's default of it, and the whole name;
/// `None` if timm has no such name. Any `vit_*` counts as a name of timm's.
pub(super) fn of_name(name: &str) -> Option<(Table, String)> {
    let name = match Published::find(name) {
        Ok(known) => known.name(),
        Err(_) if name.starts_with("vit_") => name.to_owned(),
        Err(_) => return None,
    };
    let usual = if name.starts_with("vit_") || name.starts_with("tnt_") {
        HALF
    } else {
        IMAGENET
    };
    let (mean, std) = rule(LEVELS, &name).unwrap_or(usual);
    let list = |three: [f64; 3]| Value::from(three.to_vec());
    let mut keys = keys([("mean", list(mean)), ("std", list(std))]);
    if let Some(crop_pct) = rule(CROP_PCT, &name) {
        keys.insert("crop_pct".to_owned(), crop_pct.into());
    }
    if rule(SQUASHED, &name).is_some() {
        keys.insert("crop_mode".to_owned(), "squash".into());
    }
    Some((keys, name))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use std::collections::BTreeSet;

    use kvt_models::{aliases, names};
    use serde_json::Value as Json;

    use super::*;

    /// `scripts/reference/input.py` asks timm about each model and all weights that have a name here.
    #[test]
    fn each_name_has_timms_input() {
        let golden: Json =
            serde_json::from_str(include_str!("../../tests/golden/input.json")).unwrap();
        let list = |value: &Json| -> Vec<String> {
            let all = value.as_array().unwrap().iter();
            all.map(|name| name.as_str().unwrap().to_owned()).collect()
        };
        let mut seen = BTreeSet::new();
        for group in golden["groups"].as_array().unwrap() {
            let json = |value: &Value| serde_json::to_value(value).unwrap();
            for name in list(&group["names"]) {
                let (keys, _) = of_name(&name).unwrap();
                for key in ["mean", "std", "crop_pct"] {
                    assert_eq!(json(&keys[key]), group[key], "{name}: {key}");
                }
                let mode = keys.get("crop_mode").map_or("center".into(), json);
                assert_eq!(mode, group["crop_mode"], "{name}");
                // The default of the key, which no name changes.
                assert_eq!(group["interpolation"], "bicubic", "{name}");
                seen.insert(name);
            }
        }
        for name in list(&golden["none"]) {
            assert!(
                of_name(&name).is_none() || name.starts_with("vit_"),
                "{name}"
            );
            seen.insert(name);
        }
        let models = names().into_iter();
        let models = models.chain(aliases().into_iter().map(|(alias, _)| alias));
        let all: BTreeSet<String> = models
            .chain(Published::all().map(Published::name))
            .collect();
        assert_eq!(seen, all);
    }

    #[test]
    fn a_model_alone_has_timms_default_of_it() {
        let (keys, name) = of_name("vit_base_patch16_clip_224").unwrap();
        assert_eq!(name, "vit_base_patch16_clip_224.laion2b_ft_in12k_in1k");
        assert_eq!(keys["crop_pct"], Value::from(0.95));
        // Of someone else.
        let (keys, name) = of_name("vit_tiny_patch16_384.mine").unwrap();
        assert_eq!(name, "vit_tiny_patch16_384.mine");
        assert_eq!(keys["crop_pct"], Value::from(1.0));
        assert!(of_name("deit_small_patch16_224-cd65a155").is_none());
    }
}
