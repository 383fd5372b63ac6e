//! Runs on small pictures: a class for each of the colours red and blue, both, or none.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use image::{Rgb, RgbImage};

use super::*;
use crate::config::load_plan;
use crate::engine::{End, Session, Start};
use crate::task::{build_model, testing};
use crate::world::{alone, threads};

const TINY: &str = r#"
task = "multi-label"
seed = 3
[model]
name = "deit_tiny_patch16_224"
img_size = 16
patch_size = 8
embed_dim = 16
depth = 1
num_heads = 2
mlp_ratio = 2.0
[data]
labels = "labels.csv"
workers = 0
[augment]
preset = "none"
[mix]
mixup = 0.2
cutmix = 1.0
mode = "elem"
[optim]
lr = 3e-3
lr_batch = 0
[schedule]
kind = "constant"
warmup_epochs = 0
[train]
epochs = 4
batch_size = 4
device = "cpu"
"#;

/// 16 training and 8 validation images; each colour has another brightness.
fn workspace() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs_err::write(folder.path().join("tiny.toml"), TINY).unwrap();
    let mut table = "path,label,split\n".to_owned();
    for index in 0..24_u32 {
        let (red, blue) = (index % 2 > 0, index / 2 % 2 > 0);
        let bright = 200 + 2 * index as u8;
        let pixel = Rgb([u8::from(red) * bright, 90, u8::from(blue) * bright]);
        let name = format!("{index:02}.png");
        RgbImage::from_pixel(16, 16, pixel)
            .save(folder.path().join(&name))
            .unwrap();
        let labels = [(red, "red"), (blue, "blue")];
        let labels = labels.iter().filter(|(has, _)| *has);
        let labels: Vec<&str> = labels.map(|(_, label)| *label).collect();
        let split = if index < 16 { "train" } else { "val" };
        table += &format!("{name},{},{split}\n", labels.join("|"));
    }
    fs_err::write(folder.path().join("labels.csv"), table).unwrap();
    folder
}

fn plan(folder: &Path, run: &str) -> Plan {
    let path = |name: &str| folder.join(name);
    let set = [
        format!("data.path={:?}", path(".")),
        format!("run.dir={:?}", path(run)),
    ];
    load_plan(&path("tiny.toml"), &set).unwrap()
}

fn train(folder: &Path, run: &str, start: Start<'_>, last: u64) -> (End, Vec<Metrics>) {
    let trained = testing::train::<MultiLabel>(plan(folder, run), start, last);
    let (end, events) = trained.unwrap();
    let evals = testing::evals(&events).into_iter();
    (end, evals.map(|eval| eval.metrics.clone()).collect())
}

/// Stopped within an epoch, a run with mixed images goes on as if it had not stopped.
#[test]
fn a_resumed_run_is_bit_equal() {
    let folder = workspace();
    let (end, whole) = train(folder.path(), "whole", Start::New, u64::MAX);
    assert_eq!((end, whole.len()), (End::Finished, 4));
    for metric in MultiLabel::METRICS {
        assert!(whole[0].get(metric.name).unwrap().is_finite());
    }
    let losses: Vec<f64> = whole.iter().map(|one| one.get("loss").unwrap()).collect();
    assert!(losses[3] < losses[0], "{losses:?}");

    let (end, mut both) = train(folder.path(), "stopped", Start::New, 6);
    assert_eq!(end, End::Stopped);
    let (end, rest) = train(folder.path(), "stopped", Start::RESUME, u64::MAX);
    assert_eq!(end, End::Finished);
    both.extend(rest);
    assert_eq!(both, whole);
    let weights = |run: &str| testing::weights(&folder.path().join(run));
    assert!(weights("stopped") == weights("whole"));
}

/// The processes of a job find together what one finds, whatever the batch size.
#[test]
fn processes_evaluate_as_one() {
    let folder = workspace();
    let mut plan = plan(folder.path(), "run");
    plan.eval.batch_size = 3;
    let splits = Splits::open(&plan, (16, 16), None, &mut |_, _| {}).unwrap();
    assert!(
        splits
            .describe()
            .ends_with("; 4 and 2 of them have no label")
    );
    let config = MultiLabel::model(&plan, &splits).unwrap();
    let measured = |processes: usize, plan: &Plan| {
        threads(processes, |world| {
            let device = Device::flex();
            let model = build_model(plan, &config, &device).unwrap();
            let stop = AtomicBool::new(false);
            let mut data = EvalData::new(plan, &splits, &stop, &*world);
            let of = (&*splits.val, &[0.5, 0.3][..]);
            evaluate_labels(&model, data.val_shard(), of, &device, &*world, |_| {}).unwrap()
        })
    };
    let one = measured(1, &plan).swap_remove(0);
    assert_eq!((one.images, one.unlabelled), (8, 2));
    for other in measured(2, &plan) {
        assert_eq!(other, one);
    }
}

#[test]
fn validation_images_without_a_label_are_refused_before_training() {
    let folder = workspace();
    let path = folder.path().join("labels.csv");
    let table = fs_err::read_to_string(&path).unwrap();
    let rows = table.lines().map(|row| match row.strip_suffix(",val") {
        Some(row) => format!("{},,val\n", row.split(',').next().unwrap()),
        None => format!("{row}\n"),
    });
    fs_err::write(&path, rows.collect::<String>()).unwrap();
    let plan = plan(folder.path(), "unlabelled");
    let prepared = Session::<MultiLabel>::prepare(alone(), plan, Start::New, &mut |_, _| {});
    assert!(matches!(prepared.err(), Some(TrainError::NoLabels(8))));
}
