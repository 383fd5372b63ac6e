//! A single evaluation path: the log agrees with `kvt eval`.

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
    let logged = log
        .iter()
        .rev()
        .find_map(|event| match event {
            Event::Eval(eval) => Some(eval),
            _ => None,
        })
        .unwrap();
    assert_eq!(logged.images, 15);
    let metric = |name| logged.metrics.get(name).unwrap();

    let eval = ["eval", "--run", "run", "--checkpoint", "last", "--json"];
    let found = workspace.json(&eval);
    assert_eq!(found["images"], 15);
    assert_eq!(number(&found, "loss"), metric("loss"));
    assert_eq!(number(&found, "top1"), metric("top1"));
    assert_eq!(number(&found, "top5"), metric("top5"));
    assert_eq!(number(&found, "macro_f1"), metric("macro_f1"));
    assert_eq!(number(&found, "balanced_accuracy"), metric("macro_recall"));

    let mut other = eval.to_vec();
    other.extend(["--set", "eval.batch_size=4"]);
    let found = workspace.json(&other);
    assert_eq!(number(&found, "top1"), metric("top1"));
    assert_eq!(number(&found, "top5"), metric("top5"));
    assert_eq!(number(&found, "macro_f1"), metric("macro_f1"));
    assert_eq!(number(&found, "balanced_accuracy"), metric("macro_recall"));
    assert_each_close("loss", &[number(&found, "loss")], &[metric("loss")], 1e-6);
}

/// Images of the validation split by class, and the bias of the head of [`known_head`] for each class.
const COUNTS: [usize; 6] = [3, 5, 2, 4, 1, 7];
const BIAS: [f32; 6] = [0.5, 2.0, -1.0, 0.0, 1.0, 1.5];

/// `kvt eval` of the known head.
const EVAL: [&str; 5] = [
    "eval",
    "--config",
    "tiny.toml",
    "--weights",
    "known.safetensors",
];

/// A folder with a model whose head has only a bias: it prefers the same classes for every image.
fn known_head() -> Workspace {
    let workspace = Workspace::empty();
    for (class, count) in ["a", "b", "c", "d", "e", "f"].iter().zip(COUNTS) {
        workspace.images(&format!("data/train/{class}"), 1);
        workspace.images(&format!("data/val/{class}"), count);
    }
    workspace
        .kvt(&["train", "tiny.toml", "--set", "train.max_steps=1"])
        .assert()
        .success();
    let trained = read_weights(&workspace.last_checkpoint("run").join("model.safetensors"));
    let mut known: StateDict = trained
        .iter()
        .map(|(name, data)| (name.to_owned(), data.clone()))
        .collect();
    let zeros = vec![0.0f32; floats(&trained, "head.weight").len()];
    known.insert("head.weight", TensorData::new(zeros, [6, 16]));
    known.insert("head.bias", TensorData::new(BIAS.to_vec(), [6]));
    write(
        &workspace.path("known.safetensors"),
        &known,
        &Default::default(),
    )
    .unwrap();

    workspace
}

