#![expect(clippy::unwrap_used, reason = "tests")]

use burn::tensor::TensorData;
use kvt_attention::{Neighbors, Place};

use super::*;
use crate::family::families::ModelConfig;
use crate::testing;

fn named(name: &str) -> VoloConfig {
    testing::named(name)
}

fn with(overrides: &ModelOverrides) -> Result<ModelConfig, ModelError> {
    ModelConfig::by_name("volo_d1_224")?.with(overrides)
}

fn knn(k: usize) -> AttentionConfig {
    AttentionConfig::knn(Neighbors::count(k).unwrap())
}

fn default() -> ModelOverrides {
    ModelOverrides::default()
}

#[test]
fn sizes_and_costs_are_those_of_timms_layers() {
    // Counted in timm's model: products with weights, convolutions, and products of two activations.
    for (name, params, linear, attention) in [
        ("volo_d1_224", 26_632_040, 6_493_197_312, 425_544_192),
        ("volo_d1_384", 26_777_960, 19_075_587_072, 3_603_973_632),
        ("volo_d2_224", 58_678_336, 13_572_542_464, 732_872_704),
        ("volo_d2_384", 58_872_896, 39_875_497_984, 6_188_140_544),
        ("volo_d3_224", 86_325_072, 19_597_676_544, 1_134_381_056),
        ("volo_d3_448", 86_626_128, 78_373_441_536, 17_755_080_704),
        ("volo_d4_224", 192_961_520, 42_561_411_072, 1_701_571_584),
        ("volo_d4_448", 193_413_104, 170_207_950_848, 26_632_621_056),
        ("volo_d5_224", 295_455_584, 70_103_169_024, 2_198_012_928),
        ("volo_d5_448", 295_907_168, 280_367_904_768, 34_283_056_128),
        ("volo_d5_512", 296_091_488, 366_190_245_888, 58_367_413_248),
    ] {
        let summary = named(name).summary();
        assert_eq!(summary.params, params, "{name}");
        assert_eq!(summary.macs, Macs { linear, attention }, "{name}");
    }
    let stages = named("volo_d1_224").summary().stages;
    let sizes: Vec<_> = stages.iter().map(|s| (s.name.as_str(), s.params)).collect();
    // Counted in timm's model; the coarser map belongs to the first stage after it.
    let expected = [
        ("network.0", 1_561_752),
        ("network.2", 5_912_064 + 295_296),
        ("network.3", 11_824_128),
        ("network.4", 2_956_032),
        ("post_network", 2_956_032),
    ];
    assert_eq!(sizes, expected);
}

/// A list has an entry for each stage with queries and keys; the class token's attention is separate.
#[test]
fn every_stage_resolves_its_own_k() {
    let config = VoloConfig {
        attention: vec![knn(98), knn(500), knn(7)],
        class_attention: knn(50),
        ..named("volo_d1_224")
    };
    let stages = config.summary().stages;
    let counts: Vec<_> = stages.iter().map(|s| (s.tokens, s.keys, s.k)).collect();
    let expected = [
        (784, 0, 0),
        (196, 196, 98),
        (196, 196, 196),
        (196, 196, 7),
        (1, 197, 50),
    ];
    assert_eq!(counts, expected);
    let keys = |name: &str| {
        let stages = named(name).summary().stages;
        (stages[1].keys, stages[4].keys)
    };
    assert_eq!(keys("volo_d1_384"), (576, 577));
    assert_eq!(keys("volo_d3_448"), (784, 785));
}

#[test]
fn lists_of_neighbours_are_for_the_stages_with_keys() {
    let share = Neighbors::fraction(0.5).unwrap();
    let attention = |config: ModelConfig| match config {
        ModelConfig::Volo(config) => (config.attention, config.class_attention),
        _ => unreachable!(),
    };
    let one = ModelOverrides {
        attention: Some(AttentionConfig::knn(share)),
        ..default()
    };
    let (blocks, class) = attention(with(&one).unwrap());
    assert_eq!(blocks, vec![AttentionConfig::knn(share); 3]);
    assert_eq!(class, AttentionConfig::dense());

    let list = |neighbors: Vec<Neighbors>| ModelOverrides {
        attention: Some(AttentionConfig::Knn(kvt_attention::KnnConfig {
            neighbors: neighbors.into(),
            ..kvt_attention::KnnConfig::new(share)
        })),
        class_attention: Some(knn(9)),
        ..default()
    };
    let (blocks, class) = attention(with(&list(vec![share, Neighbors::All, share])).unwrap());
    assert_eq!(blocks[0], AttentionConfig::knn(share));
    assert_eq!(blocks[1], AttentionConfig::knn(Neighbors::All));
    assert_eq!(class, knn(9));
    assert_eq!(
        with(&list(vec![share; 4])).unwrap_err().to_string(),
        "`neighbors` has 4 entries, but the model has 3 stages (`network.2` with 196 keys, `network.3` with 196 keys, \
         `network.4` with 196 keys): give one entry for all stages, or one per stage"
    );
}

