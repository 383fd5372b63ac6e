//! Self-supervised training: ten updates as in PyTorch, resuming, and plans that are refused.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use burn::tensor::{Device, Tensor, TensorData};
use kvt_models::Network;
use kvt_models::weights::StateDict;
use kvt_ops::{Key, Phase};
use kvt_train::config::{Plan, load_plan};
use kvt_train::data::DeviceBatch;
use kvt_train::engine::{End, Session, Start, TrainError, TrainState, UpdateSettings};
use kvt_train::recipe::{Gradients, Optimizer, Position, Rates, Schedule};
use kvt_train::run::Event;
use kvt_train::task::{Dino, DinoNetwork, Task, build_model};
use kvt_train::world::alone;
use serde_json::Value;

use crate::seeded;
use crate::support::{
    Golden, Killer, Workspace, assert_each_close, crates_dir, floats, set, steps,
};

/// Updates per epoch of the golden runs, and in both epochs.
const EPOCH: u64 = 5;
const STEPS: u64 = 10;

/// Keys of a small run, for `tiny.toml`.
const SMALL: [&str; 13] = [
    "task=dino",
    "dino.out_dim=12",
    "dino.hidden_dim=20",
    "dino.bottleneck_dim=8",
    "dino.local_views=2",
    "dino.local_size=8",
    "schedule.warmup_closed=true",
    "schedule.weight_decay_end=0.4",
    "optim.clip_parameter=3.0",
    "optim.lr=0.01",
    "model.drop_path=0.1",
    "log.every_steps=1",
    "checkpoint.keep_last=100",
];

/// The plan of a golden run, from the keys that a user would set.
fn golden_plan(config: &Value) -> Plan {
    let workspace = Workspace::empty();
    let number = |key: &str| config[key].to_string();
    let mut all: Vec<String> = SMALL.map(str::to_owned).to_vec();
    for key in [
        "out_dim",
        "hidden_dim",
        "bottleneck_dim",
        "momentum_teacher",
        "center_momentum",
        "student_temp",
        "warmup_teacher_temp",
        "teacher_temp",
        "warmup_teacher_temp_epochs",
        "freeze_last_layer",
        "local_views",
        "norm_last_layer",
    ] {
        all.push(format!("dino.{key}={}", number(key)));
    }
    all.extend([
        format!("optim.lr={}", number("lr")),
        format!("optim.weight_decay={}", number("weight_decay")),
        format!("optim.clip_parameter={}", number("clip")),
        format!("schedule.warmup_epochs={}", number("warmup_epochs")),
        format!("schedule.min_lr={}", number("min_lr")),
        format!("schedule.weight_decay_end={}", number("weight_decay_end")),
        format!("train.epochs={}", number("epochs")),
        format!("train.batch_size={}", number("batch")),
        "schedule.warmup_lr=0.0".to_owned(),
        "schedule.warmup_prefix=true".to_owned(),
        "model.drop_path=0.0".to_owned(),
        "model.qkv_bias=false".to_owned(),
        "model.num_classes=1".to_owned(),
        "data.path=data".to_owned(),
    ]);
    if let Some(neighbors) = config["neighbors"].as_f64() {
        all.push("model.attention.kind=knn".to_owned());
        all.push(format!("model.attention.neighbors={neighbors:?}"));
    }
    load_plan(&workspace.path("tiny.toml"), &all).unwrap()
}

/// A golden run: its file, all its random numbers, its plan, and its state before the first update.
struct Run {
    golden: Golden,
    tensors: StateDict,
    plan: Plan,
    state: TrainState<Dino>,
    device: Device,
}

impl Run {
    fn new(kind: &str) -> Self {
        let name = format!("kvt-train/tests/golden/dino_{kind}.safetensors");
        let tensors = seeded::golden(&crates_dir().join(Path::new(&name)));
        let golden = Golden::read(&name);
        let plan = golden_plan(&golden.config);
        let device = Device::flex().autodiff();
        let config = plan.model.config(None).unwrap();
        let model = build_model(&plan, &config, &device).unwrap();
        let network = DinoNetwork::new(model, &plan.dino, &device, Key::new(0));
        let weights = tensors.iter().filter_map(|(name, data)| {
            Some((name.strip_prefix("weights.")?.to_owned(), data.clone()))
        });
        let (network, unused) = network.load_state_dict(&weights.collect()).unwrap();
        assert_eq!(unused, Vec::<String>::new());
        let task = Dino::new(plan.dino.clone(), &network, &device, STEPS);
        let state = TrainState {
            loss_scale: None,
            optimizer: Optimizer::new(&plan.optim, &network),
            ema: None,
            task,
            network,
        };
        Self {
            golden,
            tensors,
            plan,
            state,
            device,
        }
    }

