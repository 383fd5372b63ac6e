#![expect(clippy::unwrap_used, reason = "tests")]

use kvt_attention::{AttentionConfig, DenseConfig, Neighbors, Place};

use super::*;
use crate::family::families::ModelConfig;
use crate::layers::WindowPadding;
use crate::testing::{self, knn};

fn named(name: &str) -> SwinConfig {
    testing::named(name)
}

fn tiny() -> SwinConfig {
    named("swin_tiny_patch4_window7_224")
}

#[test]
fn macs_are_the_published_ones() {
    // Table 1 of the paper rounds the total to 4.5 G.
    let macs = tiny().summary().macs;
    let giga = [macs.linear, macs.attention, macs.total()].map(|macs| macs as f64 / 1e9);
    for (giga, expected) in giga.into_iter().zip([4.350, 0.140, 4.491]) {
        assert!((giga - expected).abs() < 6e-4, "{giga} != {expected}");
    }
}

#[test]
fn every_stage_is_described() {
    let mut config = tiny();
    config.stages.attention[1] = AttentionConfig::knn(Neighbors::fraction(0.5).unwrap());
    let stages = config.summary().stages;
    let sizes: Vec<_> = stages
        .iter()
        .map(|stage| (stage.depth, stage.tokens, stage.keys, stage.k))
        .collect();
    assert_eq!(
        sizes,
        [
            (2, 3136, 49, 49),
            (2, 784, 49, 24),
            (6, 196, 49, 49),
            (2, 49, 49, 49)
        ]
    );
    let names: Vec<_> = stages.iter().map(|stage| stage.name.as_str()).collect();
    assert_eq!(names, ["layers.0", "layers.1", "layers.2", "layers.3"]);
}

#[test]
fn padding_costs_projections_and_attention() {
    // A map of 5 x 5 makes four windows of 4 x 4.
    let config = SwinConfig {
        common: CommonConfig {
            mlp_ratio: 3.0,
            ..CommonConfig::imagenet(10)
        },
        patch_size: 2,
        embed_dim: 8,
        window_size: 4,
        stages: StagesConfig {
            depth: vec![1],
            num_heads: vec![2],
            attention: vec![AttentionConfig::dense()],
        },
    };
    let macs = config.summary().stages[0].macs;
    assert_eq!(macs.attention, 2 * 64 * 16 * 8);
    assert_eq!(macs.linear, 64 * 4 * 8 * 8 + 25 * 2 * 8 * 24);
}

#[test]
fn sizes_without_a_name_are_spelled_out() {
    let overrides = ModelOverrides {
        img_size: Some(32.into()),
        patch_size: Some(2),
        window_size: Some(4.into()),
        num_classes: Some(10),
        ..ModelOverrides::default()
    };
    assert_eq!(
        ModelConfig::from(tiny()).with(&overrides).unwrap().name(),
        "swin_tiny_patch2_window4_32"
    );
    let overrides = ModelOverrides {
        num_heads: Some(vec![2, 4, 8, 16].into()),
        ..overrides
    };
    assert_eq!(
        ModelConfig::from(tiny()).with(&overrides).unwrap().name(),
        "swin_96x2-2-6-2_patch2_window4_32"
    );
}

#[test]
fn the_number_of_stages_is_free() {
    let overrides = ModelOverrides {
        depth: Some(vec![2, 1, 3].into()),
        num_heads: Some(2.into()),
        embed_dim: Some(16.into()),
        attention: Some(AttentionConfig::knn(Neighbors::count(20).unwrap())),
        ..ModelOverrides::default()
    };
    let config = ModelConfig::from(tiny()).with(&overrides).unwrap();
    let kept: Vec<_> = config
        .summary()
        .stages
        .iter()
        .map(|stage| stage.k)
        .collect();
    assert_eq!(kept, [20; 3]);
    assert_eq!(config.name(), "swin_16x2-1-3_patch4_window7_224");
}

#[test]
fn small_images_and_large_windows_are_models_too() {
    for (img_size, window_size) in [(4, 7), (12, 1000), (20, 3), (4, 1)] {
        let config = SwinConfig {
            common: CommonConfig::imagenet(img_size),
            window_size,
            ..tiny()
        };
        assert_eq!(config.validate(), Ok(()));
        assert!(config.summary().macs.total() > 0);
    }
}

/// A classifier makes them smaller. A dense network does not, and would reserve memory for each pair of 10^6 tokens.
#[test]
fn windows_far_larger_than_the_map_are_refused() {
    let valid = |img_size: usize, window_size, dense| {
        let common = CommonConfig {
            dense,
            ..CommonConfig::imagenet(img_size)
        };
        let config = SwinConfig {
            common,
            window_size,
            ..tiny()
        };
        config.validate()
    };
    let dense = Some(WindowPadding::Seen);
    for (img_size, window_size) in [(4, 7), (64, 12), (64, 32), (160, 40), (512, 128)] {
        assert_eq!(valid(img_size, window_size, dense), Ok(()));
    }
    for (img_size, window_size) in [(64, 33), (64, 1000), (160, 41)] {
        let error = valid(img_size, window_size, dense).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!(
                "`window_size` is {window_size}: expected at most the tokens along a side of the first map, or 32 if there are fewer"
            )
        );
        assert_eq!(valid(img_size, window_size, None), Ok(()));
    }
    for dense in [dense, None] {
        let error = valid(4096, 1000, dense).unwrap_err();
        assert_eq!(
            error.to_string(),
            "`window_size` is 1000: expected at most 128 where the map has more tokens along a side"
        );
    }
}

