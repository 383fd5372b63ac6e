#![expect(clippy::unwrap_used, reason = "tests")]

use kvt_attention::{AttentionConfig, Neighbors, Place};

use super::*;
use crate::family::families::ModelConfig;
use crate::testing::{self, knn};

fn named(name: &str) -> TwinsConfig {
    testing::named(name)
}

fn base() -> TwinsConfig {
    named("twins_svt_base")
}

/// One stage of 5 x 5 tokens, with windows of 4 x 4 and 2 x 2 keys of the whole map.
fn padded(depth: usize) -> TwinsConfig {
    TwinsConfig {
        common: CommonConfig {
            mlp_ratio: 3.0,
            ..CommonConfig::imagenet(10)
        },
        strides: vec![2],
        embed_dim: vec![8],
        window_size: vec![4],
        sr_ratio: vec![2],
        stages: StagesConfig::dense(&[depth], &[2]),
    }
}

/// As counted by a counter of PyTorch's operations; the paper prints 2.8, 8.3 and 14.8 G.
#[test]
fn macs_are_the_published_ones() {
    for (name, expected) in [
        ("twins_svt_small", [2.809, 0.118, 2.927]),
        ("twins_svt_base", [8.334, 0.229, 8.563]),
        ("twins_svt_large", [14.807, 0.305, 15.112]),
    ] {
        let macs = named(name).summary().macs;
        let giga = [macs.linear, macs.attention, macs.total()].map(|macs| macs as f64 / 1e9);
        for (giga, expected) in giga.into_iter().zip(expected) {
            assert!(
                (giga - expected).abs() < 6e-4,
                "{name}: {giga} != {expected}"
            );
        }
    }
}

#[test]
fn every_stage_is_described() {
    let mut config = base();
    config.stages.attention[1] = AttentionConfig::knn(Neighbors::fraction(0.8).unwrap());
    let sizes = |config: &TwinsConfig| {
        let stages = config.summary().stages.into_iter();
        let sizes = stages.map(|stage| (stage.depth, stage.tokens, stage.keys, stage.k));
        sizes.collect::<Vec<_>>()
    };
    assert_eq!(
        sizes(&config),
        [
            (2, 3136, 49, 49),
            (2, 784, 49, 39),
            (18, 196, 49, 49),
            (2, 49, 49, 49)
        ]
    );
    // At 384 px the whole map has 144 keys, and a window 49: the larger number.
    config.common.img_size = 384.into();
    assert_eq!(sizes(&config)[1], (2, 2304, 144, 115));
    // A single block attends only within its window.
    config.stages.depth[1] = 1;
    assert_eq!(sizes(&config)[1], (1, 2304, 49, 39));
    let names = config.summary().stages.into_iter().map(|stage| stage.name);
    let expected = ["blocks.0", "blocks.1", "blocks.2", "blocks.3"];
    assert_eq!(names.collect::<Vec<_>>(), expected);
}

/// A map of 5 x 5 makes four windows of 4 x 4, and four keys of the whole map, which leave a remainder.
#[test]
fn cost_of_padding_and_of_sub_sampling_by_hand() {
    let outside = 25 * 8 * (3 * 4) + 25 * 8 * 9;
    let mlp = 25 * 2 * 8 * 24;
    let local = padded(1).summary().stages[0].macs;
    assert_eq!(local.attention, 2 * 64 * 16 * 8);
    assert_eq!(local.linear, outside + (64 * 3 + 25) * 8 * 8 + mlp);
    let both = padded(2).summary().stages[0].macs;
    assert_eq!(both.attention - local.attention, 2 * 25 * 4 * 8);
    let projections = (25 * 2 + 4 * 2) * 8 * 8;
    let convolution = 4 * 8 * (8 * 4);
    assert_eq!(both.linear - local.linear, projections + convolution + mlp);
}

