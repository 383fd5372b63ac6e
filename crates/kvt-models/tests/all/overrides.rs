//! What each family lets a run change.

use kvt_attention::{AttentionConfig, Neighbors};
use kvt_models::{ModelConfig, ModelError, ModelOverrides};

/// A name of each family, and what messages call the family.
const FAMILIES: [(&str, &str); 5] = [
    ("deit_tiny_patch16_224", "DeiT"),
    ("swin_tiny_patch4_window7_224", "Swin"),
    ("pit_ti_224", "PiT"),
    ("cvt_13", "CvT"),
    ("t2t_vit_t_14", "T2T-ViT"),
];

/// Families whose queries, keys and values have no bias unless they are told to.
const WITHOUT_BIAS: &[&str] = &["T2T-ViT"];

/// Every key with a value that is not the model's own, and the families that do not have it.
fn keys(qkv_bias: bool) -> Vec<(&'static str, ModelOverrides, &'static [&'static str])> {
    macro_rules! key {
        ($key:ident, $value:expr, $refused:expr) => {{
            let overrides = ModelOverrides {
                $key: $value,
                ..ModelOverrides::default()
            };
            (stringify!($key), overrides, $refused as &[&str])
        }};
    }
    let knn = AttentionConfig::knn(Neighbors::count(5).unwrap());
    vec![
        key!(img_size, Some(448), &[]),
        key!(patch_size, Some(8), &["T2T-ViT"]),
        key!(patch_stride, Some(2), &["DeiT", "Swin", "T2T-ViT"]),
        key!(window_size, Some(14), &["DeiT", "PiT", "CvT", "T2T-ViT"]),
        key!(kv_stride, Some(1), &["DeiT", "Swin", "PiT", "T2T-ViT"]),
        key!(
            strides,
            Some(vec![2, 2, 1]),
            &["DeiT", "Swin", "PiT", "CvT"]
        ),
        key!(token_dim, Some(32), &["DeiT", "Swin", "PiT", "CvT"]),
        key!(embed_dim, Some(768.into()), &[]),
        key!(depth, Some(4.into()), &[]),
        key!(num_heads, Some(1.into()), &[]),
        key!(mlp_ratio, Some(2.0), &[]),
        key!(in_chans, Some(1), &[]),
        key!(num_classes, Some(10), &[]),
        key!(qkv_bias, Some(qkv_bias), &[]),
        key!(drop_path, Some(0.1), &[]),
        key!(attn_drop, Some(0.1), &[]),
        key!(attention, Some(knn), &[]),
    ]
}

/// No key is ignored: a family takes it, or says that it does not.
#[test]
fn every_key_changes_a_model_or_is_refused() {
    for (model, family) in FAMILIES {
        for (field, overrides, refused) in keys(WITHOUT_BIAS.contains(&family)) {
            let config = ModelConfig::by_name(model).unwrap();
            let changed = config.clone().with(&overrides);
            if refused.contains(&family) {
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
