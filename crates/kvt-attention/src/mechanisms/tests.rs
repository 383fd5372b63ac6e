#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::collections::BTreeMap;

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::{Device, TensorData};
use kvt_ops::{Key, Phase};
use serde_json::json;

use super::mean::MeanConfig;
use super::*;
use crate::{
    BurnInit, Implementation, Macs, MultiHeadAttentionConfig, PerStage, Score, Selection,
    SoftmaxAttention, attend,
};

/// One of each kind, with other settings than the defaults.
fn all() -> Vec<AttentionConfig> {
    vec![
        AttentionConfig::Dense(DenseConfig { temperature: 2.0 }),
        AttentionConfig::Knn(KnnConfig {
            neighbors: vec![
                Neighbors::count(7).unwrap(),
                Neighbors::fraction(0.25).unwrap(),
            ]
            .into(),
            selection: Selection::Euclidean,
            implementation: Implementation::Gathered,
            temperature: 0.5,
        }),
        AttentionConfig::Linear(LinearConfig { epsilon: 1e-3 }),
        AttentionConfig::Favor(FavorConfig {
            features: 7,
            orthogonal: false,
            redraw: Redraw::Never,
            seed: 5,
            epsilon: 1e-3,
            temperature: 2.0,
        }),
        AttentionConfig::Performer(PerformerConfig {
            features: 7,
            orthogonal: false,
            redraw: Redraw::Never,
            seed: 5,
            kernel_epsilon: 1e-3,
            temperature: 2.0,
        }),
        AttentionConfig::PerformerRelu(PerformerReluConfig {
            features: 7,
            projected: false,
            orthogonal: false,
            redraw: Redraw::Never,
            seed: 5,
            kernel_epsilon: 1e-2,
        }),
        AttentionConfig::Rfa(RfaConfig {
            features: 7,
            orthogonal: true,
            redraw: Redraw::Never,
            seed: 5,
            tau: 0.5,
            epsilon: 1e-2,
        }),
        AttentionConfig::Dpfp(DpfpConfig {
            order: 2,
            epsilon: 1e-3,
        }),
        AttentionConfig::Clustered(ClusteredConfig {
            clusters: 7,
            bits: 9,
            iterations: 3,
            redraw: Redraw::Never,
            seed: 5,
            temperature: 2.0,
        }),
        AttentionConfig::ClusteredImproved(ClusteredImprovedConfig {
            clustering: ClusteredConfig {
                clusters: 7,
                bits: 9,
                iterations: 3,
                redraw: Redraw::Never,
                seed: 5,
                temperature: 2.0,
            },
            kept: 6,
        }),
        AttentionConfig::Informer(InformerConfig {
            factor: 2,
            official_mean: true,
            redraw: Redraw::Never,
            seed: 5,
            temperature: 2.0,
        }),
        AttentionConfig::MemoryCompressed(MemoryCompressedConfig {
            ratio: 2,
            shared: true,
            temperature: 2.0,
        }),
        AttentionConfig::Inducing(InducingConfig {
            points: 7,
            temperature: 2.0,
        }),
        AttentionConfig::Luna(LunaConfig {
            points: 8,
            tied: false,
            temperature: 2.0,
        }),
        AttentionConfig::Linformer(LinformerConfig {
            rank: 5,
            shared: true,
            temperature: 2.0,
        }),
        AttentionConfig::Poolingformer(PoolingformerConfig {
            radius: 1,
            pool_radius: 6,
            pool: 3,
            stride: 2,
            temperature: 2.0,
        }),
        AttentionConfig::LowRankBand(LowRankBandConfig {
            radius: 1,
            maps: 3,
            epsilon: 1e-3,
        }),
        AttentionConfig::Nystrom(NystromConfig {
            landmarks: 5,
            iterations: 7,
            conv: 3,
            ridge: 1.0,
            temperature: 2.0,
        }),
        AttentionConfig::Scram(ScramConfig {
            kept: 3,
            search: ScramSearch::Mode,
            separation: 2,
            radius: 1,
            iterations: 5,
            redraw: Redraw::Never,
            seed: 9,
            temperature: 0.5,
        }),
        AttentionConfig::Mean(MeanConfig { gain: 3.0 }),
    ]
}

fn parse(value: Value) -> Result<AttentionConfig, serde_json::Error> {
    serde_json::from_value(value)
}

