//! Probes of features: reference values from PyTorch, and the commands.

use burn::tensor::{Device, TensorData};
use kvt_models::weights::StateDict;
use kvt_tools::probe::{LinearEpoch, LinearProbe, LinearRecipe, linear};
use kvt_train::config::load_plan;
use kvt_train::knn_vote::{KnnVote, Rows};
use kvt_train::run::RunDir;
use kvt_train::task::{DinoRole, build_model, load_checkpoint_backbone};

use crate::support::{Golden, Workspace, assert_each_close, floats, read_weights};

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
    Golden::read("kvt-train/tests/golden/probe.safetensors")
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
    // Different numbers of neighbours give different results, so that each of them matters.
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
    for (found, name) in layer.weight.iter().zip(["weight", "bias"]) {
        let found: Vec<f32> = found.to_data().try_to_vec().unwrap();
        for (found, expected) in found.iter().zip(golden.f32s(name)) {
            assert!((f64::from(*found) - expected).abs() < 1e-5, "{name}");
        }
    }
}

/// The same layer, trained epoch by epoch: mean losses, rates, and the accuracy of the final weights.
#[test]
fn linear_evaluation_goes_through_the_epochs() {
    let golden = golden();
    let bank = rows(&golden, "bank", "bank_labels");
    let queries = rows(&golden, "queries", "query_labels");
    let number = |key: &str| golden.config[key].as_f64().unwrap();
    let recipe = LinearRecipe {
        epochs: number("epochs") as u32,
        batch_size: number("batch_size") as usize,
        lr: number("lr"),
    };
    let classes = number("classes") as usize;
    let start: Vec<f32> = golden.f32s("start").iter().map(|&x| x as f32).collect();
    let device = Device::flex();
    let layer = LinearProbe::from_weights(TensorData::new(start, [DIM, classes]), &device);
    let mut told = Vec::new();
    let batches = |_| {
        let firsts = (0..bank.len()).step_by(recipe.batch_size);
        let batch = |first| {
            let features = bank.part(first, recipe.batch_size, &device);
            let labels = &bank.labels[first..first + recipe.batch_size];
            Ok((features, labels.to_vec()))
        };
        Ok(firsts.map(batch))
    };
    let tell = |epoch: &LinearEpoch| {
        told.push(*epoch);
        true
    };
    let done = linear(&recipe, layer, (&queries, &device), batches, tell).unwrap();
    assert_eq!(told, done);
    let numbers: Vec<u32> = done.iter().map(|epoch| epoch.epoch).collect();
    assert_eq!(numbers, [0, 1, 2]);
    let lrs: Vec<f64> = done.iter().map(|epoch| epoch.lr).collect();
    assert_each_close("lr", &lrs, &golden.f32s("lrs"), 1e-6);
    let losses: Vec<f64> = done.iter().map(|epoch| epoch.loss).collect();
    let expected = golden.f32s("losses");
    let mean = |epoch: &[f64]| epoch.iter().sum::<f64>() / epoch.len() as f64;
    let expected: Vec<f64> = expected.chunks(4).map(mean).collect();
    assert_each_close("loss", &losses, &expected, 1e-5);

    // The rank of each query's class under PyTorch's final weights.
    let (weight, bias) = (golden.f32s("weight"), golden.f32s("bias"));
    let place = |query: usize| {
        let row = &queries.features[query * DIM..][..DIM];
        let logit = |class: usize| -> f64 {
            let products = row.iter().enumerate();
            let products = products.map(|(i, x)| f64::from(*x) * weight[i * classes + class]);
            bias[class] + products.sum::<f64>()
        };
        let right = logit(queries.labels[query] as usize);
        (0..classes).filter(|&class| logit(class) > right).count()
    };
    let percent = |within: usize| {
        let right = (0..queries.len()).filter(|&query| place(query) < within);
        100.0 * right.count() as f64 / queries.len() as f64
    };
    let last = done.last().unwrap();
    assert_each_close(
        "accuracy",
        &[last.top1, last.top5],
        &[percent(1), percent(5)],
        1e-12,
    );
    assert!(last.top1 < last.top5);
}

/// A DINO run whose student and teacher differ, in the folder `dino`.
fn train_dino(workspace: &Workspace) {
    let dino = [
        "task=dino",
        "dino.out_dim=12",
        "dino.hidden_dim=20",
        "dino.bottleneck_dim=8",
        "dino.local_views=1",
        "dino.local_size=8",
        "optim.lr=0.01",
        "schedule.warmup_epochs=0.0",
        "train.epochs=1",
        "run.dir=dino",
    ];
    let mut arguments = vec!["train", "tiny.toml"];
    for key in dino {
        arguments.extend(["--set", key]);
    }
    workspace.kvt(&arguments).assert().success();
}

