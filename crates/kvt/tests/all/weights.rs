//! `kvt weights`: the content of a file, how it fits a model, and conversion to other names.

use burn::tensor::TensorData;
use kvt_models::weights::{StateDict, read, write};

use crate::support::{Golden, Workspace};

/// timm's weights of a small PiT in `w.safetensors`, and the arguments that describe the model.
fn pit() -> (Workspace, Vec<String>) {
    let golden = Golden::read("kvt-models/tests/golden/pit_dense.safetensors");
    let workspace = Workspace::empty();
    golden.write_weights(&workspace.path("w.safetensors"));
    let config = &golden.config;
    let sizes = |key: &str| -> Vec<u64> {
        let list = config[key].as_array().unwrap().iter();
        list.map(|size| size.as_u64().unwrap()).collect()
    };
    let heads = sizes("heads");
    let dims: Vec<u64> = sizes("base_dims")
        .iter()
        .zip(&heads)
        .map(|(d, h)| d * h)
        .collect();
    let mut arguments = vec!["--model".to_owned(), "pit_ti_224".to_owned()];
    for (key, value) in [
        ("img_size", config["img_size"].to_string()),
        ("patch_size", config["patch_size"].to_string()),
        ("patch_stride", config["stride"].to_string()),
        ("embed_dim", format!("{dims:?}")),
        ("depth", config["depth"].to_string()),
        ("num_heads", format!("{heads:?}")),
        ("mlp_ratio", config["mlp_ratio"].to_string()),
    ] {
        arguments.extend(["--set".to_owned(), format!("model.{key}={value}")]);
    }
    (workspace, arguments)
}

/// `kvt weights` with the arguments of a model after the given ones.
fn weights<'a>(arguments: &[&'a str], model: &'a [String], more: &[&'a str]) -> Vec<&'a str> {
    let model = model.iter().map(String::as_str);
    let given = ["weights"].iter().chain(arguments).copied();
    given.chain(model).chain(more.iter().copied()).collect()
}

fn stdout(workspace: &Workspace, arguments: &[&str], code: i32) -> String {
    let output = workspace.kvt(arguments).assert().code(code);
    String::from_utf8(output.get_output().stdout.clone()).unwrap()
}

#[test]
fn a_file_is_listed() {
    let (workspace, _) = pit();
    let listed = stdout(&workspace, &["weights", "inspect", "w.safetensors"], 0);
    let lines: Vec<&str> = listed.lines().collect();
    let file = read(&workspace.path("w.safetensors")).unwrap();
    let numbers: usize = file.iter().map(|(_, data)| data.num_elements()).sum();
    assert!(
        lines[0].starts_with(&format!("tensors  {}, ", file.len())),
        "{listed}"
    );
    assert!(
        lines[0]
            .replace(',', "")
            .contains(&format!(" {numbers} numbers")),
        "{listed}"
    );
    assert_eq!(lines[1], "names    PiT, timm's");
    assert_eq!(lines.len(), 4 + file.len());
    let row = lines
        .iter()
        .find(|line| line.contains("pos_embed "))
        .unwrap();
    let cells: Vec<&str> = row.split("  ").filter(|cell| !cell.is_empty()).collect();
    let shape = format!("{:?}", file.get("pos_embed").unwrap().shape().to_vec());
    assert_eq!(
        cells.iter().map(|cell| cell.trim()).collect::<Vec<_>>(),
        ["pos_embed", &shape, "F32"]
    );
}