    fn batch(&self, step: u64) -> DeviceBatch<()> {
        let views = (0..2 + self.plan.dino.local_views).map(|view| {
            let data = self.tensors.get(&format!("view.{step}.{view}")).unwrap();
            Tensor::<4>::from_data(data.clone(), &self.device)
        });
        let images = self.plan.train.batch_size;
        DeviceBatch {
            views: views.collect(),
            targets: vec![(); images],
            indices: (0..images as u32).collect(),
        }
    }
}

/// Compares tensors by name; `tolerance` is relative to the largest number of each.
#[track_caller]
fn assert_same(golden: &Golden, prefix: &str, found: &StateDict, tolerance: f64) {
    let mut compared = 0;
    for (name, data) in found.iter() {
        let expected = golden.f32s(&format!("{prefix}.{name}"));
        let found: Vec<f32> = data.try_to_vec().unwrap();
        assert_eq!(found.len(), expected.len(), "{name}");
        let largest = expected.iter().fold(0.0f64, |max, x| max.max(x.abs()));
        for (place, (found, expected)) in found.iter().zip(&expected).enumerate() {
            let error = (f64::from(*found) - expected).abs();
            assert!(
                error <= tolerance * largest,
                "{prefix}.{name} {place}: {found} instead of {expected}"
            );
        }
        compared += 1;
    }
    assert!(compared > 20, "{compared}");
}

/// Gradients under their names and in PyTorch's layout.
fn named(gradients: &mut Gradients, network: &DinoNetwork) -> StateDict {
    let parameters = network.parameters().into_iter();
    let found = parameters.filter_map(|parameter| {
        let (values, scale) = gradients.remove(parameter.id)?;
        let values = values * scale;
        let is_linear = parameter.shape.len() == 2 && parameter.name.ends_with(".weight");
        let values = match *parameter.shape.as_slice() {
            [out, inputs] if is_linear => {
                let matrix = values.reshape([inputs, out]).transpose();
                matrix.reshape([inputs * out])
            }
            _ => values,
        };
        Some((parameter.name, values.into_data()))
    });
    found.collect()
}

fn is_pytorchs(kind: &str) {
    let mut run = Run::new(kind);
    let golden = |name: &str| run.golden.f32s(name);
    let [losses, centres, lrs, decays] = ["losses", "centres", "lrs", "weight_decays"].map(golden);
    let [momenta, temperatures] = ["momenta", "temperatures"].map(golden);
    let optim = run.plan.optim.clone();
    let schedule = Schedule::new(run.plan.schedule.clone(), optim.lr, EPOCH, 2);

    // The gradients of the first update, from a task that is then discarded.
    let mut first = Run::new(kind);
    let at = Position::default();
    let loss = first
        .state
        .task
        .loss(&first.state.network, run.batch(0), at, Phase::Eval)
        .unwrap();
    let mut gradients = Gradients::take(loss.backward(), &first.state.network);
    let gradients = named(&mut gradients, &first.state.network);
    assert_same(&run.golden, "grad", &gradients, 2e-5);

    let mut found = Vec::new();
    for step in 0..STEPS {
        let epoch = (step / EPOCH) as u32;
        let at = Position {
            epoch,
            batch: (step % EPOCH) as usize,
            step,
        };
        let rates = Rates {
            lr: schedule.lr(step, epoch),
            weight_decay: schedule.weight_decay(optim.weight_decay, step, epoch),
        };
        let place = step as usize;
        let close = |what: &str, found: f64, expected: f64| {
            let error = (found - expected).abs();
            assert!(error < 1e-7, "{what} {step}: {found} instead of {expected}");
        };
        close("lr", rates.lr, lrs[place]);
        close("weight decay", rates.weight_decay, decays[place]);
        close(
            "momentum",
            run.plan.dino.momentum(step, STEPS),
            momenta[place],
        );
        let temperature = run.plan.dino.teacher_temp_in(epoch);
        close("temperature", temperature, temperatures[place]);

        let settings = UpdateSettings {
            seed: 0,
            rates,
            clip: optim.clip(),
            ema_decay: 0.0,
        };
        let batch = run.batch(step);
        let update = run.state.update([Ok(batch)], at, settings).unwrap();
        found.push(update.loss);
        let centre: Vec<f32> = run.state.task.centre().to_data().try_to_vec().unwrap();
        let expected = &centres[place * centre.len()..][..centre.len()];
        for (found, expected) in centre.iter().zip(expected) {
            assert!((f64::from(*found) - expected).abs() < 2e-5, "step {step}");
        }
    }
    assert_each_close("loss", &found, &losses, 1e-4);
    let state = |network: &DinoNetwork| network.state_dict().unwrap();
    assert_same(&run.golden, "student", &state(&run.state.network), 2e-4);
    assert_same(
        &run.golden,
        "teacher",
        &state(run.state.task.teacher()),
        2e-4,
    );
}

