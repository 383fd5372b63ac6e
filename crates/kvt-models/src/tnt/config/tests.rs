#![expect(clippy::unwrap_used, reason = "tests")]

use kvt_attention::{Neighbors, Place};

use super::*;
use crate::testing::{self, knn, with};

fn named(name: &str) -> TntConfig {
    testing::named(name)
}

#[test]
fn parameters_are_those_timm_counts() {
    // timm, `sum(p.numel() for p in model.parameters())`.
    for (name, params) in [
        ("tnt_s_patch16_224", 23_768_584),
        ("tnt_b_patch16_224", 65_428_680),
        ("tnt_s_legacy_patch16_224", 23_755_336),
    ] {
        assert_eq!(named(name).summary().params, params, "{name}");
    }
}

#[test]
fn operations_are_those_of_timms_layers() {
    // By hand: 196 patches of 16 pixels, 12 blocks.
    let attention = |dim: u64, inner: u64| {
        let outer = 2 * 197 * 197 * dim;
        12 * (outer + 196 * 2 * 16 * 16 * inner)
    };
    // Counted in timm's model: inputs of linear layers, outputs of convolutions.
    for (name, linear, dim, inner) in [
        ("tnt_s_patch16_224", 4_830_309_888, 384, 24),
        ("tnt_b_patch16_224", 13_404_807_680, 640, 40),
        // The same sizes at the same places.
        ("tnt_s_legacy_patch16_224", 4_830_309_888, 384, 24),
    ] {
        let macs = named(name).summary().macs;
        assert_eq!(macs.linear, linear, "{name}");
        assert_eq!(macs.attention, attention(dim, inner), "{name}");
    }
}

#[test]
fn inner_and_outer_attention_have_their_own_k() {
    let overrides = knn(vec![Neighbors::All, Neighbors::fraction(0.5).unwrap()]);
    let summary = with("tnt_s_patch16_224", &overrides).unwrap().summary();
    let stages = summary.stages.iter();
    let stages: Vec<_> = stages.map(|s| (s.name.as_str(), s.keys, s.k)).collect();
    assert_eq!(stages, [("inner", 16, 16), ("outer", 197, 98)]);

    let three = knn(vec![Neighbors::All; 3]);
    assert_eq!(
        with("tnt_s_patch16_224", &three).unwrap_err().to_string(),
        "`neighbors` has 3 entries, but the model has 2 stages (`inner` with 16 keys, `outer` with 197 keys): give one \
         entry for all stages, or one per stage"
    );
}

#[test]
fn sizes_are_free() {
    let overrides = ModelOverrides {
        img_size: Some(32.into()),
        patch_size: Some(4),
        embed_dim: Some(96.into()),
        depth: Some(3.into()),
        num_heads: Some(4.into()),
        inner_dim: Some(12),
        inner_num_heads: Some(2),
        inner_stride: Some(1),
        num_classes: Some(10),
        ..ModelOverrides::default()
    };
    let config = with("tnt_s_patch16_224", &overrides).unwrap();
    assert_eq!(config.name(), "tnt_96-12x3_patch4_32");
    let summary = config.summary();
    // timm, with these arguments.
    assert_eq!(summary.params, 425_794);
    let tokens: Vec<_> = summary.stages.iter().map(|s| s.tokens).collect();
    assert_eq!(tokens, [16, 65]);
}

#[test]
fn sizes_that_describe_no_model_are_refused() {
    let refuse =
        |name: &str, overrides: ModelOverrides| with(name, &overrides).unwrap_err().to_string();
    let default = ModelOverrides::default;
    for (overrides, message) in [
        (
            ModelOverrides {
                img_size: Some(225.into()),
                ..default()
            },
            "`img_size` 225 is not a multiple of `patch_size` 16: the nearest multiples are 224 and 240",
        ),
        (
            ModelOverrides {
                inner_num_heads: Some(5),
                ..default()
            },
            "`inner_dim` 24 is not a multiple of `inner_num_heads` 5: every head needs the same number of channels",
        ),
        (
            ModelOverrides {
                num_heads: Some(5.into()),
                ..default()
            },
            "in `outer`: `embed_dim` 384 is not a multiple of `num_heads` 5: every head needs the same number of \
             channels",
        ),
        (
            ModelOverrides {
                inner_stride: Some(0),
                ..default()
            },
            "`inner_stride` is 0: expected at least 1",
        ),
        (
            ModelOverrides {
                depth: Some(vec![1, 2].into()),
                ..default()
            },
            "`depth` has 2 entries: expected one number",
        ),
    ] {
        assert_eq!(refuse("tnt_s_patch16_224", overrides), message);
    }
    let coarse = || ModelOverrides {
        inner_stride: Some(3),
        ..default()
    };
    assert_eq!(
        refuse("tnt_s_legacy_patch16_224", coarse()),
        "`patch_size` 16 is not a multiple of `inner_stride` 3: a legacy TNT cuts the convolved image into patches"
    );
    let coarse = with("tnt_s_patch16_224", &coarse()).unwrap().summary();
    assert_eq!(coarse.stages[0].tokens, 36);
}

#[test]
fn attention_knows_where_it_stands() {
    let mut config = named("tnt_b_patch16_224");
    config.common.attn_drop = 0.25;
    let place = |tokens, heads, head_dim, prefix, side| Place {
        queries: tokens,
        keys: tokens,
        heads,
        head_dim,
        prefix,
        grid: Some([side, side]),
        bias: false,
        mask: false,
        dropout: 0.25,
        softmax_only: None,
    };
    let inner = config.inner().place;
    assert!(inner.softmax_only.is_some());
    let softmax_only = inner.softmax_only;
    assert_eq!(
        inner,
        Place {
            softmax_only,
            ..place(16, 4, 10, 0, 4)
        }
    );
    assert_eq!(config.outer().place, place(197, 10, 64, 1, 14));
}
