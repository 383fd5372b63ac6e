//! What each family lets a run change.

use kvt_attention::{AttentionConfig, Neighbors};
use kvt_models::{ModelConfig, ModelError, ModelOverrides};

/// A name of each family, and what messages call the family.
const FAMILIES: [(&str, &str); 5] = [
    ("deit_tiny_patch16_224", "DeiT"),
    ("swin_tiny_patch4_window7_224", "Swin"),
    ("pit_ti_224", "PiT"),
    ("cvt_13", "CvT"),
    ("twins_svt_small", "Twins"),
];

/// Every key with a value that is no model's own, and the families that do not have it.
fn keys() -> Vec<(&'static str, ModelOverrides, &'static [&'static str])> {
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
        key!(patch_size, Some(8), &["Twins"]),
        key!(patch_stride, Some(2), &["DeiT", "Swin", "Twins"]),
        key!(
            strides,
            Some(vec![7, 2, 2, 1]),
            &["DeiT", "Swin", "PiT", "CvT"]
        ),
        key!(window_size, Some(14.into()), &["DeiT", "PiT", "CvT"]),
        key!(sr_ratio, Some(2.into()), &["DeiT", "Swin", "PiT", "CvT"]),
        key!(kv_stride, Some(1), &["DeiT", "Swin", "PiT", "Twins"]),
        key!(embed_dim, Some(384.into()), &[]),
        key!(depth, Some(4.into()), &[]),
        key!(num_heads, Some(1.into()), &[]),
        key!(mlp_ratio, Some(3.0), &[]),
        key!(in_chans, Some(1), &[]),
        key!(num_classes, Some(10), &[]),
        key!(qkv_bias, Some(false), &[]),
        key!(drop_path, Some(0.1), &[]),
        key!(attn_drop, Some(0.1), &[]),
        key!(attention, Some(knn), &[]),
    ]
}

/// No key is ignored: a family takes it, or says that it does not.
#[test]
fn every_key_changes_a_model_or_is_refused() {
    for (model, family) in FAMILIES {
        for (field, overrides, refused) in keys() {
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