#[test]
fn dense_updates_are_pytorchs() {
    is_pytorchs("dense");
}

#[test]
fn knn_updates_are_pytorchs() {
    is_pytorchs("knn");
}

fn plan(workspace: &Workspace, run: &str, overrides: &[&str]) -> Plan {
    let mut all = vec![
        set("data.path", &workspace.path("data")),
        set("run.dir", &workspace.path(run)),
    ];
    let fixed = [
        "train.epochs=2",
        "train.batch_size=3",
        "checkpoint.every_steps=2",
    ];
    all.extend(
        SMALL
            .iter()
            .chain(&fixed)
            .chain(overrides)
            .map(|&text| text.to_owned()),
    );
    load_plan(&workspace.path("tiny.toml"), &all).unwrap()
}

fn train(plan: &Plan, start: Start<'_>, at: Option<u64>) -> (Result<End, TrainError>, Vec<Event>) {
    let mut killer = Killer {
        at,
        events: Vec::new(),
    };
    let session = Session::<Dino>::prepare(alone(), plan.clone(), start, &mut |_, _| {}).unwrap();
    let end = session.train(&mut killer, &AtomicBool::new(false));
    (end, killer.events)
}

fn files(checkpoint: &Path) -> Vec<Vec<u8>> {
    ["model", "optimizer", "task.teacher", "task.centre"]
        .map(|name| fs_err::read(checkpoint.join(format!("{name}.safetensors"))).unwrap())
        .to_vec()
}

/// Killed in the middle of an epoch, with the last layer frozen and later, and resumed: bit for bit the same.
#[test]
fn a_resumed_run_is_the_same_to_the_bit() {
    let workspace = Workspace::with_data(6, 2);
    for (number, accumulate) in ["train.accumulate=1", "train.accumulate=2"]
        .iter()
        .enumerate()
    {
        let name = |what: &str| format!("{what}-{number}");
        let whole = plan(&workspace, &name("whole"), &[accumulate]);
        let (end, events) = train(&whole, Start::New, None);
        assert_eq!(end.unwrap(), End::Finished);
        let last = steps(&events).last().unwrap().step;
        for killed_at in [1, 3, last - 1] {
            let run = name(&format!("killed-{killed_at}"));
            let plan = plan(&workspace, &run, &[accumulate]);
            assert!(train(&plan, Start::New, Some(killed_at)).0.is_err());
            let (end, resumed) = train(&plan, Start::RESUME, None);
            assert_eq!(end.unwrap(), End::Finished);
            let lines = |events: &[Event]| -> Vec<(u64, u64, Option<u64>)> {
                let steps = steps(events);
                let entropy = |name: &str, step: &kvt_train::run::StepRecord| {
                    step.metrics.get(name).map(f64::to_bits)
                };
                let line = |step: &&kvt_train::run::StepRecord| {
                    (
                        step.step,
                        step.loss.to_bits(),
                        entropy("teacher_entropy", step),
                    )
                };
                steps.iter().map(line).collect()
            };
            let tail = lines(&resumed);
            assert!(!tail.is_empty() && lines(&events).ends_with(&tail));
            let [expected, found] =
                [name("whole"), run].map(|run| files(&workspace.last_checkpoint(&run)));
            assert!(expected == found, "killed at {killed_at}");
        }
    }
}

