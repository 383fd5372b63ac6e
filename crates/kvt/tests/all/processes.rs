//! Several processes train like one. Here they are threads, each with its own world; `scripts/mpi_check.py` tests real processes.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use burn::tensor::TensorData;
use kvt_models::weights;
use kvt_train::config::{Plan, load_plan};
use kvt_train::engine::{End, Session, Start, TrainError};
use kvt_train::run::{EpochRecord, Event, Listener, Note, RunError, Topic};
use kvt_train::task::{Classify, Dino, Task, TaskKind};
use kvt_train::world::{World, threads};

use crate::support::{Heard, Workspace, floats, read_weights, set, steps};

/// Dense and k-NN stages, and every source of randomness: drop path, dropout, mixing, augmentation.
const DEIT: [&str; 8] = [
    "model.drop_path=0.3",
    "model.attn_drop=0.1",
    "model.attention.kind=knn",
    "model.attention.neighbors=0.5",
    "mix.mixup=0.8",
    "augment.preset=cifar",
    "ema.decay=0.5",
    "optim.clip_norm=1.0",
];

const CVT: [&str; 3] = ["model.name=cvt_13", "model.patch_stride=2", "model.depth=1"];

fn plan(workspace: &Workspace, run: &str, overrides: &[&str]) -> Plan {
    let mut all = vec![
        set("data.path", &workspace.path("data")),
        set("run.dir", &workspace.path(run)),
        "log.every_steps=1".to_owned(),
        "checkpoint.keep_last=100".to_owned(),
    ];
    all.extend(overrides.iter().map(|&text| text.to_owned()));
    load_plan(&workspace.path("tiny.toml"), &all).unwrap()
}

type Outcome = (Result<End, TrainError>, Vec<Event>);

/// The result of each process; `stop` names one and the update after which it is asked to stop.
fn train(
    plan: &Plan,
    processes: usize,
    start: Start<'_>,
    stop: Option<(usize, u64)>,
) -> Vec<Outcome> {
    threads(processes, |world| one(world, plan, start, stop))
}

fn one(
    world: std::sync::Arc<dyn World>,
    plan: &Plan,
    start: Start<'_>,
    stop: Option<(usize, u64)>,
) -> Outcome {
    let flag = AtomicBool::new(false);
    let own = stop.filter(|(rank, _)| *rank == world.rank());
    let mut heard = Heard {
        events: Vec::new(),
        stop: own.map(|(_, at)| (at, &flag)),
    };
    let end = match plan.task {
        TaskKind::Dino => run::<Dino>(world, plan, start, (&mut heard, &flag)),
        _ => run::<Classify>(world, plan, start, (&mut heard, &flag)),
    };
    (end, heard.events)
}

