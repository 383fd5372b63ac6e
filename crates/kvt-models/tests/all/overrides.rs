//! What each family lets a run change.

use kvt_attention::{AttentionConfig, Neighbors};
use kvt_models::{ModelConfig, ModelError, ModelOverrides};

/// A name of each family, and what messages call the family.
const FAMILIES: [(&str, &str); 6] = [
    ("deit_tiny_patch16_224", "DeiT"),
    ("swin_tiny_patch4_window7_224", "Swin"),
    ("pit_ti_224", "PiT"),
    ("cvt_13", "CvT"),
    ("tnt_s_patch16_224", "TNT"),
    ("visformer_tiny", "Visformer"),
];

/// Every key with a value that is not the own value of the family's models, and the families that do not have it.
fn keys(family: &str) -> Vec<(&'static str, ModelOverrides, &'static [&'static str])> {
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
        key!(patch_size, Some(8), &["Visformer"]),
        key!(patch_stride, Some(2), &["DeiT", "Swin", "TNT", "Visformer"]),
        key!(
            window_size,
            Some(14),
            &["DeiT", "PiT", "CvT", "TNT", "Visformer"]
        ),
        key!(
            kv_stride,
            Some(1),
            &["DeiT", "Swin", "PiT", "TNT", "Visformer"]
        ),
        key!(
            strides,
            Some(vec![2, 2, 2, 2]),
            &["DeiT", "Swin", "PiT", "CvT", "TNT"]
        ),
        key!(
            inner_dim,
            Some(12),
            &["DeiT", "Swin", "PiT", "CvT", "Visformer"]
        ),
        key!(
            inner_num_heads,
            Some(2),
            &["DeiT", "Swin", "PiT", "CvT", "Visformer"]
        ),
        key!(
            inner_stride,
            Some(2),
            &["DeiT", "Swin", "PiT", "CvT", "Visformer"]
        ),
        key!(embed_dim, Some(768.into()), &[]),
        key!(depth, Some(4.into()), &[]),
        key!(num_heads, Some(1.into()), &[]),
        key!(mlp_ratio, Some(3.0), &[]),
        key!(in_chans, Some(1), &[]),
        key!(num_classes, Some(10), &[]),
        key!(qkv_bias, Some(family == "TNT"), &["Visformer"]),
        key!(drop_path, Some(0.1), &[]),
        key!(attn_drop, Some(0.1), &[]),
        key!(attention, Some(knn), &[]),
    ]
}

/// No key is ignored: a family takes it, or says that it does not.
#[test]
fn every_key_changes_a_model_or_is_refused() {
    for (model, family) in FAMILIES {
        for (field, overrides, refused) in keys(family) {
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
