//! The exponential moving average of the weights is saved and read back, and does not affect training itself.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use burn::module::Module;
use kvt_models::Model;
use kvt_train::config::load_plan;
use kvt_train::data::Split;
use kvt_train::device;
use kvt_train::engine::{
    Checkpointer, End, Late, Processes, Progress, Recorder, Session, Start, TrainState, Trainer,
};
use kvt_train::recipe::{Ema, EmaReport, Optimizer, Schedule};
use kvt_train::run::{EvalRecord, Event, Metric, RunDir};
use kvt_train::splits::Splits;
use kvt_train::task::{Classify, Task, build_model, evaluate, load_checkpoint_model, predict};
use kvt_train::world::{Alone, alone};

use crate::support::{Heard, Workspace, set, steps};

/// A model with batch norms.
const CVT: [&str; 4] = [
    "model.name=cvt_13",
    "model.patch_stride=2",
    "model.depth=1",
    "optim.lr=0.01",
];

#[test]
fn what_is_read_back_is_what_was_in_memory() {
    let workspace = Workspace::with_data(6, 2);
    let mut overrides = CVT.map(str::to_owned).to_vec();
    overrides.extend([
        set("data.path", &workspace.path("data")),
        set("run.dir", &workspace.path("run")),
        "ema.decay=0.8".to_owned(),
    ]);
    let plan = load_plan(&workspace.path("tiny.toml"), &overrides).unwrap();
    // Leaves the run's folder in the state that training expects.
    drop(Session::<Classify>::prepare(alone(), plan.clone(), Start::New, &mut |_, _| {}).unwrap());
    let run = RunDir::create(&plan.run.dir, true).unwrap();
    let device = device::resolve("cpu").unwrap().device;
    let splits = Splits::open(&plan, (16, 16), None, &mut |_, _| {}).unwrap();
    let config = plan.model.config(Some(3)).unwrap();
    let model = build_model(&plan, &config, &device.clone().autodiff()).unwrap();
    let mut heard = Heard::default();
    let (mut recorder, _) =
        Recorder::open(&run, None, None, Classify::METRICS, &mut heard).unwrap();
    let mut trainer = Trainer {
        plan: &plan,
        splits: &splits,
        device: device.clone().autodiff(),
        state: TrainState {
            optimizer: Optimizer::new(&plan.optim, &model),
            ema: Some(Ema::new(&model, [])),
            loss_scale: None,
            network: model,
            task: Classify::new(&plan, None),
        },
        schedule: Schedule::new(plan.schedule.clone(), plan.optim.lr, 3, plan.train.epochs),
        progress: Progress::default(),
        checkpoints: Checkpointer::new(&run, splits.state(), 1),
        saved: false,
        processes: Processes::alone(),
        late: Late::default(),
        skipped: Vec::new(),
        recorder: &mut recorder,
        stop: &AtomicBool::new(false),
        deadline: None,
    };
    assert_eq!(trainer.run().unwrap(), End::Finished);
    let trained = trainer.state.network.valid();
    let ema = trainer.state.ema.take().unwrap();

    let validation = || splits.some_images(&plan, Split::Val, 0).unwrap();
    let batch = validation().next().unwrap().unwrap();
    let images = || batch.views[0].clone();
    let logits = |model: &Model| predict(model, images(), &device).unwrap().0;
    let (of_trained, of_ema) = (logits(&trained), logits(ema.network()));
    assert!(of_trained != of_ema);
    for (weights, expected) in [(EmaReport::Raw, &of_trained), (EmaReport::Ema, &of_ema)] {
        let model = build_model(&plan, &config, &device).unwrap();
        let (model, _) = load_checkpoint_model(&run, "last", weights, model).unwrap();
        assert!(logits(&model) == *expected, "{weights:?}");
    }

    let batches = Ok(validation());
    let evaluation = evaluate(
        ema.network(),
        batches,
        &device,
        &Alone,
        None,
        |_| {},
        |_, _| {},
    )
    .unwrap();
    let last = ["--run", "run", "--checkpoint", "last", "--ema", "--json"];
    let found = workspace.json(&[&["eval"], &last[..]].concat());
    assert_eq!(found["loss"].as_f64(), Some(evaluation.loss));
    let images: Vec<&Path> = batch
        .indices
        .iter()
        .map(|&index| splits.val.samples[index as usize].path.as_path())
        .collect();
    let mut arguments = [&["predict"], &last[..]].concat();
    arguments.extend(images.iter().map(|path| path.to_str().unwrap()));
    let found = workspace.json(&arguments);
    for (prediction, logits) in found.as_array().unwrap().iter().zip(of_ema.chunks(3)) {
        let sum: f64 = logits.iter().map(|&logit| f64::from(logit).exp()).sum();
        let top = prediction["top"].as_array().unwrap();
        assert_eq!(top.len(), 3);
        for guess in top {
            let class = ["a", "b", "c"].iter().position(|c| guess["class"] == **c);
            let expected = f64::from(logits[class.unwrap()]).exp() / sum;
            let error = (guess["probability"].as_f64().unwrap() - expected).abs();
            assert!(error < 1e-6, "{prediction}, expected {logits:?}");
        }
    }
}