#[test]
fn settings_are_written_flat_and_read_back() {
    let configs = all();
    assert_eq!(configs.len(), AttentionConfig::KINDS.len());
    for (config, kind) in configs.iter().zip(AttentionConfig::KINDS) {
        assert_eq!(config.kind(), *kind);
        let value = serde_json::to_value(config).unwrap();
        assert_eq!(value["kind"], *kind);
        assert_eq!(parse(value).unwrap(), *config);
    }
    let knn = json!({
        "kind": "knn",
        "neighbors": [7, 0.25],
        "selection": "euclidean",
        "implementation": "gathered",
        "temperature": 0.5,
    });
    assert_eq!(serde_json::to_value(&configs[1]).unwrap(), knn);
}

/// The table of a run's configuration, in the order of the fields and with a decimal point in every share.
#[test]
fn a_table_of_toml_is_read_and_written() {
    let text = "kind = \"knn\"\nneighbors = [7, 0.25]\nselection = \"euclidean\"\n\
                implementation = \"gathered\"\ntemperature = 0.5\n";
    let config = &all()[1];
    assert_eq!(toml::from_str::<AttentionConfig>(text).unwrap(), *config);
    assert_eq!(toml::to_string(config).unwrap(), text);
    let one = AttentionConfig::knn(Neighbors::fraction(1.0).unwrap());
    let text = "kind = \"knn\"\nneighbors = 1.0\n";
    assert_eq!(toml::from_str::<AttentionConfig>(text).unwrap(), one);
    assert!(toml::to_string(&one).unwrap().starts_with(text));
}

#[test]
fn keys_that_are_not_given_have_defaults_and_those_of_other_kinds_are_ignored() {
    let half = AttentionConfig::knn(Neighbors::fraction(0.5).unwrap());
    assert_eq!(parse(json!({ "kind": "knn" })).unwrap(), half);
    assert_eq!(parse(json!({})).unwrap(), AttentionConfig::dense());
    let switched_off = json!({ "kind": "dense", "neighbors": 3, "temperature": 2.0 });
    assert_eq!(parse(switched_off).unwrap(), all()[0]);
}

#[test]
fn values_that_are_none_are_named() {
    let message = |value| parse(value).unwrap_err().to_string();
    assert_eq!(
        message(json!({ "kind": "kn" })),
        format!(
            "unknown variant `kn`, expected one of `{}`",
            AttentionConfig::KINDS.join("`, `")
        )
    );
    assert_eq!(message(json!({ "kind": 3 })), "`kind` is 3, not a name");
    let neighbors = message(json!({ "kind": "knn", "neighbors": 0 }));
    assert!(neighbors.contains("one per stage"), "{neighbors}");
    let words = message(json!({ "kind": "knn", "selection": "cosine" }));
    assert!(words.contains("`dot-product`"), "{words}");
}

/// Keywords in which the kinds of a key may differ.
const OF_A_KIND: [&str; 5] = [
    "default",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
];

