#![expect(clippy::unwrap_used, reason = "tests")]

use kvt_attention::{AttentionConfig, KnnConfig, Neighbors, PerStage, Place};

use super::*;
use crate::testing::{self, with};

fn named(name: &str) -> CvtConfig {
    testing::named(name)
}

#[test]
fn sizes_and_costs_are_those_of_the_originals_layers() {
    // Counted in the original's model: inputs of linear layers, outputs of convolutions, and the two
    // products of attention.
    for (name, params, linear, attention) in [
        ("cvt_13", 19_997_480, 4_057_723_392, 508_365_824),
        ("cvt_21", 31_622_696, 6_506_216_448, 671_768_576),
        ("cvt_w24", 277_196_392, 58_153_578_496, 2_763_735_040),
        ("cvt_13_384", 19_997_480, 11_889_687_552, 4_379_672_064),
        ("cvt_21_384", 31_622_696, 19_064_675_328, 5_784_416_256),
        ("cvt_w24_384", 277_196_392, 170_410_418_176, 23_811_235_840),
    ] {
        let summary = named(name).summary();
        assert_eq!(summary.params, params, "{name}");
        assert_eq!(summary.macs, Macs { linear, attention }, "{name}");
    }
    let stages = named("cvt_13").summary().stages;
    let sizes: Vec<_> = stages.iter().map(|s| (s.params, s.macs.linear)).collect();
    assert_eq!(
        sizes,
        [
            (61_696, 167_086_080),
            (1_013_568, 697_697_280),
            (18_536_448, 3_192_556_032)
        ]
    );
}

#[test]
fn every_stage_resolves_its_own_k() {
    let knn = |k| AttentionConfig::knn(Neighbors::count(k).unwrap());
    let config = CvtConfig {
        stages: StagesConfig {
            attention: vec![knn(1600), knn(400), knn(25)],
            ..named("cvt_13").stages
        },
        ..named("cvt_13")
    };
    let counts = |config: &CvtConfig| {
        let stages = config.summary().stages.into_iter();
        let counts = stages.map(|s| (s.name, s.tokens, s.keys, s.k));
        counts.collect::<Vec<_>>()
    };
    let name = |stage: &str| stage.to_owned();
    assert_eq!(
        counts(&config),
        [
            (name("stage0"), 3136, 784, 784),
            (name("stage1"), 784, 196, 196),
            (name("stage2"), 197, 50, 25)
        ]
    );
    // The cost of the k of the KVT paper.
    let all_keys = CvtConfig {
        kv_stride: 1,
        ..config
    };
    assert_eq!(
        counts(&all_keys),
        [
            (name("stage0"), 3136, 3136, 1600),
            (name("stage1"), 784, 784, 400),
            (name("stage2"), 197, 197, 25)
        ]
    );
    assert_eq!(all_keys.name(), "cvt_13_kv1");
    let macs = all_keys.summary().macs;
    assert_eq!(
        (macs.linear, macs.attention),
        (4_614_150_144, 2_028_924_416)
    );
}

#[test]
fn maps_of_odd_sizes_are_halved_upwards() {
    let config = with(
        "cvt_13",
        &ModelOverrides {
            img_size: Some(36.into()),
            ..ModelOverrides::default()
        },
    );
    let stages = config.unwrap().summary().stages;
    let counts: Vec<_> = stages.iter().map(|s| (s.tokens, s.keys)).collect();
    assert_eq!(counts, [(81, 25), (25, 9), (10, 5)]);
}

#[test]
fn overrides_change_the_number_of_stages() {
    let overrides = ModelOverrides {
        img_size: Some(32.into()),
        patch_size: Some(3),
        patch_stride: Some(2),
        embed_dim: Some(vec![32, 64].into()),
        depth: Some(vec![1, 2].into()),
        num_heads: Some(2.into()),
        mlp_ratio: Some(2.0),
        ..ModelOverrides::default()
    };
    let config = with("cvt_13", &overrides).unwrap();
    assert_eq!(config.name(), "cvt_32-64x1-2_patch3_stride2_32");
    let tokens: Vec<_> = config.summary().stages.iter().map(|s| s.tokens).collect();
    assert_eq!(tokens, [256, 65]);
}

