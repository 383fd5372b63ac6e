#![expect(clippy::unwrap_used, reason = "tests")]

use kvt_attention::{Neighbors, Place};

use super::*;
use crate::testing::{self, knn, with};

fn named(name: &str) -> SoVitConfig {
    testing::named(name)
}

/// Counted in the original's model: convolutions, linear layers and the covariance, and the two products of
/// attention. Its normalisation multiplies small matrices too, 5856 times in So-ViT-7; like other norms, it does not
/// count here.
#[test]
fn sizes_and_costs_are_those_of_the_originals_layers() {
    for (name, params, linear, attention) in [
        (
            "so_vit_7",
            5_529_232,
            553_541_632 + 271_122_432 + 453_278_720 + 225_792,
            139_323_104 - 225_792 - 5_856,
        ),
        (
            "so_vit_10",
            7_108_240,
            553_541_632 + 387_317_760 + 646_937_600 + 225_792,
            198_933_728 - 225_792 - 5_856,
        ),
        (
            "so_vit_14",
            24_643_056,
            564_781_056 + 1_220_050_944 + 2_850_241_536 + 602_112,
            417_892_000 - 602_112 - 15_520,
        ),
        (
            "so_vit_19",
            43_799_440,
            572_207_104 + 2_253_705_216 + 5_263_701_504 + 903_168,
            661_610_816 - 903_168 - 23_232,
        ),
    ] {
        let summary = named(name).summary();
        assert_eq!(summary.params, params, "{name}");
        assert_eq!(summary.macs, Macs { linear, attention }, "{name}");
        let [stage] = summary.stages.as_slice() else {
            unreachable!("one stage")
        };
        assert_eq!((stage.tokens, stage.keys), (197, 197), "{name}");
    }
}

/// Counted in the original's model: its last stride follows from the size of the image.
#[test]
fn small_models_have_the_originals_parameters() {
    for (img_size, strides, params) in [(112_usize, [2, 2, 1], 336_232), (224, [2, 2, 2], 402_280)]
    {
        let overrides = ModelOverrides {
            img_size: Some(img_size.into()),
            strides: Some(strides.to_vec()),
            embed_dim: Some(48.into()),
            depth: Some(2.into()),
            num_heads: Some(3.into()),
            cov_dims: Some([12, 8]),
            num_classes: Some(10),
            ..ModelOverrides::default()
        };
        let summary = with("so_vit_7", &overrides).unwrap().summary();
        assert_eq!(summary.params, params, "{img_size}");
        assert_eq!(summary.stages[0].tokens, 197, "{img_size}");
    }
}

#[test]
fn strides_decide_how_many_tokens_there_are() {
    for (img_size, strides, grid) in [
        (32_usize, [2, 1, 1], 8),
        (32, [1, 1, 1], 16),
        (32, [2, 2, 2], 2),
        (33, [2, 1, 1], 9),
        (384, [2, 2, 2], 24),
        (1, [2, 2, 2], 1),
        (100, [3, 1, 2], 9),
    ] {
        let overrides = ModelOverrides {
            img_size: Some(img_size.into()),
            strides: Some(strides.to_vec()),
            ..ModelOverrides::default()
        };
        let tokens = with("so_vit_7", &overrides).unwrap().summary().stages[0].tokens;
        assert_eq!(tokens, 1 + grid * grid, "{img_size}, {strides:?}");
    }
}

#[test]
fn names_say_what_a_size_does_not() {
    let overrides = ModelOverrides {
        img_size: Some(32.into()),
        strides: Some(vec![2, 1, 1]),
        embed_dim: Some(96.into()),
        depth: Some(4.into()),
        ..ModelOverrides::default()
    };
    let config = with("so_vit_7", &overrides).unwrap();
    assert_eq!(config.name(), "so_vit_96x4_strides2-1-1_32");
    let names: Vec<_> = SoVitConfig::named().iter().map(|c| c.name()).collect();
    assert_eq!(names, ["so_vit_7", "so_vit_10", "so_vit_14", "so_vit_19"]);
}

/// Dropout of the covariance, half of the regularisation of the large models.
#[test]
fn the_covariance_is_dropped_in_large_models() {
    let drops: Vec<_> = SoVitConfig::named().iter().map(|c| c.head_drop).collect();
    assert_eq!(drops, [0.0, 0.0, 0.5, 0.5]);
}

#[test]
fn attention_knows_where_it_stands() {
    let mut config = named("so_vit_14");
    config.common.attn_drop = 0.25;
    let expected = Place {
        queries: 197,
        keys: 197,
        heads: 6,
        head_dim: 64,
        prefix: 1,
        grid: Some([14, 14]),
        bias: false,
        mask: false,
        dropout: 0.25,
        softmax_only: None,
    };
    assert_eq!(config.blocks().place, expected);
}

#[test]
fn sizes_that_describe_no_model_are_refused() {
    let refuse = |overrides: ModelOverrides| with("so_vit_7", &overrides).unwrap_err().to_string();
    let default = ModelOverrides::default;
    let strides = |strides: &[usize]| ModelOverrides {
        strides: Some(strides.to_vec()),
        ..default()
    };
    assert_eq!(
        refuse(strides(&[2, 2])),
        "`strides` has 2 entries: expected 3, of the bottlenecks after the pooling"
    );
    assert_eq!(
        refuse(strides(&[2, 0, 2])),
        "`strides` is 0: expected at least 1"
    );
    assert_eq!(
        refuse(ModelOverrides {
            cov_dims: Some([48, 0]),
            ..default()
        }),
        "`cov_dims` is 0: expected at least 1"
    );
    assert_eq!(
        refuse(ModelOverrides {
            head_drop: Some(1.0),
            ..default()
        }),
        "`head_drop` is 1: expected a rate of at least 0 and below 1"
    );
    assert!(
        refuse(ModelOverrides {
            img_size: Some((1_usize << 16).into()),
            ..default()
        })
        .starts_with("`tokens along a side of the map` is 4096: ")
    );
    assert_eq!(
        refuse(ModelOverrides {
            depth: Some(vec![2, 2].into()),
            ..default()
        }),
        "`depth` has 2 entries: expected one number"
    );
    assert_eq!(
        refuse(ModelOverrides {
            patch_size: Some(16),
            ..default()
        }),
        "`patch_size` does not apply to So-ViT: remove it"
    );
    assert_eq!(
        refuse(knn(vec![Neighbors::All; 2])),
        "`neighbors` has 2 entries, but the model has 1 stage (`blocks` with 197 keys): give one entry for all \
         stages, or one per stage"
    );
}
