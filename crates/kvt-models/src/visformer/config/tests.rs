#![expect(clippy::unwrap_used, reason = "tests")]

use kvt_attention::{Neighbors, Place};

use super::*;
use crate::testing::{self, knn, with};

fn named(name: &str) -> VisformerConfig {
    testing::named(name)
}

/// 32 px: maps of 16, 8 and 4 tokens.
fn small() -> ModelOverrides {
    ModelOverrides {
        img_size: Some(32.into()),
        strides: Some(vec![0, 2, 2, 2]),
        embed_dim: Some(vec![32, 64, 128].into()),
        depth: Some(vec![2, 1, 1].into()),
        num_heads: Some(vec![2, 4].into()),
        num_classes: Some(10),
        ..ModelOverrides::default()
    }
}

#[test]
fn parameters_and_operations_are_those_of_timm() {
    for (name, params, linear) in [
        ("visformer_tiny", 10_321_368, 1_201_597_440),
        ("visformer_small", 40_219_592, 4_746_614_784),
    ] {
        let summary = named(name).summary();
        assert_eq!(summary.params, params, "{name}");
        // Counted in timm's model: inputs of linear layers, outputs of convolutions.
        assert_eq!(summary.macs.linear, linear, "{name}");
    }
    let attention = named("visformer_tiny").summary().macs.attention;
    assert_eq!(attention, 4 * 2 * (196 * 196 * 192 + 49 * 49 * 384));
}

#[test]
fn two_stages_have_neighbors() {
    let count = |k| Neighbors::count(k).unwrap();
    let config = with("visformer_tiny", &knn(vec![count(150), count(45)])).unwrap();
    let stages = config.summary().stages;
    let stages: Vec<_> = stages
        .iter()
        .map(|s| (s.name.as_str(), s.tokens, s.keys, s.k))
        .collect();
    assert_eq!(
        stages,
        [
            ("stage1", 784, 0, 0),
            ("stage2", 196, 196, 150),
            ("stage3", 49, 49, 45)
        ]
    );
    assert_eq!(
        with("visformer_tiny", &knn(vec![count(1); 3]))
            .unwrap_err()
            .to_string(),
        "`neighbors` has 3 entries, but the model has 2 stages (`stage2` with 196 keys, `stage3` with 49 keys): give one \
         entry for all stages, or one per stage"
    );
}

#[test]
fn strides_are_free() {
    let config = with("visformer_tiny", &small()).unwrap();
    assert_eq!(config.name(), "visformer_32-64-128x2-1-1_stride0-2-2-2_32");
    let stages = config.summary().stages;
    let tokens: Vec<_> = stages.iter().map(|s| s.tokens).collect();
    assert_eq!(tokens, [256, 64, 16]);
    // The strides ignore remainders at the right and bottom.
    let odd = ModelOverrides {
        img_size: Some(37.into()),
        ..small()
    };
    let stages = with("visformer_tiny", &odd).unwrap().summary().stages;
    let tokens: Vec<_> = stages.iter().map(|s| s.tokens).collect();
    assert_eq!(tokens, [18 * 18, 81, 16]);
}

#[test]
fn the_least_image_leaves_a_token() {
    for strides in [[2, 4, 2, 2], [0, 2, 2, 2], [3, 1, 2, 5], [1, 3, 1, 1]] {
        let grid = |img_size: usize| {
            let mut config = named("visformer_tiny");
            config.strides = strides;
            config.common.img_size = img_size.into();
            config.stages()[2].grid
        };
        let mut config = named("visformer_tiny");
        config.strides = strides;
        let [least, _] = config.input_sides();
        assert_eq!((grid(least), grid(least - 1)), (1, 0), "{strides:?}");
    }
}

#[test]
fn sizes_that_describe_no_model_are_refused() {
    let refuse =
        |overrides: ModelOverrides| with("visformer_tiny", &overrides).unwrap_err().to_string();
    for (overrides, message) in [
        (
            ModelOverrides {
                img_size: Some(30.into()),
                ..ModelOverrides::default()
            },
            "`img_size` 30 is too small for Visformer with such strides: the least is 31",
        ),
        (
            ModelOverrides {
                strides: Some(vec![2, 2, 2]),
                ..small()
            },
            "`strides` has 3 entries: expected 4, of the stem (0 for no stem) and three patch embeddings",
        ),
        (
            ModelOverrides {
                strides: Some(vec![2, 0, 2, 2]),
                ..small()
            },
            "`strides` is 0: expected at least 1",
        ),
        (
            ModelOverrides {
                depth: Some(vec![1, 1].into()),
                ..small()
            },
            "`depth` has 2 entries: expected one for all, or 3, of `stage1`, `stage2` and `stage3`",
        ),
        (
            ModelOverrides {
                img_size: Some(4096.into()),
                ..small()
            },
            "in `stage1`: `tokens along a side of the map` is 2048: expected at most 1024: take larger patches or smaller \
             images",
        ),
        (
            ModelOverrides {
                num_heads: Some(vec![2, 2, 2].into()),
                ..small()
            },
            "`num_heads` has 3 entries: expected one for all, or 2, of `stage2` and `stage3`: `stage1` has no attention",
        ),
        (
            ModelOverrides {
                num_heads: Some(vec![2, 3].into()),
                ..small()
            },
            "in `stage3`: `embed_dim` 128 is not a multiple of `num_heads` 3: every head needs the same number of \
             channels",
        ),
        (
            ModelOverrides {
                embed_dim: Some(vec![6, 12, 24].into()),
                ..small()
            },
            "in `stage1`: `embed_dim` 6 is not a multiple of 4: the convolution of its MLP has 8 groups",
        ),
        (
            ModelOverrides {
                depth: Some(vec![1, 1, 0].into()),
                ..small()
            },
            "in `stage3`: `depth` is 0: expected at least 1",
        ),
        (
            ModelOverrides {
                qkv_bias: Some(true),
                ..small()
            },
            "`qkv_bias` does not apply to Visformer: remove it",
        ),
    ] {
        assert_eq!(refuse(overrides), message);
    }
}

/// The first stage has no attention.
#[test]
fn attention_knows_where_it_stands() {
    let mut config = named("visformer_small");
    config.common.attn_drop = 0.25;
    let places: Vec<Option<Place>> = config
        .stages()
        .iter()
        .map(|stage| stage.attention.as_ref().map(|blocks| blocks.place))
        .collect();
    let softmax_only = places[1].unwrap().softmax_only;
    assert!(softmax_only.is_some());
    let place = |side: usize, head_dim| Place {
        queries: side * side,
        keys: side * side,
        heads: 6,
        head_dim,
        prefix: 0,
        grid: Some([side; 2]),
        bias: false,
        mask: false,
        dropout: 0.25,
        softmax_only,
    };
    assert_eq!(places, [None, Some(place(14, 64)), Some(place(7, 128))]);
}
