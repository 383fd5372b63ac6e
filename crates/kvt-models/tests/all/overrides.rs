//! The settings that a run can change in each family.

use kvt_attention::{AttentionConfig, Neighbors};
use kvt_models::vit::Pool;
use kvt_models::{ModelConfig, ModelError, ModelOverrides};

/// A model of each family, and the name of the family in messages.
const FAMILIES: &[(&str, &str)] = &[
    ("deit_tiny_patch16_224", "ViT"),
    ("swin_tiny_patch4_window7_224", "Swin"),
    ("pit_ti_224", "PiT"),
    ("cvt_13", "CvT"),
    ("t2t_vit_t_14", "T2T-ViT"),
    ("tnt_s_patch16_224", "TNT"),
    ("so_vit_7", "So-ViT"),
    ("visformer_tiny", "Visformer"),
    ("twins_svt_small", "Twins"),
    ("volo_d1_224", "VOLO"),
];

/// The families whose queries, keys and values have no bias by default.
const UNBIASED: &[&str] = &["T2T-ViT", "TNT", "So-ViT", "VOLO"];

/// Strides that differ from the family's own, one for each of its steps.
fn strides(family: &str) -> Vec<usize> {
    match family {
        "T2T-ViT" => vec![2, 2, 1],
        "So-ViT" => vec![2, 1, 1],
        "Visformer" => vec![2, 2, 2, 2],
        "Twins" => vec![7, 2, 2, 1],
        _ => vec![2, 2],
    }
}

/// Which families take a key.
enum Takes {
    All,
    But(&'static [&'static str]),
    Only(&'static [&'static str]),
}

impl Takes {
    fn includes(&self, family: &str) -> bool {
        match self {
            Self::All => true,
            Self::But(others) => !others.contains(&family),
            Self::Only(families) => families.contains(&family),
        }
    }
}

/// Every key with a value that differs from that of the family's models, and the families that take it.
fn keys(family: &str) -> Vec<(&'static str, ModelOverrides, Takes)> {
    macro_rules! key {
        ($key:ident, $value:expr, $takes:expr) => {{
            let overrides = ModelOverrides {
                $key: $value,
                ..ModelOverrides::default()
            };
            (stringify!($key), overrides, $takes)
        }};
    }
    use Takes::{All, But, Only};
    let knn = AttentionConfig::knn(Neighbors::count(5).unwrap());
    vec![
        key!(img_size, Some(448.into()), All),
        key!(
            patch_size,
            Some(8),
            Only(&["ViT", "Swin", "PiT", "CvT", "TNT"])
        ),
        key!(patch_stride, Some(2), Only(&["PiT", "CvT"])),
        key!(
            strides,
            Some(strides(family)),
            Only(&["T2T-ViT", "So-ViT", "Visformer", "Twins", "VOLO"])
        ),
        key!(window_size, Some(14.into()), Only(&["Swin", "Twins"])),
        key!(kv_stride, Some(1), Only(&["CvT"])),
        key!(sr_ratio, Some(2.into()), Only(&["Twins"])),
        key!(token_dim, Some(32), Only(&["T2T-ViT"])),
        key!(inner_dim, Some(12), Only(&["TNT"])),
        key!(inner_num_heads, Some(2), Only(&["TNT"])),
        key!(inner_stride, Some(2), Only(&["TNT"])),
        key!(stem_dim, Some(16), Only(&["VOLO"])),
        key!(pool, Some(Pool::Mean), Only(&["ViT"])),
        key!(cov_dims, Some([12, 8]), Only(&["So-ViT"])),
        key!(head_drop, Some(0.2), Only(&["So-ViT"])),
        key!(embed_dim, Some(768.into()), All),
        key!(depth, Some(4.into()), All),
        key!(num_heads, Some(1.into()), All),
        key!(mlp_ratio, Some(3.5), All),
        key!(in_chans, Some(1), All),
        key!(num_classes, Some(10), All),
        key!(
            qkv_bias,
            Some(UNBIASED.contains(&family)),
            But(&["Visformer"])
        ),
        key!(drop_path, Some(0.1), All),
        key!(attn_drop, Some(0.1), All),
        key!(attention, Some(knn.clone()), All),
        key!(class_attention, Some(knn), Only(&["VOLO"])),
    ]
}

/// No key is ignored: a family takes it, or refuses it.
#[test]
fn every_key_changes_a_model_or_is_refused() {
    for &(model, family) in FAMILIES {
        for (field, overrides, takes) in keys(family) {
            let config = ModelConfig::by_name(model).unwrap();
            let changed = config.clone().with(&overrides);
            if !takes.includes(family) {
                let error = changed.unwrap_err();
                assert_eq!(error, ModelError::NotApplicable { field, family });
                let message = format!("`{field}` does not apply to {family}: remove it");
                assert_eq!(error.to_string(), message);
            } else {
                assert_ne!(changed.unwrap(), config, "{field} of {family}");
            }
        }
    }
}