/// The counts of two small models in timm: at 64 px, and one for CIFAR.
#[test]
fn small_models_are_timms() {
    let small = ModelOverrides {
        img_size: Some(64.into()),
        num_classes: Some(10),
        stem_dim: Some(16),
        embed_dim: Some(vec![32, 64, 64, 64].into()),
        depth: Some(1.into()),
        num_heads: Some(vec![2, 4, 4, 4].into()),
        ..default()
    };
    let small = with(&small).unwrap();
    assert_eq!(small.summary().params, 247_558);
    assert_eq!(small.name(), "volo_32-64-64-64x1-1-1-1_64");
    let cifar = ModelOverrides {
        img_size: Some(32.into()),
        num_classes: Some(10),
        strides: Some(vec![2, 2]),
        stem_dim: Some(16),
        embed_dim: Some(vec![48, 96, 96].into()),
        depth: Some(vec![1, 1, 1].into()),
        num_heads: Some(vec![2, 4, 4].into()),
        ..default()
    };
    let cifar = with(&cifar).unwrap();
    assert_eq!(cifar.summary().params, 431_366);
    assert_eq!(cifar.name(), "volo_48-96-96x1-1-1_stride2-2_32");
    let tokens: Vec<_> = cifar.summary().stages.iter().map(|s| s.tokens).collect();
    assert_eq!(tokens, [64, 16, 16, 1]);
}

#[test]
fn sizes_that_describe_no_model_are_refused() {
    let refuse = |overrides: ModelOverrides| with(&overrides).unwrap_err().to_string();
    assert_eq!(
        refuse(ModelOverrides {
            img_size: Some(14.into()),
            ..default()
        }),
        "`img_size` 14 is too small for VOLO with such strides: the least is 15"
    );
    let least = ModelOverrides {
        img_size: Some(15.into()),
        ..default()
    };
    let least = with(&least).unwrap().summary();
    assert_eq!(least.stages[1].tokens, 1);
    // A single query of the map is not a class token.
    let attending: Vec<_> = least.attending().map(|stage| stage.name.as_str()).collect();
    assert_eq!(attending, ["network.2", "network.3", "network.4"]);
    assert_eq!(
        refuse(ModelOverrides {
            strides: Some(vec![2]),
            ..default()
        }),
        "`strides` has 1 entries: expected 2, of the first convolution and the patches"
    );
    assert_eq!(
        refuse(ModelOverrides {
            strides: Some(vec![2, 0]),
            ..default()
        }),
        "`strides` is 0: expected at least 1"
    );
    assert_eq!(
        refuse(ModelOverrides {
            stem_dim: Some(0),
            ..default()
        }),
        "`stem_dim` is 0: expected at least 1"
    );
    assert_eq!(
        refuse(ModelOverrides {
            embed_dim: Some(vec![192, 384, 192, 384].into()),
            ..default()
        }),
        "in `network.3`: `embed_dim` is 192, and 384 in the last stage: only the stage of outlookers may have a \
         different number of channels than later stages"
    );
    assert_eq!(
        refuse(ModelOverrides {
            embed_dim: Some(vec![190, 384, 384, 384].into()),
            ..default()
        }),
        "in `network.0`: `embed_dim` 190 is not a multiple of `num_heads` 6: every head needs the same number of channels"
    );
    assert_eq!(
        refuse(ModelOverrides {
            num_heads: Some(vec![6, 12, 12, 5].into()),
            ..default()
        }),
        "in `network.4`: `embed_dim` 384 is not a multiple of `num_heads` 5: every head needs the same number of channels"
    );
    let one = VoloConfig {
        depth: vec![4],
        ..named("volo_d1_224")
    };
    assert_eq!(
        one.validate().unwrap_err().to_string(),
        "`number of stages` is 1: expected at least 2 entries of `depth`: outlookers, and transformer blocks"
    );
}

/// As a list of tokens without a prefix; that list is compared with PyTorch elsewhere.
#[test]
fn position_embeddings_are_resized_plainly() {
    let config = named("volo_d1_384");
    let values: Vec<f32> = (0..14 * 14 * 384).map(|i| (i * 37 % 101) as f32).collect();
    let map = TensorData::new(values.clone(), [1, 14, 14, 384]);
    let resized = config.resize("pos_embed", &[1, 24, 24, 384], &map).unwrap();
    assert_eq!(resized.shape().as_slice(), [1, 24, 24, 384]);
    let tokens = TensorData::new(values, [1, 14 * 14, 384]);
    let tokens = Bicubic::Plain.resample(&tokens, [24; 2], Form::Tokens(0));
    let tokens = tokens.unwrap();
    let values = |data: TensorData| data.try_to_vec::<f32>().unwrap();
    assert_eq!(values(resized), values(tokens));
    assert!(config.resize("cls_token", &[1, 1, 384], &map).is_none());
}

/// The class token is the only query of its blocks; the others have no class token.
#[test]
fn attention_knows_where_it_stands() {
    let mut config = named("volo_d1_224");
    config.common.attn_drop = 0.25;
    let places: Vec<_> = config.stages().map(|blocks| blocks.place).collect();
    let of_map = places[0];
    assert!(of_map.softmax_only.is_some());
    let expected = Place {
        queries: 196,
        keys: 196,
        heads: 12,
        head_dim: 32,
        prefix: 0,
        grid: Some([14, 14]),
        bias: false,
        mask: false,
        dropout: 0.25,
        softmax_only: of_map.softmax_only,
    };
    assert_eq!(places, [expected; 3]);
    let class = config.class().place;
    assert!(class.softmax_only.is_some());
    let expected = Place {
        queries: 1,
        keys: 197,
        prefix: 1,
        grid: None,
        softmax_only: class.softmax_only,
        ..expected
    };
    assert_eq!(class, expected);
}