fn run<T: Task>(
    world: std::sync::Arc<dyn World>,
    plan: &Plan,
    start: Start<'_>,
    (heard, flag): (&mut Heard<'_>, &AtomicBool),
) -> Result<End, TrainError> {
    let session = Session::<T>::prepare(world, plan.clone(), start, &mut |_, _| {})?;
    session.train(heard, flag)
}

/// A run that finishes in all processes; returns the events of the first one.
fn finish(plan: &Plan, processes: usize, start: Start<'_>) -> Vec<Event> {
    let mut outcomes = train(plan, processes, start, None);
    for (rank, (end, _)) in outcomes.iter().enumerate() {
        assert!(matches!(end, Ok(End::Finished)), "process {rank}: {end:?}");
    }
    outcomes.swap_remove(0).1
}

/// The time-independent results: losses, norms, rates and evaluations.
fn told(events: &[Event]) -> Vec<String> {
    let text = |event: &Event| match event {
        Event::Step(step) => Some(format!(
            "{} {:?} {:?} {:?}",
            step.step, step.loss, step.grad_norm, step.lr
        )),
        Event::Eval(eval) => Some(format!("{eval:?}")),
        _ => None,
    };
    events.iter().filter_map(text).collect()
}

fn epochs(events: &[Event]) -> Vec<&EpochRecord> {
    events
        .iter()
        .filter_map(|event| match event {
            Event::Epoch(epoch) => Some(epoch),
            _ => None,
        })
        .collect()
}

/// Weights, moments, the average and the task's own state after the last update, file by file.
fn files(workspace: &Workspace, run: &str) -> Vec<(String, Vec<u8>)> {
    let folder = workspace.last_checkpoint(run);
    let names = ["model", "optimizer", "ema", "teacher", "centre"]
        .into_iter()
        .chain(["lora", "ema.lora", "adapted"])
        .map(|name| format!("{name}.safetensors"));
    names
        .into_iter()
        .filter(|name| folder.join(name).exists())
        .map(|name| (name.clone(), fs_err::read(folder.join(name)).unwrap()))
        .collect()
}

fn assert_same_to_the_bit(workspace: &Workspace, [one, other]: [&str; 2]) {
    let (one, other) = (files(workspace, one), files(workspace, other));
    assert_eq!(one.len(), other.len());
    for ((name, one), (_, other)) in one.iter().zip(&other) {
        assert!(one == other, "{name}");
    }
}

#[track_caller]
fn assert_same_to(tolerance: f32, workspace: &Workspace, [one, other]: [&str; 2]) {
    let [one, other] = [one, other]
        .map(|run| read_weights(&workspace.last_checkpoint(run).join("model.safetensors")));
    assert_eq!(one.len(), other.len());
    for (name, data) in one.iter() {
        if name.ends_with("num_batches_tracked") || !data.dtype().is_float() {
            continue;
        }
        let (one, other) = (floats(&one, name), floats(&other, name));
        for (a, b) in one.iter().zip(&other) {
            let error = (a - b).abs() / a.abs().max(1.0);
            assert!(error <= tolerance, "{name}: {b} instead of {a}");
        }
    }
}

/// 18 images: six micro-batches of three, or four of five, the last of which has three. There are complete updates, and one in
/// which the second process has no micro-batch.
#[test]
fn two_are_one_to_the_bit() {
    let workspace = Workspace::with_data(6, 3);
    for (batch, name) in [(3, "whole"), (6, "ragged"), (5, "short")] {
        let size = format!("train.batch_size={batch}");
        let all: Vec<&str> = DEIT
            .into_iter()
            .chain([size.as_str(), "train.accumulate=2", "data.drop_last=false"])
            .chain(["eval.batch_size=2"])
            .collect();
        let [alone, both] = ["alone", "both"].map(|run| format!("{name}-{run}"));
        let expected = finish(&plan(&workspace, &alone, &all), 1, Start::New);
        let found = finish(&plan(&workspace, &both, &all), 2, Start::New);
        assert_eq!(told(&found), told(&expected), "{name}");
        assert_same_to_the_bit(&workspace, [&alone, &both]);
        // The time spent on communication is reported, but only with several processes.
        assert!(
            steps(&found)
                .iter()
                .all(|step| step.communication.is_some())
        );
        assert!(
            steps(&expected)
                .iter()
                .all(|step| step.communication.is_none())
        );
        let share = epochs(&found)[0].communication_share.unwrap();
        assert!((0.0..=1.0).contains(&share), "{share}");
    }
}

/// On a GPU the first process tries an update before both start, which leaves no trace.
///
/// Only if `KVT_GPU_CASES` asks for all cases, or for `processes`: a software driver tunes matrix products for minutes.
#[cfg(feature = "wgpu")]
#[test]
fn two_on_a_gpu_are_one_to_rounding() {
    if !kvt_testing::asks_for("processes") {
        return;
    }
    let Some((name, _)) = kvt_testing::devices::gpu() else {
        return;
    };
    let device = format!("train.device={name}:0");
    let workspace = Workspace::with_data(4, 2);
    let all: Vec<&str> = DEIT
        .into_iter()
        .chain([device.as_str(), "train.batch_size=4", "train.accumulate=2"])
        .chain(["optim.eps=0.01", "eval.batch_size=4"])
        .collect();
    let expected = finish(&plan(&workspace, "alone", &all), 1, Start::New);
    let found = finish(&plan(&workspace, "both", &all), 2, Start::New);
    assert_eq!(steps(&found).len(), steps(&expected).len());
    for (found, expected) in steps(&found).iter().zip(steps(&expected)) {
        assert!((found.loss - expected.loss).abs() < 1e-4, "{found:?}");
    }
    assert_same_to(1e-4, &workspace, ["alone", "both"]);
}

/// Sums over more than two processes depend on their order.
#[test]
fn more_are_one_to_rounding() {
    let workspace = Workspace::with_data(8, 3);
    // AdamW amplifies small gradients unless `eps` is large.
    let all: Vec<&str> = DEIT
        .into_iter()
        .chain(["train.batch_size=2", "train.accumulate=4", "optim.eps=0.01"])
        .collect();
    finish(&plan(&workspace, "alone", &all), 1, Start::New);
    for processes in [2, 4] {
        let run = format!("of-{processes}");
        finish(&plan(&workspace, &run, &all), processes, Start::New);
        assert_same_to(2e-6, &workspace, ["alone", &run]);
    }
}

/// The gradients and statistics of two times four images equal those of eight.
#[test]
fn joint_batch_norms_are_those_of_a_larger_micro_batch() {
    let workspace = Workspace::with_data(16, 2);
    let of = |run: &str, batch: &[&str]| {
        let all: Vec<&str> = CVT.iter().chain(batch).copied().collect();
        let all = [&all[..], &["optim.eps=0.01", "train.epochs=2"]].concat();
        plan(&workspace, run, &all)
    };
    let large = of("large", &["train.batch_size=8"]);
    let small = of("small", &["train.batch_size=4", "train.accumulate=2"]);
    let expected = finish(&large, 1, Start::New);
    let found = finish(&small, 2, Start::New);
    assert_same_to(1e-6, &workspace, ["large", "small"]);
    for (found, expected) in steps(&found).iter().zip(steps(&expected)) {
        assert!((found.loss - expected.loss).abs() < 1e-5);
    }
    // One process that takes the micro-batches in turn gives a different result.
    let turns = of("turns", &["train.batch_size=4", "train.accumulate=2"]);
    finish(&turns, 1, Start::New);
    let weight = |run: &str| {
        let file = workspace.last_checkpoint(run).join("model.safetensors");
        let weights = read_weights(&file);
        floats(&weights, "head.weight")
    };
    let differs = weight("turns")
        .iter()
        .zip(weight("large"))
        .any(|(a, b)| (a - b).abs() > 1e-5);
    assert!(differs);
}

/// Without joint batch norms, the run equals one of a single process that takes the micro-batches in turn, including running
/// statistics.
#[test]
fn own_batch_norms_are_those_of_one_process() {
    let workspace = Workspace::with_data(6, 2);
    let batch = ["train.batch_size=6", "train.accumulate=2"];
    let all: Vec<&str> = CVT
        .into_iter()
        .chain(batch)
        .chain(["train.sync_batch_norm=false"])
        .collect();
    let expected = finish(&plan(&workspace, "alone", &all), 1, Start::New);
    let found = finish(&plan(&workspace, "both", &all), 2, Start::New);
    assert_eq!(told(&found), told(&expected));
    assert_same_to_the_bit(&workspace, ["alone", "both"]);
}

/// 18 images in micro-batches of ten and eight.
const UNEVEN: [&str; 6] = [
    "train.batch_size=10",
    "train.accumulate=2",
    "data.drop_last=false",
    "optim.lr_batch=0",
    "optim.eps=0.01",
    "train.epochs=2",
];

/// If no gradients pass between processes, micro-batches are weighted by their images, as in one process.
#[test]
fn own_batch_norms_of_micro_batches_that_differ_in_size() {
    let workspace = Workspace::with_data(6, 2);
    let all: Vec<&str> = CVT
        .into_iter()
        .chain(UNEVEN)
        .chain(["train.sync_batch_norm=false"])
        .collect();
    let expected = finish(&plan(&workspace, "alone", &all), 1, Start::New);
    let found = finish(&plan(&workspace, "both", &all), 2, Start::New);
    assert_eq!(told(&found), told(&expected));
    assert_same_to_the_bit(&workspace, ["alone", "both"]);
}

/// Joint batch norms over ten and eight images equal those over 18.
#[test]
fn joint_batch_norms_of_micro_batches_that_differ_in_size() {
    let workspace = Workspace::with_data(6, 2);
    let all: Vec<&str> = CVT.into_iter().chain(UNEVEN).collect();
    let large = [&all[..], &["train.batch_size=18", "train.accumulate=1"]].concat();
    finish(&plan(&workspace, "large", &large), 1, Start::New);
    finish(&plan(&workspace, "both", &all), 2, Start::New);
    assert_same_to(1e-6, &workspace, ["large", "both"]);
}

/// Student, teacher and centre; with batch norms the teacher also takes the student's running statistics. In the last update of a
/// short epoch the second process has no micro-batch.
#[test]
fn dino_in_two_is_in_one_to_the_bit() {
    let workspace = Workspace::with_data(6, 2);
    let transformer = [
        "dino.local_views=2",
        "dino.local_size=8",
        "model.drop_path=0.1",
    ];
    // Views of another size would add forward passes, and so another order of updates of the running statistics.
    let convolutions = [
        CVT[0],
        CVT[1],
        CVT[2],
        "train.sync_batch_norm=false",
        "dino.local_views=0",
    ];
    for (backbone, own) in [("deit", &transformer[..]), ("cvt", &convolutions[..])] {
        for batch in ["train.batch_size=3", "train.batch_size=6"] {
            let all: Vec<&str> = own
                .iter()
                .copied()
                .chain([
                    batch,
                    "train.accumulate=2",
                    "data.drop_last=false",
                    "task=dino",
                ])
                .chain([
                    "dino.out_dim=12",
                    "dino.hidden_dim=20",
                    "dino.bottleneck_dim=8",
                ])
                .chain([
                    "dino.center_momentum=0.5",
                    "dino.momentum_teacher=0.5",
                    "optim.lr=0.01",
                ])
                .collect();
            let [alone, both] = ["alone", "both"].map(|run| format!("{backbone}-{batch}-{run}"));
            let expected = finish(&plan(&workspace, &alone, &all), 1, Start::New);
            let found = finish(&plan(&workspace, &both, &all), 2, Start::New);
            assert_eq!(told(&found), told(&expected), "{backbone} {batch}");
            assert_same_to_the_bit(&workspace, [&alone, &both]);
        }
    }
}

/// Gradients that overflow in f16 skip the same updates, whichever process has them.
#[test]
fn an_overflow_in_two_is_one_in_one_to_the_bit() {
    let workspace = Workspace::with_data(6, 2);
    finish(
        &plan(&workspace, "start", &["train.max_steps=1"]),
        1,
        Start::New,
    );
    // With such a large head the first gradients overflow.
    let start = workspace.last_checkpoint("start").join("model.safetensors");
    let mut large = read_weights(&start);
    let head = floats(&large, "head.weight").into_iter().map(|x| x * 100.0);
    let shape = large.get("head.weight").unwrap().shape().clone();
    large.insert("head.weight", TensorData::new(head.collect(), shape));
    let file = workspace.path("large.safetensors");
    weights::write(&file, &large, &BTreeMap::new()).unwrap();
    let file = set("init.weights", &file);
    let all = [
        "train.batch_size=3",
        "train.accumulate=2",
        "train.precision=f16",
        "train.epochs=4",
        "ema.decay=0.5",
        file.as_str(),
    ];
    let left_out = |events: &[Event]| -> Vec<Note> {
        let note = |event: &Event| match event {
            Event::Note(note) if note.topic == Topic::Scale => Some(note.clone()),
            _ => None,
        };
        events.iter().filter_map(note).collect()
    };
    let expected = finish(&plan(&workspace, "alone", &all), 1, Start::New);
    let found = finish(&plan(&workspace, "both", &all), 2, Start::New);
    let count = left_out(&expected).len();
    assert!((2..10).contains(&count), "{count} of 12 updates");
    assert_eq!(left_out(&found), left_out(&expected));
    assert_eq!(told(&found), told(&expected));
    assert_same_to_the_bit(&workspace, ["alone", "both"]);
}

/// A request to stop in one process stops all; the run resumes with another number of processes.
#[test]
fn all_stop_and_another_number_goes_on() {
    stops_and_goes_on(&[]);
}

/// Factors are shared as they are, not merged into the weights beside them.
#[test]
fn low_rank_factors_go_on_in_another_number_of_processes() {
    stops_and_goes_on(&["lora.rank=2"]);
}

fn stops_and_goes_on(more: &[&str]) {
    let workspace = Workspace::with_data(6, 2);
    let all: Vec<&str> = DEIT
        .into_iter()
        .chain(["train.batch_size=3", "train.accumulate=2"])
        .chain(more.iter().copied())
        .collect();
    let whole = finish(&plan(&workspace, "whole", &all), 1, Start::New);
    for (name, first, second, stopped_by) in [("a", 2, 1, 1), ("b", 1, 2, 0)] {
        let plan = plan(&workspace, name, &all);
        let outcomes = match stopped_by {
            // Only the first process receives updates, so the other one is asked before the first update.
            1 => threads(first, |world| {
                let flag = AtomicBool::new(false);
                let session = Session::<Classify>::prepare(
                    std::sync::Arc::clone(&world),
                    plan.clone(),
                    Start::New,
                    &mut |_, _| {},
                );
                let mut heard = Stopper {
                    own: world.rank() == 1,
                    flag: &flag,
                };
                (session.unwrap().train(&mut heard, &flag), Vec::new())
            }),
            _ => train(&plan, first, Start::New, Some((0, 4))),
        };
        for (end, _) in outcomes {
            assert!(matches!(end, Ok(End::Stopped)), "{end:?}");
        }
        let rest = finish(&plan, second, Start::RESUME);
        assert!(
            !rest.is_empty() && told(&whole).ends_with(&told(&rest)),
            "{name}"
        );
        assert_same_to_the_bit(&workspace, ["whole", name]);
    }
}

/// Asks its process to stop after the fourth update, which every process receives.
struct Stopper<'a> {
    own: bool,
    flag: &'a AtomicBool,
}

