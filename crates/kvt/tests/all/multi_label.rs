//! What a user of several labels for each image sees.

use image::{Rgb, RgbImage};
use serde_json::json;

use crate::support::Workspace;

/// Three pictures in four have the label `red` or `blue` or both, eight of twelve are for training; no image has `owl`.
fn workspace() -> Workspace {
    let workspace = Workspace::empty();
    let mut table = "path,red,blue,owl,split\n".to_owned();
    for index in 0..12_u32 {
        let (red, blue) = (index % 2, index / 2 % 2);
        let pixel = [red, 0, blue].map(|on| on as u8 * (200 + index as u8));
        let name = format!("data/{index:02}.png");
        workspace.write(&name, b"");
        let picture = RgbImage::from_pixel(16, 16, Rgb(pixel));
        picture.save(workspace.path(&name)).unwrap();
        let split = if index < 8 { "train" } else { "val" };
        table += &format!("{index:02}.png,{red},{blue},0,{split}\n");
    }
    workspace.write("data/labels.csv", table);
    let tiny = workspace.read("tiny.toml");
    let tiny = tiny.replace(
        "path = \"data\"\n",
        "path = \"data\"\nlabels = \"labels.csv\"\n",
    );
    let tiny = tiny.replace("epochs = 2\nbatch_size = 6", "epochs = 12\nbatch_size = 4");
    let tiny = tiny.replace("lr = 1e-3", "lr = 1e-2");
    workspace.write("tiny.toml", format!("task = \"multi-label\"\n{tiny}"));
    workspace
}

#[test]
fn labels_are_trained_judged_predicted_and_reported() {
    let workspace = workspace();
    let output = workspace.kvt(&["train", "tiny.toml"]).assert().success();
    let said = String::from_utf8_lossy(&output.get_output().stderr).into_owned();
    for text in [
        "best  mAP ",
        "next  kvt eval --run run --per-class",
        "1 of 3 classes have no training images: `owl`",
        "2 and 1 of them have no label",
    ] {
        assert!(said.contains(text), "{text}: {said}");
    }
    assert!(!said.contains("data.subset"), "{said}");
    assert!(
        workspace
            .read("run/epochs.csv")
            .contains("val_map,val_micro_f1,val_macro_f1")
    );

    let judge = "eval --run run --json --per-class --out judged";
    let words: Vec<&str> = judge.split(' ').collect();
    let json = workspace.json(&words);
    assert_eq!(
        (&json["images"], &json["unlabelled"]),
        (&json!(4), &json!(1))
    );
    assert_eq!(
        (&json["split"], &json["absent"]),
        (&json!("val"), &json!(["owl"]))
    );
    let map = json["map"].as_f64().unwrap();
    let evals = workspace.log("run").into_iter();
    let evals = evals.filter_map(|event| match event {
        kvt_train::run::Event::Eval(eval) => eval.metrics.get("map"),
        _ => None,
    });
    // The best of the log is that of the checkpoint that was evaluated.
    assert_eq!(Some(map), evals.reduce(f64::max));
    assert_eq!(json["classes"].as_array().unwrap().len(), 3);
    let table = workspace.read("judged/labels.csv");
    assert_eq!(table.lines().count(), 4);
    // An earlier result is replaced, but neither the run's own table of labels nor another one.
    workspace
        .line("eval --run run --out judged")
        .assert()
        .success();
    assert_eq!(workspace.read("judged/labels.csv"), table);
    let labels = workspace.read("data/labels.csv");
    workspace.write("mine/labels.csv", &labels);
    for (folder, why) in [
        ("data", "is read by this command"),
        ("mine", "is no earlier result"),
    ] {
        let error = workspace.error(&["eval", "--run", "run", "--out", folder]);
        assert!(error.contains(why), "{error}");
        assert!(
            error.contains("labels.csv`") && error.contains(": choose another"),
            "{error}"
        );
        assert_eq!(workspace.read(&format!("{folder}/labels.csv")), labels);
    }
    #[cfg(target_os = "linux")]
    {
        workspace.unprinted("eval --run run --out unprinted");
        assert_eq!(workspace.read("unprinted/labels.csv"), table);
    }
    let text = workspace.kvt(&["eval", "--run", "run"]).assert().success();
    let text = String::from_utf8_lossy(&text.get_output().stdout).into_owned();
    assert!(
        text.starts_with(&format!("mAP {map:.2} %  micro F1 ")),
        "{text}"
    );
    assert!(text.contains("leave out: `owl`"), "{text}");

    // Another threshold for one class changes what is predicted, not the probabilities.
    let image = "data/09.png";
    let predict = |more: &[&str]| {
        let words = [&["predict", "--run", "run", "--json", image], more].concat();
        workspace.json(&words)[0]["top"].clone()
    };
    let all = predict(&["--top", "3"]);
    let all = all.as_array().unwrap();
    assert_eq!(all.len(), 3);
    let everything = predict(&["--set", "multi_label.threshold=0"]);
    assert_eq!(everything.as_array().unwrap(), all);
    let without =
        "multi_label.thresholds=[\"red = 0.999999\", \"blue = 0.999999\", \"owl = 0.999999\"]";
    assert_eq!(predict(&["--set", without]), json!([]));

    // What speaks for the most probable label, or for another one, and its own probability.
    for (class, is_named) in [(&all[0], false), (&all[2], true)] {
        let name = class["class"].as_str().unwrap();
        let mut command = vec!["attribution-map", "--run", "run", "--out", "maps", image];
        if is_named {
            command.extend(["--class", name]);
        }
        let output = workspace.kvt(&command).assert().success();
        let said = String::from_utf8_lossy(&output.get_output().stdout).into_owned();
        let percent = 100.0 * class["probability"].as_f64().unwrap();
        let row = said.lines().find(|line| line.contains(name)).unwrap();
        let found = row.split_once(" %").unwrap().0.rsplit(' ').next().unwrap();
        let found: f64 = found.parse().unwrap();
        assert!((found - percent).abs() < 0.02, "{percent}: {said}");
    }

    let report = ["report", "run", "--eval", "--samples", "1"];
    workspace.kvt(&report).assert().success();
    let page = workspace.read("run/report.html");
    for text in ["mAP ", " %, micro F1 ", "Per class (3)", "threshold"] {
        assert!(page.contains(text), "{text}");
    }
}

