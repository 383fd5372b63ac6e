//! The randomness and the statistics of a run within an epoch.

use kvt_train::run::{Event, Topic};

use crate::support::{Workspace, assert_each_close, steps};

/// Nothing changes from step to step except the dropped paths.
const STANDING_STILL: [&str; 6] = [
    "data.shuffle=false",
    "optim.lr=1e-12",
    "optim.weight_decay=0",
    "schedule.warmup_epochs=0",
    "schedule.min_lr=0",
    "model.drop_path=0",
];

/// Steps on the same images with the same weights: the dropped paths depend on the position in the epoch.
#[test]
fn each_step_drops_other_paths() {
    let workspace = Workspace::with_data(12, 1);
    for class in ["a", "b", "c"] {
        let image = |index: usize| workspace.path(&format!("data/train/{class}/{index:03}.png"));
        for index in 1..12 {
            fs_err::copy(image(0), image(index)).unwrap();
        }
    }
    let losses = |run: &str, drop_path: &str| -> Vec<f64> {
        let mut overrides = STANDING_STILL.to_vec();
        overrides.extend(["train.epochs=1", drop_path]);
        let events = workspace.train(run, &overrides);
        steps(&events).iter().map(|step| step.loss).collect()
    };
    // Two steps per class.
    let still = losses("still", "model.drop_path=0");
    assert_eq!(still.len(), 6);
    let dropping = losses("dropping", "model.drop_path=0.5");
    for (still, dropping) in still.chunks(2).zip(dropping.chunks(2)) {
        assert_each_close("without", &still[..1], &still[1..], 1e-6);
        assert!(
            (dropping[0] - dropping[1]).abs() > 1e-5,
            "twice the same: {dropping:?}"
        );
    }
}

/// An epoch that equals the best one is not better.
#[test]
fn of_epochs_that_are_as_good_the_first_is_the_best() {
    let workspace = Workspace::with_data(6, 2);
    let mut overrides = STANDING_STILL.to_vec();
    overrides.push("train.epochs=3");
    workspace.train("run", &overrides);
    assert_eq!(
        workspace.read("run/checkpoints/best").trim(),
        "step-00000003"
    );
    assert!(workspace.last_checkpoint("run").ends_with("step-00000009"));
}

/// Evaluations that are no better end a run as finished. A resume counts on: with the same patience nothing is left, with more of it the
/// run goes on. `train.max_hours` stops it as Ctrl-C does.
#[test]
fn patience_finishes_a_run_and_hours_stop_it() {
    let workspace = Workspace::with_data(6, 2);
    let train = |more: &[&str]| {
        let mut arguments = vec!["train", "tiny.toml"];
        let keys = ["train.epochs=9", "checkpoint.every_epochs=0"];
        for key in STANDING_STILL.iter().chain(&keys) {
            arguments.extend(["--set", *key]);
        }
        arguments.extend(more);
        let output = workspace.kvt(&arguments).output().unwrap();
        let log = workspace.log("run");
        let epochs = log.iter().filter(|event| matches!(event, Event::Epoch(_)));
        let ends = log
            .iter()
            .filter(|event| matches!(event, Event::Note(note) if note.topic == Topic::Patience));
        let said = String::from_utf8(output.stderr).unwrap();
        (output.status.code(), epochs.count(), ends.count(), said)
    };
    // The first evaluation is the best one.
    let (code, epochs, ends, said) = train(&["--set", "train.patience=2"]);
    assert_eq!((code, epochs, ends), (Some(0), 3, 1), "{said}");
    assert!(
        said.contains("finished early, by `train.patience`"),
        "{said}"
    );
    assert!(workspace.last_checkpoint("run").ends_with("step-00000009"));
    // Again and again: said once each time, as what was before.
    for _ in 0..2 {
        let (code, epochs, ends, said) = train(&["--set", "train.patience=2", "--resume"]);
        assert_eq!((code, epochs, ends), (Some(0), 3, 1), "{said}");
        let whys = said.matches("finished already, by `train.patience`: no top-1 of 2 evaluations");
        assert_eq!(whys.count(), 1, "{said}");
        assert!(said.contains("with a larger one it goes on"), "{said}");
        assert!(!said.contains("resumed in epoch"), "{said}");
        assert!(!said.contains("finished early, by"), "{said}");
    }
    let (code, epochs, ends, said) = train(&["--set", "train.patience=3", "--resume"]);
    assert_eq!((code, epochs, ends), (Some(0), 4, 1), "{said}");
    let hours = [
        "--set",
        "train.patience=4",
        "--set",
        "train.max_hours=1e-9",
        "--resume",
    ];
    let (code, epochs, ends, said) = train(&hours);
    assert_eq!((code, epochs, ends), (Some(130), 4, 0), "{said}");
    assert!(said.contains("`train.max_hours`, 1e-9, is over"), "{said}");
    assert!(said.contains("add `--resume`"), "{said}");
    let (code, epochs, ends, said) = train(&["--set", "train.patience=4", "--resume"]);
    assert_eq!((code, epochs, ends), (Some(0), 5, 1), "{said}");
}

/// The last update of an epoch may have fewer images: the loss of the epoch is the mean over all images.
#[test]
fn the_loss_of_an_epoch_is_the_mean_over_its_images() {
    let workspace = Workspace::with_data(6, 1);
    let events = workspace.train(
        "run",
        &["train.accumulate=2", "train.epochs=1", "optim.lr=0.1"],
    );
    let losses: Vec<f64> = steps(&events).iter().map(|step| step.loss).collect();
    let [twelve, six] = losses[..] else {
        panic!("{losses:?}")
    };
    let epoch = events.iter().find_map(|event| match event {
        Event::Epoch(epoch) => Some(epoch.train_loss),
        _ => None,
    });
    let expected = (12.0 * twelve + 6.0 * six) / 18.0;
    assert!((twelve - six).abs() > 1e-3, "{losses:?}");
    assert_each_close("loss", &[epoch.unwrap()], &[expected], 1e-9);
}

/// `lr * images of an update / lr_batch`, and the actual number of updates in an epoch.
#[test]
fn the_rate_follows_the_images_and_the_number_of_updates() {
    let workspace = Workspace::with_data(6, 1);
    let overrides = [
        "optim.lr=1e-3",
        "optim.lr_batch=24",
        "train.accumulate=2",
        "schedule.warmup_epochs=0",
        "schedule.min_lr=0",
    ];
    let events = workspace.train("run", &overrides);
    let found: Vec<f64> = steps(&events).iter().map(|step| step.lr).collect();
    // Two epochs of three batches of six, two batches per update: four updates along half a cosine.
    let expected = [0, 1, 2, 3].map(|step| {
        let phase = std::f64::consts::PI * f64::from(step) / 4.0;
        1e-3 * 12.0 / 24.0 * 0.5 * (1.0 + phase.cos())
    });
    assert_each_close("lr", &found, &expected, 1e-9);
}
