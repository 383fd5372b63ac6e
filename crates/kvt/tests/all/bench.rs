//! `kvt bench`: the content of its records, not its timings.

use serde_json::Value;

use crate::support::{Workspace, read_weights};

fn records(workspace: &Workspace, arguments: &[&str]) -> Vec<Value> {
    let mut all = vec!["bench"];
    all.extend(arguments);
    all.extend(["--runs", "2", "--warmup", "0", "--json", "out.json"]);
    workspace.kvt(&all).assert().success();
    let text = std::fs::read(workspace.path("out.json")).unwrap();
    let report: Value = serde_json::from_slice(&text).unwrap();
    assert_eq!(report["device"], "cpu");
    for rate in ["matmul_gflops", "memory_gbps"] {
        assert!(report["peak"][rate].as_f64().unwrap() > 0.0, "{report}");
    }
    report["records"].as_array().unwrap().clone()
}

#[test]
fn attention_has_a_record_for_dense_and_for_each_k_and_implementation() {
    let workspace = Workspace::empty();
    let shape = ["attention", "--device", "cpu", "--shape", "2,3,10,4"];
    let cases = ["--k", "3,10", "--implementation", "auto,masked"];
    let records = records(&workspace, &[&shape[..], &cases[..]].concat());
    let found: Vec<(&str, &str, u64)> = records
        .iter()
        .map(|r| {
            (
                r["kind"].as_str().unwrap(),
                r["implementation"].as_str().unwrap(),
                r["k"].as_u64().unwrap(),
            )
        })
        .collect();
    // k = 10 keeps all keys, which is dense attention.
    assert_eq!(
        found,
        [
            ("dense", "auto", 10),
            ("knn", "auto", 3),
            ("knn", "masked", 3),
            ("dense", "auto", 10),
            ("dense", "masked", 10)
        ]
    );
    for record in &records {
        for (size, expected) in [("batch", 2), ("heads", 3), ("tokens", 10), ("head_dim", 4)] {
            assert_eq!(record[size], expected);
        }
        for time in ["forward_ms", "forward_backward_ms"] {
            assert!(record[time].as_f64().unwrap() > 0.0, "{record}");
        }
        // 7 products of 2 * 6 * 4 * 10^2 operations, 11 tensors of 4 * 6 * 10 * 4 bytes.
        let time = record["forward_backward_ms"].as_f64().unwrap() * 1e6;
        for (rate, work) in [("gflops", 33_600.0), ("gbps", 10_560.0)] {
            let share = record[rate].as_f64().unwrap() * time / work;
            assert!((share - 1.0).abs() < 1e-9, "{rate} of {record}");
        }
        if cfg!(target_os = "linux") {
            assert!(record["peak_bytes"].is_u64(), "{record}");
        }
    }
}

/// Every input has its own dense operation for comparison.
#[test]
fn attention_is_measured_on_what_is_asked_for() {
    let workspace = Workspace::empty();
    let arguments = ["attention", "--device", "cpu", "--shape", "1,2,20,4"];
    let inputs = ["--k", "3", "--input", "normal,sink,equal"];
    let records = records(&workspace, &[&arguments[..], &inputs[..]].concat());
    let found: Vec<(&str, &str)> = records
        .iter()
        .map(|r| (r["input"].as_str().unwrap(), r["kind"].as_str().unwrap()))
        .collect();
    let expected = ["normal", "sink", "equal"].map(|input| [(input, "dense"), (input, "knn")]);
    assert_eq!(found, expected.as_flattened());
}