#[test]
fn a_check_counts_images_and_labels() {
    let workspace = workspace();
    let check = || {
        let output = workspace
            .kvt(&["data", "check", "tiny.toml"])
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let lines = text
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
        (output.status.success(), lines.collect::<Vec<_>>())
    };
    let (is_sound, lines) = check();
    assert!(is_sound, "{lines:?}");
    for line in [
        "train 3 8 0 to 4 16x16 to 16x16 0 0 0 0 0",
        "train 8 0 to 2, mean 1.00 2",
        "val 4 0 to 2, mean 1.00 1",
        "blue 4 2",
        "red 4 2",
        "owl 0 0",
    ] {
        assert!(lines.iter().any(|found| found == line), "{line}: {lines:?}");
    }
    // `owl` becomes rare: what is advised is not what the task refuses.
    let table = workspace.read("data/labels.csv");
    let rare = table.replace("07.png,1,1,0", "07.png,1,1,1");
    let rare = rare.replace(",0,0,train", ",1,0,train");
    assert!(rare != table);
    workspace.write("data/labels.csv", rare);
    let (_, lines) = check();
    let advice = lines
        .iter()
        .find(|line| line.starts_with("unbalanced"))
        .unwrap();
    assert!(advice.ends_with("judge by mAP and macro F1"), "{advice}");
    let config = workspace
        .kvt(&["config", "check", "tiny.toml"])
        .assert()
        .success();
    let said = |output: &std::process::Output| String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!said(config.get_output()).contains("data.labels"));
    fs_err::remove_file(workspace.path("data/labels.csv")).unwrap();
    let config = workspace
        .kvt(&["config", "check", "tiny.toml"])
        .output()
        .unwrap();
    assert!(
        said(&config).contains("labels.csv`, as `data.labels` says"),
        "{}",
        said(&config)
    );
}

#[test]
fn what_does_not_apply_is_refused() {
    let workspace = workspace();
    workspace
        .kvt(&["train", "tiny.toml", "--set", "train.epochs=1"])
        .assert()
        .success();
    for (command, expected) in [
        (
            "eval --run run --data data",
            "`--data` is for one class per image",
        ),
        (
            "eval --run run --only red",
            "`--only` is for one class per image",
        ),
        ("report run --data data", "an image one label"),
        ("probe --method knn --run run", "any number of labels"),
        (
            "predict --run run data/00.png --set multi_label.thresholds=[\"cat=0.4\"]",
            "names `cat`, but the classes are `blue`, `owl`, `red`",
        ),
        (
            "train tiny.toml --set run.dir=other --set multi_label.thresholds=[\"cat=0.4\"]",
            "names `cat`",
        ),
    ] {
        let words: Vec<&str> = command.split(' ').collect();
        let error = workspace.error(&words);
        assert!(error.contains(expected), "{command}: {error}");
    }
    // Another loss is no help, which this task refuses.
    let weights = "train tiny.toml --set run.dir=other --set loss.class_weights=inverse";
    let words: Vec<&str> = weights.split(' ').collect();
    let error = workspace.error(&words);
    assert!(error.trim_end().ends_with("help: leave it out"), "{error}");
    let table = workspace
        .read("data/labels.csv")
        .replace("03.png,1", "03.png,yes");
    workspace.write("data/labels.csv", table);
    let error = workspace.error(&["train", "tiny.toml", "--set", "run.dir=other"]);
    assert!(
        error.contains("labels.csv`, line 5: the column `red` is `yes`"),
        "{error}"
    );
}