/// In the library, and by the losses of linear evaluation, which match the checkpoint file of each of them.
#[test]
fn student_and_teacher_are_told_apart() {
    let workspace = Workspace::with_data(6, 2);
    train_dino(&workspace);
    let files = ["task.teacher.safetensors", "model.safetensors"];
    let checkpoint = workspace.last_checkpoint("dino");
    let tokens = files.map(|file| {
        let weights = read_weights(&checkpoint.join(file));
        floats(&weights, "backbone.cls_token")
    });
    assert_ne!(tokens[0], tokens[1]);
    let run = RunDir::open(&workspace.path("dino")).unwrap();
    let plan = load_plan(&run.config(), &[]).unwrap();
    let config = plan.model.config(Some(1)).unwrap();
    for (role, expected) in [DinoRole::Teacher, DinoRole::Student]
        .into_iter()
        .zip(tokens)
    {
        let model = build_model(&plan, &config, &Device::flex()).unwrap();
        let (model, _) = load_checkpoint_backbone(&run, "last", role, model).unwrap();
        let state = StateDict::from_model(&model).unwrap();
        assert_eq!(floats(&state, "cls_token"), expected, "{role:?}");
    }

    let loss = |more: &[&str]| {
        let mut all = vec!["probe", "--method", "linear", "--crops", "none", "--json"];
        all.extend(["--epochs", "2", "--batch-size", "18", "--lr", "10"]);
        all.extend(more);
        workspace.json(&all)[1]["loss"].as_f64().unwrap()
    };
    let of_run = |more: &[&str]| loss(&[&["--run", "dino", "--checkpoint", "last"], more].concat());
    let of_file = |file: &str| {
        let path = checkpoint.join(file);
        let weights = path.to_str().unwrap();
        loss(&["--config", "tiny.toml", "--weights", weights])
    };
    let expected = files.map(of_file).map(f64::to_bits);
    assert_ne!(expected[0], expected[1]);
    let found = [of_run(&[]), of_run(&["--raw"])].map(f64::to_bits);
    assert_eq!(found, expected);

    let error = workspace.error(&["probe", "--method", "knn", "--run", "dino", "--ema"]);
    assert!(error.contains("the default is its teacher"), "{error}");
}

/// Another folder of images, with the classes of the training images.
#[test]
fn other_images_are_judged() {
    let workspace = Workspace::with_data(6, 2);
    // Training images under their own classes, and each class under the name of the next one.
    for (folder, names) in [("right", ["a", "b", "c"]), ("wrong", ["b", "c", "a"])] {
        for (class, name) in ["a", "b", "c"].into_iter().zip(names) {
            let target = workspace.path(&format!("{folder}/{name}"));
            fs_err::create_dir_all(&target).unwrap();
            for image in ["000.png", "001.png"] {
                let from = workspace.path(&format!("data/train/{class}/{image}"));
                fs_err::copy(from, target.join(image)).unwrap();
            }
        }
    }
    let judged = |folder: &str| {
        let mut all = vec!["probe", "--method", "knn", "--neighbors", "1", "--json"];
        all.extend(["--config", "tiny.toml", "--features", "pixels"]);
        all.extend(["--data", folder]);
        let found = workspace.json(&all);
        [&found[0]["top1"], &found[0]["images"]].map(|number| number.as_f64().unwrap())
    };
    // Each image is its own nearest neighbour.
    assert_eq!(judged("right"), [100.0, 6.0]);
    assert_eq!(judged("wrong"), [0.0, 6.0]);
    workspace.images("other/x", 1);
    let mut all = vec!["probe", "--method", "knn", "--config", "tiny.toml"];
    all.extend(["--features", "pixels", "--data", "other"]);
    let error = workspace.error(&all);
    assert!(error.contains("the classes of `other` are not"), "{error}");
}

/// A supervised run, a DINO run, random weights and pixels; with both methods and with files.
#[test]
fn the_binary_probes_what_there_is() {
    let workspace = Workspace::with_data(6, 2);
    workspace.kvt(&["train", "tiny.toml"]).assert().success();
    train_dino(&workspace);

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
        knn(more);
    }
    // The colours of the images reveal their classes.
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

    // A classifier is trained from the teacher's backbone.
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
    let some = ["--run", "dino", "--train-images", "9"];
    let error = workspace.error(&[&["probe", "--method", "linear"], &some[..]].concat());
    assert!(error.contains("takes `--crops none`"), "{error}");
    let error = workspace.error(&["probe", "--method", "knn", "--config", "tiny.toml"]);
    assert!(error.contains("--features random"), "{error}");

    let image = "data/val/a/000.png";
    for run in ["run", "dino"] {
        workspace
            .kvt(&["attention-map", "--run", run, "--output", "maps", image])
            .assert()
            .success();
    }
    // An unreadable image does not prevent the maps of the others.
    workspace.write("broken.png", "no image");
    let some = [
        "attention-map",
        "--run",
        "run",
        "--output",
        "more",
        "broken.png",
        image,
    ];
    let error = workspace.error(&some);
    assert!(error.contains("could not decode `broken.png`"), "{error}");
    assert_eq!(workspace.entries("more"), ["001-000.png"]);
    // The image and two heads, enlarged to 224 pixels, below two lines of 19 pixels and above a note of some more.
    let map = image::open(workspace.path("maps/000-000.png")).unwrap();
    let rows = 10 + 2 * 19 + 224 + 10;
    assert_eq!(map.width(), 10 + 3 * 234);
    assert!((rows + 19..rows + 100).contains(&map.height()));
}