impl Listener for Stopper<'_> {
    fn event(&mut self, event: &Event) -> Result<(), RunError> {
        if let (true, Event::Step(step)) = (self.own, event)
            && step.step == 4
        {
            self.flag.store(true, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// An image that one process cannot read ends the run in both, with the same message and the state saved.
#[test]
fn an_unreadable_image_of_one_is_an_error_of_all() {
    let workspace = Workspace::with_data(6, 2);
    let all = [
        "train.batch_size=3",
        "train.accumulate=2",
        "data.shuffle=false",
        "train.epochs=1",
    ];
    finish(&plan(&workspace, "whole", &all), 1, Start::New);
    // The eleventh image is in the fourth micro-batch, which the second process has in the second update.
    let image = workspace.path("data/train/b/004.png");
    let good = fs_err::read(&image).unwrap();
    fs_err::write(&image, vec![0; good.len()]).unwrap();
    let broken = plan(&workspace, "broken", &all);
    let outcomes = train(&broken, 2, Start::New, None);
    let mut texts = Vec::new();
    for (end, _) in outcomes {
        let error = end.unwrap_err();
        assert!(error.is_known_to_all());
        texts.push(error.to_string());
    }
    assert!(texts[0].contains("process 1 of 2: "), "{texts:?}");
    assert!(texts[0].contains("004.png"), "{texts:?}");
    assert!(
        texts[0].contains("the state after step 1 is saved"),
        "{texts:?}"
    );
    fs_err::write(&image, good).unwrap();
    finish(&broken, 1, Start::RESUME);
    assert_same_to_the_bit(&workspace, ["whole", "broken"]);
}

/// Skipped images are reported by the first process, whichever process meets them, and counted in total.
#[test]
fn images_that_are_passed_over_are_counted_together() {
    let workspace = Workspace::with_data(6, 3);
    for image in [
        "train/a/001.png",
        "train/b/004.png",
        "val/a/001.png",
        "val/c/002.png",
    ] {
        workspace.write(&format!("data/{image}"), b"no image");
    }
    let all = |max: &'static str| {
        [
            "train.batch_size=3",
            "train.accumulate=2",
            "data.shuffle=false",
            "train.epochs=1",
        ]
        .into_iter()
        .chain(["data.on_error=skip", "eval.batch_size=2", max])
        .collect::<Vec<_>>()
    };
    let skipped = |events: &[Event]| -> Vec<Note> {
        let note = |event: &Event| match event {
            Event::Note(note) if note.topic == Topic::Skipped => Some(note.clone()),
            _ => None,
        };
        events.iter().filter_map(note).collect()
    };
    let enough = all("data.max_skipped=2");
    let expected = finish(&plan(&workspace, "alone", &enough), 1, Start::New);
    let found = finish(&plan(&workspace, "both", &enough), 2, Start::New);
    assert_eq!(skipped(&found), skipped(&expected));
    assert_eq!(skipped(&found).len(), 4);
    assert_eq!(told(&found), told(&expected));
    let outcomes = train(
        &plan(&workspace, "few", &all("data.max_skipped=1")),
        2,
        Start::New,
        None,
    );
    for (end, _) in outcomes {
        let error = end.unwrap_err();
        assert!(error.to_string().contains("data.max_skipped"), "{error}");
        assert!(error.is_known_to_all());
    }
    // The saved state belongs to the position where the run resumes.
    let mended = plan(&workspace, "few", &enough);
    finish(&mended, 2, Start::RESUME);
    assert_same_to_the_bit(&workspace, ["alone", "few"]);
}

/// With `data.repeats` two processes meet the same image in the same update: it counts as one image.
#[test]
fn a_repeated_image_that_is_passed_over_counts_once() {
    let workspace = Workspace::with_data(6, 2);
    workspace.write("data/train/a/001.png", b"no image");
    let all = [
        "train.batch_size=3",
        "train.accumulate=2",
        "train.epochs=1",
        "data.shuffle=false",
        "data.repeats=3",
        "data.replicas=2",
        "data.on_error=skip",
        "data.max_skipped=1",
    ];
    finish(&plan(&workspace, "both", &all), 2, Start::New);
}

#[test]
fn a_loss_that_is_not_finite_ends_all() {
    let workspace = Workspace::with_data(6, 2);
    let all = [
        "train.batch_size=3",
        "train.accumulate=2",
        "optim.name=sgd",
        "optim.lr=1e20",
        "schedule.warmup_epochs=0.0",
    ];
    let plan = plan(&workspace, "run", &all);
    let mut steps = Vec::new();
    for (end, _) in train(&plan, 2, Start::New, None) {
        match end.unwrap_err() {
            TrainError::NotFinite { step, .. } => steps.push(step),
            other => panic!("{other}"),
        }
    }
    assert_eq!(steps[0], steps[1]);
    let batch = workspace.read(&format!("run/nonfinite-step-{}/batch.json", steps[0]));
    let images: Vec<(String, u32)> = serde_json::from_str(&batch).unwrap();
    assert_eq!(images.len(), 6, "both processes' micro-batches");
}

#[test]
fn what_does_not_fit_together_is_refused_in_all() {
    let workspace = Workspace::with_data(6, 2);
    let refused = |plan: Plan, other: Option<Plan>| {
        let texts = threads(2, |world| {
            let plan = match (&other, world.rank()) {
                (Some(other), 1) => other.clone(),
                _ => plan.clone(),
            };
            let session = Session::<Classify>::prepare(world, plan, Start::New, &mut |_, _| {});
            session.err().unwrap().to_string()
        });
        assert_eq!(texts[0], texts[1]);
        texts[0].clone()
    };
    let text = refused(plan(&workspace, "odd", &["train.accumulate=3"]), None);
    assert!(text.contains("--set train.accumulate=4"), "{text}");
    let of = |run, seed| plan(&workspace, run, &["train.accumulate=2", seed]);
    let text = refused(of("seeds", "seed=1"), Some(of("seeds", "seed=2")));
    assert!(text.contains("the configuration of process 1"), "{text}");
    let text = refused(of("name", "data.train=nowhere"), None);
    assert!(text.contains("nowhere"), "{text}");
}
