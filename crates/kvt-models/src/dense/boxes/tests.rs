//! Boxes against mmdet and torchvision (`scripts/reference/boxes.py`).

#![expect(clippy::unwrap_used, reason = "tests")]

use std::path::Path;

use kvt_ops::Key;
use serde::Deserialize;

use super::*;

#[derive(Deserialize)]
struct Golden {
    coder: Vec<CoderCase>,
    anchors: Vec<AnchorsCase>,
    assign: Vec<AssignCase>,
    nms: Vec<NmsCase>,
}

#[derive(Deserialize)]
struct CoderCase {
    stds: [f32; 4],
    image: Option<[usize; 2]>,
    priors: Vec<Corners>,
    targets: Vec<Corners>,
    encoded: Vec<Deltas>,
    deltas: Vec<Deltas>,
    decoded: Vec<Corners>,
}

#[derive(Deserialize)]
struct AnchorsCase {
    image: [usize; 2],
    stride: usize,
    size: [usize; 2],
    count: usize,
    places: Vec<usize>,
    boxes: Vec<Corners>,
}

#[derive(Deserialize)]
struct AssignCase {
    positive: f32,
    negative: f32,
    min_positive: f32,
    boxes: Vec<Corners>,
    objects: Vec<Corners>,
    assigned: Vec<i64>,
}

#[derive(Deserialize)]
struct NmsCase {
    boxes: Vec<Corners>,
    scores: Vec<f32>,
    classes: Option<Vec<usize>>,
    iou: f32,
    kept: Vec<usize>,
}

fn golden() -> Golden {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/dense/boxes.json");
    serde_json::from_str(&fs_err::read_to_string(file).unwrap()).unwrap()
}

/// Compares numbers that come from others of up to `magnitude` by differences, in which the error of those remains.
fn assert_near(found: &[f32; 4], expected: &[f32; 4], magnitude: f32) {
    for (a, b) in found.iter().zip(expected) {
        let most = 1e-6 * magnitude.max(b.abs());
        assert!((a - b).abs() <= most, "{found:?} for {expected:?}");
    }
}

#[test]
fn the_coder_is_mmdets() {
    for case in golden().coder {
        let coder = Coder { stds: case.stds };
        for (at, prior) in case.priors.iter().enumerate() {
            let encoded = coder.encode(prior, &case.targets[at]);
            assert_near(&encoded, &case.encoded[at], 1.0 / case.stds[0]);
            let whole = coder.decode(prior, &case.deltas[at]);
            let decoded = case.image.map_or(whole, |image| clip(&whole, image));
            // Half a side may be much larger than a border.
            let magnitude = whole
                .iter()
                .fold(0.0_f32, |most, border| most.max(border.abs()));
            assert_near(&decoded, &case.decoded[at], magnitude);
        }
    }
}

#[test]
fn anchors_are_mmdets() {
    for case in golden().anchors {
        let AnchorsCase { size, stride, .. } = case;
        let grid = Grid { size, stride };
        let anchors = grid.anchors();
        assert_eq!(anchors.len(), case.count);
        assert_eq!(grid.anchor_count(), case.count);
        let found: Vec<Corners> = case.places.iter().map(|place| anchors[*place]).collect();
        assert_eq!(found, case.boxes, "{:?} at stride {stride}", case.image);
    }
}

fn assigned(case: &AssignCase) -> Vec<Match> {
    let assigner = Assigner {
        positive: case.positive,
        negative: case.negative,
        min_positive: case.min_positive,
    };
    assigner.assign(&case.boxes, &case.objects)
}

#[test]
fn the_assigner_is_mmdets() {
    for case in golden().assign {
        let number = |found: Match| match found {
            Match::Neither => -1,
            Match::Background => 0,
            Match::Object(number) => number as i64 + 1,
        };
        let found: Vec<i64> = assigned(&case).into_iter().map(number).collect();
        assert_eq!(found, case.assigned);
    }
}

/// mmdet's own sampler takes all boxes too where nothing has to be left out.
#[test]
fn a_sampler_that_need_not_draw_takes_what_is_assigned() {
    for case in golden().assign {
        let sample = sample(&assigned(&case), 1_000_000, 0.5, Key::new(1));
        let places = |wanted: fn(i64) -> bool| -> Vec<usize> {
            let places = 0..case.assigned.len();
            places
                .filter(|place| wanted(case.assigned[*place]))
                .collect()
        };
        assert_eq!(sample.positive, places(|number| number > 0));
        assert_eq!(sample.negative, places(|number| number == 0));
    }
}

#[test]
fn suppression_is_torchvisions() {
    for case in golden().nms {
        let NmsCase {
            boxes,
            scores,
            classes,
            iou,
            kept,
        } = case;
        let classes = classes.unwrap_or_else(|| vec![0; boxes.len()]);
        let found = suppress_by_class(&boxes, &scores, &classes, iou);
        assert_eq!(found, kept);
    }
}

/// A box with deltas of 0 is its anchor, so the levels of proposals act as classes.
#[test]
fn proposals_are_suppressed_as_by_torchvision() {
    for case in golden().nms {
        // The cases have borders below 0, which would be clipped. Their numbers are eighths, so the move is exact.
        let inside = |corners: &Corners| corners.map(|border| border + 64.0);
        let boxes: Vec<Corners> = case.boxes.iter().map(inside).collect();
        let classes = case.classes.unwrap_or_else(|| vec![0; boxes.len()]);
        let (mut anchors, mut scores) = ([vec![], vec![], vec![]], [vec![], vec![], vec![]]);
        for (at, class) in classes.iter().enumerate() {
            anchors[*class].push(boxes[at]);
            scores[*class].push(case.scores[at]);
        }
        let deltas = vec![[0.0; 4]; boxes.len()];
        let levels: Vec<usize> = anchors.iter().map(Vec::len).collect();
        let (anchors, scores, most) = (anchors.concat(), scores.concat(), [1000, 1000]);
        let found = proposals(&levels, &anchors, &scores, &deltas, most, most, case.iou);
        let found: Vec<f32> = found.iter().map(|proposal| proposal.score).collect();
        let kept = case.kept.iter().filter(|at| !is_empty(&boxes[**at]));
        let expected: Vec<f32> = kept.map(|at| case.scores[*at]).collect();
        assert_eq!(found, expected);
    }
}
