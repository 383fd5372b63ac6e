//! The layers of layer-wise learning rates, as timm groups parameters.

use std::collections::BTreeMap;

use kvt_models::{Model, ModelOverrides, Network};
use serde_json::Value;

use crate::cases::folder;
use crate::small::{build, families, small};

fn found(model: &Model) -> BTreeMap<String, usize> {
    let parameters = model.parameters();
    parameters
        .into_iter()
        .map(|parameter| (parameter.name.clone(), model.layer(&parameter)))
        .collect()
}

/// Written by `scripts/reference/layer_decay.py`.
#[test]
fn layers_are_timms() {
    let file = fs_err::read_to_string(folder().join("layer_decay.json")).unwrap();
    let file: Value = serde_json::from_str(&file).unwrap();
    let cases = file["cases"].as_object().unwrap();
    assert_eq!(cases.len(), 14);
    for (case, golden) in cases {
        let overrides: ModelOverrides =
            serde_json::from_value(golden["overrides"].clone()).unwrap();
        let model = build(golden["model"].as_str().unwrap(), &overrides);
        let expected: BTreeMap<String, usize> =
            serde_json::from_value(golden["of"].clone()).unwrap();
        assert_eq!(found(&model), expected, "{case}");
        assert_eq!(
            Some(model.layers() as u64),
            golden["layers"].as_u64(),
            "{case}"
        );
    }
}

/// timm has no T2T-ViT: by hand, with ViT's rule. All modules that make tokens belong to the embedding.
#[test]
fn the_layers_of_a_t2t_vit() {
    let (_, overrides) = families()
        .into_iter()
        .find(|(name, _)| *name == "t2t_vit_t_14")
        .unwrap();
    let overrides = small(ModelOverrides {
        depth: Some(2.into()),
        ..overrides
    });
    for (name, projection) in [("t2t_vit_t_14", "attn.proj"), ("t2t_vit_14", "proj")] {
        let model = build(name, &overrides);
        assert_eq!(model.layers(), 4, "{name}");
        let of = found(&model);
        assert!(!of.contains_key("pos_embed"), "{name}");
        for (parameter, layer) in [
            ("cls_token", 0),
            ("tokens_to_token.attention1.norm1.weight", 0),
            (
                &format!("tokens_to_token.attention2.{projection}.weight"),
                0,
            ),
            ("tokens_to_token.project.weight", 0),
            ("blocks.0.attn.qkv.weight", 1),
            ("blocks.1.mlp.fc1.bias", 2),
            ("norm.weight", 2),
            ("head.weight", 3),
        ] {
            assert_eq!(of.get(parameter), Some(&layer), "{name} {parameter}");
        }
    }
}

/// timm has no CvT: by hand, with Swin's rule.
#[test]
fn the_layers_of_a_cvt() {
    let (name, overrides) = families()
        .into_iter()
        .find(|(name, _)| *name == "cvt_13")
        .unwrap();
    let overrides = ModelOverrides {
        depth: Some(vec![2, 1].into()),
        img_size: Some(16.into()),
        ..overrides
    };
    let model = build(name, &overrides);
    assert_eq!(model.layers(), 5);
    let of = found(&model);
    for (parameter, layer) in [
        ("stage0.patch_embed.proj.weight", 0),
        ("stage0.blocks.0.attn.proj.weight", 1),
        ("stage0.blocks.1.mlp.fc1.bias", 2),
        ("stage1.patch_embed.proj.weight", 3),
        ("stage1.cls_token", 3),
        ("stage1.blocks.0.norm1.weight", 3),
        ("norm.weight", 3),
        ("head.weight", 4),
    ] {
        assert_eq!(of.get(parameter), Some(&layer), "{parameter}");
    }
}
