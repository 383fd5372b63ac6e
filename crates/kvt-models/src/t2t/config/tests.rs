#![expect(clippy::unwrap_used, reason = "tests")]

use std::path::Path;

use kvt_attention::{Neighbors, Place};
use serde_json::Value;

use super::*;
use crate::testing::{self, knn, with};

fn named(name: &str) -> T2tConfig {
    testing::named(name)
}

/// Written by `scripts/reference/t2t.py`, which counts the products in PyTorch.
#[test]
fn sizes_and_costs_are_the_originals() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/counts_t2t.json");
    let file: Value = serde_json::from_str(&fs_err::read_to_string(file).unwrap()).unwrap();
    let models = file["models"].as_object().unwrap();
    let names: Vec<String> = T2tConfig::named().iter().map(T2tConfig::name).collect();
    assert_eq!(models.len(), names.len());
    for name in names {
        let count = |key: &str| models[&name][key].as_u64().unwrap();
        let summary = named(&name).summary();
        assert_eq!(summary.params as u64, count("params"), "{name}");
        let macs = Macs {
            linear: count("linear"),
            attention: count("attention"),
        };
        assert_eq!(summary.macs, macs, "{name}");
    }
}

/// The table of Figure 1 in the k-NN paper has no line for T2T-ViT; the paper recommends two thirds.
#[test]
fn every_stage_resolves_its_own_k() {
    let share = knn(vec![Neighbors::fraction(0.6667).unwrap()]);
    let counts = |name: &str, overrides: &ModelOverrides| {
        let stages = with(name, overrides).unwrap().summary().stages;
        let counts = stages
            .into_iter()
            .map(|s| (s.name, s.depth, s.tokens, s.keys, s.k));
        counts.collect::<Vec<_>>()
    };
    let stage = |name: &str, depth, tokens, k| (name.to_owned(), depth, tokens, tokens, k);
    let [first, second] =
        ["attention1", "attention2"].map(|name| format!("tokens_to_token.{name}"));
    assert_eq!(
        counts("t2t_vit_t_19", &share),
        [
            stage(&first, 1, 3136, 2090),
            stage(&second, 1, 784, 522),
            stage("blocks", 19, 197, 131)
        ]
    );
    let list = [3136, 500, 7].map(|k| Neighbors::count(k).unwrap());
    let ks: Vec<usize> = counts("t2t_vit_t_19", &knn(list.into()))
        .into_iter()
        .map(|stage| stage.4)
        .collect();
    assert_eq!(ks, [3136, 500, 7]);
    let attending = |name| {
        let summary = named(name).summary();
        let stages: Vec<String> = summary.attending().map(|s| s.name.clone()).collect();
        stages
    };
    assert_eq!(attending("t2t_vit_t_14").len(), 3);
    assert_eq!(attending("t2t_vit_14"), ["blocks"]);
    assert_eq!(
        counts("t2t_vit_14", &share),
        [
            (first, 1, 3136, 0, 0),
            (second, 1, 784, 0, 0),
            stage("blocks", 14, 197, 131)
        ]
    );
}

#[test]
fn a_list_of_neighbors_fits_the_stages_with_scores() {
    let refuse = |name, entries| {
        let error = with(name, &knn(vec![Neighbors::All; entries])).unwrap_err();
        error.to_string()
    };
    assert_eq!(
        refuse("t2t_vit_t_14", 2),
        "`neighbors` has 2 entries, but the model has 3 stages (`tokens_to_token.attention1` with 3136 keys, \
         `tokens_to_token.attention2` with 784 keys, `blocks` with 197 keys): give one entry for all stages, or \
         one per stage"
    );
    assert_eq!(
        refuse("t2t_vit_14", 3),
        "`neighbors` has 3 entries, but only `blocks` takes one: the Performers of `tokens_to_token` make no \
         scores to choose keys by; give one entry, or use token transformers, as in `t2t_vit_t_14`"
    );
}

/// Kernels and strides of the original (7 by 4 padded by 2, 3 by 2 padded by 1), and strides that leave more tokens
/// of small images.
#[test]
fn strides_divide_the_image_without_rest() {
    let splits = |strides: [usize; 3], img_size: usize| {
        let mut config = named("t2t_vit_t_14");
        (config.strides, config.common.img_size) = (strides, img_size.into());
        let sizes = config.token_sizes();
        sizes.map(|size| (size.split.padding, size.grid, size.input))
    };
    assert_eq!(
        splits([4, 2, 2], 224),
        [(2, 56, 147), (1, 28, 576), (1, 14, 576)]
    );
    assert_eq!(
        splits([2, 2, 1], 32),
        [(3, 16, 147), (1, 8, 576), (1, 8, 576)]
    );
    // A kernel smaller than its stride leaves pixels out, but not only at the border.
    assert_eq!(
        splits([8, 1, 3], 48),
        [(0, 6, 147), (1, 6, 576), (0, 2, 576)]
    );
}

