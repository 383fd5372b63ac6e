//! Twenty steps of training as in PyTorch and timm.
//!
//! The files are written by `scripts/reference/trajectory.py`: initial weights, images and the order of the images, which both
//! runs share, and the results.

use std::path::{Path, PathBuf};

use image::RgbImage;
use kvt_train::run::{Event, Topic};
use serde_json::Value;

use crate::support::{Golden, Workspace, assert_each_close, save, set, steps, train};

/// Losses, gradient norms and learning rates of some steps.
pub(crate) struct Trajectory {
    pub(crate) losses: Vec<f64>,
    grad_norms: Vec<f64>,
    lrs: Vec<f64>,
}

#[test]
fn dense_training_is_pytorchs() {
    is_pytorchs("dense");
}

#[test]
fn knn_training_is_pytorchs() {
    is_pytorchs("knn");
}

/// Products in bf16, as in `torch.autocast`. Sums are in another order, so that a number is sometimes rounded to its other
/// neighbour. Measured: losses to 3.2e-4, norms to 7.3e-4.
#[test]
fn training_in_bf16_is_that_of_pytorchs_autocast() {
    in_half("bf16", [1e-3, 2e-3]);
}

/// In f16, also the updates that a scaled loss skips, and the scale, as in `GradScaler`. Measured: losses to 4.4e-5, norms to
/// 1.1e-4.
#[test]
fn training_in_f16_is_that_of_pytorchs_autocast_and_scaler() {
    let skipped = in_half("f16", [2e-4, 5e-4]);
    assert_eq!(
        skipped,
        ["update left out, gradient norm inf: the loss scale is halved to 32768"]
    );
}

/// Compares a run in a half type, and returns the messages about skipped updates.
fn in_half(precision: &str, [of_losses, of_norms]: [f64; 2]) -> Vec<String> {
    let golden = golden(precision);
    let set = format!("train.precision={precision}");
    let (found, events) = retrace_events(&golden, &["train.device=cpu", &set]);
    let expected = expected(&golden);
    assert_each_close("loss", &found.losses, &expected.losses, of_losses);
    assert_each_close("lr", &found.lrs, &expected.lrs, 1e-7);
    let norms = found.grad_norms.iter().zip(&expected.grad_norms);
    // A skipped update has no norm in the file, and an infinite one here.
    let (found, expected): (Vec<f64>, Vec<f64>) = norms.filter(|(_, norm)| **norm > 0.0).unzip();
    assert_each_close("norm", &found, &expected, of_norms);
    let skipped = events.iter().filter_map(|event| match event {
        Event::Note(note) if note.topic == Topic::Scale => Some(note.message.clone()),
        _ => None,
    });
    skipped.collect()
}

fn is_pytorchs(kind: &str) {
    let golden = golden(kind);
    let found = retrace(&golden, &["train.device=cpu"]);
    let expected = expected(&golden);
    assert_each_close("loss", &found.losses, &expected.losses, 1e-5);
    assert_each_close("norm", &found.grad_norms, &expected.grad_norms, 1e-4);
    // The file holds f32.
    assert_each_close("lr", &found.lrs, &expected.lrs, 1e-7);
}

pub(crate) fn golden(kind: &str) -> Golden {
    Golden::read(&format!(
        "kvt-train/tests/golden/trajectory_{kind}.safetensors"
    ))
}

pub(crate) fn expected(golden: &Golden) -> Trajectory {
    Trajectory {
        losses: golden.f32s("losses"),
        grad_norms: golden.f32s("grad_norms"),
        lrs: golden.f32s("lrs"),
    }
}

/// Repeats the steps of a golden file with this engine.
pub(crate) fn retrace(golden: &Golden, overrides: &[&str]) -> Trajectory {
    retrace_events(golden, overrides).0
}

