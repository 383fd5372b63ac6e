//! Every kind of attention on the command line: shown, trained, compared, and started from weights of another kind.

use kvt_attention::AttentionConfig;

use crate::support::Workspace;

/// For 17 tokens; the defaults of some kinds exceed that number.
const BUDGET: [&str; 5] = ["landmarks=4", "clusters=4", "rank=4", "points=4", "kept=4"];

fn budget() -> impl Iterator<Item = String> {
    let sets = BUDGET.iter();
    sets.flat_map(|set| ["--set".to_owned(), format!("model.attention.{set}")])
}

#[test]
fn a_model_is_shown_with_its_attention() {
    let workspace = Workspace::empty();
    let show = |sets: &[&str]| {
        let mut arguments = vec!["models", "show", "deit_tiny_patch16_224"];
        arguments.extend(sets.iter().flat_map(|set| ["--set", set]));
        let output = workspace.kvt(&arguments).assert().success();
        String::from_utf8(output.get_output().stdout.clone()).unwrap()
    };
    // Two products of 197 * 197 * 192 operations in each of 12 blocks.
    let dense = show(&[]);
    assert!(
        dense.contains("\nattention   0 parameters and 178.83 M MACs in its mechanism"),
        "{dense}"
    );
    let row = dense.lines().last().unwrap();
    let cells: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(
        cells[..8],
        ["blocks", "12", "197", "197", "197", "dense", "0", "178.83"],
        "{row}"
    );
    for kind in AttentionConfig::KINDS {
        let shown = show(&[
            &format!("model.attention.kind={kind}"),
            "model.img_size=384",
        ]);
        assert!(shown.lines().last().unwrap().contains(kind), "{shown}");
    }
}

/// As the trainer says it.
#[test]
fn more_neighbors_than_keys_are_told() {
    let workspace = Workspace::empty();
    let show = |neighbors: &str| {
        let line = format!(
            "models show deit_tiny_patch16_224 --set model.attention.kind=knn --set model.attention.neighbors={neighbors}"
        );
        let output = workspace.line(&line).assert().success();
        String::from_utf8(output.get_output().stderr.clone()).unwrap()
    };
    insta::assert_snapshot!(show("500"), @"warning: `model.attention.neighbors` = 500 keeps each of the 197 keys in `blocks`: attention is dense there");
    assert_eq!(show("100"), "");
}

/// The model of a configuration as JSON: the unrounded values of the table.
#[test]
fn the_model_of_a_configuration_is_shown_as_json() {
    let workspace = Workspace::empty();
    workspace.write(
        "model.toml",
        "[model]\nname = \"deit_tiny_patch16_224\"\n[model.attention]\nkind = \"linformer\"\nrank = 4\n",
    );
    let arguments = ["models", "show", "--config", "model.toml", "--json"];
    let output = workspace.kvt(&arguments).assert().success();
    let shown: serde_json::Value = serde_json::from_slice(&output.get_output().stdout).unwrap();
    assert_eq!(shown["model"], "deit_tiny_patch16_224");
    // Two products of 197 * 4 * 192 operations, and two projections of 197 keys to 4, in each of 12 blocks.
    assert_eq!(
        shown["attention"]["macs"]["total"],
        12 * 4 * 197 * 4 * 192_u64
    );
    assert_eq!(shown["attention"]["kind"], "linformer");
    assert_eq!(shown["stages"][0]["blocks"], 12);
    let mut dense = workspace.kvt(&["models", "show", "deit_tiny_patch16_224", "--json"]);
    let output = dense.assert().success();
    let dense: serde_json::Value = serde_json::from_slice(&output.get_output().stdout).unwrap();
    let parameters = |shown: &serde_json::Value| shown["parameters"].as_u64().unwrap();
    assert_eq!(parameters(&dense), 5_717_416);
    assert_eq!(
        parameters(&shown) - parameters(&dense),
        shown["attention"]["parameters"].as_u64().unwrap()
    );
}

/// One table of all kinds; each uses the settings that apply to it.
#[test]
fn kinds_are_compared() {
    let workspace = Workspace::with_data(4, 2);
    let mut arguments = vec!["compare".to_owned()];
    for kind in AttentionConfig::KINDS {
        let text = format!(
            "base = \"tiny.toml\"\n[model.attention]\nkind = {kind:?}\n[run]\ndir = \"runs/{kind}\"\n"
        );
        workspace.write(&format!("{kind}.toml"), text);
        arguments.push(format!("{kind}.toml"));
    }
    arguments.extend(budget());
    arguments.extend(["--set", "train.epochs=1", "--output", "table"].map(str::to_owned));
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    workspace.kvt(&arguments).assert().success();
    let table = workspace.read("table/table.csv");
    assert_eq!(table.lines().count(), 1 + AttentionConfig::KINDS.len());
    for (line, kind) in table.lines().skip(1).zip(AttentionConfig::KINDS) {
        assert!(line.starts_with(&format!("{kind},1,")), "{line}");
    }
}

#[test]
fn training_starts_from_weights_of_another_kind() {
    let workspace = Workspace::with_data(4, 2);
    let train = |run: &str, sets: &[&str]| {
        let mut all: Vec<String> = ["train", "tiny.toml", "--set"].map(str::to_owned).into();
        all.push(format!("run.dir={run:?}"));
        all.extend(
            sets.iter()
                .flat_map(|set| ["--set".to_owned(), (*set).to_owned()]),
        );
        all
    };
    let run = |all: Vec<String>| {
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        workspace.kvt(&all).assert()
    };
    run(train("dense", &["train.max_steps=1"])).success();
    let weights = workspace.last_checkpoint("dense").join("model.safetensors");
    workspace.write("w.safetensors", fs_err::read(weights).unwrap());
    for config in AttentionConfig::defaults() {
        let kind = config.kind();
        // Only mechanisms with their own parameters.
        let (Some(key), false) = (parameters(kind), config.is_softmax()) else {
            continue;
        };
        let kind = format!("model.attention.kind={kind}");
        let sets = [
            kind.as_str(),
            key,
            "init.weights=w.safetensors",
            "train.max_steps=1",
        ];
        let strict = train("other", &sets);
        let arguments: Vec<&str> = strict.iter().map(String::as_str).collect();
        let error = workspace.error(&arguments);
        assert!(error.contains(".attn.mixer."), "{error}");
        assert!(
            error.contains("`init.reset_mixer = true` starts with a new one"),
            "{error}"
        );
        let reset = [&sets[..], &["init.reset_mixer=true"]].concat();
        run(train("other", &reset)).success();
        let log = workspace.read("other/log.jsonl");
        assert!(log.contains("new are `blocks.0.attn.mixer."), "{log}");
        fs_err::remove_dir_all(workspace.path("other")).unwrap();
    }
}

/// The setting with which a kind with parameters fits 17 tokens.
fn parameters(kind: &str) -> Option<&'static str> {
    match kind {
        "linformer" => Some("model.attention.rank=4"),
        "inducing" | "luna" => Some("model.attention.points=4"),
        "memory-compressed" => Some("model.attention.ratio=3"),
        "rfa" => Some("model.attention.features=8"),
        "low-rank-band" => Some("model.attention.radius=2"),
        _ => None,
    }
}