#[test]
fn a_name_says_what_is_not_the_originals() {
    let config = with(
        "t2t_vit_t_14",
        &ModelOverrides {
            img_size: Some(32.into()),
            strides: Some(vec![2, 2, 1]),
            token_dim: Some(32),
            embed_dim: Some(128.into()),
            depth: Some(4.into()),
            num_heads: Some(4.into()),
            ..ModelOverrides::default()
        },
    )
    .unwrap();
    assert_eq!(config.name(), "t2t_vit_t_128x4_token32_stride2-2-1_32");
    let tokens: Vec<_> = config.summary().stages.iter().map(|s| s.tokens).collect();
    assert_eq!(tokens, [256, 64, 65]);
    let large = ModelOverrides {
        img_size: Some(384.into()),
        ..ModelOverrides::default()
    };
    let large = with("t2t_vit_t_19", &large).unwrap();
    assert_eq!(large.name(), "t2t_vit_t_19_384");
    // Without the positions, which are not trained.
    assert_eq!(large.summary().params, 39_343_182 - 577 * 448);
    // The published number is 40.03 billion.
    let macs = large.summary().macs.total() as f64;
    assert_eq!((macs / 1e7).round(), 4003.0);
}

#[test]
fn sizes_that_describe_no_model_are_refused() {
    let refuse = |name, overrides: ModelOverrides| with(name, &overrides).unwrap_err().to_string();
    let default = ModelOverrides::default;
    assert_eq!(
        refuse(
            "t2t_vit_14",
            ModelOverrides {
                img_size: Some(225.into()),
                ..default()
            }
        ),
        "`img_size` 225 is not a multiple of 16, the product of `strides`: the nearest multiples are 224 and 240"
    );
    assert_eq!(
        refuse(
            "t2t_vit_14",
            ModelOverrides {
                strides: Some(vec![4, 2]),
                ..default()
            }
        ),
        "`strides` has 2 entries: expected 3, of its soft splits"
    );
    assert_eq!(
        refuse(
            "t2t_vit_t_14",
            ModelOverrides {
                strides: Some(vec![4, 0, 2]),
                ..default()
            }
        ),
        "`strides` is 0: expected at least 1"
    );
    assert_eq!(
        refuse(
            "t2t_vit_14",
            ModelOverrides {
                token_dim: Some(1),
                ..default()
            }
        ),
        "`token_dim` is 1: expected at least 2, since a Performer has half as many features"
    );
    assert_eq!(
        refuse(
            "t2t_vit_t_14",
            ModelOverrides {
                num_heads: Some(5.into()),
                ..default()
            }
        ),
        "`embed_dim` 384 is not a multiple of `num_heads` 5: every head needs the same number of channels"
    );
    assert!(
        refuse(
            "t2t_vit_14",
            ModelOverrides {
                img_size: Some(2048.into()),
                strides: Some(vec![1, 2, 2]),
                ..default()
            }
        )
        .starts_with("`tokens along a side of the map` is 2048: ")
    );
    assert_eq!(
        refuse(
            "t2t_vit_14",
            ModelOverrides {
                depth: Some(vec![1, 1, 14].into()),
                ..default()
            }
        ),
        "`depth` has 3 entries: expected one number"
    );
    // A list that has not been split.
    let mut config = named("t2t_vit_t_14");
    let Some(list) = knn(vec![Neighbors::All; 3]).attention else {
        unreachable!()
    };
    config.tokens_type = TokensType::Transformer {
        attention: [AttentionConfig::dense(), list],
    };
    let error = config.validate().unwrap_err().to_string();
    assert!(
        error.starts_with("in `tokens_to_token.attention2`: `neighbors` has 3 entries"),
        "{error}"
    );
    let mut config = named("t2t_vit_14");
    config.tokens_type = TokensType::Performer { drop: 1.0 };
    assert!(matches!(
        config.validate(),
        Err(ModelError::OutOfRange { field: "drop", .. })
    ));
    // The smallest sizes.
    let least = ModelOverrides {
        img_size: Some(1.into()),
        strides: Some(vec![1, 1, 1]),
        token_dim: Some(1),
        ..default()
    };
    let stages = with("t2t_vit_t_14", &least).unwrap().summary().stages;
    let tokens: Vec<_> = stages.iter().map(|s| s.tokens).collect();
    assert_eq!(tokens, [1, 1, 2]);
}

/// The token transformers have one head, no class token and no dropout.
#[test]
fn attention_knows_where_it_stands() {
    let mut config = named("t2t_vit_t_19");
    config.common.attn_drop = 0.25;
    let [first, second, _] = config.token_sizes().map(|size| size.place());
    let place = |tokens, heads, prefix, grid, dropout| Place {
        queries: tokens,
        keys: tokens,
        heads,
        head_dim: 64,
        prefix,
        grid: Some([grid, grid]),
        bias: false,
        mask: false,
        dropout,
        softmax_only: None,
    };
    let softmax_only = first.softmax_only;
    assert!(softmax_only.is_some());
    let token = |tokens, grid| Place {
        softmax_only,
        ..place(tokens, 1, 0, grid, 0.0)
    };
    assert_eq!(first, token(3136, 56));
    assert_eq!(second, token(784, 28));
    assert_eq!(config.blocks().place, place(197, 7, 1, 14, 0.25));
}