#[test]
fn sizes_without_a_name_are_spelled_out() {
    let base = || ModelConfig::from(base());
    let name = |overrides: &ModelOverrides| base().with(overrides).unwrap().name();
    let overrides = ModelOverrides {
        img_size: Some(384.into()),
        ..ModelOverrides::default()
    };
    assert_eq!(name(&overrides), "twins_svt_base_384");
    let overrides = ModelOverrides {
        img_size: Some(32.into()),
        strides: Some(vec![2, 2, 2]),
        window_size: Some(4.into()),
        sr_ratio: Some(vec![4, 2, 1].into()),
        embed_dim: Some(vec![48, 96, 192].into()),
        num_heads: Some(vec![2, 4, 8].into()),
        depth: Some(vec![2, 2, 2].into()),
        ..ModelOverrides::default()
    };
    assert_eq!(
        name(&overrides),
        "twins_svt_48-96-192x2-2-2_strides2-2-2_window4-4-4_sr4-2-1_32"
    );
}

/// The model for images of 32 pixels of `configs/cifar10`.
#[test]
fn a_model_for_small_images() {
    let overrides = ModelOverrides {
        img_size: Some(32.into()),
        strides: Some(vec![2]),
        window_size: Some(4.into()),
        sr_ratio: Some(vec![4, 2, 1].into()),
        embed_dim: Some(vec![48, 96, 192].into()),
        num_heads: Some(vec![2, 4, 8].into()),
        depth: Some(vec![2, 2, 2].into()),
        num_classes: Some(10),
        ..ModelOverrides::default()
    };
    let config = ModelConfig::from(base()).with(&overrides).unwrap();
    assert_eq!(config.validate(), Ok(()));
    let summary = config.summary();
    // Counted with timm, with a first stride of 2.
    assert_eq!(summary.params, 1_343_530);
    let sizes = summary
        .stages
        .iter()
        .map(|stage| (stage.tokens, stage.keys));
    assert_eq!(sizes.collect::<Vec<_>>(), [(256, 16), (64, 16), (16, 16)]);
}

/// One window may be the whole first map; maps that are smaller are padded to it.
#[test]
fn windows_as_large_as_the_first_map_are_models_too() {
    for (img_size, window_size) in [(224, 56), (32, 32)] {
        let mut config = base();
        config.common.img_size = img_size.into();
        config.window_size = vec![window_size; 4];
        config.sr_ratio = vec![1; 4];
        assert_eq!(config.validate(), Ok(()));
    }
}

#[test]
fn sizes_that_describe_no_model_are_refused() {
    let refuse = |change: &dyn Fn(&mut TwinsConfig)| {
        let mut config = base();
        change(&mut config);
        ModelConfig::from(config)
            .validate()
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        refuse(&|config| config.common.img_size = 225.into()),
        "`img_size` 225 is not a multiple of 32, the product of `strides`: the nearest multiples are \
         224 and 256"
    );
    assert!(refuse(&|config| config.common.img_size = 3.into()).contains("are 32 and 64"));
    assert_eq!(
        refuse(&|config| config.window_size[2] = 1),
        "in `blocks.2`: `window_size` is 1: expected at least 2 tokens"
    );
    assert_eq!(
        refuse(&|config| config.window_size[2] = 57),
        "in `blocks.2`: `window_size` is 57: expected at most the tokens along a side of the first map, or 32 if there are fewer"
    );
    assert!(refuse(&|config| config.window_size[2] = 0).contains("`window_size` is 0"));
    assert_eq!(
        refuse(&|config| config.sr_ratio[3] = 8),
        "in `blocks.3`: `img_size` 224 is too small for a Twins with such an `sr_ratio`: the least is 256"
    );
    assert!(refuse(&|config| config.sr_ratio[0] = 0).contains("`sr_ratio` is 0"));
    assert!(refuse(&|config| config.strides[0] = 0).contains("`strides` is 0"));
    assert!(
        refuse(&|config| config.strides = vec![1 << 20; 4]).contains("the product of `strides`")
    );
    assert!(refuse(&|config| config.stages.depth[0] = 0).contains("`depth` is 0"));
    assert!(refuse(&|config| config.stages.num_heads[1] = 5).contains("`embed_dim` 192"));
    assert!(refuse(&|config| config.embed_dim.truncate(3)).contains("`embed_dim` has 3 entries"));
    assert!(refuse(&|config| config.sr_ratio.truncate(3)).contains("`sr_ratio` has 3 entries"));
    assert!(refuse(&|config| config.common.mlp_ratio = f64::NAN).contains("`mlp_ratio`"));
    assert!(refuse(&|config| config.common.drop_path = 1.0).contains("`drop_path`"));
    let knn = AttentionConfig::knn(Neighbors::Fraction(2.0));
    assert!(refuse(&|config| config.stages.attention[3] = knn.clone()).contains("in `blocks.3`"));
}

