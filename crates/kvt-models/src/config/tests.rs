#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;
use std::num::NonZeroUsize;

use kvt_attention::{AttentionConfig, DenseConfig, KnnConfig, Macs, Neighbors};

use super::*;

fn knn(k: usize) -> AttentionConfig {
    AttentionConfig::knn(Neighbors::Count(NonZeroUsize::new(k).unwrap()))
}

fn summary(name: &str) -> Summary {
    ModelConfig::by_name(name).unwrap().summary()
}

#[test]
fn parameters_are_those_timm_counts() {
    // timm, `sum(p.numel() for p in model.parameters())`.
    assert_eq!(summary("deit_tiny_patch16_224").params, 5_717_416);
    assert_eq!(summary("deit_small_patch16_224").params, 22_050_664);
    assert_eq!(summary("deit_base_patch16_224").params, 86_567_656);
    assert_eq!(summary("deit_tiny_distilled_patch16_224").params, 5_910_800);
    assert_eq!(
        summary("deit_small_distilled_patch16_224").params,
        22_436_432
    );
    assert_eq!(summary("deit_small_patch16_384").params, 22_196_584);
}

#[test]
fn equal_stages_name_their_keys_once() {
    assert_eq!(
        summary("pit_ti_224").kept(),
        "730 of 730, 197 of 197, 50 of 50"
    );
    assert_eq!(summary("swin_tiny_patch4_window7_224").kept(), "49 of 49");
}

#[test]
fn macs_are_the_published_ones() {
    // Table 1 of the KVT paper rounds the totals to 1.3 and 4.6 G.
    let giga = |macs: Macs| [macs.linear, macs.attention, macs.total()].map(|m| m as f64 / 1e9);
    for (name, expected) in [
        ("deit_tiny_patch16_224", [1.075, 0.179, 1.254]),
        ("deit_small_patch16_224", [4.241, 0.358, 4.599]),
    ] {
        for (macs, expected) in giga(summary(name).macs).iter().zip(expected) {
            assert!(
                (macs - expected).abs() < 5e-4,
                "{name}: {macs} != {expected}"
            );
        }
    }
}

#[test]
fn every_name_finds_the_model_that_has_it() {
    let names = names();
    let distinct: BTreeSet<&String> = names.iter().collect();
    assert_eq!(distinct.len(), names.len());
    for name in [
        "deit_base_distilled_patch16_384",
        "swin_base_patch4_window12_384",
    ] {
        assert!(names.iter().any(|known| known == name), "{name}");
    }
    for name in names {
        assert_eq!(summary(&name).name, name);
    }
}

