//! Runs on generated scenes.

use std::collections::BTreeMap;
use std::path::PathBuf;

use burn::tensor::TensorData;
use kvt_models::weights::StateDict;

use super::*;
use crate::run::{EvalRecord, RunDir};
use crate::world::threads;

/// A run of four updates, evaluated every second one; without images.
pub(super) const WITHOUT_DATA: &str = r#"
task = "detect"
seed = 3
[model]
name = "swin_tiny_patch4_window7_224"
img_size = 64
window_size = 4
embed_dim = 8
depth = [1, 1, 2, 1]
num_heads = [1, 2, 2, 4]
drop_path = 0.1
[model.attention]
kind = "knn"
neighbors = 0.8
[detect]
channels = 8
hidden = 16
anchors = 16
regions = 8
train_per_level = 20
train_proposals = 10
test_per_level = 20
test_proposals = 10
score = 0.01
[optim]
lr = 1e-3
lr_batch = 0
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

/// Three updates an epoch.
const SCENES: &str = r#"
[data]
kind = "shapes"
[data.shapes]
layout = "dense"
image_size = 64
classes = 3
train_per_class = 4
val_per_class = 1
[multiscale]
sizes = [48, 64]
max = 64
crop_before = false
"#;

pub(super) struct Workspace(pub(super) tempfile::TempDir);

impl Workspace {
    pub(super) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let config = format!("{WITHOUT_DATA}{SCENES}");
        fs_err::write(folder.path().join("tiny.toml"), config).unwrap();
        Self(folder)
    }

    pub(super) fn overrides(&self, run: &str, set: &[&str]) -> Vec<String> {
        let path = |name: &str| self.0.path().join(name);
        let mut all = vec![
            format!("data.path={:?}", path("data")),
            format!("run.dir={:?}", path(run)),
        ];
        all.extend(set.iter().map(|&text| text.to_owned()));
        all
    }

    pub(super) fn train(
        &self,
        run: &str,
        set: &[&str],
        start: Start<'_>,
        last: u64,
    ) -> (End, Vec<Event>) {
        let config = self.0.path().join("tiny.toml");
        train(&config, &self.overrides(run, set), start, last).unwrap()
    }

    /// The weights of the last checkpoint.
    pub(super) fn last(&self, run: &str) -> PathBuf {
        let run = RunDir::open(&self.0.path().join(run)).unwrap();
        let checkpoints = crate::run::Checkpoints::new(run.checkpoints());
        let (last, _) = checkpoints.load(crate::run::Which::Last).unwrap();
        last.file("model.safetensors")
    }

    /// The files of the last checkpoint, except its description, which has times.
    fn weights(&self, run: &str) -> BTreeMap<String, Vec<u8>> {
        let run = RunDir::open(&self.0.path().join(run)).unwrap();
        let checkpoints = crate::run::Checkpoints::new(run.checkpoints());
        let (last, _) = checkpoints.load(crate::run::Which::Last).unwrap();
        let files = fs_err::read_dir(last.path()).unwrap().map(Result::unwrap);
        files
            .filter(|file| {
                file.path()
                    .extension()
                    .is_some_and(|end| end == "safetensors")
            })
            .map(|file| {
                let name = file.file_name().into_string().unwrap();
                (name, fs_err::read(file.path()).unwrap())
            })
            .collect()
    }
}

fn evals(events: &[Event]) -> Vec<&EvalRecord> {
    let evals = events.iter().filter_map(|event| match event {
        Event::Eval(eval) => Some(eval),
        _ => None,
    });
    evals.collect()
}

/// Stopped within an epoch, a run goes on as if it had not stopped; its evaluations have all metrics.
#[test]
fn a_resumed_run_is_bit_equal() {
    let workspace = Workspace::new();
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
    let rows = fs_err::read_to_string(workspace.0.path().join("whole/epochs.csv")).unwrap();
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
    let workspace = Workspace::new();
    let config = workspace.0.path().join("tiny.toml");
    let plan = load_plan(&config, &workspace.overrides("run", &[])).unwrap();
    let splits = Splits::open(&plan, (64, 64), None, &mut |_, _| {}).unwrap();
    let model = Detect::model(&plan, &splits).unwrap();
    let measured = |processes: usize| {
        threads(processes, |world| {
            let device = Device::flex();
            let network = detect_network(&plan, &model, splits.classes().len(), &device).unwrap();
            let stop = AtomicBool::new(false);
            let mut data = EvalData::new(&plan, &splits, &stop).of(&*world);
            let prepare = eval_objects(&plan).unwrap();
            evaluate::evaluate_data(&network, &mut data, prepare, &device).unwrap()
        })
    };
    let one = measured(1).swap_remove(0);
    assert!(one.scores.detections > 0);
    for other in measured(2) {
        assert_eq!(other, one);
    }

    // In COCO's format, the detections have the same average precision.
    let results: Vec<serde_json::Value> = one.results().collect();
    let file = workspace.0.path().join("detections.json");
    fs_err::write(&file, serde_json::Value::from(results).to_string()).unwrap();
    let annotations = workspace.0.path().join("data/annotations/val.json");
    assert_eq!(score(&annotations, &file).unwrap(), one.scores);
}

/// A network's own weights are all taken.
#[test]
fn weights_of_networks_are_taken() {
    let workspace = Workspace::new();
    let once = ["train.updates=1"];
    workspace.train("first", &once, Start::New, u64::MAX);
    let weights = format!("init.weights={:?}", workspace.last("first"));
    let (_, events) = workspace.train("second", &[once[0], &weights], Start::New, u64::MAX);
    let mut notes = events.iter().filter_map(|event| match event {
        Event::Note(note) => Some(note.message.clone()),
        _ => None,
    });
    let note = notes.find(|note| note.starts_with("weights of")).unwrap();
    assert!(note.ends_with("a detection network's"), "{note}");
}

/// A classifier by the names of Swin's authors, with the tables that they save, is the backbone; its head and its last norm are left
/// out, and how many were taken is told.
#[test]
fn weights_of_classifiers_are_the_backbones() {
    let workspace = Workspace::new();
    let config = workspace.0.path().join("tiny.toml");
    let file = workspace.0.path().join("classifier.safetensors");
    let mut set = workspace.overrides("run", &[&format!("init.weights={file:?}")]);
    let plan = load_plan(&config, &set).unwrap();
    // At this size every map of the classifier has whole windows, too.
    set.push("model.img_size=128".to_owned());
    let of_classifier = load_plan(&config, &set).unwrap();
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
    let started = Detect::start(&plan, &model, &splits, Weights::OfPlan, &device, &mut notes);
    let (_, network) = started.unwrap();
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