/// A stage of one block has no keys of the whole map, and so no ratio that could be too large; nor does the cost of
/// the missing blocks overflow.
#[test]
fn a_ratio_without_a_block_that_uses_it_says_nothing() {
    let mut config = base();
    config.stages.depth[3] = 1;
    config.sr_ratio[3] = 1 << 20;
    assert_eq!(config.validate(), Ok(()));
    assert!(config.summary().macs.total() > 0);
}

#[test]
fn overrides_that_do_not_fit_are_refused() {
    let refuse = |overrides: ModelOverrides| {
        let config = ModelConfig::from(base());
        config.with(&overrides).unwrap_err().to_string()
    };
    let default = ModelOverrides::default;
    assert_eq!(
        refuse(ModelOverrides {
            patch_size: Some(2),
            ..default()
        }),
        "`patch_size` does not apply to Twins: remove it"
    );
    assert!(
        refuse(ModelOverrides {
            strides: Some(vec![4, 2]),
            ..default()
        })
        .contains("`strides` has 2 entries: expected one for all 4 stages, or one per stage")
    );
    assert!(
        refuse(ModelOverrides {
            depth: Some(vec![2, 2].into()),
            ..default()
        })
        .contains("`strides` is needed, since `depth` asks for 2 stages and the model has 4: ")
    );
    assert_eq!(
        refuse(ModelOverrides {
            img_size: Some(384.into()),
            ..knn(vec![Neighbors::All; 2])
        }),
        "`neighbors` has 2 entries, but the model has 4 stages (`blocks.0` with 144 keys, `blocks.1` with 144 \
         keys, `blocks.2` with 144 keys, `blocks.3` with 144 keys): give one entry for all stages, or one per \
         stage"
    );
}

/// In a window, or on the whole map. Padding is hidden only if some keys are left out.
#[test]
fn attention_knows_where_it_stands() {
    let mut config = base();
    config.common.img_size = 256.into();
    config.common.attn_drop = 0.25;
    config.stages.attention[0] = AttentionConfig::knn(Neighbors::count(48).unwrap());
    config.stages.attention[3] = AttentionConfig::knn(Neighbors::count(49).unwrap());
    let stages: Vec<_> = config.stages().collect();
    let local = |heads, mask| Place {
        queries: 49,
        keys: 49,
        heads,
        head_dim: 32,
        prefix: 0,
        grid: Some([7, 7]),
        bias: false,
        mask,
        dropout: 0.25,
        softmax_only: stages[0].local().softmax_only,
    };
    let expected = [(3, true), (6, false), (12, false), (24, false)];
    let found: Vec<_> = stages.iter().map(StageSize::local).collect();
    assert_eq!(found, expected.map(|(heads, mask)| local(heads, mask)));
    let global = |heads, side: usize| Place {
        queries: side * side,
        keys: 64,
        grid: Some([side; 2]),
        softmax_only: stages[0].global().softmax_only,
        ..local(heads, false)
    };
    assert!(local(3, false).softmax_only.is_some());
    assert!(global(3, 64).softmax_only.is_some());
    let expected = [(3, 64), (6, 32), (12, 16), (24, 8)];
    let found: Vec<_> = stages.iter().map(StageSize::global).collect();
    assert_eq!(found, expected.map(|(heads, side)| global(heads, side)));
    // At 224 px nothing is padded.
    config.common.img_size = 224.into();
    assert!(config.stages().all(|stage| !stage.local().mask));
}
