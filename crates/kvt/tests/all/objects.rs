//! `kvt data check` of images with objects.

use crate::support::Workspace;

/// Generated scenes have annotations as COCO has them; the check of their folder counts what the masks show.
#[test]
fn annotations_of_scenes_are_checked() {
    let workspace = Workspace::empty();
    let generate = "data generate scenes --layout dense --image-size 64 --classes 3 --train-per-class 4 --val-per-class 2";
    workspace.line(generate).assert().success();
    let check = || workspace.kvt(&["data", "check", "scenes"]).assert();
    let output = check().success();
    let text = String::from_utf8_lossy(&output.get_output().stdout).into_owned();
    let json: serde_json::Value =
        serde_json::from_str(&workspace.read("scenes/annotations/train.json")).unwrap();
    let all = json["annotations"].as_array().unwrap();
    let is_crowd = |one: &&serde_json::Value| one["iscrowd"] == 1;
    let objects = all.len() - all.iter().filter(is_crowd).count();
    let row = text.lines().find(|line| line.contains("images/train"));
    let row = row.unwrap_or_else(|| unreachable!("a row of the split in\n{text}"));
    assert!(
        row.contains(" 12 ") && row.contains(&format!(" {objects} ")),
        "{text}"
    );

    // A configuration names the folders and files by itself.
    let config = "task = \"detect\"\n[model]\nname = \"swin_tiny_patch4_window7_224\"\n[detect]\nwindow_padding = \"seen\"\n\
        [data]\nkind = \"coco\"\npath = \"scenes\"\ntrain = \"images/train\"\nval = \"images/val\"\n\
        train_annotations = \"annotations/train.json\"\nval_annotations = \"annotations/val.json\"\n";
    workspace.write("objects.toml", config);
    let output = workspace.kvt(&["data", "check", "objects.toml"]).assert();
    let same = String::from_utf8_lossy(&output.success().get_output().stdout).into_owned();
    assert_eq!(same, text);

    // A missing image is named, and the check fails.
    fs_err::remove_file(workspace.path("scenes/images/val/000001.png")).unwrap();
    let output = check().failure();
    let text = String::from_utf8_lossy(&output.get_output().stdout).into_owned();
    assert!(text.contains("000001.png"), "{text}");
}

#[test]
fn classifiers_do_not_train_on_objects() {
    let workspace = Workspace::empty();
    let model =
        "[model]\nname = \"deit_tiny_patch16_224\"\n[data]\nkind = \"coco\"\npath = \"coco\"\n";
    workspace.write("objects.toml", model);
    let error = workspace.error(&["config", "check", "objects.toml"]);
    assert!(error.contains("add `task = \"detect\"`"), "{error}");
    let divided = [
        "config",
        "check",
        "objects.toml",
        "--set",
        "data.val_fraction=0.2",
    ];
    let error = workspace.error(&divided);
    let expected = "expected 0.0: images of this kind have a split for validation already";
    assert!(error.contains(expected), "{error}");
}

/// The labels themselves, written as detections, have an AP of 1 by boxes and masks; without the half of them, less.
#[test]
fn detections_are_scored() {
    let workspace = Workspace::empty();
    let generate = "data generate scenes --layout dense --image-size 64 --classes 3 --train-per-class 1 --val-per-class 3";
    workspace.line(generate).assert().success();
    let truth = "scenes/annotations/val.json";
    let json: serde_json::Value = serde_json::from_str(&workspace.read(truth)).unwrap();
    let detection = |one: &serde_json::Value| {
        serde_json::json!({
            "image_id": one["image_id"],
            "category_id": one["category_id"],
            "bbox": one["bbox"],
            "segmentation": one["segmentation"],
            "score": 0.5,
        })
    };
    let all = json["annotations"].as_array().unwrap();
    let own = all.iter().filter(|one| one["iscrowd"] != 1);
    let all: Vec<serde_json::Value> = own.map(detection).collect();
    workspace.write("all.json", serde_json::to_string(&all).unwrap());
    let found = workspace.json(&["data", "score", truth, "all.json", "--json", "--per-class"]);
    for kind in ["boxes", "masks"] {
        assert!(found[kind]["ap"].as_f64().unwrap() > 1.0 - 1e-12, "{found}");
        assert_eq!(found[kind]["classes"].as_array().unwrap().len(), 3);
    }
    let half: Vec<&serde_json::Value> = all.iter().step_by(2).collect();
    workspace.write("half.json", serde_json::to_string(&half).unwrap());
    let output = workspace
        .kvt(&["data", "score", truth, "half.json"])
        .assert();
    let output = output.success();
    let text = String::from_utf8_lossy(&output.get_output().stdout).into_owned();
    assert!(text.contains("AP50") && text.contains("masks"), "{text}");
    let found = workspace.json(&["data", "score", truth, "half.json", "--json"]);
    let ap = found["boxes"]["ap"].as_f64().unwrap();
    assert!(ap > 0.0 && ap < 1.0, "{found}");
    let error = workspace.error(&["data", "score", truth, "none.json"]);
    assert!(error.contains("none.json"), "{error}");
}
