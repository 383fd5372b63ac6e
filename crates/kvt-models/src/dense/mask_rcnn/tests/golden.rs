//! The network against mmdetection (`scripts/reference/mask_rcnn.py`): the pyramid, the losses and their gradients, the proposals, and
//! what is found.

use std::path::Path;

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::Gradients;
use kvt_ops::Phase;
use kvt_testing::devices::{assert_close, devices};

use super::*;
use crate::dense::mask_rcnn::anchors::{Anchors, Scored};
use crate::dense::read_dense;
use crate::weights::{metadata, read_as_stored};

#[path = "../../../../tests/all/sketch.rs"]
#[expect(
    clippy::duplicate_mod,
    reason = "the golden files of UPerNet have sketches too"
)]
mod sketch;

/// Height and width of the images.
const SIZE: [usize; 2] = [64, 96];
/// Height and width of the original images.
const ORIGINAL: [usize; 2] = [51, 64];

/// The gradients of a module's parameters, those of linear layers as PyTorch stores them.
struct OfParameters<'a>(&'a Gradients, BTreeMap<u64, Vec<f32>>);

impl ModuleVisitor for OfParameters<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if let Some(grad) = param.val().grad(self.0) {
            let grad = if D == 2 { grad.transpose() } else { grad };
            self.1.insert(param.id.val(), values(grad));
        }
    }
}

/// The gradients of a module's parameters, by their identities.
pub(super) fn gradients<M: Module>(module: &M, grads: &Gradients) -> BTreeMap<u64, Vec<f32>> {
    let mut found = OfParameters(grads, BTreeMap::new());
    module.visit(&mut found);
    found.1
}

/// The golden file.
struct Golden {
    tensors: StateDict,
    /// The masks of each image's detections, in COCO's compressed form.
    runs: Vec<Vec<String>>,
}

impl Golden {
    fn read() -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/dense");
        let path = folder.join("mask_rcnn.safetensors");
        Self {
            runs: serde_json::from_str(&metadata(&path).unwrap()["runs"]).unwrap(),
            tensors: read_as_stored(&path).unwrap(),
        }
    }

    fn data(&self, name: &str) -> TensorData {
        self.tensors.get(name).unwrap().clone()
    }

    fn floats(&self, name: &str) -> Vec<f32> {
        self.data(name).convert::<f32>().try_to_vec().unwrap()
    }

    fn boxes(&self, name: &str) -> Vec<Corners> {
        self.floats(name).as_chunks::<4>().0.to_vec()
    }

    fn labels(&self, name: &str) -> Vec<usize> {
        let labels: Vec<i64> = self.data(name).convert::<i64>().try_to_vec().unwrap();
        labels.into_iter().map(|label| label as usize).collect()
    }

    fn compare_sketch(&self, name: &str, found: &[f32]) {
        let expected = self.floats(name);
        for (found, expected_number) in sketch::sketch(found).iter().zip(&expected) {
            let difference = (found - f64::from(*expected_number)).abs();
            let least = 2e-4 * f64::from(expected[0]);
            assert!(difference < least, "{name}: {found} for {expected_number}");
        }
    }

    /// Compares a gradient, or its sketch, whichever the file has. Gradients that are zero but for rounding are left out there.
    fn compare_gradient(&self, name: &str, found: &[f32]) {
        let stored = format!("grad.{name}");
        if self.tensors.get(&stored).is_some() {
            assert_close(&stored, found, &self.floats(&stored), 2e-4);
        } else if self.tensors.get(&format!("grad_sketch.{name}")).is_some() {
            self.compare_sketch(&format!("grad_sketch.{name}"), found);
        } else {
            assert!(found.iter().all(|x| x.abs() < 1e-6), "{name}: {found:?}");
        }
    }

    fn network(&self, device: &Device) -> MaskRcnn {
        let overrides = ModelOverrides {
            embed_dim: Some(4.into()),
            depth: Some(vec![1, 1, 1, 1].into()),
            num_heads: Some(vec![1, 1, 2, 2].into()),
            mlp_ratio: Some(2.0),
            num_classes: Some(3),
            ..ModelOverrides::default()
        };
        let model = ModelConfig::by_name("swin_tiny_patch4_window7_224").unwrap();
        let model = model.with(&overrides).unwrap();
        let config = MaskRcnnConfig {
            num_classes: 3,
            channels: 8,
            hidden: 16,
            // Nothing is drawn.
            anchors: 1_000_000,
            regions: 1_000_000,
            train_per_level: 60,
            train_proposals: 40,
            test_per_level: 60,
            test_proposals: 40,
            score: 0.0,
            detections: 12,
            ..MaskRcnnConfig::default()
        };
        let pyramid = Pyramid::new(&model, WindowPadding::Seen, device, Key::new(0)).unwrap();
        let network = MaskRcnn::new(pyramid, config, device, Key::new(0)).unwrap();
        let weights = self.tensors.iter();
        let weights = weights
            .filter_map(|(name, data)| {
                let name = name.strip_prefix("weights.")?;
                Some((name.to_owned(), data.clone()))
            })
            .collect();
        let weights = read_dense(weights, &model).unwrap().state;
        let (network, unused) = network.load_state_dict(&weights).unwrap();
        assert!(unused.is_empty(), "{unused:?}");
        network
    }

    fn images(&self, device: &Device) -> Tensor<4> {
        let pixels = self.floats("pixels").into_iter();
        let numbers: Vec<f32> = pixels.map(|x| (x - 128.0) / 64.0).collect();
        tensor(&numbers, [2, 3, SIZE[0], SIZE[1]], device)
    }

    fn objects(&self) -> Vec<Objects> {
        let of_image = |image: usize| {
            let pixels: Vec<f32> = self.floats(&format!("masks.{image}"));
            let mask = |pixels: &[f32]| ObjectMask {
                top: 0,
                left: 0,
                height: SIZE[0],
                width: SIZE[1],
                inside: pixels.iter().map(|x| *x > 0.5).collect(),
            };
            let boxes = self.boxes(&format!("boxes.{image}")).into_iter();
            let labels = self.labels(&format!("labels.{image}"));
            let masks = pixels.chunks(SIZE[0] * SIZE[1]).map(mask);
            let all = boxes.zip(labels).zip(masks);
            let all = all.map(|((corners, label), mask)| Object {
                corners,
                label,
                mask,
            });
            Objects {
                size: SIZE,
                all: all.collect(),
            }
        };
        (0..2).map(of_image).collect()
    }
}

