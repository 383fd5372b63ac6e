//! `kvt finetune`: a trained model learns new classes.

use image::RgbImage;
use kvt_models::weights::{StateDict, write};
use kvt_train::config::load_plan;
use kvt_train::run::{Event, Metric};

use crate::support::{Workspace, floats, read_weights, save};

/// A run on three classes, and images of two other classes in `pets`.
fn workspace() -> Workspace {
    let workspace = Workspace::with_data(6, 2);
    workspace.train("run", &[]);
    for class in ["x", "y"] {
        workspace.images(&format!("pets/train/{class}"), 8);
        workspace.images(&format!("pets/val/{class}"), 3);
    }
    workspace
}

/// `kvt finetune pets` from the run, on the CPU, with more arguments.
fn finetune<'a>(more: &[&'a str]) -> Vec<&'a str> {
    let base = [
        "finetune",
        "pets",
        "--weights",
        "run",
        "--device",
        "cpu",
        "--epochs",
        "2",
    ];
    base.into_iter().chain(more.iter().copied()).collect()
}

/// The best weights of the run, from which fine-tuning starts.
fn before(workspace: &Workspace) -> StateDict {
    let name = workspace.read("run/checkpoints/best");
    let checkpoint = workspace.path("run/checkpoints").join(name.trim());
    read_weights(&checkpoint.join("model.safetensors"))
}

fn weights(workspace: &Workspace, run: &str, file: &str) -> StateDict {
    read_weights(&workspace.last_checkpoint(run).join(file))
}

#[test]
fn another_task_is_refused() {
    let workspace = workspace();
    let error = workspace.error(&finetune(&["--out", "ft", "--set", "task=dino"]));
    assert!(error.contains("and take `kvt train`"), "{error}");
    // Before its labels are looked at, one of which is empty.
    workspace.write("pets/labels.csv", "path,label\nx.png,a|b\ny.png,\n");
    let labels = [
        "--out",
        "ft",
        "--set",
        "task=multi-label",
        "--set",
        "data.labels=labels.csv",
    ];
    let error = workspace.error(&finetune(&labels));
    assert!(error.contains("and take `kvt train`"), "{error}");
    assert!(!workspace.path("ft").exists());
}

#[test]
fn a_run_learns_other_classes() {
    let workspace = workspace();
    let output = workspace
        .kvt(&finetune(&["--out", "ft"]))
        .assert()
        .success();
    let stderr = String::from_utf8_lossy(&output.get_output().stderr).into_owned();
    for words in [
        "deit_tiny_patch16_224 (as its run has it), trained for 3 classes",
        "2 classes, 16 images to train on, validated on those in `val`",
        "kvt predict --run ft",
    ] {
        assert!(stderr.contains(words), "{words}: {stderr}");
    }
    assert_eq!(workspace.read("ft/classes.txt"), "x\ny\n");
    let before = before(&workspace);
    let after = weights(&workspace, "ft", "model.safetensors");
    assert_eq!(after.get("head.weight").unwrap().shape().to_vec(), [2, 16]);
    let qkv = "blocks.0.attn.qkv.weight";
    assert_ne!(floats(&before, qkv), floats(&after, qkv));
    // It starts from the weights: two epochs at a low learning rate stay near them.
    let far = floats(&before, qkv)
        .into_iter()
        .zip(floats(&after, qkv))
        .map(|(a, b)| (a - b).abs());
    assert!(far.fold(0.0f32, f32::max) < 0.01);
    let started = workspace.log("ft").into_iter().any(|event| match event {
        Event::Note(note) => note.message.contains("2 reset"),
        _ => false,
    });
    assert!(started);

    // Every other command works on the run.
    workspace
        .kvt(&["eval", "--run", "ft", "--json"])
        .assert()
        .success();
    let predicted = workspace.json(&["predict", "--run", "ft", "pets/val/x/000.png", "--json"]);
    assert!(predicted.to_string().contains("\"y\""), "{predicted}");
    let error = workspace.error(&finetune(&["--out", "ft"]));
    assert!(error.contains("run `ft` exists: use `--resume`"), "{error}");
}