#[test]
fn sizes_that_describe_no_model_are_refused() {
    let refuse = |change: &dyn Fn(&mut SwinConfig)| {
        let mut config = tiny();
        change(&mut config);
        ModelConfig::from(config)
            .validate()
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        refuse(&|config| config.window_size = 0),
        "`window_size` is 0: expected at least 1"
    );
    assert_eq!(
        refuse(&|config| config.stages.depth[2] = 0),
        "in `layers.2`: `depth` is 0: expected at least 1"
    );
    assert_eq!(
        refuse(&|config| config.stages.num_heads[0] = 0),
        "in `layers.0`: `num_heads` is 0: expected at least 1"
    );
    assert_eq!(
        refuse(&|config| config.stages.depth.clear()),
        "`depth` is 0: expected at least 1"
    );
    assert!(refuse(&|config| config.patch_size = 0).contains("`patch_size` is 0"));
    assert!(refuse(&|config| config.common.img_size = 225.into()).contains("are 224 and 228"));
    assert!(refuse(&|config| config.common.img_size = 3.into()).contains("are 4 and 8"));
    assert!(refuse(&|config| config.stages.num_heads[1] = 5).contains("`embed_dim` 192"));
    assert!(
        refuse(&|config| config.stages.num_heads.truncate(3)).contains("`num_heads` has 3 entries")
    );
    assert!(
        refuse(&|config| config.stages.attention.truncate(1)).contains("`attention` has 1 entries")
    );
    assert!(refuse(&|config| config.common.mlp_ratio = f64::NAN).contains("`mlp_ratio`"));
    assert!(refuse(&|config| config.common.drop_path = 1.0).contains("`drop_path`"));
    assert!(refuse(&|config| config.common.attn_drop = -0.1).contains("`attn_drop`"));
    let cold = AttentionConfig::Dense(DenseConfig { temperature: 0.0 });
    assert!(refuse(&|config| config.stages.attention[3] = cold.clone()).contains("`temperature`"));
    let stages = |config: &mut SwinConfig| {
        config.stages.depth = vec![1; 70];
        config.stages.num_heads = vec![1; 70];
        config.stages.attention = vec![AttentionConfig::dense(); 70];
    };
    assert!(refuse(&stages).contains("at most 16 entries of `depth`"));
}

#[test]
fn overrides_that_do_not_fit_are_refused() {
    let refuse = |overrides: ModelOverrides| {
        let config = ModelConfig::from(tiny());
        config.with(&overrides).unwrap_err().to_string()
    };
    let default = ModelOverrides::default;
    assert_eq!(
        refuse(ModelOverrides {
            kv_stride: Some(2),
            ..default()
        }),
        "`kv_stride` does not apply to Swin: remove it"
    );
    assert_eq!(
        refuse(ModelOverrides {
            embed_dim: Some(vec![96, 192, 384, 768].into()),
            ..default()
        }),
        "`embed_dim` has 4 entries: expected one number of the first stage: it doubles from stage to stage"
    );
    assert_eq!(
        refuse(ModelOverrides {
            window_size: Some(vec![7, 7, 7, 4].into()),
            ..default()
        }),
        "`window_size` has 4 entries: expected one number for all stages"
    );
    assert!(
        refuse(ModelOverrides {
            depth: Some(vec![2, 2].into()),
            ..default()
        })
        .contains("`num_heads` is needed, since `depth` asks for 2 stages and the model has 4: ")
    );
    assert!(
        refuse(knn(vec![Neighbors::All; 2]))
            .contains("`neighbors` has 2 entries, but the model has 4 stages")
    );
}

/// In a window, with the bias of the table; the last map is a single window, which is not shifted.
#[test]
fn attention_knows_where_it_stands() {
    let mut config = tiny();
    config.common.attn_drop = 0.25;
    let places: Vec<_> = config.stages().map(|stage| stage.blocks.place).collect();
    let place = |heads, mask| Place {
        queries: 49,
        keys: 49,
        heads,
        head_dim: 32,
        prefix: 0,
        grid: Some([7, 7]),
        bias: true,
        mask,
        dropout: 0.25,
        softmax_only: places[0].softmax_only,
    };
    assert!(places[0].softmax_only.is_some());
    let expected = [(3, true), (6, true), (12, true), (24, false)];
    assert_eq!(places, expected.map(|(heads, mask)| place(heads, mask)));
}