/// Maps, pyramid, proposals and losses, and the gradients of the maps, the neck and the heads.
fn compare_training(golden: &Golden, device: &Device) {
    let network = golden.network(device);
    let maps = network.maps(golden.images(device), Phase::Eval);
    for (stage, map) in maps.into_iter().enumerate() {
        let name = format!("maps.{stage}");
        assert_close(&name, &values(map), &golden.floats(&name), 1e-4);
    }
    let maps: Vec<Tensor<4>> = (0..4)
        .map(|stage| Tensor::<4>::from_data(golden.data(&format!("maps.{stage}")), device))
        .map(Tensor::require_grad)
        .collect();
    let (levels, rpn) = network.look(&maps);
    let anchors = Anchors::new(&rpn.sizes);
    for (number, level) in levels.iter().enumerate() {
        let rpn_head = &network.heads.rpn_head;
        let [logits, deltas] = rpn_head.level(level.clone(), Precision::F32);
        for (name, found) in [
            ("pyramid", level.clone()),
            ("logits", logits),
            ("deltas", deltas),
        ] {
            golden.compare_sketch(&format!("{name}_sketch.{number}"), &values(found));
        }
    }
    let scored = Scored::read(&rpn).unwrap();
    for image in 0..2 {
        let found = anchors.proposals(&scored, image, SIZE, [60, 40]);
        let boxes: Vec<f32> = found.iter().flat_map(|found| found.corners).collect();
        let scores: Vec<f32> = found.iter().map(|found| found.score).collect();
        let expected = golden.floats(&format!("proposals.{image}"));
        assert_close("proposals", &boxes, &expected, 1e-4);
        let expected = golden.floats(&format!("proposal_scores.{image}"));
        assert_close("scores of proposals", &scores, &expected, 1e-4);
    }

    let objects = golden.objects();
    let losses = network.losses_of_maps(&maps, &objects, Key::new(1));
    let losses = losses.unwrap();
    let expected = golden.floats("losses");
    let found: Vec<f32> = losses.all.clone().into_iter().flat_map(values).collect();
    for ((found, expected), name) in found.iter().zip(&expected).zip(DetectLosses::NAMES) {
        assert_close(name, &[*found], &[*expected], 1e-4);
    }
    let grads = losses.total().backward();
    for (stage, map) in maps.iter().enumerate() {
        let grad = values(map.grad(&grads).unwrap());
        golden.compare_gradient(&format!("maps.{stage}"), &grad);
    }
    let of_parameters = gradients(&network, &grads);
    let mut compared = 0;
    for parameter in network.parameters() {
        if !parameter.name.starts_with("backbone.") {
            let grad = &of_parameters[&parameter.id.val()];
            golden.compare_gradient(&parameter.name, grad);
            compared += 1;
        }
    }
    assert_eq!(compared, 2 * 21);

    let images = golden.images(device);
    let losses = network.losses(images, &objects, Key::new(1)).unwrap();
    let found: Vec<f32> = losses.all.into_iter().flat_map(values).collect();
    assert_close("losses from images", &found, &expected, 1e-4);
}