#[test]
fn types_are_those_of_the_file() {
    let workspace = Workspace::empty();
    let header = r#"{"a.bias":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]}}"#;
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.extend([0; 4]);
    workspace.write("half.safetensors", bytes);
    insta::assert_snapshot!(stdout(&workspace, &["weights", "inspect", "half.safetensors"], 0), @r"
    tensors  1, 2 numbers
    names    of no model known here

     name    shape  type
     a.bias    [2]  BF16
    ");
}

#[test]
fn weights_that_fit_are_counted() {
    let (workspace, model) = pit();
    let inspect = ["inspect", "w.safetensors"];
    let text = stdout(&workspace, &weights(&inspect, &model, &[]), 0);
    insta::assert_snapshot!(text, @r"
    pit_6-12-24x1-2-1_patch4_stride2_18, 18 px, 5 classes
    names    timm's
    weights  fit: 64 matched
    ");
    let all = stdout(&workspace, &weights(&inspect, &model, &["--all"]), 0);
    let file = read(&workspace.path("w.safetensors")).unwrap();
    let matched = all
        .lines()
        .skip(4)
        .filter(|line| line.ends_with(" matched"));
    assert_eq!(matched.count(), file.len());
}

#[test]
fn every_kind_of_misfit_has_a_row() {
    let (workspace, model) = pit();
    let file = workspace.path("w.safetensors");
    let mut changed: StateDict = read(&file)
        .unwrap()
        .into_iter()
        .filter(|(name, _)| name != "norm.bias")
        .collect();
    let bias = changed.get("head.bias").unwrap().clone();
    changed.insert("norm.weight", bias.clone());
    changed.insert("extra", bias.clone());
    changed.insert("some.num_batches_tracked", bias);
    write(&file, &changed, &Default::default()).unwrap();
    let inspect = weights(
        &["inspect", "w.safetensors"],
        &model,
        &["--set", "model.img_size=24"],
    );
    insta::assert_snapshot!(stdout(&workspace, &inspect, 1), @r"
    pit_6-12-24x1-2-1_patch4_stride2_24, 24 px, 5 classes
    names    timm's
    weights  do not fit: 61 matched, 1 resized, 1 missing, 1 mismatched, 1 computed, 1 unused

     name                  model          file     outcome
     pos_embed    [1, 6, 11, 11]  [1, 6, 8, 8]     resized
     norm.weight            [24]           [5]  mismatched
     norm.bias              [24]             -     missing
     extra                     -           [5]      unused
    ");
}

#[test]
fn names_go_there_and_back() {
    let (workspace, model) = pit();
    let there = ["convert", "w.safetensors", "official.safetensors"];
    let there = weights(&there, &model, &["--to", "official"]);
    insta::assert_snapshot!(stdout(&workspace, &there, 0), @"wrote 64 tensors of pit_6-12-24x1-2-1_patch4_stride2_18 to `official.safetensors` under the original's names (read under timm's: 64 matched)");
    let official = read(&workspace.path("official.safetensors")).unwrap();
    assert!(official.get("pools.0.conv.weight").is_some());
    let listed = stdout(
        &workspace,
        &["weights", "inspect", "official.safetensors"],
        0,
    );
    assert!(
        listed.contains("names    PiT, the original's\n"),
        "{listed}"
    );

    let back = ["convert", "official.safetensors", "back.safetensors"];
    let back = weights(&back, &model, &[]);
    insta::assert_snapshot!(stdout(&workspace, &back, 0), @"wrote 64 tensors of pit_6-12-24x1-2-1_patch4_stride2_18 to `back.safetensors` under timm's names (read under the original's: 64 matched)");
    let file = |name: &str| read(&workspace.path(name)).unwrap();
    assert_eq!(file("back.safetensors"), file("w.safetensors"));

    // An existing file is replaced only on request.
    let error = workspace.error(&back);
    insta::assert_snapshot!(error, @"error: `back.safetensors` exists: use `--force` or another name");
    let mut forced = back.clone();
    forced.push("--force");
    stdout(&workspace, &forced, 0);
}

#[test]
fn a_checkpoint_of_pytorch_becomes_safetensors() {
    let workspace = Workspace::empty();
    let golden = "kvt-models/tests/golden/deit_nested";
    let folder = crate::support::crates_dir();
    let checkpoint = folder.join(format!("{golden}.pth"));
    let expected = Golden::read(&format!("{golden}.safetensors"));
    expected.write_weights(&workspace.path("expected.safetensors"));
    let mut arguments = vec![
        "weights",
        "convert",
        checkpoint.to_str().unwrap(),
        "w.safetensors",
    ];
    arguments.extend(["--model", "deit_tiny_patch16_224"]);
    let sets: Vec<String> = [
        "img_size",
        "patch_size",
        "in_chans",
        "embed_dim",
        "depth",
        "num_heads",
        "mlp_ratio",
        "qkv_bias",
    ]
    .iter()
    .map(|key| format!("model.{key}={}", expected.config[*key]))
    .collect();
    arguments.extend(sets.iter().flat_map(|set| ["--set", set]));
    stdout(&workspace, &arguments, 0);
    let file = |name: &str| read(&workspace.path(name)).unwrap();
    assert_eq!(file("w.safetensors"), file("expected.safetensors"));
}

#[test]
fn what_cannot_be_converted_leaves_no_file() {
    let (workspace, model) = pit();
    let convert = |output, more: &[&str]| {
        workspace.error(&weights(
            &["convert", "w.safetensors", output],
            &model,
            more,
        ))
    };
    insta::assert_snapshot!(convert("out.pth", &[]), @"error: `out.pth` has another ending than `.safetensors`, the only format that is written");
    let error = convert("out.safetensors", &["--set", "model.depth=2"]);
    assert!(
        error.contains("the weights do not fit the model: "),
        "{error}"
    );
    assert!(!workspace.path("out.safetensors").exists());
    insta::assert_snapshot!(
        workspace.error(&["weights", "inspect", "w.safetensors", "--set", "model.depth=2"]),
        @"error: `--set` changes a model: name it with `--model` or `--config`"
    );
    let error = workspace.error(&["weights", "inspect", "gone.pth"]);
    assert!(error.contains("`gone.pth`"), "{error}");
}

#[test]
fn files_and_tensors_of_a_mean_are_counted() {
    let workspace = Workspace::empty();
    let mut weights = StateDict::default();
    weights.insert("norm.weight", TensorData::from([1.0_f32, 2.0]));
    for file in ["a.safetensors", "b.safetensors"] {
        write(&workspace.path(file), &weights, &Default::default()).unwrap();
    }
    let average = ["weights", "average", "--output", "c.safetensors", "--force"];
    for (files, counted) in [
        (&["a.safetensors"][..], "1 file, 1 tensor"),
        (&["a.safetensors", "b.safetensors"], "2 files, 1 tensor"),
    ] {
        let said = stdout(&workspace, &[&average[..], files].concat(), 0);
        let expected = format!("wrote the mean of {counted}, to `c.safetensors`\n");
        assert_eq!(said, expected);
    }
}