#[test]
fn accuracy_and_loss_of_a_known_head() {
    let workspace = known_head();
    let (counts, bias) = (COUNTS, BIAS);
    let found = workspace.json(&[&EVAL[..], &["--json"]].concat());
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

/// All images are predicted as `b`, with the same probability.
#[test]
fn classes_confusion_and_calibration_of_a_known_head() {
    let workspace = known_head();
    let details = ["--json", "--per-class", "--out", "judged"];
    let found = workspace.json(&[&EVAL[..], &details].concat());
    let sum: f64 = BIAS.iter().map(|&b| f64::from(b).exp()).sum();
    let sure = f64::from(BIAS[1]).exp() / sum;
    // All shares are in percent.
    assert_eq!(found["unit"], "percent");
    let confidence = number(&found, "confidence");
    assert_each_close("confidence", &[confidence], &[100.0 * sure], 1e-6);
    // One bin: 5 of 22 are correct.
    let ece = 100.0 * (5.0 / 22.0 - sure).abs();
    assert_each_close("ece", &[number(&found, "ece")], &[ece], 1e-6);
    let balanced = number(&found, "balanced_accuracy");
    assert_each_close("balanced", &[balanced], &[100.0 / 6.0], 1e-12);
    // 2 * 5 / (5 + 22) of `b`, 0 of the five others.
    let f1 = number(&found, "macro_f1");
    assert_each_close("f1", &[f1], &[1000.0 / 27.0 / 6.0], 1e-12);
    let class = &found["classes"][1];
    assert_eq!((&class["class"], &class["right"]), (&"b".into(), &5.into()));
    assert_each_close("b", &[number(class, "precision")], &[500.0 / 22.0], 1e-12);
    // Wilson's interval of 5 of 22, from the formula's other form: the roots of (p - x)^2 = z^2 x (1 - x) / n.
    let (p, z2) = (5.0 / 22.0, 1.959_964f64.powi(2) / 22.0);
    for end in found["top1_interval"].as_array().unwrap() {
        let x = end.as_f64().unwrap() / 100.0;
        let [left, right] = [(p - x) * (p - x), z2 * x * (1.0 - x)];
        assert!(left > 0.0 && (left - right).abs() < 1e-7, "{end}");
    }
    assert_eq!(found["classes"][0]["precision"], Value::Null);
    let worst = &found["confused"][0];
    assert_eq!(
        (&worst["class"], &worst["images"]),
        (&"f".into(), &7.into())
    );

    let confusion = workspace.read("judged/confusion.csv");
    assert_eq!(confusion.lines().nth(6), Some("f,0,7,0,0,0,0"));
    let predictions = workspace.read("judged/predictions.csv");
    let rows: Vec<&str> = predictions.lines().collect();
    assert_eq!(rows.len(), 23);
    assert!(
        rows[1].starts_with("data/val/a/000.png,a,b,0."),
        "{}",
        rows[1]
    );
    assert!(
        rows[4].starts_with("data/val/b/000.png,b,b,0."),
        "{}",
        rows[4]
    );
    assert!(rows[4].ends_with(",true") && rows[1].ends_with(",false"));
    assert_eq!(workspace.read("judged/classes.csv").lines().count(), 7);
    assert!(image::open(workspace.path("judged/confusion.png")).is_ok());

    let mut output = workspace.kvt(&[&EVAL[..], &["--per-class"]].concat());
    let output = output.unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.starts_with("top-1 22.73 % (95 % interval 10.1 to 43.4)  top-5 90.91 %  loss "),
        "{text}"
    );
    assert!(
        text.contains("  (22 validation images of `data/val`)\n"),
        "{text}"
    );
    assert!(
        text.contains("\nmean accuracy of the classes 16.67 %\n"),
        "{text}"
    );
}

/// A file of `--out` that cannot be written is found before the images are evaluated.
#[test]
fn files_that_cannot_be_written_are_known_before() {
    let workspace = known_head();
    fs_err::create_dir_all(workspace.path("judged/predictions.csv")).unwrap();
    let error = workspace.error(&[&EVAL[..], &["--out", "judged"]].concat());
    assert_eq!(
        error,
        "error: could not write `judged/predictions.csv`: it is a folder\n"
    );
    assert_eq!(workspace.entries("judged"), ["predictions.csv"]);
}

/// If the training images are missing, the classes of weights come from a file.
#[test]
fn classes_from_a_file() {
    let workspace = known_head();
    let only = ["--data", "data/val", "--only-present", "--json"];
    let mut expected = workspace.json(&[&EVAL[..], &only].concat());
    assert_eq!(expected["left_out"], 0);
    // Without the training images it is not known.
    expected["left_out"] = Value::Null;
    fs_err::remove_dir_all(workspace.path("data/train")).unwrap();
    let without = [&EVAL[..], &only, &["--set", "model.num_classes=6"]].concat();
    let error = workspace.error(&without);
    assert!(error.contains("give them with `--classes FILE`"), "{error}");
    // As an editor on Windows writes them.
    workspace.write("names.txt", "\u{feff}a\r\nb\r\nc\r\nd\r\ne\r\nf\r\n");
    let with = [&without[..], &["--classes", "names.txt"]].concat();
    assert_eq!(workspace.json(&with), expected);
    // Some of the classes, in a separate folder.
    fs_err::rename(workspace.path("data/val/b"), workspace.path("b")).unwrap();
    assert_eq!(workspace.json(&with)["images"], 17);
    workspace.write("names.txt", "a\nb\n");
    let error = workspace.error(&with);
    assert!(
        error.contains("`names.txt` names 2 classes, but the model has 6"),
        "{error}"
    );
}