/// A DINO run gives its teacher, which is what the run is evaluated with.
#[test]
fn a_run_of_dino_gives_its_teacher() {
    let workspace = workspace();
    let mut arguments = vec!["train", "tiny.toml"];
    for key in [
        "task=dino",
        "dino.out_dim=12",
        "dino.hidden_dim=20",
        "dino.bottleneck_dim=8",
        "dino.local_views=0",
        "train.epochs=1",
        "run.dir=dino",
    ] {
        arguments.extend(["--set", key]);
    }
    workspace.kvt(&arguments).assert().success();
    let more = ["finetune", "pets", "--weights", "dino", "--device", "cpu"];
    let output = workspace
        .kvt(&[&more[..], &["--print-config"]].concat())
        .assert()
        .success();
    let config = String::from_utf8(output.get_output().stdout.clone()).unwrap();
    let weights = "dino/checkpoints/step-00000003/task.teacher.safetensors";
    assert!(config.contains(weights), "{config}");
    assert!(config.contains("reset_head = \"always\"") || config.contains("reset_head = true"));
}

#[test]
fn a_folder_of_classes_is_split_and_augmented() {
    let workspace = workspace();
    for class in ["x", "y"] {
        workspace.images(&format!("flat/{class}"), 10);
    }
    let more = [
        "finetune",
        "flat",
        "--weights",
        "run",
        "--device",
        "cpu",
        "--epochs",
        "1",
        "--out",
        "ft",
    ];
    workspace.kvt(&more).assert().success();
    let config = workspace.read("ft/config.toml");
    for line in [
        "val_fraction = 0.2",
        "auto = \"rand-m9-mstd0.5-inc1\"",
        "layer_decay = 0.75",
    ] {
        assert!(config.contains(line), "{line}: {config}");
    }
    let images = workspace
        .log("ft")
        .into_iter()
        .find_map(|event| match event {
            Event::Eval(eval) => Some(eval.images),
            _ => None,
        });
    assert_eq!(images, Some(4));
}

/// The head is new even if there are as many classes as before.
#[test]
fn the_head_is_new_whatever_its_size() {
    let workspace = workspace();
    workspace.images("pets/train/z", 8);
    workspace.images("pets/val/z", 3);
    let more = [
        "--out",
        "ft",
        "--linear-probe",
        "--set",
        "train.max_steps=1",
    ];
    workspace.kvt(&finetune(&more)).assert().success();
    assert!(
        workspace
            .read("ft/log.jsonl")
            .contains("30 matched, 2 reset")
    );
    let (before, after) = (
        before(&workspace),
        weights(&workspace, "ft", "model.safetensors"),
    );
    let far = floats(&before, "head.weight")
        .into_iter()
        .zip(floats(&after, "head.weight"));
    assert!(far.map(|(a, b)| (a - b).abs()).fold(0.0f32, f32::max) > 0.01);
}

#[test]
fn a_frozen_backbone_stays_to_the_bit() {
    let workspace = workspace();
    for (out, flag) in [
        ("a", &["--linear-probe"][..]),
        ("b", &["--freeze", "backbone"]),
    ] {
        let more = [flag, &["--out", out, "--set", "ema.decay=0.9"]].concat();
        workspace.kvt(&finetune(&more)).assert().success();
        let before = before(&workspace);
        for file in ["model.safetensors", "ema.safetensors"] {
            let after = weights(&workspace, out, file);
            let backbone = before.iter().filter(|(name, _)| !name.starts_with("head."));
            let mut compared = 0;
            for (name, data) in backbone {
                assert_eq!(after.get(name), Some(data), "{file} {name}");
                compared += 1;
            }
            assert_eq!(compared, 30);
        }
        let optimizer = weights(&workspace, out, "optimizer.safetensors");
        let names: Vec<&str> = optimizer.iter().map(|(name, _)| name).collect();
        assert_eq!(
            names,
            [
                "exp_avg.head.bias",
                "exp_avg.head.weight",
                "exp_avg_sq.head.bias",
                "exp_avg_sq.head.weight"
            ]
        );
    }
    assert_eq!(
        weights(&workspace, "a", "model.safetensors"),
        weights(&workspace, "b", "model.safetensors")
    );
    // The head has learned: its bias started at zero.
    let head = weights(&workspace, "a", "model.safetensors");
    assert!(floats(&head, "head.bias").iter().all(|bias| *bias != 0.0));
}