#[test]
fn an_unknown_name_suggests_near_ones() {
    let error = ModelConfig::by_name("deit_tiny_patch_224").unwrap_err();
    assert!(
        error
            .to_string()
            .contains("did you mean `deit_tiny_patch16_224`"),
        "{error}"
    );
    for (name, reason) in [
        ("eva02_base_patch14_224", "kvt lacks EVA-02"),
        ("beitv2_large_patch16_224", "kvt lacks BEiT"),
    ] {
        let error = ModelConfig::by_name(name).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
    let error = ModelConfig::by_name("resnet50").unwrap_err();
    assert!(
        error.to_string().contains("`kvt models list` shows the"),
        "{error}"
    );
}

#[test]
fn overrides_replace_what_they_name() {
    let overrides = ModelOverrides {
        img_size: Some(32.into()),
        patch_size: Some(4),
        embed_dim: Some(48.into()),
        depth: Some(2.into()),
        num_classes: Some(10),
        attention: Some(knn(100)),
        ..ModelOverrides::default()
    };
    let config = ModelConfig::by_name("deit_tiny_patch16_224")
        .unwrap()
        .with(&overrides)
        .unwrap();
    assert_eq!(config.name(), "deit_48x2_patch4_32");
    let summary = config.summary();
    let [stage] = summary.stages.as_slice() else {
        unreachable!("DeiT has one stage")
    };
    // 64 patches and the class token; k is clamped to them.
    assert_eq!(
        (stage.tokens, stage.keys, stage.k, stage.depth),
        (65, 65, 65, 2)
    );
}

/// 4 x 6 patches of a ViT; the other families have one side, and say so.
#[test]
fn only_a_vit_takes_rectangles() {
    let wide = ModelOverrides {
        img_size: Some([64, 96].into()),
        ..ModelOverrides::default()
    };
    let square = ModelOverrides {
        img_size: Some([64, 64].into()),
        ..ModelOverrides::default()
    };
    for (name, shown) in [
        ("deit_tiny_patch16_224", "deit_tiny_patch16_64x96"),
        ("vit_small_patch16_dinov3", "vit_small_patch16_dinov3_64x96"),
    ] {
        let config = ModelConfig::by_name(name).unwrap();
        let [of_wide, of_square] =
            [&wide, &square].map(|overrides| config.clone().with(overrides).unwrap());
        assert_eq!(of_wide.name(), shown);
        assert_eq!(of_wide.in_timm().as_deref(), Some(name));
        assert_eq!(of_wide.check_input([2, 3, 64, 96]), Ok(()));
        assert!(of_wide.check_input([2, 3, 96, 64]).is_err());
        let tokens = |config: &ModelConfig| config.summary().stages[0].tokens;
        assert_eq!(tokens(&of_wide), tokens(&of_square) + 4 * 2, "{name}");
        // Of the parameters, only learned positions are more: 8 of 192 channels.
        let positions = if name.contains("dinov3") { 0 } else { 8 * 192 };
        let params = [&of_wide, &of_square].map(|config| config.summary().params);
        assert_eq!(params[0], params[1] + positions, "{name}");
    }
    for name in names() {
        let config = ModelConfig::by_name(&name).unwrap();
        let (family, found) = (config.family().name, config.with(&wide));
        if family == "ViT" {
            assert!(name.contains("patch14") || found.is_ok(), "{name}");
            continue;
        }
        assert_eq!(
            found.unwrap_err(),
            ModelError::NotSquare {
                height: 64,
                width: 96,
                side: 64,
                family,
            }
        );
    }
}

/// Of the sizes here, 4 x 9 patches are as many as 6 x 6, and 4 x 6 as many as 6 x 4.
#[test]
fn learned_positions_of_a_rectangle_are_for_its_size_alone() {
    let of = |name: &str, sides: [usize; 2]| {
        let overrides = ModelOverrides {
            img_size: Some(sides.into()),
            ..ModelOverrides::default()
        };
        ModelConfig::by_name(name).unwrap().with(&overrides)
    };
    for (own, model) in [
        ([64, 144], [96, 96]),
        ([64, 96], [96, 64]),
        ([64, 96], [128, 192]),
    ] {
        let check = |name, sides, own: [usize; 2]| {
            let config = of(name, sides).unwrap();
            config.check_positions_of(own.into())
        };
        let deit = "deit_tiny_patch16_224";
        let error = check(deit, model, own).unwrap_err();
        assert_eq!(error, ModelError::OtherRectangle { own, model });
        assert_eq!(check(deit, own, own), Ok(()));
        assert_eq!(check(deit, own, [96, 96]), Ok(()));
        // Rotary positions are computed.
        assert_eq!(check("vit_small_patch16_dinov3", model, own), Ok(()));
    }
}

#[test]
fn a_side_of_zero_is_refused_as_such() {
    for name in ["deit_tiny_patch16_224", "swin_tiny_patch4_window7_224"] {
        let overrides = ModelOverrides {
            img_size: Some([0, 96].into()),
            ..ModelOverrides::default()
        };
        let config = ModelConfig::by_name(name).unwrap();
        let error = config.with(&overrides).unwrap_err().to_string();
        assert!(
            !error.contains("square") && error.contains("`img_size`"),
            "{error}"
        );
    }
}

#[test]
fn a_list_of_attentions_must_fit_the_stages() {
    let overrides = ModelOverrides {
        attention: Some(AttentionConfig::Knn(KnnConfig {
            neighbors: vec![Neighbors::All; 2].into(),
            ..KnnConfig::default()
        })),
        ..ModelOverrides::default()
    };
    let config = ModelConfig::by_name("deit_tiny_patch16_224").unwrap();
    assert_eq!(
        config.with(&overrides).unwrap_err().to_string(),
        "`neighbors` has 2 entries, but the model has 1 stage (`blocks` with 197 keys): \
         give one entry for all stages, or one per stage"
    );
}

#[test]
fn sizes_that_describe_no_model_are_refused() {
    let refuse = |overrides: ModelOverrides| {
        let config = ModelConfig::by_name("deit_tiny_patch16_224").unwrap();
        config.with(&overrides).unwrap_err()
    };
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
                img_size: Some(10.into()),
                ..default()
            },
            "`img_size` 10 is not a multiple of `patch_size` 16: the nearest multiples are 16 and 32",
        ),
        (
            ModelOverrides {
                num_heads: Some(5.into()),
                ..default()
            },
            "`embed_dim` 192 is not a multiple of `num_heads` 5: every head needs the same number of channels",
        ),
    ] {
        assert_eq!(refuse(overrides).to_string(), message);
    }
    assert_eq!(
        refuse(ModelOverrides {
            patch_size: Some(0),
            ..default()
        }),
        ModelError::OutOfRange {
            field: "patch_size",
            value: 0.0,
            expected: "at least 1"
        }
    );
    for drop_path in [1.0, -0.1, f64::NAN] {
        assert!(matches!(
            refuse(ModelOverrides {
                drop_path: Some(drop_path),
                ..default()
            }),
            ModelError::OutOfRange {
                field: "drop_path",
                ..
            }
        ));
    }
    for mlp_ratio in [0.0, -1.0, f64::INFINITY, f64::NAN] {
        assert!(matches!(
            refuse(ModelOverrides {
                mlp_ratio: Some(mlp_ratio),
                ..default()
            }),
            ModelError::OutOfRange {
                field: "mlp_ratio",
                ..
            }
        ));
    }
    let attention = AttentionConfig::Dense(DenseConfig { temperature: 0.0 });
    assert!(matches!(
        refuse(ModelOverrides {
            attention: Some(attention),
            ..default()
        }),
        ModelError::Attention(_)
    ));
}