/// A mask in COCO's compressed form: runs column by column, the first one outside.
fn compressed(mask: &ObjectMask, [height, width]: [usize; 2]) -> String {
    let (mut runs, mut inside) = (vec![0i64], false);
    for (column, row) in (0..width).flat_map(|x| (0..height).map(move |y| (x, y))) {
        if mask.contains(row, column) != inside {
            inside = !inside;
            runs.push(0);
        }
        let last = runs.len() - 1;
        runs[last] += 1;
    }
    let mut text = String::new();
    for (place, run) in runs.iter().enumerate() {
        let mut rest = run - if place > 2 { runs[place - 2] } else { 0 };
        loop {
            let group = (rest & 31) as u8;
            rest >>= 5;
            let is_last = rest == if group & 16 == 0 { 0 } else { -1 };
            text.push(char::from(48 + group + if is_last { 0 } else { 32 }));
            if is_last {
                break;
            }
        }
    }
    text
}

fn compare_testing(golden: &Golden, device: &Device) {
    let network = golden.network(device);
    let frame = Frame {
        size: SIZE,
        original: ORIGINAL,
    };
    let found = network.detect(golden.images(device), &[frame; 2]).unwrap();
    for (image, found) in found.iter().enumerate() {
        let name = |part: &str| format!("found.{image}.{part}");
        let labels: Vec<usize> = found.iter().map(|found| found.label).collect();
        assert_eq!(labels, golden.labels(&name("labels")));
        let scores: Vec<f32> = found.iter().map(|found| found.score).collect();
        assert_close("scores", &scores, &golden.floats(&name("scores")), 1e-4);
        let boxes: Vec<f32> = found.iter().flat_map(|found| found.corners).collect();
        assert_close("boxes", &boxes, &golden.floats(&name("boxes")), 1e-4);
        let masks = found.iter().map(|found| {
            let mask = paste(&found.mask, found.corners, ORIGINAL);
            compressed(&mask, ORIGINAL)
        });
        assert_eq!(masks.collect::<Vec<_>>(), golden.runs[image]);
    }
}

/// The mask of 20 x 30 pixels of pycocotools' own string.
#[test]
fn masks_are_compressed_as_in_coco() {
    let (_, mask) = filled(5, 4, 15, 10);
    let text = compressed(&mask, [20, 30]);
    assert_eq!(text, "X3::000000000000000000000000000T6");
}

#[test]
fn the_network_is_mmdetections() {
    let golden = Golden::read();
    compare_training(&golden, &Device::flex().autodiff());
    compare_testing(&golden, &Device::flex());
}

/// A software driver takes minutes.
#[test]
fn the_network_is_the_same_on_a_gpu() {
    if !kvt_testing::asks_for("mask_rcnn") {
        return;
    }
    for (_, device) in devices().into_iter().skip(1) {
        let golden = Golden::read();
        compare_training(&golden, &device.clone().autodiff());
        compare_testing(&golden, &device);
    }
}
