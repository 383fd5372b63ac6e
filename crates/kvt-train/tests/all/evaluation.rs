//! One evaluation path: what the log says is what `kvt eval` says.

use burn::tensor::TensorData;
use kvt_models::weights::{StateDict, write};
use kvt_train::run::Event;
use serde_json::Value;

use crate::support::{Workspace, assert_each_close, floats, read_weights};

#[test]
fn eval_repeats_the_number_in_the_log() {
    let workspace = Workspace::with_data(6, 5);
    workspace
        .kvt(&["train", "tiny.toml", "--set", "optim.lr=0.01"])
        .assert()
        .success();
    let log = workspace.log("run");
    let logged = log.iter().rev().find_map(|event| match event {
        Event::Eval(eval) => Some(eval),
        _ => None,
    });
    let logged = logged.unwrap();
    assert_eq!(logged.images, 15);
    let metric = |name| logged.metrics.get(name).unwrap();

    let eval = ["eval", "--run", "run", "--checkpoint", "last", "--json"];
    let found = workspace.json(&eval);
    assert_eq!(found["images"], 15);
    assert_eq!(number(&found, "loss"), metric("loss"));
    assert_eq!(number(&found, "top1"), metric("top1"));
    assert_eq!(number(&found, "top5"), metric("top5"));

    let mut other = eval.to_vec();
    other.extend(["--set", "eval.batch_size=4"]);
    let found = workspace.json(&other);
    assert_eq!(number(&found, "top1"), metric("top1"));
    assert_eq!(number(&found, "top5"), metric("top5"));
    assert_each_close("loss", &[number(&found, "loss")], &[metric("loss")], 1e-6);
}

/// A head without weights prefers classes by its bias, whatever the image.
#[test]
fn accuracy_and_loss_of_a_known_head() {
    let workspace = Workspace::empty();
    let counts = [3, 5, 2, 4, 1, 7];
    for (class, count) in ["a", "b", "c", "d", "e", "f"].iter().zip(counts) {
        workspace.images(&format!("data/train/{class}"), 1);
        workspace.images(&format!("data/val/{class}"), count);
    }
    workspace
        .kvt(&["train", "tiny.toml", "--set", "train.max_steps=1"])
        .assert()
        .success();
    let trained = read_weights(&workspace.last_checkpoint("run").join("model.safetensors"));
    let bias = [0.5f32, 2.0, -1.0, 0.0, 1.0, 1.5];
    let mut known: StateDict = trained
        .iter()
        .map(|(name, data)| (name.to_owned(), data.clone()))
        .collect();
    let zeros = vec![0.0f32; floats(&trained, "head.weight").len()];
    known.insert("head.weight", TensorData::new(zeros, [6, 16]));
    known.insert("head.bias", TensorData::new(bias.to_vec(), [6]));
    write(
        &workspace.path("known.safetensors"),
        &known,
        &Default::default(),
    )
    .unwrap();

    let found = workspace.json(&[
        "eval",
        "--config",
        "tiny.toml",
        "--weights",
        "known.safetensors",
        "--json",
    ]);
    let images: f64 = counts.iter().map(|&count| count as f64).sum();
    let sum: f64 = bias.iter().map(|&b| f64::from(b).exp()).sum();
    let loss: f64 = bias
        .iter()
        .zip(counts)
        .map(|(&b, count)| count as f64 * (sum.ln() - f64::from(b)))
        .sum();
    assert_eq!(number(&found, "images"), images);
    // Class `b` has the largest bias, class `c` the smallest.
    assert_each_close("top1", &[number(&found, "top1")], &[500.0 / images], 1e-12);
    let top5 = 100.0 * (images - 2.0) / images;
    assert_each_close("top5", &[number(&found, "top5")], &[top5], 1e-12);
    assert_each_close("loss", &[number(&found, "loss")], &[loss / images], 1e-6);
}

fn number(found: &Value, name: &str) -> f64 {
    found[name].as_f64().unwrap()
}
