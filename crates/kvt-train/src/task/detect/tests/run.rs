//! Runs on generated scenes.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use burn::tensor::TensorData;
use kvt_models::weights::StateDict;
use kvt_testing::scenes::{DETECT, OPTIM, model, multiscale, shapes};

use super::*;
use crate::task::Weights;
use crate::world::threads;

/// A run of four updates, evaluated every second one; without images.
pub(super) fn without_data() -> String {
    let more = r#"
drop_path = 0.1
[model.attention]
kind = "knn"
neighbors = 0.8
[schedule]
kind = "poly"
power = 1.0
min_lr = 0.0
per = "step"
warmup_updates = 2
[train]
batch_size = 4
updates = 4
eval_every_updates = 2
device = "cpu"
"#;
    format!("{}{more}{DETECT}{OPTIM}", model("detect", 64))
}

/// The same with scenes, of which an epoch has three updates.
pub(super) fn workspace() -> Workspace<Detect> {
    let scenes = shapes("", 64, 3, [4, 1]) + &multiscale("[48, 64]", 64);
    Workspace::new(&(without_data() + &scenes))
}

/// Stopped within an epoch, a run goes on as if it had not stopped; its evaluations have all metrics.
#[test]
fn a_resumed_run_is_bit_equal() {
    let workspace = workspace();
    let (end, events) = workspace.train("whole", &[], Start::New, u64::MAX);
    assert_eq!(end, End::Finished);
    let found = evals(&events);
    assert_eq!(
        found.iter().map(|eval| eval.step).collect::<Vec<_>>(),
        [2, 4]
    );
    for eval in &found {
        assert_eq!(eval.images, 3);
        for metric in Detect::METRICS {
            let value = eval.metrics.get(metric.name).unwrap();
            assert!((0.0..=100.0).contains(&value), "{} {value}", metric.name);
        }
    }
    let rows = fs_err::read_to_string(workspace.path("whole/epochs.csv")).unwrap();
    assert!(
        rows.starts_with("epoch,train_loss,lr,val_box_ap,val_mask_ap,val_box_ap50,"),
        "{rows}"
    );

    let (end, first) = workspace.train("stopped", &[], Start::New, 1);
    assert_eq!(end, End::Stopped);
    let (end, second) = workspace.train("stopped", &[], Start::RESUME, u64::MAX);
    assert_eq!(end, End::Finished);
    let mut both = evals(&first);
    both.extend(evals(&second));
    assert_eq!(both, found);
    assert_eq!(workspace.weights("stopped"), workspace.weights("whole"));
}

/// The processes of a job find together what one finds.
#[test]
fn processes_evaluate_as_one() {
    let workspace = workspace();
    let plan = workspace.plan("run", &[]);
    let splits = Splits::open(&plan, (64, 64), None, &mut |_, _| {}).unwrap();
    let model = Detect::model(&plan, &splits).unwrap();
    let measured = |processes: usize| {
        threads(processes, |world| {
            let device = Device::flex();
            let network = MaskRcnn::build(&plan, &model, splits.classes().len(), &device).unwrap();
            let stop = AtomicBool::new(false);
            let mut data = EvalData::new(&plan, &splits, &stop, &*world);
            let prepare = eval_objects(&plan).unwrap();
            let batches = data.val_prepared(prepare, 1);
            evaluate_objects(&network, batches, &splits.val, &device, &*world, |_| {}).unwrap()
        })
    };
    let one = measured(1).swap_remove(0);
    assert!(one.scores.detections > 0);
    for other in measured(2) {
        assert_eq!(other, one);
    }

    // In COCO's format, the detections have the same average precision.
    let results: Vec<serde_json::Value> = one.results().collect();
    let file = workspace.path("detections.json");
    fs_err::write(&file, serde_json::Value::from(results).to_string()).unwrap();
    let annotations = workspace.path("data/annotations/val.json");
    assert_eq!(score(&annotations, &file).unwrap(), one.scores);
}

/// A network's own weights are all taken.
#[test]
fn weights_of_networks_are_taken() {
    let workspace = workspace();
    let once = ["train.updates=1"];
    workspace.train("first", &once, Start::New, u64::MAX);
    let weights = format!("init.weights={:?}", workspace.last("first"));
    let (_, events) = workspace.train("second", &[once[0], &weights], Start::New, u64::MAX);
    let note = note_of_weights(&events);
    assert!(note.ends_with("a detection network's"), "{note}");
}

/// A classifier by the names of Swin's authors, with the tables that they save, is the backbone; its head and its last norm are left
/// out, and how many were taken is told.
#[test]
fn weights_of_classifiers_are_the_backbones() {
    let workspace = workspace();
    let file = workspace.path("classifier.safetensors");
    let plan = workspace.plan("run", &[&format!("init.weights={file:?}")]);
    // At this size every map of the classifier has whole windows, too.
    let of_classifier = workspace.plan("run", &["model.img_size=128"]);
    let of_classifier = of_classifier.model.config(Some(5)).unwrap();
    let classifier = of_classifier.init(&Device::flex(), Key::new(8)).unwrap();
    let classifier = StateDict::from_model(&classifier).unwrap();
    let is_taken = |name: &str| !["head.", "norm."].iter().any(|part| name.starts_with(part));
    let names = classifier.iter().map(|(name, _)| name);
    let taken: Vec<&str> = names.filter(|name| is_taken(name)).collect();

    // The authors merge patches at the end of a stage, timm at the beginning of the next.
    let theirs = |name: &str| {
        let name = name.replace("head.fc.", "head.");
        (1..4).fold(name, |name, stage| {
            let [of_timm, of_authors] =
                [stage, stage - 1].map(|stage| format!("layers.{stage}.downsample."));
            match name.strip_prefix(&of_timm) {
                Some(rest) => format!("{of_authors}{rest}"),
                None => name,
            }
        })
    };
    let mut official: StateDict = classifier
        .iter()
        .map(|(name, data)| (theirs(name), data.clone()))
        .collect();
    let mask = TensorData::new(vec![0.0f32; 4], [4]);
    official.insert("layers.2.blocks.1.attn_mask", mask);
    crate::task::write_weights(&file, &official, &BTreeMap::new()).unwrap();

    let splits = Splits::open(&plan, (64, 64), None, &mut |_, _| {}).unwrap();
    let model = Detect::model(&plan, &splits).unwrap();
    let (device, mut notes) = (Device::flex().autodiff(), Vec::new());
    let mut setup = Setup {
        plan: &plan,
        model: &model,
        splits: &splits,
        weights: Weights::OfPlan,
        device: &device,
        notes: &mut notes,
    };
    let (_, network) = Detect::start(&mut setup).unwrap();
    let expected = format!(
        "weights of `{}`: a classifier's: {} of the backbone; norms of the maps and heads are new",
        file.display(),
        taken.len()
    );
    assert_eq!(notes.len(), 1);
    assert_eq!(notes[0].message, expected);
    let backbone = StateDict::from_model(&network.pyramid.backbone).unwrap();
    for name in taken {
        assert_eq!(backbone.get(name), classifier.get(name), "{name}");
    }
}
