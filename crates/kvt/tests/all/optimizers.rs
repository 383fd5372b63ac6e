//! Every optimizer, schedule and average in the engine: the saved state suffices to resume bit for bit.

use kvt_train::run::{EvalRecord, Event, Metric};

use crate::support::{Workspace, steps};

/// Nine updates per epoch.
const NINE: [&str; 3] = ["train.batch_size=2", "model.drop_path=0.2", "optim.lr=0.01"];

fn train(workspace: &Workspace, run: &str, sets: &[&str], resume: bool) {
    let dir = format!("run.dir={run}");
    let mut arguments = vec!["train", "tiny.toml", "--set", &dir];
    for set in NINE.iter().chain(sets) {
        arguments.extend(["--set", set]);
    }
    if resume {
        arguments.push("--resume");
    }
    workspace.kvt(&arguments).assert().success();
}

/// Stopped in the middle of the first epoch, and again in the middle of the second.
#[test]
fn a_resume_changes_nothing() {
    let workspace = Workspace::with_data(6, 1);
    for (name, more) in [
        (
            "sgd",
            &["optim.momentum=0.8", "optim.clip_parameter=0.5"][..],
        ),
        ("lamb", &["optim.clip_norm=1.0", "optim.layer_decay=0.8"]),
        (
            "lion",
            &["optim.clip_agc=0.1", "ema.decay=0.9", "ema.warmup=true"],
        ),
        (
            "muon",
            &["optim.clip_value=0.1", "schedule.weight_decay_end=0.4"],
        ),
        (
            "adamw",
            &[
                "optim.layer_decay=0.7",
                "schedule.kind=poly",
                "schedule.counts=finished",
            ],
        ),
    ] {
        let name_set = format!("optim.name={name}");
        let sets = [&[name_set.as_str()], more].concat();
        let (whole, parts) = (format!("{name}-whole"), format!("{name}-parts"));
        train(&workspace, &whole, &sets, false);
        for (steps, resume) in [(5, false), (13, true), (1000, true)] {
            let steps = format!("train.max_steps={steps}");
            let sets = [&sets[..], &[steps.as_str()]].concat();
            train(&workspace, &parts, &sets, resume);
        }
        let numbers = |run: &str| -> Vec<(u64, f64, f64, f64)> {
            let log = workspace.log(run);
            let steps = steps(&log);
            let numbers = steps.iter().map(|s| (s.step, s.loss, s.lr, s.grad_norm));
            numbers.collect()
        };
        assert_eq!(numbers(&whole).len(), 18);
        assert_eq!(numbers(&parts), numbers(&whole), "{name}");
        let mut files = vec!["model.safetensors", "optimizer.safetensors"];
        if more.contains(&"ema.decay=0.9") {
            files.push("ema.safetensors");
        }
        for file in files {
            let bytes =
                |run: &str| fs_err::read(workspace.last_checkpoint(run).join(file)).unwrap();
            assert!(bytes(&parts) == bytes(&whole), "{name}, {file}");
        }
    }
}

