//! Every family of models is trained, averaged, saved, resumed and evaluated like any other.

use kvt_train::run::{EvalRecord, Event, Metric};

use crate::support::Workspace;

#[test]
fn swin() {
    trains(&[
        "model.name=swin_tiny_patch4_window7_224",
        "model.patch_size=2",
    ]);
}

#[test]
fn pit() {
    trains(&["model.name=pit_ti_distilled_224", "model.patch_stride=2"]);
}

/// Its batch norms have state outside the optimizer.
#[test]
fn cvt() {
    trains(&["model.name=cvt_13", "model.patch_stride=2"]);
}

#[test]
fn tnt() {
    trains(&[
        "model.name=tnt_s_patch16_224",
        "model.inner_dim=8",
        "model.inner_num_heads=2",
    ]);
}

/// Batch norms, and strides instead of a patch size.
#[test]
fn visformer() {
    trains(&["model.name=visformer_tiny", "model.strides=[0,2,2,2]"]);
}

/// Fixed position embeddings, and batch norms in the head.
#[test]
fn so_vit() {
    trains(&["model.name=so_vit_7", "model.strides=[2,1,1]"]);
}

#[test]
fn twins() {
    trains(&[
        "model.name=twins_svt_small",
        "model.depth=[2,1]",
        "model.window_size=4",
        "model.strides=[2,2]",
        "model.sr_ratio=[2,1]",
    ]);
}

/// With mixed tokens, each of which has a loss.
#[test]
fn volo() {
    trains(&[
        "model.name=volo_d1_224",
        "model.strides=[1,2]",
        "model.stem_dim=8",
        "model.depth=[1,1,1]",
        "mix.mix_token=1",
        "loss.token_weight=0.5",
    ]);
}

/// A model with the sizes of `tiny.toml`, and a different k in every stage.
fn trains(model: &[&str]) {
    let set = [
        "model.drop_path=0.2",
        "model.attn_drop=0.1",
        "model.attention.kind=knn",
        "model.attention.neighbors=0.5",
        "ema.decay=0.8",
    ];
    // Some families have no single patch size.
    let with_data = || {
        let workspace = Workspace::with_data(6, 2);
        if model.iter().any(|set| set.starts_with("model.strides")) {
            let tiny = workspace.read("tiny.toml");
            workspace.write("tiny.toml", tiny.replace("patch_size = 4\n", ""));
        }
        workspace
    };
    let train = |workspace: &Workspace, more: &[&str]| {
        let mut arguments = vec!["train", "tiny.toml"];
        arguments.extend(more);
        let set = model.iter().chain(&set);
        arguments.extend(set.flat_map(|set| ["--set", set]));
        workspace.kvt(&arguments).assert().success();
    };
    let state = |workspace: &Workspace| {
        ["model", "optimizer", "ema"].map(|file| {
            let file = format!("{file}.safetensors");
            fs_err::read(workspace.last_checkpoint("run").join(file)).unwrap()
        })
    };
    let whole = with_data();
    train(&whole, &[]);
    let cut = with_data();
    train(&cut, &["--set", "train.max_steps=4"]);
    assert!(state(&cut) != state(&whole));
    train(&cut, &["--resume"]);
    assert!(state(&cut) == state(&whole), "the resumed run differs");

    let log = whole.log("run");
    let logged = |split: &str| {
        log.iter().rev().find_map(|event| match event {
            Event::Eval(eval) if eval.split == split => eval.metrics.get(Metric::LOSS.name),
            _ => None,
        })
    };
    let eval = ["eval", "--run", "run", "--checkpoint", "last", "--json"];
    let (trained, ema) = (logged(EvalRecord::VAL), logged(EvalRecord::VAL_EMA));
    assert_eq!(whole.json(&eval)["loss"].as_f64(), trained);
    let found = whole.json(&[&eval[..], &["--ema"]].concat());
    assert_eq!(found["loss"].as_f64(), ema);
    assert!(ema != trained);
    maps(&whole, &name_of(model));
}

/// The value of `model.name`.
fn name_of(model: &[&str]) -> String {
    let name = model.iter().find_map(|set| set.strip_prefix("model.name="));
    name.unwrap_or_default().to_owned()
}

/// Some tokens attend to the whole image: the class token, if a model has one.
fn maps(workspace: &Workspace, name: &str) {
    let image = "data/val/a/000.png";
    let line = ["attention-map", "--run", "run", "--checkpoint", "last"];
    let of = |layer: &'static str| [&line[..], &["--layer", layer, image]].concat();
    let drawn = workspace.kvt(&of("all")).assert().success();
    let table = String::from_utf8(drawn.get_output().stdout.clone()).unwrap();
    let has_class = ["pit", "cvt", "tnt", "so_vit", "volo"].map(|family| name.starts_with(family));
    assert_eq!(
        table.contains("class token"),
        has_class.contains(&true),
        "{name}: {table}"
    );
    let picture = image::open(workspace.path("runs/attention/000-000.png"));
    assert!(picture.is_ok_and(|picture| picture.height() > 16));
    let error = workspace.error(&of("99"));
    assert!(error.contains("blocks, counted from 1"), "{error}");
    // In these families the first block attends within windows or patches.
    if ["swin", "tnt", "twins"]
        .iter()
        .any(|family| name.starts_with(family))
    {
        let error = workspace.error(&of("1"));
        assert!(error.contains("stays within windows or patches"), "{error}");
    }
}
