//! The tensors that an observer receives from the blocks; observing does not change the results.

use std::cell::RefCell;
use std::collections::BTreeMap;

use burn::tensor::{Device, Tensor};
use kvt_attention::{AttentionConfig, Neighbors};
use kvt_models::weights::StateDict;
use kvt_models::{
    Ask, Backbone, BlockIndex, ModelConfig, ModelOverrides, Observer, Point, Prefix, StageSummary,
};
use kvt_ops::{Key, Phase};

use crate::small::{SIDE, assert_close, configs, images, values};

/// The points of a block, in their order.
const POINTS: [Point; 6] = [
    Point::Input,
    Point::Probabilities,
    Point::Attention,
    Point::Middle,
    Point::Mlp,
    Point::Output,
];

/// The points of a block without attention.
const WITHOUT_ATTENTION: [Point; 3] = [Point::Input, Point::Mlp, Point::Output];

/// The points of a block whose attention has no keys.
const WITHOUT_KEYS: [Point; 5] = [
    Point::Input,
    Point::Attention,
    Point::Middle,
    Point::Mlp,
    Point::Output,
];

/// The points of the blocks of a stage.
fn points(stage: &StageSummary) -> &'static [Point] {
    match (stage.keys, stage.name.as_str()) {
        // VOLO's outlookers.
        (0, "network.0") => &WITHOUT_KEYS,
        (0, _) => &WITHOUT_ATTENTION,
        _ => &POINTS,
    }
}

/// A tensor: its place, shape and numbers, and the tokens before its map.
type Seen = (BlockIndex, Point, Vec<usize>, Vec<f32>, Prefix);

/// Records everything, or one point.
#[derive(Default)]
struct Recorder {
    only: Option<Point>,
    seen: RefCell<Vec<Seen>>,
}

impl Observer for Recorder {
    fn wants(&self, _: BlockIndex, point: Point) -> bool {
        self.only.is_none_or(|only| only == point)
    }

    fn tokens(&self, place: BlockIndex, point: Point, tokens: Tensor<3>, prefix: Prefix) {
        let shape = tokens.dims().to_vec();
        let seen = (place, point, shape, values(tokens), prefix);
        self.seen.borrow_mut().push(seen);
    }

    fn probabilities(&self, place: BlockIndex, probabilities: Tensor<4>, prefix: Prefix) {
        let shape = probabilities.dims().to_vec();
        let values = values(probabilities);
        let seen = (place, Point::Probabilities, shape, values, prefix);
        self.seen.borrow_mut().push(seen);
    }
}

/// Tokens of a pass of a new model, and the state of the model after it.
fn pass(
    config: &ModelConfig,
    observer: Option<&dyn Observer>,
    phase: Phase,
) -> (Vec<f32>, StateDict) {
    let device = match phase {
        Phase::Eval => Device::flex(),
        Phase::Train(_) => Device::flex().autodiff(),
    };
    let model = config.init(&device, Key::new(1)).unwrap();
    let ask = Ask {
        observer,
        ..Ask::default()
    };
    let images = images([SIDE; 2], &device);
    let tokens = values(model.backbone.features(images, &ask, phase).tokens);
    (tokens, StateDict::from_model(&model).unwrap())
}

fn observe(config: &ModelConfig, only: Option<Point>) -> Vec<Seen> {
    let recorder = Recorder {
        only,
        ..Recorder::default()
    };
    pass(config, Some(&recorder), Phase::Eval);
    recorder.seen.into_inner()
}

/// This includes running statistics of batch norms, which a second computation of a branch must not change.
#[test]
fn nothing_changes_for_being_observed() {
    let dropping = ModelOverrides {
        drop_path: Some(0.5),
        attn_drop: Some(0.5),
        ..ModelOverrides::default()
    };
    for config in configs(&dropping) {
        for phase in [Phase::Eval, Phase::Train(Key::new(3))] {
            let recorder = Recorder::default();
            let observed = pass(&config, Some(&recorder), phase);
            assert!(!recorder.seen.into_inner().is_empty());
            assert!(observed == pass(&config, None, phase), "{}", config.name());
        }
    }
}