#[test]
fn training_does_not_feel_it() {
    let workspace = Workspace::with_data(6, 2);
    let mut sets = CVT.to_vec();
    let without = workspace.train("without", &sets);
    sets.push("ema.decay=0.8");
    let with = workspace.train("with", &sets);

    let numbers = |events: &[Event]| -> Vec<(f64, f64)> {
        let steps = steps(events);
        steps.iter().map(|s| (s.loss, s.grad_norm)).collect()
    };
    assert_eq!(numbers(&with), numbers(&without));
    let evals = |events: &[Event], split: &str| -> Vec<EvalRecord> {
        let evals = events.iter().filter_map(|event| match event {
            Event::Eval(eval) if eval.split == split => Some(eval.clone()),
            _ => None,
        });
        evals.collect()
    };
    let val = evals(&with, EvalRecord::VAL);
    assert_eq!(val, evals(&without, EvalRecord::VAL));
    assert!(evals(&without, EvalRecord::VAL_EMA).is_empty());
    let val_ema = evals(&with, EvalRecord::VAL_EMA);
    let steps = |evals: &[EvalRecord]| -> Vec<u64> { evals.iter().map(|eval| eval.step).collect() };
    assert_eq!(steps(&val_ema), steps(&val));
    for (ema, trained) in val_ema.iter().zip(&val) {
        let loss = |eval: &EvalRecord| eval.metrics.get(Metric::LOSS.name).unwrap();
        assert!(loss(ema) != loss(trained));
    }

    let files = |run: &str| {
        let entries = fs_err::read_dir(workspace.last_checkpoint(run)).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    };
    let plain = [
        "manifest.json",
        "model.safetensors",
        "optimizer.safetensors",
        "state.json",
    ];
    assert_eq!(files("without"), plain);
    assert_eq!(files("with"), [&["ema.safetensors"], &plain[..]].concat());
    for file in ["model.safetensors", "optimizer.safetensors"] {
        let bytes = |run: &str| fs_err::read(workspace.last_checkpoint(run).join(file)).unwrap();
        assert!(bytes("with") == bytes("without"), "{file}");
    }

    // Part of the checkpoint, which is reported as broken without it.
    let path = workspace.last_checkpoint("with").join("ema.safetensors");
    fs_err::remove_file(path).unwrap();
    let last = workspace.last_checkpoint("with");
    let last = last.to_str().unwrap();
    let error = workspace.error(&["eval", "--run", "with", "--checkpoint", last]);
    assert!(error.contains("`ema.safetensors` is missing"), "{error}");
}

#[test]
fn a_run_without_one_says_so() {
    let workspace = Workspace::with_data(2, 1);
    workspace.kvt(&["train", "tiny.toml"]).assert().success();
    for command in [&["eval"][..], &["predict", "data/val/a/000.png"]] {
        let arguments = [command, &["--run", "run", "--checkpoint", "last", "--ema"]].concat();
        insta::allow_duplicates! {
            insta::assert_snapshot!(workspace.error(&arguments), @"error: checkpoint `run/checkpoints/step-00000002` has no `ema.safetensors`: its run kept no EMA (`ema.decay = 0`); evaluate it without `--ema`, or start a new run from its weights with `init.weights`");
        }
    }
    // Only a run has an average.
    let config = [
        "eval",
        "--config",
        "tiny.toml",
        "--weights",
        "w.pth",
        "--ema",
    ];
    workspace.kvt(&config).assert().failure().code(2);

    // A run cannot get an average later, neither by the command nor by its own file.
    let resume = ["train", "tiny.toml", "--resume", "--set", "ema.decay=0.9"];
    insta::assert_snapshot!(workspace.error(&resume), @r"
    error: run `run` was started with another configuration:
      `ema.decay`: `0.0` -> `0.9`
    use the old values to resume, or start a new run in another `run.dir`, from these weights with `init.weights`
    ");
    let config = workspace.read("run/config.toml");
    workspace.write(
        "run/config.toml",
        config.replace("decay = 0.0\n", "decay = 0.9\n"),
    );
    insta::assert_snapshot!(workspace.error(&resume), @"error: checkpoint `run/checkpoints/step-00000002` has no `ema.safetensors`: its run kept no EMA (`ema.decay = 0`); evaluate it without `--ema`, or start a new run from its weights with `init.weights`");
}

/// Killed before its first checkpoint, a run starts over, and so does its average.
#[test]
fn it_begins_with_the_weights_that_training_begins_with() {
    let workspace = Workspace::with_data(6, 1);
    workspace.train("first", &["train.epochs=1"]);
    let weights = workspace.last_checkpoint("first").join("model.safetensors");
    fs_err::copy(weights, workspace.path("w.safetensors")).unwrap();
    let train = |run: &str, more: &[&str]| {
        let dir = format!("run.dir={run}");
        let mut arguments = vec!["train", "tiny.toml", "--set", &dir];
        for set in [
            "init.weights=w.safetensors",
            "ema.decay=0.8",
            "train.max_steps=2",
        ] {
            arguments.extend(["--set", set]);
        }
        arguments.extend(more);
        workspace.kvt(&arguments).assert().success();
    };
    let ema = |run: &str| {
        let path = workspace.last_checkpoint(run).join("ema.safetensors");
        fs_err::read(path).unwrap()
    };
    train("whole", &[]);
    train("killed", &[]);
    fs_err::remove_dir_all(workspace.path("killed/checkpoints")).unwrap();
    train("killed", &["--resume"]);
    assert!(
        workspace
            .read("killed/log.jsonl")
            .contains("no checkpoint yet")
    );
    assert!(ema("killed") == ema("whole"));
}