/// A key must have the same meaning in every kind, so that one schema can describe the table.
#[test]
fn a_key_has_one_schema_in_all_its_kinds() {
    let mut known: BTreeMap<String, BTreeMap<&str, Value>> = BTreeMap::new();
    let schemas = AttentionConfig::schemas(&mut SchemaGenerator::default());
    for (&kind, schema) in AttentionConfig::KINDS.iter().zip(schemas) {
        assert!(schema.get("description").is_some());
        let keys = schema.get("properties").unwrap().as_object().unwrap();
        assert!(!keys.is_empty() && !keys.contains_key("kind"));
        for (key, schema) in keys {
            assert!(schema["description"].is_string(), "{key}");
            let kinds = known.entry(key.clone()).or_default();
            kinds.insert(kind, schema.clone());
        }
    }
    let without = |schema: &Value| {
        let mut schema = schema.as_object().unwrap().clone();
        schema.retain(|keyword, _| !OF_A_KIND.contains(&keyword.as_str()));
        schema
    };
    let union = AttentionConfig::json_schema(&mut SchemaGenerator::default()).to_value();
    for (key, kinds) in &known {
        let mut property = union["properties"][key].as_object().unwrap().clone();
        let listed = property.remove("x-kinds").unwrap();
        let listed: Vec<&str> = listed
            .as_array()
            .unwrap()
            .iter()
            .map(|kind| kind.as_str().unwrap())
            .collect();
        let expected = AttentionConfig::KINDS
            .iter()
            .filter(|kind| kinds.contains_key(**kind));
        assert!(listed.iter().eq(expected), "{key}: {listed:?}");

        let of_kind = property.remove("x-of-kind");
        let first = kinds.values().next().unwrap();
        assert_eq!(
            of_kind.is_some(),
            kinds.values().any(|schema| schema != first),
            "{key}"
        );
        for (kind, schema) in kinds {
            assert_eq!(without(schema), without(first), "`{key}` of `{kind}`");
            if let Some(of_kind) = &of_kind {
                assert_eq!(of_kind[kind], *schema);
            }
        }
        let shared = first.as_object().unwrap().clone().into_iter();
        let shared: Map<String, Value> = shared
            .filter(|(keyword, value)| {
                kinds
                    .values()
                    .all(|schema| schema.get(keyword) == Some(value))
            })
            .collect();
        assert_eq!(property, shared, "{key}");
    }
    let kinds = union["properties"]["kind"]["oneOf"].as_array().unwrap();
    let kinds: Vec<_> = kinds
        .iter()
        .map(|kind| kind["const"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, AttentionConfig::KINDS);
    assert_eq!(union["properties"]["neighbors"]["default"], json!(0.5));
    assert_eq!(union["properties"]["neighbors"]["x-kinds"], json!(["knn"]));
}

#[test]
fn the_schema_and_the_check_have_one_range() {
    let schema = AttentionConfig::json_schema(&mut SchemaGenerator::default()).to_value();
    let temperature = &schema["properties"]["temperature"];
    let range = ["minimum", "maximum"].map(|end| temperature[end].as_f64().unwrap());
    assert_eq!(range, crate::softmax::TEMPERATURES);
    let valid = |temperature| {
        let config = AttentionConfig::Dense(DenseConfig { temperature });
        config.validate().is_ok()
    };
    assert!(range.into_iter().all(valid));
    let [coldest, hottest] = range;
    for temperature in [0.9 * coldest, 1.1 * hottest, 0.0, -1.0, f64::NAN] {
        assert!(!valid(temperature), "{temperature}");
    }
}

#[test]
fn a_list_has_one_entry_per_stage_or_one_for_all() {
    let [first, second] =
        [Neighbors::count(7), Neighbors::fraction(0.25)].map(|neighbors| neighbors.unwrap());
    let with = |neighbors: PerStage<Neighbors>| {
        AttentionConfig::Knn(KnnConfig {
            neighbors,
            ..KnnConfig::default()
        })
    };
    let list = with(vec![first, second].into());
    let stages = [first, second].map(AttentionConfig::knn);
    assert_eq!(list.per_stage().unwrap(), stages);
    for (stage, config) in stages.iter().enumerate() {
        assert_eq!(list.at_stage(stage, 2).unwrap(), *config);
        assert_eq!(stages[1].at_stage(stage, 2).unwrap(), stages[1]);
    }
    assert_eq!(
        list.at_stage(0, 3).unwrap_err().to_string(),
        "`neighbors` has 2 entries, but the number of stages is 3: give one entry for all stages, or one per stage"
    );
    assert!(list.at_stage(2, 2).is_err());
    // A place is one stage.
    assert!(list.validate().is_ok());
    assert!(list.validate_at(&Place::new(4, 8, 2)).is_err());
    let one = with(vec![first].into());
    assert_eq!(one.per_stage().unwrap(), [stages[0].clone()]);
    // Both notations are equal: a run can be resumed with either.
    assert_eq!(one, stages[0]);
    let written = json!({ "kind": "knn", "neighbors": [7] });
    assert_eq!(parse(written).unwrap(), one);
    assert_eq!(serde_json::to_value(&one).unwrap()["neighbors"], json!(7));
    assert!(one.validate_at(&Place::new(4, 8, 2)).is_ok());
    assert!(with(Vec::new().into()).per_stage().is_err());
    let wrong = with(vec![first, Neighbors::Fraction(1.5)].into());
    assert!(wrong.validate().is_err());
    assert_eq!(AttentionConfig::dense().per_stage().unwrap().len(), 1);
}

fn numbers<const D: usize>(shape: [usize; D], seed: usize, device: &Device) -> Tensor<D> {
    let len = shape.iter().product();
    let data: Vec<f32> = (0..len)
        .map(|i: usize| ((i * 7919 + seed * 104_729) % 2003) as f32 / 500.0 - 2.0)
        .collect();
    Tensor::from_data(TensorData::new(data, shape), device)
}

/// Dense and k-NN attention through the mixer equal the operation, bit for bit, with every part of a context.
#[test]
fn the_door_changes_nothing() {
    let device = Device::flex();
    let (tokens, heads, dim) = (9, 2, 12);
    let place = Place {
        dropout: 0.25,
        bias: true,
        mask: true,
        ..Place::new(tokens, dim, heads)
    };
    let input = |seed| numbers([3, heads, tokens, dim / heads], seed, &device);
    let hidden = numbers([3, 1, tokens, tokens], 5, &device).greater_elem(1.0);
    let score = Score {
        bias: Some(numbers([1, heads, tokens, tokens], 4, &device)),
        mask: Some(hidden),
    };
    for (config, softmax) in [
        (AttentionConfig::dense(), SoftmaxAttention::dense()),
        (
            AttentionConfig::knn(Neighbors::count(4).unwrap()),
            SoftmaxAttention::knn(Neighbors::count(4).unwrap()),
        ),
    ] {
        let mixer = config.init(&place, &BurnInit::new(&device));
        for score in [Score::default(), score.clone()] {
            for phase in [Phase::Eval, Phase::Train(Key::new(3))] {
                let context = Context {
                    score: score.clone(),
                    ..place.context(phase)
                };
                assert_eq!(context.dropout.is_some(), phase != Phase::Eval);
                let (scale, dropout) = (context.scale, context.dropout);
                let through = mixer.attend(input(1), input(2), input(3), context);
                let score = score.clone();
                let direct = attend(
                    input(1),
                    input(2),
                    input(3),
                    score,
                    scale,
                    &softmax,
                    dropout,
                );
                assert_eq!(through.into_data(), direct.unwrap().into_data());
            }
        }
    }
}

/// The fused route from one projection against splitting, attending and merging.
#[test]
fn packed_is_the_same_as_split() {
    let device = Device::flex();
    let place = Place::new(9, 12, 2);
    let qkv = numbers([3, 9, 36], 1, &device);
    for config in [
        AttentionConfig::dense(),
        AttentionConfig::knn(Neighbors::count(4).unwrap()),
    ] {
        let mixer = config.init(&place, &BurnInit::new(&device));
        let fused = mixer.attend_packed(qkv.clone(), 2, place.context(Phase::Eval));
        // `[batch, tokens, part, heads, head_dim]`.
        let parts = qkv.clone().reshape([3, 9, 3, 2, 6]);
        let part = |i| {
            let part = parts.clone().narrow(2, i, 1).squeeze_dim::<4>(2);
            part.swap_dims(1, 2)
        };
        let split = mixer
            .attend(part(0), part(1), part(2), place.context(Phase::Eval))
            .swap_dims(1, 2)
            .reshape([3, 9, 12]);
        let difference: f32 = (fused - split).abs().max().into_scalar();
        assert!(difference < 1e-6, "{difference}");
    }
}

/// Windows of a packed projection against each window by itself: fused, with a bias that only the separate inputs take, and by Burn's
/// operations.
#[test]
fn packed_windows_attend_by_themselves() {
    let device = Device::flex();
    let place = Place::new(9, 12, 2);
    let qkv = numbers([6, 9, 36], 1, &device);
    let context = |bias: Tensor<4>, windows| Context {
        score: Score {
            bias: Some(bias),
            mask: None,
        },
        windows,
        ..place.context(Phase::Eval)
    };
    for implementation in [Implementation::Fused, Implementation::Masked] {
        let config = AttentionConfig::Knn(KnnConfig {
            implementation,
            ..KnnConfig::new(Neighbors::count(4).unwrap())
        });
        let mixer = config.init(&place, &BurnInit::new(&device));
        for heads in [1, 2, 6] {
            let bias = numbers([1, heads, 9, 9], 2, &device);
            let out = mixer.attend_packed(qkv.clone(), 2, context(bias.clone(), 3));
            for window in 0..3 {
                let of_window = |x: Tensor<3>| {
                    let width = x.dims()[2];
                    let x = x.reshape([2, 3, 9, width]).narrow(1, window, 1);
                    x.reshape([2, 9, width])
                };
                let bias = if heads == 6 {
                    bias.clone().narrow(1, 2 * window, 2)
                } else {
                    bias.clone()
                };
                let alone = mixer.attend_packed(of_window(qkv.clone()), 2, context(bias, 1));
                let difference = of_window(out.clone()) - alone;
                let difference: f32 = difference.abs().max().into_scalar();
                assert!(
                    difference < 1e-5,
                    "{implementation:?}, {heads}: {difference}"
                );
            }
        }
    }
}

#[test]
fn costs_by_hand() {
    let place = Place {
        keys: 10,
        ..Place::new(50, 24, 3)
    };
    // Two products of 50 queries with 10 keys or values, over 24 channels.
    for (config, kept) in [
        (AttentionConfig::dense(), 10),
        (AttentionConfig::knn(Neighbors::count(7).unwrap()), 7),
        (AttentionConfig::knn(Neighbors::count(70).unwrap()), 10),
        (AttentionConfig::knn(Neighbors::fraction(0.39).unwrap()), 3),
    ] {
        let expected = Cost {
            params: 0,
            macs: Macs::attention(24_000),
            kept,
        };
        assert_eq!(config.cost(&place), expected);
    }
    let mean = AttentionConfig::Mean(MeanConfig::default()).cost(&place);
    assert_eq!((mean.params, mean.macs), (10, Macs::attention(240)));
}

/// Names and sizes of parameters.
#[derive(Default)]
struct Names(Vec<String>, Vec<(String, usize)>);

impl ModuleVisitor for Names {
    fn enter_module(&mut self, name: &str, container: &str) {
        // As `burn-store` does: a variant of an enum has no name.
        if !container.starts_with("Enum:") {
            self.0.push(name.to_owned());
        }
    }

    fn exit_module(&mut self, _name: &str, container: &str) {
        if !container.starts_with("Enum:") {
            self.0.pop();
        }
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.1
            .push((self.0.join("."), param.shape().num_elements()));
    }
}

#[test]
fn weights_of_a_mechanism_are_parameters_below_mixer() {
    let device = Device::flex();
    let config = MultiHeadAttentionConfig::new(4, 2)
        .with_attention(AttentionConfig::Mean(MeanConfig { gain: 2.0 }))
        .with_tokens(Some(3));
    let module = config.init(&device).unwrap();
    let mut names = Names::default();
    module.visit(&mut names);
    let expected = [
        ("qkv.weight", 48),
        ("qkv.bias", 12),
        ("proj.weight", 16),
        ("proj.bias", 4),
        ("mixer.weight", 3),
    ];
    assert_eq!(names.1, expected.map(|(name, len)| (name.to_owned(), len)));
    assert_eq!(module.num_params(), 83);

    // Through the default route from one projection: twice the mean of the values.
    let values = numbers([2, 3, 4], 7, &device);
    let other = numbers([2, 3, 8], 8, &device);
    let mixer = config
        .attention
        .init(&Place::new(3, 4, 2), &BurnInit::new(&device));
    let qkv = Tensor::cat(vec![other, values.clone()], 2);
    let out = mixer.attend_packed(qkv, 2, Place::new(3, 4, 2).context(Phase::Eval));
    let expected = values.mean_dim(1).mul_scalar(2.0).expand([2, 3, 4]);
    let difference: f32 = (out - expected).abs().max().into_scalar();
    assert!(difference < 1e-6, "{difference}");
}

#[test]
fn a_place_where_a_mechanism_cannot_stand_is_refused() {
    let mean = AttentionConfig::Mean(MeanConfig::default());
    let place = Place::new(9, 12, 2);
    assert_eq!(mean.validate_at(&place), Ok(()));
    for (place, message) in [
        (
            Place {
                bias: true,
                ..place
            },
            "`kind = \"mean\"` makes no scores, to which a bias or a mask is added here: \
             use `dense` or `knn`, or a model without them",
        ),
        (
            Place {
                dropout: 0.1,
                ..place
            },
            "`kind = \"mean\"` makes no attention weights that could be dropped: set `attn_drop` to 0",
        ),
        (
            Place::new(0, 12, 2),
            "`kind = \"mean\"` has a weight for every key: say how many tokens there are",
        ),
    ] {
        let error = mean.validate_at(&place).unwrap_err();
        assert!(matches!(
            error,
            AttentionError::Misplaced { kind: "mean", .. }
        ));
        assert_eq!(error.to_string(), message);
        assert_eq!(AttentionConfig::dense().validate_at(&place), Ok(()));
    }
    let masked = Place {
        mask: true,
        ..place
    };
    assert!(mean.validate_at(&masked).is_err());
    let windows = Place {
        softmax_only: Some(SoftmaxOnly {
            reason: "queries see a window",
            help: "use `dense` or `knn`",
        }),
        ..place
    };
    assert_eq!(
        mean.validate_at(&windows).unwrap_err().to_string(),
        "`kind = \"mean\"` cannot be used where queries see a window: use `dense` or `knn`"
    );
    for softmax in [
        AttentionConfig::dense(),
        AttentionConfig::knn(Neighbors::All),
    ] {
        assert_eq!(softmax.validate_at(&windows), Ok(()));
    }
    let module = MultiHeadAttentionConfig::new(12, 2).with_attention(mean);
    assert!(module.init(&Device::flex()).is_err());
}

/// For mechanisms whose weights can be dropped, but which cannot add anything to all scores.
#[test]
fn a_bias_or_a_mask_is_refused_by_name() {
    let place = Place {
        dropout: 0.1,
        ..Place::new(9, 12, 2)
    };
    assert_eq!(place.without_bias("nystrom"), Ok(()));
    for (bias, mask, what) in [
        (true, false, "so a bias cannot be added here"),
        (false, true, "so keys cannot be hidden here"),
        (true, true, "so a bias and a mask cannot be added here"),
    ] {
        let place = Place {
            bias,
            mask,
            ..place
        };
        assert_eq!(
            place.without_bias("nystrom").unwrap_err().to_string(),
            format!(
                "`kind = \"nystrom\"` does not compute a score for each pair of a query and a key, {what}: \
                 use `dense` or `knn`, or a model without them"
            )
        );
    }
}

#[test]
fn every_kind_has_default_settings() {
    let kinds: Vec<_> = AttentionConfig::defaults()
        .iter()
        .map(AttentionConfig::kind)
        .collect();
    assert_eq!(kinds, AttentionConfig::KINDS);
    let softmax = AttentionConfig::defaults()
        .into_iter()
        .filter(AttentionConfig::is_softmax);
    let softmax: Vec<_> = softmax.map(|config| config.kind()).collect();
    assert_eq!(softmax, ["dense", "knn"]);
    for config in AttentionConfig::defaults() {
        assert_eq!(config.validate(), Ok(()), "{}", config.kind());
    }
}

#[test]
fn a_module_that_cannot_be_made_is_refused() {
    let refuse = |config: MultiHeadAttentionConfig| {
        let Err(error) = config.init(&Device::flex()) else {
            panic!("{config:?} was accepted");
        };
        error.to_string()
    };
    for (d_model, num_heads) in [(10, 3), (10, 0), (0, 2)] {
        let message = refuse(MultiHeadAttentionConfig::new(d_model, num_heads));
        assert!(
            message.contains("is not a multiple of `num_heads`"),
            "{message}"
        );
    }
    for dropout in [-0.1, 1.0, f64::NAN] {
        let message = refuse(MultiHeadAttentionConfig::new(8, 2).with_dropout(dropout));
        assert!(message.contains("[0, 1)"), "{message}");
    }
    let sized = |tokens, grid| {
        MultiHeadAttentionConfig::new(8, 2)
            .with_tokens(Some(tokens))
            .with_prefix(1)
            .with_grid(grid)
    };
    for (tokens, grid, expected) in [(8, Some([2, 3]), 7), (6, Some([2, 3]), 7), (0, None, 1)] {
        let message = refuse(sized(tokens, grid));
        assert!(
            message.contains(&format!("ask for {expected}:")),
            "{message}"
        );
    }
    for (tokens, grid) in [(7, Some([2, 3])), (9, None)] {
        assert!(sized(tokens, grid).init(&Device::flex()).is_ok());
    }
    let cold = AttentionConfig::Dense(DenseConfig { temperature: 0.0 });
    let message = refuse(MultiHeadAttentionConfig::new(8, 2).with_attention(cold));
    assert!(message.contains("`temperature`"), "{message}");
}

#[test]
fn only_a_ranking_by_distance_does_not_see_the_bias() {
    let device = Device::flex();
    let place = Place::new(4, 8, 2);
    let ranks = |selection| {
        let config = AttentionConfig::Knn(KnnConfig {
            selection,
            ..KnnConfig::default()
        });
        let mixer = config.init(&place, &BurnInit::new(&device));
        mixer.ranks_with_bias()
    };
    assert!(ranks(Selection::DotProduct));
    assert!(!ranks(Selection::Euclidean));
}

/// A path does not depend on the device or its seed, and differs from place to place.
#[test]
fn a_path_names_a_place() {
    let init = BurnInit::new(&Device::flex());
    let path = |names: [&str; 2]| init.child(names[0]).child(names[1]).path();
    assert_eq!(path(["blocks", "0"]), path(["blocks", "0"]));
    assert_ne!(path(["blocks", "0"]), path(["blocks", "1"]));
    assert_ne!(path(["blocks", "0"]), path(["0", "blocks"]));
}