#[test]
fn sizes_that_describe_no_model_are_refused() {
    let refuse = |overrides: ModelOverrides| with("cvt_13", &overrides).unwrap_err().to_string();
    let default = ModelOverrides::default;
    assert_eq!(
        refuse(ModelOverrides {
            img_size: Some(2.into()),
            ..default()
        }),
        "`img_size` 2 is too small for CvT with such patches: the least is 3"
    );
    assert_eq!(
        refuse(ModelOverrides {
            kv_stride: Some(0),
            ..default()
        }),
        "`kv_stride` is 0: expected at least 1"
    );
    assert_eq!(
        refuse(ModelOverrides {
            num_heads: Some(5.into()),
            ..default()
        }),
        "in `stage0`: `embed_dim` 64 is not a multiple of `num_heads` 5: every head needs the same number of \
         channels"
    );
    assert!(
        refuse(ModelOverrides {
            mlp_ratio: Some(0.0),
            ..default()
        })
        .starts_with("in `stage0`: `mlp_ratio` is 0: ")
    );
    assert_eq!(
        refuse(ModelOverrides {
            img_size: Some((usize::MAX / 2).into()),
            ..default()
        })
        .split_once(": "),
        Some((
            "`img_size` is 9223372036854776000",
            "expected at most 65536"
        ))
    );
    assert_eq!(
        refuse(ModelOverrides {
            window_size: Some(7.into()),
            ..default()
        }),
        "`window_size` does not apply to CvT: remove it"
    );
    let short = CvtConfig {
        stages: StagesConfig {
            num_heads: vec![1],
            ..named("cvt_13").stages
        },
        ..named("cvt_13")
    };
    assert!(matches!(
        short.validate(),
        Err(ModelError::ListLength {
            field: "num_heads",
            given: 1,
            ..
        })
    ));
    // The smallest possible images, and a stride beyond every map.
    let least = ModelOverrides {
        img_size: Some(3.into()),
        kv_stride: Some(100),
        ..default()
    };
    let stages = with("cvt_13", &least).unwrap().summary().stages;
    let counts: Vec<_> = stages.iter().map(|s| (s.tokens, s.keys)).collect();
    assert_eq!(counts, [(1, 1), (1, 1), (2, 2)]);
}

/// One key per four tokens, and the class token in the last stage.
#[test]
fn attention_knows_where_it_stands() {
    let mut config = named("cvt_13");
    config.common.attn_drop = 0.25;
    let places: Vec<_> = config
        .stages()
        .iter()
        .map(|stage| stage.blocks.place)
        .collect();
    let place = |queries, keys, heads, prefix, grid| Place {
        queries,
        keys,
        heads,
        head_dim: 64,
        prefix,
        grid: Some([grid, grid]),
        bias: false,
        mask: false,
        dropout: 0.25,
        softmax_only: None,
    };
    assert_eq!(
        places,
        [
            place(3136, 784, 1, 0, 56),
            place(784, 196, 3, 0, 28),
            place(197, 50, 6, 1, 14)
        ]
    );
}

/// Lists of settings are for `AttentionConfig::per_stage`: one stage has one entry.
#[test]
fn a_list_of_neighbors_does_not_fit_one_stage() {
    let mut config = named("cvt_13");
    let list = PerStage::from(vec![Neighbors::All; 3]);
    config.stages.attention[1] = AttentionConfig::Knn(KnnConfig {
        neighbors: list,
        ..KnnConfig::default()
    });
    let error = config.validate().unwrap_err().to_string();
    assert!(
        error.starts_with("in `stage1`: `neighbors` has 3 entries, but the number of stages is 1"),
        "{error}"
    );
}
