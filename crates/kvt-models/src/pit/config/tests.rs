#![expect(clippy::unwrap_used, reason = "tests")]

use kvt_attention::{AttentionConfig, KnnConfig, Neighbors, Place};

use super::*;
use crate::testing::{self, with};

fn named(name: &str) -> PitConfig {
    testing::named(name)
}

#[test]
fn parameters_are_those_timm_counts() {
    // timm, `sum(p.numel() for p in model.parameters())`.
    for (name, params) in [
        ("pit_ti_224", 4_847_272),
        ("pit_xs_224", 10_618_888),
        ("pit_s_224", 23_461_912),
        ("pit_b_224", 73_764_840),
        ("pit_ti_distilled_224", 5_104_336),
        ("pit_xs_distilled_224", 11_003_984),
        ("pit_s_distilled_224", 24_039_056),
        ("pit_b_distilled_224", 74_790_096),
    ] {
        assert_eq!(named(name).summary().params, params, "{name}");
    }
    let stages = named("pit_b_224").summary().stages;
    let params: Vec<usize> = stages.iter().map(|stage| stage.params).collect();
    assert_eq!(params, [2_369_280, 19_051_008, 50_920_448]);
}

#[test]
fn operations_are_those_of_timms_layers() {
    // Counted in timm's model: inputs of linear layers, outputs of convolutions.
    for (name, linear) in [
        ("pit_ti_224", 497_906_432),
        ("pit_s_224", 2_418_201_792),
        ("pit_b_224", 10_540_018_688),
        ("pit_b_distilled_224", 10_613_263_360),
    ] {
        assert_eq!(named(name).summary().macs.linear, linear, "{name}");
    }
    let attention = named("pit_b_224").summary().macs.attention;
    let of = |tokens: u64, dim, depth| 2 * tokens.pow(2) * dim * depth;
    assert_eq!(
        attention,
        of(962, 256, 3) + of(257, 512, 6) + of(65, 1024, 4)
    );
}

#[test]
fn every_stage_resolves_its_own_k() {
    let knn = |neighbors| AttentionConfig::knn(neighbors);
    let config = PitConfig {
        stages: StagesConfig {
            attention: vec![
                knn(Neighbors::count(360).unwrap()),
                knn(Neighbors::fraction(0.5).unwrap()),
                knn(Neighbors::count(100).unwrap()),
            ],
            ..named("pit_b_224").stages
        },
        ..named("pit_b_224")
    };
    let stages = config.summary().stages;
    let counts: Vec<_> = stages.iter().map(|s| (s.tokens, s.keys, s.k)).collect();
    assert_eq!(counts, [(962, 962, 360), (257, 257, 128), (65, 65, 65)]);
    let names: Vec<_> = stages.iter().map(|s| s.name.as_str()).collect();
    assert_eq!(
        names,
        ["transformers.0", "transformers.1", "transformers.2"]
    );
}

#[test]
fn overrides_change_the_number_of_stages() {
    let overrides = ModelOverrides {
        img_size: Some(33.into()),
        patch_size: Some(4),
        patch_stride: Some(2),
        embed_dim: Some(vec![32, 64].into()),
        depth: Some(vec![1, 2].into()),
        num_heads: Some(2.into()),
        attention: Some(AttentionConfig::Knn(KnnConfig {
            neighbors: vec![Neighbors::All; 2].into(),
            ..KnnConfig::default()
        })),
        ..ModelOverrides::default()
    };
    let config = with("pit_ti_224", &overrides).unwrap();
    assert_eq!(config.name(), "pit_32-64x1-2_patch4_stride2_33");
    let tokens: Vec<_> = config.summary().stages.iter().map(|s| s.tokens).collect();
    // 15 x 15 patches, without the last pixel; then 8 x 8.
    assert_eq!(tokens, [226, 65]);
}

#[test]
fn a_name_says_what_differs() {
    let finer = PitConfig {
        patch_stride: 4,
        common: CommonConfig::imagenet(112),
        ..named("pit_ti_distilled_224")
    };
    assert_eq!(finer.name(), "pit_ti_distilled_patch16_stride4_112");
}

#[test]
fn sizes_that_describe_no_model_are_refused() {
    let refuse =
        |overrides: ModelOverrides| with("pit_ti_224", &overrides).unwrap_err().to_string();
    let default = ModelOverrides::default;
    assert_eq!(
        refuse(ModelOverrides {
            img_size: Some(15.into()),
            ..default()
        }),
        "`img_size` 15 is too small for PiT with such patches: the least is 16"
    );
    assert_eq!(
        refuse(ModelOverrides {
            patch_stride: Some(0),
            ..default()
        }),
        "`patch_stride` is 0: expected at least 1"
    );
    assert_eq!(
        refuse(ModelOverrides {
            embed_dim: Some(vec![64, 96, 192].into()),
            ..default()
        }),
        "in `transformers.1`: `embed_dim` 96 is not a multiple of 64, that of the stage before: pooling makes the same \
         number of channels from each"
    );
    assert_eq!(
        refuse(ModelOverrides {
            num_heads: Some(vec![2, 4, 7].into()),
            ..default()
        }),
        "in `transformers.2`: `embed_dim` 256 is not a multiple of `num_heads` 7: every head needs the same number of \
         channels"
    );
    assert_eq!(
        refuse(ModelOverrides {
            depth: Some(vec![2, 0, 2].into()),
            ..default()
        }),
        "in `transformers.1`: `depth` is 0: expected at least 1"
    );
    assert!(
        refuse(ModelOverrides {
            depth: Some(vec![1, 1].into()),
            ..default()
        })
        .starts_with(
            "`embed_dim` is needed, since `depth` asks for 2 stages and the model has 3: "
        )
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
        "`window_size` does not apply to PiT: remove it"
    );
    let empty = PitConfig {
        stages: StagesConfig {
            depth: Vec::new(),
            ..named("pit_ti_224").stages
        },
        ..named("pit_ti_224")
    };
    assert_eq!(
        empty.validate(),
        Err(ModelError::OutOfRange {
            field: "depth",
            value: 0.0,
            expected: "at least 1"
        })
    );
    // Meaningless, but without a panic.
    assert_eq!(empty.summary().stages.len(), 0);
}

#[test]
fn attention_knows_where_it_stands() {
    let mut config = named("pit_b_distilled_224");
    config.common.attn_drop = 0.25;
    let places: Vec<_> = config
        .stages()
        .iter()
        .map(|stage| stage.blocks.place)
        .collect();
    let place = |grid: usize, heads| Place {
        queries: 2 + grid * grid,
        keys: 2 + grid * grid,
        heads,
        head_dim: 64,
        prefix: 2,
        grid: Some([grid, grid]),
        bias: false,
        mask: false,
        dropout: 0.25,
        softmax_only: None,
    };
    assert_eq!(places, [place(31, 4), place(16, 8), place(8, 16)]);
}