/// Among `a`, `c` and `d` the head prefers `a`.
#[test]
fn some_of_the_classes() {
    let workspace = known_head();
    let only = ["--only", "d,a, c", "--json"];
    let found = workspace.json(&[&EVAL[..], &only].concat());
    assert_eq!(number(&found, "images"), 9.0);
    assert_each_close("top1", &[number(&found, "top1")], &[300.0 / 9.0], 1e-12);
    let sum: f64 = [0, 2, 3].map(|c| f64::from(BIAS[c]).exp()).iter().sum();
    let sure = f64::from(BIAS[0]).exp() / sum;
    assert_each_close(
        "confidence",
        &[number(&found, "confidence")],
        &[100.0 * sure],
        1e-6,
    );
    // The same from a file with a byte-order mark, and from a folder without other classes.
    workspace.write("some.txt", "\u{feff}a\nc\nd\n");
    let file = ["--only", "@some.txt", "--json"];
    assert_eq!(workspace.json(&[&EVAL[..], &file].concat()), found);
    for class in ["a", "c", "d"] {
        let from = workspace.path(&format!("data/val/{class}"));
        fs_err::create_dir_all(workspace.path("some")).unwrap();
        fs_err::rename(from, workspace.path("some").join(class)).unwrap();
    }
    let folder = ["--data", "some", "--only-present", "--json"];
    let mut present = workspace.json(&[&EVAL[..], &folder].concat());
    assert_eq!(present["data"], "some");
    assert_eq!(
        (&present["split"], &found["split"]),
        (&Value::Null, &"val".into())
    );
    for key in ["data", "split"] {
        present[key] = found[key].clone();
    }
    assert_eq!(present, found);
    // With three classes there is no top-5.
    let mut output = workspace.kvt(&[&EVAL[..], &folder[..3]].concat());
    let text = String::from_utf8(output.unwrap().stdout).unwrap();
    assert!(
        text.starts_with("top-1 33.33 % (95 % interval 12.1 to 64.6)  loss "),
        "{text}"
    );
    assert!(text.ends_with("chosen among 3 of 6 classes\n"), "{text}");
}