#[test]
fn a_resume_with_another_optimizer_is_refused() {
    let workspace = Workspace::with_data(2, 1);
    workspace.kvt(&["train", "tiny.toml"]).assert().success();
    let resume = ["train", "tiny.toml", "--resume", "--set", "optim.name=lion"];
    insta::assert_snapshot!(workspace.error(&resume), @r#"
    error: run `run` was started with another configuration:
      `optim.betas`: `[0.9, 0.999]` -> `[0.9, 0.99]`
      `optim.name`: `"adamw"` -> `"lion"`
    use the old values to resume, or start a new run in another `run.dir`, from these weights with `init.weights`
    "#);
}

/// Two epochs and one more: it has the minimum rate, and the run ends after it.
#[test]
fn a_cool_down_is_trained() {
    let workspace = Workspace::with_data(2, 1);
    let events = workspace.train(
        "run",
        &["schedule.cooldown_epochs=1", "schedule.min_lr=1e-4"],
    );
    let rates: Vec<(u32, f64)> = steps(&events).iter().map(|s| (s.epoch, s.lr)).collect();
    assert_eq!(rates.len(), 3);
    assert!(rates[1].1 > 1e-4);
    assert_eq!(rates[2], (2, 1e-4));
}

/// Both `val` and `val_ema` are logged, but the average decides.
#[test]
fn the_average_can_be_what_is_reported() {
    let workspace = Workspace::with_data(6, 4);
    let sets = ["ema.decay=0.9", "train.epochs=6", "optim.weight_decay=0.0"];
    let run = |run: &str, report: &str| {
        let report = format!("ema.report={report}");
        workspace.train(run, &[&NINE[..], &sets, &[report.as_str()]].concat())
    };
    let (raw, ema) = (run("raw", "raw"), run("ema", "ema"));
    let evals = |events: &[Event]| -> Vec<EvalRecord> {
        let evals = events.iter().filter_map(|event| match event {
            Event::Eval(eval) => Some(eval.clone()),
            _ => None,
        });
        evals.collect()
    };
    let (raw, ema) = (evals(&raw), evals(&ema));
    let order = |evals: &[EvalRecord]| -> Vec<String> {
        evals
            .iter()
            .take(4)
            .map(|eval| eval.split.clone())
            .collect()
    };
    assert_eq!(order(&raw), ["val", "val_ema", "val", "val_ema"]);
    assert_eq!(order(&ema), ["val_ema", "val", "val_ema", "val"]);
    for pair in raw.chunks(2).zip(ema.chunks(2)) {
        assert_eq!((&pair.0[0], &pair.0[1]), (&pair.1[1], &pair.1[0]));
    }

    // The first of the best values.
    let best = |split: &str| {
        let of_split = ema.iter().filter(|eval| eval.split == split);
        let top1 = |eval: &EvalRecord| eval.metrics.get(Metric::TOP1.name).unwrap();
        let better = |best: EvalRecord, eval: &EvalRecord| {
            if top1(eval) > top1(&best) {
                eval.clone()
            } else {
                best
            }
        };
        let first = ema.iter().find(|eval| eval.split == split).unwrap().clone();
        of_split.fold(first, better)
    };
    let by_average = best(EvalRecord::VAL_EMA);
    assert_ne!(
        by_average.step,
        best(EvalRecord::VAL).step,
        "both choose the same"
    );
    let name = workspace.read("ema/checkpoints/best");
    assert!(name.contains(&format!("{:08}", by_average.step)), "{name}");

    // The evaluated weights are the reported ones.
    let loss = |arguments: &[&str]| {
        let arguments = [&["eval", "--json", "--run"], arguments].concat();
        workspace.json(&arguments)["loss"].as_f64()
    };
    let logged = |split: &str, step: u64| {
        let eval = ema
            .iter()
            .find(|eval| eval.split == split && eval.step == step);
        eval.unwrap().metrics.get(Metric::LOSS.name)
    };
    let step = by_average.step;
    assert_eq!(loss(&["ema"]), logged(EvalRecord::VAL_EMA, step));
    assert_eq!(loss(&["ema", "--ema"]), logged(EvalRecord::VAL_EMA, step));
    assert_eq!(loss(&["ema", "--raw"]), logged(EvalRecord::VAL, step));
    let last = ["raw", "--checkpoint", "last"];
    assert_eq!(loss(&last), logged(EvalRecord::VAL, 54));

    let compare = ["compare", "raw", "ema", "--output", "compare"];
    workspace.kvt(&compare).assert().success();
    let table = workspace.read("compare/table.csv");
    let top1 = |split: &str| -> Vec<f64> {
        let of_split = ema.iter().filter(|eval| eval.split == split);
        let top1 = of_split.map(|eval| eval.metrics.get(Metric::TOP1.name).unwrap());
        top1.collect()
    };
    assert!(top1(EvalRecord::VAL) != top1(EvalRecord::VAL_EMA));
    for (run, split) in [("raw", EvalRecord::VAL), ("ema", EvalRecord::VAL_EMA)] {
        let start = format!("{run},1,");
        let row = table.lines().find_map(|line| line.strip_prefix(&start));
        // A mean and a spread for each epoch.
        let means = row.unwrap().split(',').step_by(2).take(6);
        for (found, expected) in means.zip(top1(split)) {
            let error = found.parse::<f64>().unwrap() - expected;
            assert!(error.abs() < 1e-6, "{run}: {found} is not {expected}");
        }
    }
}