/// Kinds over numbers of tokens; one that cannot run reports it, and the others continue.
#[test]
fn kinds_of_attention_are_measured_over_the_number_of_tokens() {
    let workspace = Workspace::empty();
    let mut arguments = vec![
        "attention",
        "--device",
        "cpu",
        "--kind",
        "all",
        "--out",
        "out",
    ];
    arguments.extend([
        "--shape",
        "1,2,17,8",
        "--tokens",
        "17,64",
        "--set",
        "neighbors=5",
    ]);
    let records = records(&workspace, &arguments);
    let kinds = kvt_attention::AttentionConfig::KINDS;
    assert_eq!(records.len(), 2 * kinds.len());
    for (number, record) in records.iter().enumerate() {
        assert_eq!(record["kind"], kinds[number % kinds.len()]);
        assert_eq!(record["tokens"], [17, 64][number / kinds.len()]);
        let stands = record["times"].is_object();
        assert_eq!(stands, record["note"].is_null(), "{record}");
        if !stands {
            let note = record["note"].as_str().unwrap();
            assert!(note.contains("`kind = "), "{note}");
            assert!(record["params"].is_null() && record["macs"].is_null());
            continue;
        }
        for time in ["forward", "forward_backward"] {
            assert!(record["times"][time]["median"].as_f64().unwrap() > 0.0);
        }
        assert!(record["macs"].as_u64().unwrap() > 0);
        if cfg!(target_os = "linux") {
            assert!(record["peak_bytes"].is_u64(), "{record}");
        }
    }
    let csv = workspace.read("out/attention.csv");
    assert_eq!(csv.lines().count(), 1 + records.len());
    assert!(
        csv.lines().nth(1).unwrap().starts_with("dense,1,2,17,8,0,"),
        "{csv}"
    );
    for plot in ["forward", "forward_backward", "memory"] {
        let text = workspace.read(&format!("out/{plot}.svg"));
        assert!(text.contains("dense") && text.contains("tokens"), "{plot}");
    }
}

/// A DeiT of one block of 12 channels, with 17 tokens.
const SMALL: [&str; 12] = [
    "--model",
    "deit_tiny_patch16_224",
    "--set",
    "model.img_size=16",
    "--set",
    "model.patch_size=4",
    "--set",
    "model.embed_dim=12",
    "--set",
    "model.depth=1",
    "--device",
    "cpu",
];

#[test]
fn a_forward_pass_has_a_record_for_each_type_kind_k_and_batch() {
    let workspace = Workspace::empty();
    let cases = ["--batch", "1,3", "--dtype", "f32,bf16", "--k", "5,6"];
    let out = ["--out", "bench"];
    let records = records(
        &workspace,
        &[&["forward"], &SMALL[..], &cases, &out].concat(),
    );
    let found: Vec<[String; 4]> = records
        .iter()
        .map(|r| [&r["dtype"], &r["kind"], &r["k"][0], &r["batch"]].map(Value::to_string))
        .collect();
    let mut expected = Vec::new();
    for dtype in ["f32", "bf16"] {
        for (kind, k) in [("dense", 17), ("knn", 5), ("knn", 6)] {
            for batch in [1, 3] {
                expected.push([
                    format!("\"{dtype}\""),
                    format!("\"{kind}\""),
                    k.to_string(),
                    batch.to_string(),
                ]);
            }
        }
    }
    assert_eq!(found, expected);
    for record in &records {
        let (ms, batch) = (&record["forward_ms"], &record["batch"]);
        let time = ms.as_f64().unwrap() / batch.as_f64().unwrap();
        // Patches 16 * 48 * 12, projections 17 * 12 * 48, scores and values 2 * 17 * 17 * 12, the MLP 2 * 17 * 12 * 48, the
        // classifier 12 * 1000: 57,528 MACs of two operations.
        for (rate, work) in [("images_per_second", 1e3), ("gflops", 0.115_056)] {
            let share = record[rate].as_f64().unwrap() * time / work;
            assert!((share - 1.0).abs() < 1e-9, "{rate} of {record}");
        }
        if cfg!(target_os = "linux") {
            assert!(record["peak_bytes"].is_u64(), "{record}");
        }
    }
    let csv = workspace.read("bench/forward.csv");
    let first = csv.lines().nth(1).unwrap();
    assert!(first.starts_with("dense,17,f32,1,"), "{csv}");
    assert_eq!(csv.lines().count(), 1 + records.len());
    let markdown = workspace.read("bench/forward.md");
    assert!(markdown.contains("| knn | 6 | bf16 | 3 |"), "{markdown}");
}

#[test]
fn a_step_has_a_record_for_dense_and_for_knn() {
    let workspace = Workspace::empty();
    let more = ["--batch", "2", "--set", "model.attention.neighbors=5"];
    let records = records(&workspace, &[&["step"], &SMALL[..], &more].concat());
    let kinds: Vec<&Value> = records.iter().map(|r| &r["kind"]).collect();
    assert_eq!(kinds, ["dense", "knn"]);
    assert_eq!(records[0]["k"][0], 17);
    assert_eq!(records[1]["k"][0], 5);
    for record in &records {
        assert!(record["images_per_second"].as_f64().unwrap() > 0.0);
    }
}