/// Log, metrics and files of a run with the binary.
#[test]
fn the_binary_trains() {
    let workspace = Workspace::with_data(6, 2);
    let mut arguments = vec!["train", "tiny.toml"];
    for key in SMALL
        .iter()
        // There are six validation images; the default 20 neighbours among 18 would give each the same result.
        .chain(&[
            "train.epochs=2",
            "train.batch_size=6",
            "dino.eval_neighbors=3",
        ])
    {
        arguments.extend(["--set", key]);
    }
    workspace.kvt(&arguments).assert().success();
    let log = workspace.log("run");
    let steps = steps(&log);
    assert_eq!(steps.len(), 6);
    for step in steps {
        let entropy = step.metrics.get("teacher_entropy").unwrap();
        assert!((0.0..=12f64.ln() + 1e-6).contains(&entropy), "{entropy}");
        assert!(step.metrics.get("feature_std").unwrap() > 0.0);
        assert!(step.metrics.get("centre_std").unwrap() > 0.0);
    }
    let knn: Vec<f64> = log
        .iter()
        .filter_map(|event| match event {
            Event::Eval(eval) => eval.metrics.get("knn"),
            _ => None,
        })
        .collect();
    assert_eq!(knn.len(), 2);
    // The logged value is the probe's, for the teacher in the checkpoint.
    let probed = workspace.json(&[
        "probe",
        "--method",
        "knn",
        "--run",
        "run",
        "--checkpoint",
        "last",
        "--neighbors",
        "3",
        "--json",
    ]);
    assert_eq!(probed[0]["top1"].as_f64(), knn.last().copied());
    let header = workspace.read("run/epochs.csv");
    assert!(
        header.starts_with("epoch,train_loss,lr,val_knn,val_feature_std"),
        "{header}"
    );
    let checkpoint = workspace.last_checkpoint("run");
    let weights = kvt_models::weights::read(&checkpoint.join("model.safetensors")).unwrap();
    assert!(weights.get("backbone.cls_token").is_some());
    assert!(weights.get("head.last_layer.weight_v").is_some());
    assert!(weights.get("backbone.head.weight").is_none());
    // The last layer keeps its lengths.
    assert!(
        floats(&weights, "head.last_layer.weight_g")
            .iter()
            .all(|x| x.to_bits() == 1f32.to_bits())
    );
}

/// A teacher with a flat softmax: one warning after the first epoch, with a suggested change.
#[test]
fn a_collapse_is_said_once() {
    let workspace = Workspace::with_data(6, 2);
    let flat = ["dino.teacher_temp=100.0", "dino.warmup_teacher_temp=100.0"];
    let (end, events) = train(&plan(&workspace, "run", &flat), Start::New, None);
    assert_eq!(end.unwrap(), End::Finished);
    let said: Vec<(u64, &str)> = events
        .iter()
        .filter_map(|event| match event {
            Event::Note(note) if note.message.contains("collapsed") => {
                Some((note.step, note.message.as_str()))
            }
            _ => None,
        })
        .collect();
    let [(step, text)] = said.as_slice() else {
        panic!("{said:?}");
    };
    // Six updates make an epoch.
    assert_eq!(*step, 7);
    assert!(
        text.contains("uniform distribution") && text.contains("`dino.teacher_temp`"),
        "{text}"
    );
}

/// The evaluation, two global and two local views of four images.
#[test]
fn the_preview_shows_the_views() {
    let workspace = Workspace::with_data(6, 2);
    let mut arguments = vec!["config", "preview", "tiny.toml", "--out", "p"];
    for key in &SMALL {
        arguments.extend(["--set", key]);
    }
    workspace.kvt(&arguments).assert().success();
    let sheet = image::open(workspace.path("p/images.png"))
        .unwrap()
        .to_rgb8();
    // Columns of 96 pixels with gaps of 8, below the lines of text of the first row.
    let is_drawn = |column: u32| {
        let pixels =
            (0..96).flat_map(|x| (0..96).map(move |y| (8 + column * 104 + x, 24 + 8 + 24 + y)));
        let white = pixels.filter(|(x, y)| sheet.get_pixel(*x, *y).0 == [255; 3]);
        white.count() < 96 * 48
    };
    let drawn: Vec<bool> = (0..8).map(is_drawn).collect();
    assert_eq!(drawn, [true, true, true, true, true, false, false, false]);
}

/// Several views of another size are refused if unsupported, with the reason, before anything is read.
#[test]
fn what_does_not_fit_is_said_at_configuration_time() {
    let workspace = Workspace::with_data(6, 2);
    let refused = |overrides: &[&str]| {
        let mut arguments = vec!["config", "check", "tiny.toml"];
        for key in SMALL.iter().chain(overrides) {
            arguments.extend(["--set", key]);
        }
        workspace.error(&arguments)
    };
    // The whole image has 17 keys, a local view 5.
    let error = refused(&["model.attention.kind=knn", "model.attention.neighbors=6"]);
    assert!(
        error.contains(
            "`model.attention.neighbors` = 6 keys of the 5 that local views of 8 pixels have"
        ),
        "{error}"
    );
    assert!(error.contains("neighbors = 0.5"), "{error}");
    let error = refused(&["dino.local_size=10"]);
    assert!(
        error.contains("does not support local views of 10 pixels"),
        "{error}"
    );
    let error = refused(&["model.attention.kind=linformer", "model.attention.rank=4"]);
    assert!(
        error.contains("weights for the number of tokens"),
        "{error}"
    );
    let error = refused(&["mix.mix_token=1.0"]);
    assert!(
        error.contains("set `mix.mixup`, `mix.cutmix` and `mix.mix_token` to 0"),
        "{error}"
    );
    let error = refused(&["ema.decay=0.9"]);
    assert!(error.contains("keeps an average already"), "{error}");
    let error = workspace.error(&["config", "check", "tiny.toml", "--set", "dino.out_dim=5"]);
    assert!(
        error.contains("`dino.out_dim` is set, but the task is `classify`"),
        "{error}"
    );
    let error = refused(&["dino.local_scale=[0.5, 0.1]"]);
    assert!(error.contains("the smaller value first"), "{error}");
}