/// LoRA: only factors and head are trained, and what is saved are weights that every command reads.
#[test]
fn low_rank_factors_are_merged_into_weights_that_stay() {
    let workspace = workspace();
    let more = ["--lora", "2", "--out", "lora", "--set", "ema.decay=0.9"];
    workspace.kvt(&finetune(&more)).assert().success();
    let log = workspace.log("lora");
    let note = log.iter().find_map(|event| match event {
        Event::Note(note) if note.message.contains("LoRA") => Some(note.message.as_str()),
        _ => None,
    });
    // Of both blocks 2 x 16 + 48 x 2 and 2 x 16 + 16 x 2.
    let expected = "LoRA of rank 2 in 4 layers: 384 numbers and the head are trained";
    assert_eq!(note, Some(expected));

    let before = before(&workspace);
    let adapted = weights(&workspace, "lora", "adapted.safetensors");
    assert_eq!(adapted.len(), 4);
    for (merged, factors) in [
        ("model.safetensors", "lora.safetensors"),
        ("ema.safetensors", "ema.lora.safetensors"),
    ] {
        let merged = weights(&workspace, "lora", merged);
        let factors = weights(&workspace, "lora", factors);
        assert_eq!((merged.len(), factors.len()), (32, 8));
        for (name, data) in before.iter().filter(|(name, _)| !name.starts_with("head.")) {
            let layer = name.strip_suffix(".weight").unwrap_or(name);
            let is_adapted = layer.ends_with("attn.qkv") || layer.ends_with("attn.proj");
            if name.ends_with(".bias") || !is_adapted {
                assert_eq!(merged.get(name), Some(data), "{name}");
                continue;
            }
            assert_eq!(adapted.get(name), Some(data), "{name}");
            let factor = |which: &str| {
                let name = format!("base_model.model.{layer}.{which}.weight");
                floats(&factors, &name)
            };
            let (a, b) = (factor("lora_A"), factor("lora_B"));
            assert!(b.iter().any(|x| *x != 0.0), "{name}");
            let (old, new) = (floats(&before, name), floats(&merged, name));
            for (at, (old, new)) in old.iter().zip(&new).enumerate() {
                let (row, column) = (at / 16, at % 16);
                let change = b[2 * row] * a[column] + b[2 * row + 1] * a[16 + column];
                // `lora.alpha` is twice the rank.
                assert!((old + 2.0 * change - new).abs() < 1e-6, "{name} {at}");
            }
        }
    }
    let optimizer = weights(&workspace, "lora", "optimizer.safetensors");
    let names: Vec<&str> = optimizer.iter().map(|(name, _)| name).collect();
    assert_eq!(names.len(), 2 * (8 + 2), "{names:?}");
    let known = |name: &&str| name.contains(".head.") || name.contains(".lora_");
    assert!(names.iter().all(known), "{names:?}");

    // Merged weights predict what the factors did in training.
    let of_run = log.iter().rev().find_map(|event| match event {
        Event::Eval(eval) if eval.split == "val" => Some(eval.metrics.clone()),
        _ => None,
    });
    let eval = ["eval", "--run", "lora", "--checkpoint", "last", "--json"];
    let loss = workspace.json(&eval)["loss"].as_f64();
    assert!(loss.is_some());
    assert_eq!(loss, of_run.unwrap().get(Metric::LOSS.name));
    let predict = ["predict", "--run", "lora", "pets/val/x/000.png"];
    workspace.kvt(&predict).assert().success();
}