/// With LoRA, a step trains what a run does: the parameters for which its optimizer keeps moments.
#[test]
fn a_step_with_lora_trains_what_a_run_trains() {
    let workspace = Workspace::with_data(2, 1);
    let lora = ["--set", "lora.rank=2", "--set", "model.num_classes=3"];
    let run = ["train", "tiny.toml", "--set", "train.max_steps=1"];
    workspace
        .kvt(&[&run[..], &lora].concat())
        .assert()
        .success();
    let file = workspace
        .last_checkpoint("run")
        .join("optimizer.safetensors");
    let moments = read_weights(&file);
    let moments = moments
        .iter()
        .filter(|(name, _)| name.starts_with("exp_avg."));
    let of_run: usize = moments.map(|(_, data)| data.num_elements()).sum();
    // In both blocks, factors between 16 and 48 and between 16 and 16 channels; the head of 3 classes.
    assert_eq!(of_run, 2 * 2 * (16 + 48 + 16 + 16) + 3 * 16 + 3);

    let step = ["step", "--config", "tiny.toml", "--batch", "2"];
    for record in records(&workspace, &[&step[..], &lora].concat()) {
        assert_eq!(record["trained"], of_run, "{record}");
        assert_eq!(record["lora_rank"], 2, "{record}");
    }
    let short = ["bench", "step", "--config", "tiny.toml", "--runs", "1"];
    let printed = |more: &[&str]| {
        let output = workspace
            .kvt(&[&short[..], more].concat())
            .assert()
            .success();
        String::from_utf8(output.get_output().stdout.clone()).unwrap()
    };
    let (adapted, whole) = (printed(&lora), printed(&[]));
    let title = format!("LoRA of rank 2: {of_run} parameters are trained");
    assert!(adapted.contains(&title), "{adapted}");
    assert!(!whole.contains("LoRA"), "{whole}");
}

/// In evaluation LoRA's factors are merged, which the line above the table says.
#[test]
fn a_forward_pass_says_that_lora_is_merged() {
    let workspace = Workspace::with_data(2, 1);
    let pass = ["bench", "forward", "--config", "tiny.toml", "--batch", "1"];
    let short = ["--kind", "dense", "--runs", "1", "--warmup", "0"];
    let printed = |more: &[&str]| {
        let output = workspace.kvt(&[&pass[..], &short, more].concat()).assert();
        String::from_utf8(output.success().get_output().stdout.clone()).unwrap()
    };
    let adapted = printed(&["--set", "lora.rank=2"]);
    let title = "in evaluation mode, with the factors of LoRA merged, on cpu";
    assert!(adapted.contains(title), "{adapted}");
    assert!(!printed(&[]).contains("LoRA"));
}

/// Half precision looks for its loss scale first. The memory of those steps counts: it is what the later ones reuse.
#[cfg(target_os = "linux")]
#[test]
fn a_step_in_f16_needs_about_the_memory_of_one_in_f32() {
    let workspace = Workspace::empty();
    let peak = |precision: &str| {
        let precision = format!("train.precision={precision}");
        let mut arguments = vec!["bench", "step", "--kind", "knn", "--batch", "16"];
        arguments.extend(["--model", "deit_tiny_patch16_224", "--device", "cpu"]);
        for set in [
            "model.img_size=32",
            "model.patch_size=4",
            "model.embed_dim=96",
            "model.depth=4",
            "model.attention.neighbors=5",
            &precision,
        ] {
            arguments.extend(["--set", set]);
        }
        arguments.extend(["--peak-of", "0"]);
        let output = workspace.kvt(&arguments).assert().success();
        let text = String::from_utf8(output.get_output().stdout.clone()).unwrap();
        text.trim().parse::<f64>().unwrap()
    };
    let (full, half) = (peak("f32"), peak("f16"));
    assert!(half > 0.5 * full, "{half} and {full} bytes");
}