fn retrace_events(golden: &Golden, overrides: &[&str]) -> (Trajectory, Vec<Event>) {
    let workspace = Workspace::empty();
    let start = Golden::read("kvt-train/tests/golden/trajectory.safetensors");
    write_images(&start, &workspace.path("data"));
    start.write_weights(&workspace.path("init.safetensors"));
    workspace.write("golden.toml", config(&golden.config));
    let mut all = vec![
        set("data.path", &workspace.path("data")),
        set("init.weights", &workspace.path("init.safetensors")),
        set("run.dir", &workspace.path("run")),
    ];
    all.extend(overrides.iter().map(|&text| text.to_owned()));
    let events = train(&workspace.path("golden.toml"), &all).unwrap();
    let steps = steps(&events);
    let trajectory = Trajectory {
        losses: steps.iter().map(|step| step.loss).collect(),
        grad_norms: steps.iter().map(|step| step.grad_norm).collect(),
        lrs: steps.iter().map(|step| step.lr).collect(),
    };
    (trajectory, events)
}

/// Writes the images so that file order is the order of the file: its labels are sorted, and every
/// epoch goes through them in order. The first one of each class is for validation, too.
fn write_images(golden: &Golden, data: &Path) {
    let labels = golden.i64s("labels");
    let count = labels.len() as i64;
    assert!(labels.is_sorted());
    let order = golden.i64s("order");
    assert!((0..).zip(&order).all(|(i, &image)| image == i % count));
    let pixels = golden.bytes("pixels");
    for (index, (label, pixels)) in labels.iter().zip(pixels.chunks(32 * 32 * 3)).enumerate() {
        let picture = RgbImage::from_raw(32, 32, pixels.to_vec()).unwrap();
        let file = PathBuf::from(format!("{label}/{index:02}.png"));
        save(&data.join("train").join(&file), &picture);
        if index == 0 || labels[index - 1] != *label {
            save(&data.join("val").join(&file), &picture);
        }
    }
}

pub(crate) fn config(golden: &Value) -> String {
    let model = &golden["model"];
    let attention = match &model["attention"]["neighbors"] {
        Value::Null => "kind = \"dense\"".to_owned(),
        neighbors => format!("kind = \"knn\"\nneighbors = {neighbors}"),
    };
    let warmup_epochs =
        golden["warmup_steps"].as_f64().unwrap() / golden["steps_per_epoch"].as_f64().unwrap();
    format!(
        r#"
[model]
name = "deit_tiny_patch16_224"
img_size = {img_size}
patch_size = {patch_size}
embed_dim = {embed_dim}
depth = {depth}
num_heads = {num_heads}
mlp_ratio = {mlp_ratio}
drop_path = {drop_path}

[model.attention]
{attention}

[data]
shuffle = false
workers = 0

[augment]
preset = "none"
mean = {mean}
std = {std}

[optim]
lr = {lr}
lr_batch = 0
betas = {betas}
eps = {eps}
weight_decay = {weight_decay}
clip_norm = {clip_grad}

[schedule]
per = "step"
warmup_epochs = {warmup_epochs:?}
warmup_lr = {warmup_lr}
min_lr = {min_lr}

[loss]
label_smoothing = {label_smoothing}

[train]
epochs = {epochs}
batch_size = {batch_size}
"#,
        img_size = model["img_size"],
        patch_size = model["patch_size"],
        embed_dim = model["embed_dim"],
        depth = model["depth"],
        num_heads = model["num_heads"],
        mlp_ratio = model["mlp_ratio"],
        drop_path = golden["drop_path"],
        mean = golden["mean"],
        std = golden["std"],
        lr = golden["lr"],
        betas = golden["betas"],
        eps = golden["eps"],
        weight_decay = golden["weight_decay"],
        clip_grad = golden["clip_grad"],
        warmup_lr = golden["warmup_lr"],
        min_lr = golden["min_lr"],
        label_smoothing = golden["label_smoothing"],
        epochs = golden["epochs"],
        batch_size = golden["batch_size"],
    )
}