#[test]
fn what_cannot_be_adapted_is_refused_before_a_run_is_made() {
    let workspace = workspace();
    for (rank, set, expected) in [
        (
            "17",
            "train.epochs=1",
            "`lora.rank` is 17, but the weight of `blocks.0.attn.qkv` is 16 x 48: expected 1 to 16",
        ),
        ("2", "lora.layers=[\"query\"]", "`lora.layers` has `query`"),
        (
            "2",
            "init.freeze=\"backbone\"",
            "which `init.freeze` leaves as it is",
        ),
    ] {
        let more = ["--out", "no", "--lora", rank, "--set", set];
        let error = workspace.error(&finetune(&more));
        assert!(error.contains(expected), "{error}");
        assert!(!workspace.path("no").exists());
        // A check of the configuration says the same, without weights and images.
        let rank = format!("lora.rank={rank}");
        let check = ["config", "check", "tiny.toml", "--set", &rank, "--set", set];
        let error = workspace.error(&check);
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn a_stopped_run_goes_on() {
    let workspace = workspace();
    for (probe, name) in [
        (&["--freeze", "none"][..], "all"),
        (&["--linear-probe"], "probe"),
        (&["--lora", "2", "--set", "ema.decay=0.9"], "lora"),
    ] {
        let (whole, parts) = (format!("{name}-whole"), format!("{name}-parts"));
        workspace
            .kvt(&finetune(&[probe, &["--out", &whole]].concat()))
            .assert()
            .success();
        let more = [probe, &["--out", &parts, "--set", "train.max_steps=3"]].concat();
        workspace.kvt(&finetune(&more)).assert().success();
        // The plan is in the folder: images and weights need not be given again.
        let resume = [
            "finetune",
            "--resume",
            "--out",
            &parts,
            "--set",
            "train.max_steps=1000",
        ];
        workspace.kvt(&resume).assert().success();
        let mut files = vec!["model.safetensors", "optimizer.safetensors"];
        if name == "lora" {
            files.extend(["ema.safetensors", "lora.safetensors"]);
            files.extend(["ema.lora.safetensors", "adapted.safetensors"]);
        }
        for file in files {
            assert_eq!(
                weights(&workspace, &whole, file),
                weights(&workspace, &parts, file),
                "{name} {file}"
            );
        }
    }
    let other = [
        "finetune",
        "pets",
        "--weights",
        "run",
        "--resume",
        "--out",
        "all-parts",
        "--epochs",
        "9",
    ];
    let error = workspace.error(&other);
    assert!(error.contains("`train.epochs`: `2` -> `9`"), "{error}");
    assert!(
        error.contains(
            "with `init.weights` (with `kvt finetune` they are `--out DIR` and `--weights RUN`)"
        ),
        "{error}"
    );
    // Settings that the run cannot change are not ignored.
    for (flags, expected) in [
        (
            &["--linear-probe"][..],
            r#"`init.freeze`: `"none"` -> `"backbone"`"#,
        ),
        (&["--lora", "4"], "`lora.rank`: `0` -> `4`"),
        (
            &["--model", "deit_small_patch16_224.fb_in1k"],
            r#"`model.name`: `"deit_tiny_patch16_224"` -> `"deit_small_patch16_224"`"#,
        ),
    ] {
        let resume = ["finetune", "--resume", "--out", "all-parts"];
        let error = workspace.error(&[&resume, flags].concat());
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn the_configuration_can_be_printed_and_kept() {
    let workspace = workspace();
    let output = workspace
        .kvt(&finetune(&["--print-config", "--lr", "0.01"]))
        .assert()
        .success();
    let text = String::from_utf8(output.get_output().stdout.clone()).unwrap();
    assert!(!workspace.path("runs").exists());
    workspace.write("kept.toml", &text);
    let printed = workspace
        .kvt(&["config", "print", "kept.toml"])
        .assert()
        .success();
    assert_eq!(String::from_utf8_lossy(&printed.get_output().stdout), text);
    for line in [
        "freeze = \"none\"",
        "lr = 0.01",
        "lr_batch = 0",
        "dir = \"runs/finetune/pets\"",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
}

/// `config init` without weights: small images get a small model, and the epochs follow from the number of images.
#[test]
fn a_configuration_suits_the_images() {
    let workspace = Workspace::empty();
    let init = |folder: &str, side: u32, count: u32| {
        for class in ["x", "y"] {
            for number in 0..count {
                let path = workspace.path(&format!("{folder}/{class}/{number}.png"));
                save(&path, &RgbImage::new(side + number % 9, side));
            }
        }
        let file = format!("{folder}.toml");
        let output = ["config", "init", folder, "--output", &file];
        workspace.kvt(&output).assert().success();
        let plan = load_plan(&workspace.path(&file), &[]).unwrap();
        (plan, workspace.read(&file))
    };
    let (small, text) = init("small", 32, 10);
    let model = &small.model.overrides;
    assert_eq!(
        (model.img_size, model.patch_size),
        (Some(32.into()), Some(4))
    );
    assert_eq!((small.train.epochs, small.train.batch_size), (100, 4));
    for words in [
        "made small for images of 32 px",
        "100 epochs, so that 1600 images are seen",
        "preset = \"cifar\"",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let train = [
        "train",
        "small.toml",
        "--device",
        "cpu",
        "--set",
        "train.max_steps=1",
    ];
    workspace.kvt(&train).assert().success();

    // Eight tenths of 320 images, in updates of which an epoch has four.
    let (digits, _) = init("digits", 28, 160);
    assert_eq!(digits.model.overrides.img_size, Some(28.into()));
    assert_eq!(digits.train.batch_size, 64);

    let (large, text) = init("large", 224, 3);
    assert_eq!(large.model.name, "deit_tiny_patch16_224");
    assert_eq!(large.model.overrides.patch_size, None);
    assert_eq!(large.train.epochs, 300);
    assert!(!text.contains("made small"), "{text}");
}

#[test]
fn another_image_size_resamples_the_positions() {
    let workspace = workspace();
    workspace
        .kvt(&finetune(&["--out", "ft", "--img-size", "24"]))
        .assert()
        .success();
    let after = weights(&workspace, "ft", "model.safetensors");
    // 6 x 6 patches of 4 pixels, and the class token.
    assert_eq!(
        after.get("pos_embed").unwrap().shape().to_vec(),
        [1, 37, 16]
    );
}

#[test]
fn what_is_missing_or_wrong_is_said_and_leaves_no_run() {
    let workspace = workspace();
    let run = |arguments: &[&str]| {
        let error = workspace.error(&[&["finetune"], arguments].concat());
        assert!(!workspace.path("runs").exists(), "{error}");
        error
    };
    let error = run(&["pets", "--weights", "gone.safetensors"]);
    assert!(
        error.starts_with("error: no weights `gone.safetensors`: give a"),
        "{error}"
    );
    insta::assert_snapshot!(run(&["gone", "--weights", "run"]), @"error: no folder `gone`: expected an image folder `gone/<class>/*.jpg`");
    insta::assert_snapshot!(run(&["pets/train/x", "--weights", "run"]), @"error: `pets/train/x` holds images but no class folders: move each image into a folder named by its class, `pets/train/x/<class>/*.jpg`, or name a table with their paths and labels in `data.labels`");
    let error = run(&[
        "pets",
        "--weights",
        "run",
        "--model",
        "deit_tiny_patch16_224",
    ]);
    assert!(
        error.contains("the weights do not fit the model: "),
        "{error}"
    );
    let error = run(&["pets", "--weights", "run", "--epochs", "0"]);
    assert!(error.contains("train.epochs"), "{error}");
    workspace.images("one/train/x", 2);
    workspace.images("one/val/x", 2);
    let error = run(&["one", "--weights", "run"]);
    assert!(error.contains("has one class only, `x`"), "{error}");

    // A weight file of the run works like its folder.
    let state = weights(&workspace, "run", "model.safetensors");
    write(
        &workspace.path("alone.safetensors"),
        &state,
        &Default::default(),
    )
    .unwrap();
    let error = run(&["pets", "--weights", "alone.safetensors"]);
    assert!(error.contains("a ViT of a custom size"), "{error}");
    let checkpoint = workspace.last_checkpoint("run").join("model.safetensors");
    let arguments = finetune(&["--print-config"]);
    let named: Vec<&str> = arguments
        .iter()
        .map(|&argument| {
            if argument == "run" {
                checkpoint.to_str().unwrap()
            } else {
                argument
            }
        })
        .collect();
    workspace.kvt(&named).assert().success();
}

#[test]
fn timms_names_of_the_same_models_are_known() {
    let workspace = Workspace::empty();
    let output = workspace
        .kvt(&["models", "show", "vit_small_patch32_224"])
        .assert()
        .success();
    let text = String::from_utf8_lossy(&output.get_output().stdout).into_owned();
    assert!(text.starts_with("deit_small_patch32_224, 224 px"), "{text}");
    workspace.write(
        "vit.toml",
        "base = \"tiny.toml\"\n[model]\nname = \"vit_tiny_patch16_224\"\n",
    );
    workspace
        .kvt(&["config", "check", "vit.toml"])
        .assert()
        .success();
}