/// A run that validates on a share of a folder is not evaluated on the rest of it, by whatever path the folder is given.
#[test]
fn images_that_were_trained_on_are_left_out() {
    let workspace = Workspace::empty();
    for class in ["a", "b", "c"] {
        workspace.images(&format!("photos/{class}"), 8);
    }
    let train = ["train", "tiny.toml", "--set", "data.path=photos"];
    let share = ["--set", "data.val_fraction=0.25"];
    let train = [&train[..], &share].concat();
    workspace.kvt(&train).assert().success();
    let own = workspace.json(&["eval", "--run", "run", "--json"]);
    assert_eq!((&own["images"], &own["left_out"]), (&6.into(), &0.into()));
    let trained = workspace.json(&["eval", "--run", "run", "--json", "--split", "train"]);
    assert_eq!(
        (&trained["images"], &trained["split"]),
        (&18.into(), &"train".into())
    );
    for folder in ["photos", "./photos/../photos"] {
        for only in [&[][..], &["--only-present"]] {
            let eval = ["eval", "--run", "run", "--json", "--data", folder];
            let found = workspace.json(&[&eval[..], only].concat());
            assert_eq!(found["left_out"], 18, "{folder}");
            for key in ["images", "loss", "top1"] {
                assert_eq!(found[key], own[key], "{folder} {key}");
            }
        }
    }
    let said = |arguments: &[&str]| {
        let output = workspace
            .kvt(arguments)
            .assert()
            .success()
            .get_output()
            .clone();
        [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap())
    };
    let warning = "warning: 18 of the 24 images of `photos` are training images";
    let [text, warnings] = said(&["eval", "--run", "run", "--data", "photos"]);
    assert!(
        text.contains("  (6 images of `photos`, without 18 that were trained on)\n"),
        "{text}"
    );
    assert!(warnings.contains(warning), "{warnings}");
    // From another folder, where `photos` of the configuration would be another folder or none.
    workspace.images("elsewhere/photos/a", 3);
    let away = ["eval", "--run", "../run", "--json", "--data", "../photos"];
    let mut away = workspace.kvt(&away);
    away.current_dir(workspace.path("elsewhere"));
    let found: Value =
        serde_json::from_slice(&away.assert().success().get_output().stdout).unwrap();
    assert_eq!(
        (&found["left_out"], &found["top1"]),
        (&18.into(), &own["top1"])
    );
    // Other data are those of the folder where the command runs.
    let elsewhere = |set: &str| {
        let mut eval = workspace.kvt(&["eval", "--run", "../run", "--set", set]);
        eval.current_dir(workspace.path("elsewhere"));
        eval
    };
    elsewhere("data={val_fraction=0.25}").assert().success();
    elsewhere("data . path=photos").assert().failure();
    let mut other = elsewhere("data.path=photos");
    let error = String::from_utf8(other.assert().failure().get_output().stderr.clone()).unwrap();
    assert!(
        error.contains("the classes of `photos` are not those expected"),
        "{error}"
    );
    // The other verbs that judge a folder.
    let probe = [
        "probe", "--method", "knn", "--run", "run", "--data", "photos",
    ];
    let [text, warnings] = said(&[&probe[..], &["--neighbors", "1", "--json"]].concat());
    let found: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(number(&found[0], "images"), 6.0);
    assert!(warnings.contains(warning), "{warnings}");
    let [text, warnings] = said(&["analyze", "--run", "run", "--data", "photos"]);
    assert!(text.contains("over 6 images of `photos`"), "{text}");
    assert!(warnings.contains(warning), "{warnings}");
    let report = ["report", "run", "--data", "photos", "--out", "r.html"];
    let [_, warnings] = said(&report);
    assert!(warnings.contains(warning), "{warnings}");
    let page = workspace.read("r.html");
    assert!(
        page.contains(
            "on 6 images of <code>photos</code>, without 18 that were trained on, checkpoint"
        ),
        "{page}"
    );
    // Where nothing would be left, and where it cannot be known.
    #[cfg(unix)]
    {
        let list = said(&["data", "split", "photos", "--val-fraction", "0.25"]);
        for name in list[0]
            .lines()
            .filter_map(|line| line.strip_prefix("train\t"))
        {
            let link = workspace.path("seen").join(name);
            fs_err::create_dir_all(link.parent().unwrap()).unwrap();
            std::os::unix::fs::symlink(workspace.path("photos").join(name), link).unwrap();
        }
        let error = workspace.error(&["eval", "--run", "run", "--data", "seen"]);
        assert!(
            error.contains("all 18 images of `seen` are training images")
                && error.contains("`kvt eval --split train`"),
            "{error}"
        );
    }
    fs_err::rename(workspace.path("photos"), workspace.path("moved")).unwrap();
    let lost = elsewhere("eval.batch_size=2").assert().failure();
    let lost = String::from_utf8(lost.get_output().stderr.clone()).unwrap();
    assert!(
        lost.contains("warning: the images of run `../run` are no longer in `"),
        "{lost}"
    );
    let [_, warnings] = said(&["eval", "--run", "run", "--data", "moved"]);
    assert!(
        warnings.contains("warning: whether images of `moved` were trained on is not known"),
        "{warnings}"
    );
}

fn number(found: &Value, name: &str) -> f64 {
    found[name].as_f64().unwrap()
}