#[test]
fn sizes_whose_cost_is_no_number_are_refused() {
    let with = |name: &str, overrides: ModelOverrides| {
        let config = ModelConfig::by_name(name).unwrap().with(&overrides);
        config.unwrap_err().to_string()
    };
    let large = ModelOverrides {
        img_size: Some(65_536.into()),
        patch_size: Some(1),
        ..ModelOverrides::default()
    };
    for name in ["deit_tiny_patch16_224", "swin_tiny_patch4_window7_224"] {
        assert!(with(name, large.clone()).contains("at most 1024"));
    }
    let overlapping = ModelOverrides {
        img_size: Some(65_536.into()),
        patch_stride: Some(1),
        ..ModelOverrides::default()
    };
    for name in ["pit_ti_224", "cvt_13"] {
        assert!(with(name, overlapping.clone()).contains("at most 1024"));
    }
    let fine = ModelOverrides {
        img_size: Some(65_536.into()),
        strides: Some(vec![1]),
        ..ModelOverrides::default()
    };
    assert!(with("twins_svt_small", fine).contains("at most 1024"));
    for (name, strides) in [
        ("t2t_vit_t_14", vec![1, 1, 1]),
        ("so_vit_7", vec![1, 1, 1]),
        ("visformer_tiny", vec![0, 1, 1, 1]),
        ("volo_d1_224", vec![1, 1]),
    ] {
        let fine = ModelOverrides {
            img_size: Some(65_536.into()),
            strides: Some(strides),
            ..ModelOverrides::default()
        };
        assert!(with(name, fine).contains("at most 1024"), "{name}");
    }
    // The concatenated pixels of a patch have 2^36 numbers.
    let patches = ModelOverrides {
        img_size: Some(65_536.into()),
        patch_size: Some(1024),
        inner_dim: Some(65_536),
        inner_num_heads: Some(1),
        inner_stride: Some(1),
        embed_dim: Some(65_536.into()),
        depth: Some(4096.into()),
        num_heads: Some(1.into()),
        ..ModelOverrides::default()
    };
    assert_eq!(
        with("tnt_s_patch16_224", patches),
        "`inner_dim times the pixels of a patch` is 68719476736: expected at most 1048576"
    );
    let wide = ModelOverrides {
        mlp_ratio: Some(1e30),
        ..ModelOverrides::default()
    };
    for name in [
        "deit_tiny_patch16_224",
        "swin_tiny_patch4_window7_224",
        "pit_ti_224",
        "cvt_13",
        "t2t_vit_t_14",
        "tnt_s_patch16_224",
        "so_vit_7",
        "visformer_tiny",
        "twins_svt_small",
        "volo_d1_224",
    ] {
        assert!(with(name, wide.clone()).contains("`mlp_ratio`"), "{name}");
    }
    let deep = ModelOverrides {
        embed_dim: Some(65_536.into()),
        depth: Some(vec![1; 16].into()),
        num_heads: Some(1.into()),
        ..ModelOverrides::default()
    };
    assert!(with("swin_tiny_patch4_window7_224", deep).contains("`embed_dim`"));
    let list = ModelOverrides {
        depth: Some(vec![1, 2].into()),
        ..ModelOverrides::default()
    };
    assert!(with("deit_tiny_patch16_224", list).contains("expected one number"));
}