#[test]
fn every_block_shows_its_points_in_order() {
    for config in configs(&ModelOverrides::default()) {
        let mut expected: Vec<(BlockIndex, Point)> = (0..)
            .zip(config.summary().stages)
            .flat_map(|(stage, summary)| {
                let blocks = (0..summary.depth).map(move |block| BlockIndex { stage, block });
                blocks.flat_map(move |place| {
                    points(&summary).iter().map(move |point| (place, *point))
                })
            })
            .collect();
        if config.name().starts_with("tnt") {
            // A block has a transformer of each stage.
            expected.sort_by_key(|(place, _)| (place.block, place.stage));
        }
        let seen = observe(&config, None);
        let found = seen.iter().map(|(place, point, ..)| (*place, *point));
        assert_eq!(found.collect::<Vec<_>>(), expected, "{}", config.name());
    }
}

#[test]
fn the_stream_grows_by_the_branches() {
    for config in configs(&ModelOverrides::default()) {
        let name = config.name();
        let stages = config.summary().stages;
        let seen = observe(&config, None);
        let (tnt, twins) = (name.starts_with("tnt"), name.starts_with("twins"));
        let mut outputs: BTreeMap<usize, Vec<f32>> = BTreeMap::new();
        for block in seen.chunk_by(|a, b| a.0 == b.0) {
            let (input, attention, middle, mlp, out) = match block {
                [input, _, attention, middle, mlp, out] | [input, attention, middle, mlp, out] => {
                    (input, Some(attention), middle, mlp, out)
                }
                [input, mlp, out] => (input, None, input, mlp, out),
                _ => unreachable!(),
            };
            let place = input.0;
            let [batch, tokens, dim] = input.2[..] else {
                unreachable!()
            };
            // Each of 16 patches has its own pixels.
            let rows = if tnt && place.stage == 0 { 2 * 16 } else { 2 };
            assert_eq!(
                (batch, tokens),
                (rows, stages[place.stage].tokens),
                "{name}"
            );
            for other in attention.into_iter().chain([middle, mlp, out]) {
                assert_eq!(other.2, [batch, tokens, dim], "{name} {place:?}");
            }
            let sum = |a: &Seen, b: &Seen| -> Vec<f32> {
                a.3.iter().zip(&b.3).map(|(a, b)| a + b).collect()
            };
            if let Some(attention) = attention {
                let expected = sum(input, attention);
                assert_close(&middle.3, &expected, &format!("{name} {place:?}"));
            }
            assert_close(&out.3, &sum(middle, mlp), &format!("{name} {place:?}"));
            // Within a stage the output of a block is the input of the next, except that the patches of a TNT add
            // their pixels, and that a Twins adds positions before the second block.
            if let Some(output) = outputs.insert(place.stage, out.3.clone()) {
                let adds = (tnt && place.stage == 1) || (twins && place.block == 1);
                assert_eq!(output == input.3, !adds, "{name} {place:?}");
            }
        }
    }
}