/// The loader makes the views on which the task trains.
#[test]
fn the_loader_makes_the_views_of_the_task() {
    let workspace = Workspace::with_data(2, 1);
    let measured = |keys: &[&str]| {
        let mut arguments = vec!["bench", "loader", "tiny.toml", "--images", "6"];
        arguments.extend(["--rounds", "1", "--json", "record.json"]);
        arguments.extend(keys.iter().flat_map(|key| ["--set", key]));
        let output = workspace.kvt(&arguments).assert().success();
        let text = String::from_utf8(output.get_output().stdout.clone()).unwrap();
        let record: Value = serde_json::from_str(&workspace.read("record.json")).unwrap();
        (text, record["views"].clone())
    };
    let (text, views) = measured(&[]);
    assert!(text.starts_with("6 images a round\n"), "{text}");
    assert_eq!(views, 1);
    let dino = ["task=dino", "dino.local_views=3", "dino.local_size=8"];
    let (text, views) = measured(&dino);
    assert!(
        text.starts_with("6 images a round, 5 views of each\n"),
        "{text}"
    );
    assert_eq!(views, 5);
}

#[test]
fn nonsense_is_refused() {
    let workspace = Workspace::empty();
    let set = |kind, set| ["attention", "--kind", kind, "--set", set].to_vec();
    for (arguments, expected) in [
        (
            set("linear", "landmarks=32"),
            "error: `--set landmarks=32`: no kind that is measured has `landmarks`: leave it out, or measure one that has it (nystrom",
        ),
        (
            set("linear", "kind=dense"),
            "error: `--set kind=dense` contradicts `--kind linear`: leave it out",
        ),
        (
            set("linear", "epsilon=-1"),
            "invalid value `-1` for `model.attention.epsilon`",
        ),
        (set("nystrom", "conv=2"), "error: `conv` "),
        (
            [
                "attention",
                "--kind",
                "dense",
                "--shape",
                "1,68719476736,1,1",
                "--tokens",
                "1048576",
            ]
            .to_vec(),
            "error: `--tokens 1048576` makes more than 2^36 values",
        ),
        (
            [&["forward"], &SMALL[..], &["--kind", "dense", "--k", "5"]].concat(),
            "error: `--k` is for `--kind knn`, which is not measured",
        ),
        (
            [&["forward"], &SMALL[..], &["--dtype", "f64"]].concat(),
            "[possible values: f32, bf16, f16]",
        ),
    ] {
        assert_refused(&workspace, &arguments, expected);
    }
    for (arguments, expected) in [
        (["attention", "--shape", "2,3,0,4"], "four positive numbers"),
        (
            ["attention", "--implementation", "fast"],
            "auto, fused, flash, masked, gathered",
        ),
        (["attention", "--input", "odd"], "normal, sink, equal"),
        (["attention", "--k", "0"], "invalid value '0' for '--k"),
        (
            ["attention", "--kind", "sparse"],
            "[possible values: all, dense, knn",
        ),
        (["attention", "--tokens", "5"], "--kind <KIND>"),
        (
            ["attention", "--shape", "4294967296,4294967296,1,1"],
            "2^36 scores",
        ),
        (
            ["step", "--model", "deit_huge"],
            "unknown model `deit_huge`",
        ),
        (
            ["forward", "--model", "deit_huge"],
            "unknown model `deit_huge`",
        ),
    ] {
        assert_refused(&workspace, &arguments, expected);
    }
}

fn assert_refused(workspace: &Workspace, arguments: &[&str], expected: &str) {
    let output = workspace
        .kvt(&[&["bench"], arguments].concat())
        .assert()
        .failure();
    let errors = String::from_utf8(output.get_output().stderr.clone()).unwrap();
    assert!(errors.contains(expected), "{errors}");
}

/// Nothing is measured if a picture cannot be written.
#[test]
fn files_that_cannot_be_written_are_known_before() {
    let workspace = Workspace::empty();
    for file in [
        "attention.csv",
        "forward.svg",
        "forward_backward.svg",
        "memory.svg",
    ] {
        fs_err::create_dir_all(workspace.path("out").join(file)).unwrap();
        let arguments = ["attention", "--kind", "dense", "--out", "out"];
        let expected = format!("could not write `out/{file}`: it is a folder");
        assert_refused(&workspace, &arguments, &expected);
        fs_err::remove_dir(workspace.path("out").join(file)).unwrap();
        assert_eq!(fs_err::read_dir(workspace.path("out")).unwrap().count(), 0);
    }
}