/// Each size is in its range, but their product exceeds any machine.
#[test]
fn a_model_larger_than_any_machine_is_refused() {
    let with = |name: &str, embed_dim: &[usize], depth: &[usize]| {
        let overrides = ModelOverrides {
            embed_dim: Some(embed_dim.to_vec().into()),
            depth: Some(depth.to_vec().into()),
            num_heads: Some(1.into()),
            ..ModelOverrides::default()
        };
        ModelConfig::by_name(name).unwrap().with(&overrides)
    };
    for (name, embed_dim, depth) in [
        ("deit_tiny_patch16_224", &[65_536][..], &[4096][..]),
        ("swin_tiny_patch4_window7_224", &[8192], &[2, 2, 6, 2]),
        ("pit_ti_224", &[4096, 8192, 16_384], &[6]),
        ("cvt_13", &[65_536], &[4096]),
        ("t2t_vit_t_14", &[65_536], &[4096]),
        ("tnt_s_patch16_224", &[65_536], &[4096]),
        ("so_vit_7", &[65_536], &[4096]),
        ("visformer_tiny", &[65_536], &[4096]),
        ("twins_svt_small", &[65_536], &[4096]),
        ("volo_d1_224", &[65_536], &[4096]),
    ] {
        let error = with(name, embed_dim, depth).unwrap_err();
        assert!(
            matches!(
                error,
                ModelError::OutOfRange {
                    field: "parameters of the model",
                    ..
                }
            ),
            "{name}: {error}"
        );
    }
    // Convolutions whose number of operations exceeds 64 bits.
    let stem = ModelOverrides {
        img_size: Some(65_536.into()),
        strides: Some(vec![1, 64]),
        stem_dim: Some(65_536),
        embed_dim: Some(65_536.into()),
        num_heads: Some(1.into()),
        ..ModelOverrides::default()
    };
    let volo = ModelConfig::by_name("volo_d1_224").unwrap();
    let error = volo.with(&stem).unwrap_err().to_string();
    assert!(error.starts_with("`parameters of the model`"), "{error}");
    // ViT-G, among the largest models trained on images, has 1.8 billion.
    let giant = with("deit_tiny_patch16_224", &[1664], &[48]).unwrap();
    assert!(giant.summary().params > 1_500_000_000);
}
