//! Probes of features: numbers of PyTorch, and the commands.

use burn::tensor::{Device, TensorData};
use kvt_train::probe::{KnnVote, LinearProbe, LinearRecipe, Rows};

use crate::support::{Golden, Workspace, assert_each_close};

const DIM: usize = 12;

fn rows(golden: &Golden, name: &str, labels: &str) -> Rows {
    let labels = golden.i64s(labels);
    Rows {
        features: golden.f32s(name).iter().map(|&x| x as f32).collect(),
        dim: DIM,
        indices: (0..labels.len() as u32).collect(),
        labels: labels.iter().map(|&label| label as u32).collect(),
    }
}

fn golden() -> Golden {
    Golden::read("tests/golden/probe.safetensors")
}

#[test]
fn the_knn_classifier_is_dinos() {
    let golden = golden();
    let (bank, queries) = (
        rows(&golden, "bank", "bank_labels"),
        rows(&golden, "queries", "query_labels"),
    );
    let vote = KnnVote {
        neighbors: KnnVote::NEIGHBORS.to_vec(),
        temperature: KnnVote::TEMPERATURE,
        classes: golden.config["classes"].as_u64().unwrap() as usize,
    };
    let found = vote.classify(&bank, &queries, &Device::flex()).unwrap();
    let top1: Vec<i64> = found.iter().map(|found| found.top1 as i64).collect();
    let top5: Vec<i64> = found.iter().map(|found| found.top5 as i64).collect();
    assert_eq!(top1, golden.i64s("top1"));
    assert_eq!(top5, golden.i64s("top5"));
    // Other numbers of neighbours find others, so that each of them counts.
    assert!(top1.iter().any(|right| *right != top1[0]));
}

#[test]
fn linear_evaluation_is_dinos() {
    let golden = golden();
    let bank = rows(&golden, "bank", "bank_labels");
    let number = |key: &str| golden.config[key].as_f64().unwrap();
    let recipe = LinearRecipe {
        epochs: number("epochs") as u32,
        batch_size: number("batch_size") as usize,
        lr: number("lr"),
    };
    let lrs: Vec<f64> = (0..recipe.epochs).map(|epoch| recipe.lr(epoch)).collect();
    assert_each_close("lr", &lrs, &golden.f32s("lrs"), 1e-6);

    let classes = number("classes") as usize;
    let start: Vec<f32> = golden.f32s("start").iter().map(|&x| x as f32).collect();
    let device = Device::flex();
    let mut layer = LinearProbe::from_weights(TensorData::new(start, [DIM, classes]), &device);
    let mut losses = Vec::new();
    for lr in lrs {
        for first in (0..bank.len()).step_by(recipe.batch_size) {
            let features = bank.part(first, recipe.batch_size, &device);
            let labels = &bank.labels[first..first + recipe.batch_size];
            losses.push(layer.update(features, labels, lr).unwrap());
        }
    }
    assert_each_close("loss", &losses, &golden.f32s("losses"), 1e-5);
    for (found, name) in layer.weights().into_iter().zip(["weight", "bias"]) {
        let found: Vec<f32> = found.to_data().try_to_vec().unwrap();
        for (found, expected) in found.iter().zip(golden.f32s(name)) {
            assert!((f64::from(*found) - expected).abs() < 1e-5, "{name}");
        }
    }
}

/// A supervised run, a run of DINO, random weights and pixels; by both methods, with files.
#[test]
fn the_binary_probes_what_there_is() {
    let workspace = Workspace::with_data(6, 2);
    workspace.kvt(&["train", "tiny.toml"]).assert().success();
    let dino = [
        "task=dino",
        "dino.out_dim=12",
        "dino.hidden_dim=20",
        "dino.bottleneck_dim=8",
        "dino.local_views=1",
        "dino.local_size=8",
        "train.epochs=1",
        "run.dir=dino",
    ];
    let mut arguments = vec!["train", "tiny.toml"];
    for key in dino {
        arguments.extend(["--set", key]);
    }
    workspace.kvt(&arguments).assert().success();

    let knn = |more: &[&str]| {
        let mut all = vec!["probe", "--method", "knn", "--neighbors", "1,5", "--json"];
        all.extend(more);
        let found = workspace.json(&all);
        let found = found.as_array().unwrap();
        assert_eq!(found.len(), 2);
        assert_eq!(found[0]["images"], 6.0);
        found[0]["top1"].as_f64().unwrap()
    };
    for more in [
        &["--run", "run"][..],
        &["--run", "dino"],
        &["--run", "dino", "--raw"],
        &["--run", "dino", "--features", "random"],
        &[
            "--config",
            "tiny.toml",
            "--features",
            "random",
            "--blocks",
            "2",
            "--avgpool",
        ],
        &[
            "--config",
            "tiny.toml",
            "--weights",
            "dino/checkpoints/step-00000003/task.teacher.safetensors",
        ],
    ] {
        assert!((0.0..=100.0).contains(&knn(more)), "{more:?}");
    }
    // The colours of the images tell their classes.
    let pixels = knn(&["--config", "tiny.toml", "--features", "pixels"]);
    assert!(pixels > 50.0, "{pixels}");
    knn(&["--run", "dino", "--output", "knn"]);
    assert_eq!(workspace.entries("knn").len(), 3);
    assert!(
        workspace
            .read("knn/probe.csv")
            .starts_with("neighbors,top1,top5,images\n1,")
    );

    for crops in ["none", "dino", "config"] {
        let mut all = vec![
            "probe", "--method", "linear", "--run", "dino", "--epochs", "2",
        ];
        all.extend([
            "--batch-size",
            "5",
            "--crops",
            crops,
            "--output",
            "linear",
            "--json",
        ]);
        let found = workspace.json(&all);
        let found = found.as_array().unwrap();
        assert_eq!(found.len(), 2, "{crops}");
        assert!(found[1]["loss"].as_f64().unwrap().is_finite());
    }
    assert!(workspace.read("linear/linear.svg").contains("<svg"));

    // A classifier goes on from the teacher's backbone.
    let teacher = "init.weights=dino/checkpoints/step-00000003/task.teacher.safetensors";
    let tuned = [
        "train",
        "tiny.toml",
        "--set",
        teacher,
        "--set",
        "run.dir=tuned",
    ];
    let error = workspace.error(&tuned);
    assert!(error.contains("init.reset_head"), "{error}");
    let mut tuned = tuned.to_vec();
    tuned.extend(["--set", "init.reset_head=true"]);
    workspace.kvt(&tuned).assert().success();

    let error = workspace.error(&["eval", "--run", "dino"]);
    assert!(error.contains("kvt probe --run dino"), "{error}");
    let error = workspace.error(&["probe", "--method", "knn", "--config", "tiny.toml"]);
    assert!(error.contains("--features random"), "{error}");

    let image = "data/val/a/000.png";
    for run in ["run", "dino"] {
        workspace
            .kvt(&["attention-map", "--run", run, "--output", "maps", image])
            .assert()
            .success();
    }
    // The image and two heads, 32 pixels each for four patches of eight pixels.
    let map = image::open(workspace.path("maps/000-000.png")).unwrap();
    assert_eq!((map.width(), map.height()), (8 + 3 * 40, 48));
}