/// The number of tokens does not say it: 5 may be a class token, or a register, before 2 x 2 patches, and 9 may be 3 x 3 patches, or
/// a class token and four registers before 2 x 2.
#[test]
fn the_tokens_before_the_map_are_told() {
    let side = |side: usize| ModelOverrides {
        img_size: Some(side.into()),
        depth: Some(1.into()),
        embed_dim: Some(16.into()),
        num_heads: Some(1.into()),
        ..ModelOverrides::default()
    };
    for (name, size, [prefix, registers], map) in [
        ("deit_tiny_patch16_224", 32, [1, 0], 4),
        ("deit_tiny_distilled_patch16_224", 32, [2, 0], 4),
        ("vit_little_patch16_reg1_gap_256", 32, [1, 1], 4),
        ("vit_little_patch16_reg4_gap_256", 32, [4, 4], 4),
        ("vit_small_patch16_dinov3", 32, [5, 4], 4),
        ("vit_small_patch14_reg4_dinov2", 28, [5, 4], 4),
        ("vit_base_patch16_siglip_224", 32, [0, 0], 4),
    ] {
        let config = ModelConfig::by_name(name).unwrap().with(&side(size));
        let model = config.unwrap().init(&Device::flex(), Key::new(1)).unwrap();
        let recorder = Recorder::default();
        let ask = Ask {
            observer: Some(&recorder),
            ..Ask::default()
        };
        let features =
            model
                .backbone
                .features(images([size; 2], &Device::flex()), &ask, Phase::Eval);
        assert_eq!(
            [features.prefix, features.registers],
            [prefix, registers],
            "{name}"
        );
        let seen = recorder.seen.into_inner();
        assert_eq!(seen.len(), POINTS.len(), "{name}");
        let expected = Prefix {
            tokens: prefix,
            registers,
        };
        for (_, point, shape, _, found) in seen {
            assert_eq!(found, expected, "{name} {point:?}");
            let tokens = shape[if point == Point::Probabilities { 3 } else { 1 }];
            assert_eq!(tokens, prefix + map, "{name} {point:?}");
        }
        let is_without = name.contains("_gap_") || name.contains("_siglip_");
        assert_eq!(expected.has_class_token(), !is_without, "{name}");
    }
    // In other families only some stages have them: the rest is a square map, except that VOLO's class token passes alone.
    for config in configs(&ModelOverrides::default()) {
        let name = config.name();
        for (place, point, shape, _, prefix) in observe(&config, None) {
            let tokens = shape[if point == Point::Probabilities { 3 } else { 1 }];
            let map = tokens - prefix.tokens;
            assert_eq!(map.isqrt().pow(2), map, "{name} {place:?} {point:?}");
            let is_class = map == 0;
            assert_eq!(
                is_class,
                name.starts_with("volo") && prefix.tokens == 1 && point != Point::Probabilities,
                "{name} {place:?} {point:?}"
            );
        }
    }
}

/// The rows sum to one, and k-NN attention keeps as many keys as its stage says.
#[test]
fn probabilities_are_those_of_the_kept_keys() {
    let knn = ModelOverrides {
        attention: Some(AttentionConfig::knn(Neighbors::count(3).unwrap())),
        ..ModelOverrides::default()
    };
    for overrides in [ModelOverrides::default(), knn] {
        for config in configs(&overrides) {
            let name = config.name();
            let stages = config.summary().stages;
            for (place, _, shape, values, _) in observe(&config, Some(Point::Probabilities)) {
                let stage = &stages[place.stage];
                let [_, heads, queries, keys] = shape[..] else {
                    panic!("{name}: {shape:?}")
                };
                assert_eq!(keys, stage.keys, "{name}");
                // Windows are folded into the heads.
                assert!(heads * queries >= stage.tokens, "{name}: {shape:?}");
                for row in values.chunks_exact(keys) {
                    let sum: f32 = row.iter().sum();
                    assert!((sum - 1.0).abs() < 1e-5, "{name}: {sum}");
                    let kept = row.iter().filter(|p| **p > 0.0).count();
                    assert!(kept <= stage.k, "{name}: {kept} of {}", stage.k);
                }
                // Masked keys of shifted windows have no weight; all others have some.
                let kept = values.iter().filter(|p| **p > 0.0).count();
                assert!(2 * kept > values.len() / keys * stage.k, "{name}: {kept}");
            }
        }
    }
}

#[test]
fn an_observer_sees_only_what_it_wants() {
    for config in configs(&ModelOverrides::default()) {
        let stages = config.summary().stages;
        let all = observe(&config, None);
        for only in POINTS {
            let seen = observe(&config, Some(only));
            let with_point = stages.iter().filter(|stage| points(stage).contains(&only));
            let blocks: usize = with_point.map(|stage| stage.depth).sum();
            assert_eq!(seen.len(), blocks);
            let same = all.iter().filter(|(_, point, ..)| *point == only);
            assert!(same.eq(&seen), "{} {only:?}", config.name());
        }
    }
}
