//! What an observer sees of the blocks, and that nothing changes under its eyes.

use std::cell::RefCell;

use burn::tensor::{Device, Tensor};
use kvt_attention::{AttentionConfig, Neighbors};
use kvt_models::weights::StateDict;
use kvt_models::{Ask, Backbone, BlockIndex, ModelConfig, ModelOverrides, Observer, Point};
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

/// A tensor: where, its shape and its numbers.
type Seen = (BlockIndex, Point, Vec<usize>, Vec<f32>);

/// Writes down everything, or one point.
#[derive(Default)]
struct Recorder {
    only: Option<Point>,
    seen: RefCell<Vec<Seen>>,
}

impl Observer for Recorder {
    fn wants(&self, _: BlockIndex, point: Point) -> bool {
        self.only.is_none_or(|only| only == point)
    }

    fn tokens(&self, place: BlockIndex, point: Point, tokens: Tensor<3>) {
        let shape = tokens.dims().to_vec();
        let seen = (place, point, shape, values(tokens));
        self.seen.borrow_mut().push(seen);
    }

    fn probabilities(&self, place: BlockIndex, probabilities: Tensor<4>) {
        let shape = probabilities.dims().to_vec();
        let seen = (place, Point::Probabilities, shape, values(probabilities));
        self.seen.borrow_mut().push(seen);
    }
}

/// Tokens of a pass of a new model, and its state after it.
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

/// Running statistics of batch norms included, which a second look at a branch must not move.
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
        let expected: Vec<(BlockIndex, Point)> = (0..)
            .zip(config.summary().stages)
            .flat_map(|(stage, summary)| {
                let blocks = (0..summary.depth).map(move |block| BlockIndex { stage, block });
                let has_keys = summary.keys > 0;
                blocks.flat_map(move |place| {
                    let points = POINTS.into_iter();
                    let points = points.filter(move |p| has_keys || *p != Point::Probabilities);
                    points.map(move |point| (place, point))
                })
            })
            .collect();
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
        let mut seen = observe(&config, None);
        seen.retain(|(_, point, ..)| *point != Point::Probabilities);
        let mut output: Option<(BlockIndex, Vec<f32>)> = None;
        for block in seen.chunks_exact(POINTS.len() - 1) {
            let [input, attention, middle, mlp, out] = block else {
                unreachable!()
            };
            let place = input.0;
            let [batch, tokens, dim] = input.2[..] else {
                unreachable!()
            };
            assert_eq!((batch, tokens), (2, stages[place.stage].tokens), "{name}");
            for other in [attention, middle, mlp, out] {
                assert_eq!(other.2, [batch, tokens, dim], "{name} {place:?}");
            }
            let sum = |a: &Seen, b: &Seen| -> Vec<f32> {
                a.3.iter().zip(&b.3).map(|(a, b)| a + b).collect()
            };
            assert_close(
                &middle.3,
                &sum(input, attention),
                &format!("{name} {place:?}"),
            );
            assert_close(&out.3, &sum(middle, mlp), &format!("{name} {place:?}"));
            // Within a stage one block's output is the next one's input.
            if let Some((before, output)) = output.take()
                && before.stage == place.stage
            {
                assert_eq!(output, input.3, "{name} {place:?}");
            }
            output = Some((place, out.3.clone()));
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
            for (place, _, shape, values) in observe(&config, Some(Point::Probabilities)) {
                let stage = &stages[place.stage];
                let [2, heads, queries, keys] = shape[..] else {
                    panic!("{name}: {shape:?}")
                };
                assert_eq!(keys, stage.keys, "{name}");
                // Windows stand beside the heads.
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
        let summary = config.summary();
        let count = |with_keys: bool| -> usize {
            let stages = summary.stages.iter();
            let stages = stages.filter(|stage| !with_keys || stage.keys > 0);
            stages.map(|stage| stage.depth).sum()
        };
        let all = observe(&config, None);
        for only in POINTS {
            let seen = observe(&config, Some(only));
            assert_eq!(seen.len(), count(only == Point::Probabilities));
            let same = all.iter().filter(|(_, point, ..)| *point == only);
            assert!(same.eq(&seen), "{} {only:?}", config.name());
        }
    }
}