/// Swin's windows keep their size on the smaller map of a local view, so that each query has as many keys as in a global one.
#[test]
fn windows_have_as_many_keys_in_local_views() {
    let workspace = Workspace::with_data(6, 2);
    let mut arguments = vec!["config", "check", "tiny.toml"];
    let swin = [
        "model.name=swin_tiny_patch4_window7_224",
        "model.patch_size=2",
        // A window has 49 tokens, a local view 16.
        "model.attention.kind=knn",
        "model.attention.neighbors=20",
    ];
    for key in SMALL.iter().chain(&swin) {
        arguments.extend(["--set", key]);
    }
    workspace.kvt(&arguments).assert().success();
}

/// The cosine of the momentum ends with the last update of the last epoch, not of the first.
#[test]
fn the_teacher_follows_to_the_end_of_the_run() {
    let workspace = Workspace::with_data(6, 2);
    let often = ["checkpoint.every_steps=1", "dino.momentum_teacher=0.5"];
    let (end, _) = train(&plan(&workspace, "run", &often), Start::New, None);
    assert_eq!(end.unwrap(), End::Finished);
    let file = |step: u64, name: &str| {
        let folder = format!("run/checkpoints/step-{step:08}");
        let file = workspace.path(&folder).join(format!("{name}.safetensors"));
        kvt_models::weights::read(&file).unwrap()
    };
    // 18 images in batches of 3, for two epochs: the last two updates.
    for step in [10, 11] {
        let angle = std::f64::consts::PI * step as f64 / 12.0;
        let m = 1.0 - 0.5 * (1.0 + angle.cos()) / 2.0;
        let (before, after) = (file(step, "task.teacher"), file(step + 1, "task.teacher"));
        let student = file(step + 1, "model");
        let mut moved = 0.0f64;
        for (name, _) in after.iter() {
            let [before, after, student] =
                [&before, &after, &student].map(|state| floats(state, name));
            for ((before, after), student) in before.into_iter().zip(after).zip(student) {
                let [before, after, student] = [before, after, student].map(f64::from);
                let expected = m * before + (1.0 - m) * student;
                assert!(
                    (after - expected).abs() < 1e-6,
                    "{step} {name}: {after} instead of {expected}"
                );
                moved = moved.max((after - before).abs());
            }
        }
        assert!(moved > 2e-5, "{step}: {moved}");
    }
}

/// Two halves of a batch, accumulated, move the centre like the whole batch.
#[test]
fn the_centre_moves_once_for_each_update() {
    let mut run = Run::new("dense");
    let whole = run.batch(0);
    let part = |from: usize| DeviceBatch {
        views: whole
            .views
            .iter()
            .map(|view| view.clone().narrow(0, from, 2))
            .collect(),
        targets: vec![(); 2],
        indices: vec![0, 1],
    };
    let settings = UpdateSettings {
        seed: 0,
        rates: Rates {
            lr: 1e-3,
            weight_decay: 0.0,
        },
        clip: run.plan.optim.clip(),
        ema_decay: 0.0,
    };
    let centre = |run: &Run| -> Vec<f32> {
        let data: TensorData = run.state.task.centre().to_data();
        data.try_to_vec().unwrap()
    };
    let at = Position::default();
    let parts = [Ok(part(0)), Ok(part(2))];
    let divided = run.state.update(parts, at, settings).unwrap();
    let mut other = Run::new("dense");
    let together = other.state.update([Ok(whole)], at, settings).unwrap();
    assert!((divided.loss - together.loss).abs() < 1e-5);
    for (a, b) in centre(&run).iter().zip(centre(&other)) {
        assert!((a - b).abs() < 1e-6, "{a} {b}");
    }
}
