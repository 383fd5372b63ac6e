//! Unreadable images, broken links, ignored files, and data that changes under a run.

use std::time::Duration;

use image::{Rgb, RgbImage};
use kvt_train::config::load_plan;
use kvt_train::data::{DataError, DataState, FolderError};
use kvt_train::run::{Event, Note, Topic};
use kvt_train::splits::Splits;

use crate::support::{Workspace, save, set};

/// Stops a command that would hang: far longer than any of them takes.
const BOUND: Duration = Duration::from_secs(300);

/// As `Workspace::error`, for commands that may hang instead.
fn bounded_error(workspace: &Workspace, arguments: &[&str]) -> String {
    let output = workspace.kvt(arguments).timeout(BOUND).assert().code(1);
    let stderr = String::from_utf8(output.get_output().stderr.clone()).unwrap();
    let start = stderr.rfind("error: ").unwrap();
    stderr[start..].to_owned()
}

fn notes(workspace: &Workspace, topic: Topic) -> Vec<Note> {
    let note = |event| match event {
        Event::Note(note) if note.topic == topic => Some(note),
        _ => None,
    };
    workspace.log("run").into_iter().filter_map(note).collect()
}

#[test]
fn an_epoch_without_a_readable_image_ends_the_run() {
    let workspace = Workspace::with_data(6, 2);
    for class in ["a", "b", "c"] {
        for index in 0..6 {
            workspace.write(&format!("data/train/{class}/{index:03}.png"), "no image");
        }
    }
    let error = bounded_error(
        &workspace,
        &["train", "tiny.toml", "--set", "data.on_error=skip"],
    );
    insta::assert_snapshot!(error, @"error: none of the 18 images in `data/train` can be read: run `kvt data check` to see why; the state after step 0 is saved; `--resume` continues from there");
    // The log names the first unreadable image.
    assert_eq!(
        notes(&workspace, Topic::Skipped)[0].message,
        "not a JPEG, PNG, WebP, BMP, TIFF or GIF file (unreadable image 1 of this pass)"
    );
}

#[test]
fn images_may_have_so_many_pixels() {
    let workspace = Workspace::with_data(6, 2);
    let large = RgbImage::from_pixel(20, 20, Rgb([9; 3]));
    save(&workspace.path("data/train/a/large.png"), &large);
    let train = ["train", "tiny.toml", "--set", "data.max_pixels=300"];
    insta::assert_snapshot!(workspace.error(&train), @"error: could not decode `data/train/a/large.png`: 20 x 20 pixels are more than `data.max_pixels` = 300; the state after step 0 is saved; `--resume` continues from there");
    // The same run continues if the image is skipped, or with a higher limit.
    let resume = [&train[..], &["--resume", "--set", "data.on_error=skip"]].concat();
    workspace.kvt(&resume).assert().success();
    assert_eq!(notes(&workspace, Topic::Skipped).len(), 2);

    let predict = |limit| {
        let arguments = [
            "predict",
            "--run",
            "run",
            "data/train/a/large.png",
            "data/train/a/000.png",
            "--set",
            limit,
        ];
        workspace.kvt(&arguments).assert()
    };
    predict("data.max_pixels=400").success();
    let output = predict("data.max_pixels=399").code(1);
    let stderr = String::from_utf8_lossy(&output.get_output().stderr).into_owned();
    assert!(stderr.contains("20 x 20 pixels"), "{stderr}");
    let stdout = String::from_utf8_lossy(&output.get_output().stdout).into_owned();
    assert!(stdout.contains("data/train/a/000.png"), "{stdout}");

    let check = |limit| {
        let arguments = ["data", "check", "data", "--max-pixels", limit];
        workspace.kvt(&arguments).assert()
    };
    check("400").success();
    check("399").code(1);
}

#[cfg(unix)]
#[test]
fn pipes_and_dead_links_are_unreadable_images() {
    use std::os::unix::fs::symlink;

    let workspace = Workspace::with_data(6, 2);
    let at = |name: &str| workspace.path(name);
    symlink("../gone/1.png", at("data/train/a/dead.png")).unwrap();
    insta::assert_snapshot!(workspace.error(&["train", "tiny.toml"]), @"error: could not decode `data/train/a/dead.png`: a link to `../gone/1.png` that leads nowhere: No such file or directory (os error 2); the state after step 0 is saved; `--resume` continues from there");
    fs_err::remove_dir_all(at("run")).unwrap();

    let made = std::process::Command::new("mkfifo")
        .arg(at("data/train/b/pipe.png"))
        .status();
    assert!(made.unwrap().success());
    let train = ["train", "tiny.toml", "--set", "data.on_error=skip"];
    workspace.kvt(&train).timeout(BOUND).assert().success();
    let mut reasons: Vec<_> = notes(&workspace, Topic::Skipped)
        .into_iter()
        .filter_map(|note| note.path)
        .collect();
    reasons.sort();
    reasons.dedup();
    assert_eq!(reasons, ["data/train/a/dead.png", "data/train/b/pipe.png"]);

    let predict = ["predict", "--run", "run", "data/train/b/pipe.png"];
    insta::assert_snapshot!(bounded_error(&workspace, &predict), @"error: could not decode `data/train/b/pipe.png`: a named pipe, not a file");
}

#[cfg(unix)]
#[test]
fn folders_behind_bad_links_are_not_passed_over() {
    use std::os::unix::fs::symlink;

    let workspace = Workspace::with_data(6, 2);
    let at = |name: &str| workspace.path(name);
    let train = || workspace.error(&["train", "tiny.toml"]);
    symlink("/gone/more", at("data/train/a/more")).unwrap();
    insta::assert_snapshot!(train(), @"error: could not list `data/train/a/more`: a link to `/gone/more` that leads nowhere: No such file or directory (os error 2); repair or remove it");
    fs_err::remove_file(at("data/train/a/more")).unwrap();
    symlink(".", at("data/train/a/circle")).unwrap();
    insta::assert_snapshot!(train(), @"error: could not list `data/train/a/circle`: a link in a circle, to the folder `data/train/a` that contains it; repair or remove it");
    fs_err::remove_file(at("data/train/a/circle")).unwrap();
    symlink("/gone/d", at("data/train/d")).unwrap();
    insta::assert_snapshot!(train(), @"error: could not list `data/train/d`: a link to `/gone/d` that leads nowhere: No such file or directory (os error 2); repair or remove it");
    assert!(!at("run").exists());
}

#[test]
fn other_formats_are_noted_once() {
    let workspace = Workspace::with_data(6, 2);
    for name in ["a/2.HEIC", "a/1.heic", "b/1.avif", "b/notes.txt"] {
        workspace.write(&format!("data/train/{name}"), "");
    }
    workspace.kvt(&["train", "tiny.toml"]).assert().success();
    let warnings = notes(&workspace, Topic::Warning);
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    insta::assert_snapshot!(warnings[0].message, @"files of other picture formats in `data/train` are not read: 1 .avif, such as `data/train/b/1.avif`; 2 .heic, such as `data/train/a/1.heic`; convert them to JPEG or PNG");
}

/// Before the first step, however late they would be evaluated, and for each task.
#[test]
fn a_run_without_validation_images_does_not_start() {
    let workspace = Workspace::empty();
    for class in ["a", "b", "c"] {
        workspace.images(&format!("data/{class}"), 1);
    }
    let train = |set: &str| {
        let share = ["train", "tiny.toml", "--set", "data.val_fraction=0.2"];
        workspace.error(&[&share[..], &["--set", set]].concat())
    };
    insta::assert_snapshot!(train("train.eval_every=0"), @"error: no class of `data` has two images, so `data.val_fraction` leaves none for validation: add images, or name a folder of images for validation in `data.val`");
    assert_eq!(train("task=dino"), train("train.eval_every=1"));
    let split = ["data", "split", "data", "--val-fraction", "0.2"];
    assert_eq!(workspace.error(&split), train("train.epochs=1"));
    assert!(!workspace.path("run").exists());

    // One class has enough.
    workspace.images("data/c", 6);
    let share = ["train", "tiny.toml", "--set", "data.val_fraction=0.2"];
    workspace.kvt(&share).assert().success();
    let warnings = notes(&workspace, Topic::Warning);
    insta::assert_snapshot!(warnings[0].message, @"2 of 3 classes have no validation images: `a`, `b`; nothing measures how well they are recognised");
}

/// Their stacks are larger than the memory.
#[cfg(target_os = "linux")]
#[test]
fn threads_that_do_not_start_are_an_error() {
    let workspace = Workspace::with_data(2, 1);
    for line in ["train tiny.toml", "data check data"] {
        let mut command = assert_cmd::Command::new("sh");
        let limited = format!("ulimit -v 8000000 && exec \"$0\" {line}");
        command.current_dir(workspace.path(""));
        command.args(["-c", &limited, crate::support::KVT]);
        command.env("RUST_MIN_STACK", (16_u64 << 30).to_string());
        command.timeout(BOUND);
        let output = command.assert().code(1);
        let stderr = String::from_utf8_lossy(&output.get_output().stderr).into_owned();
        assert!(!stderr.contains("panicked"), "{stderr}");
        assert!(
            stderr.contains("error: could not start the threads that compute: "),
            "{stderr}"
        );
    }
}

/// Every verb that reads a folder says what of it is not read, once, in the same words.
#[test]
fn other_formats_are_told_by_every_verb() {
    let workspace = Workspace::with_data(6, 2);
    workspace.kvt(&["train", "tiny.toml"]).assert().success();
    for class in ["a", "b"] {
        workspace.images(&format!("photos/{class}"), 4);
    }
    for file in ["data/train/a/1", "data/val/b/1", "photos/a/1"] {
        for ending in ["PSD", "jfif"] {
            workspace.write(&format!("{file}.{ending}"), "");
        }
    }
    let warning = |root: &str, class: &str| {
        let file = format!("{root}/{class}/1");
        format!(
            "warning: files of other picture formats in `{root}` are not read: 1 .jfif, such as `{file}.jfif`; 1 .psd, such as \
             `{file}.PSD`; convert them to JPEG or PNG\n"
        )
    };
    let [train, val] = [warning("data/train", "a"), warning("data/val", "b")];
    let photos = warning("photos", "a");
    let of_run = |line: &str| format!("{line} --run run");
    for (line, expected) in [
        (of_run("eval"), vec![&val]),
        (of_run("eval --split train"), vec![&train]),
        (of_run("eval --data data/val"), vec![&val]),
        (of_run("analyze"), vec![&val]),
        (of_run("probe --method knn"), vec![&train, &val]),
        (of_run("logits --output l.safetensors"), vec![&train]),
        (of_run("predict photos"), vec![&photos]),
        (of_run("attention-map --out maps photos"), vec![&photos]),
        ("report run --eval".to_owned(), vec![&val]),
        (
            "data split photos --val-fraction 0.5".to_owned(),
            vec![&photos],
        ),
        (
            "data pack photos shares --val-fraction 0.5".to_owned(),
            vec![&photos],
        ),
        ("data pack data shards".to_owned(), vec![&train, &val]),
        ("config preview tiny.toml".to_owned(), vec![&train, &val]),
        (
            "bench loader tiny.toml --images 6 --rounds 1".to_owned(),
            vec![&train, &val],
        ),
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        let output = workspace.kvt(&words).assert().success();
        let said = String::from_utf8(output.get_output().stderr.clone()).unwrap();
        let found = said.matches("files of other picture formats").count();
        assert_eq!(found, expected.len(), "{line}: {said}");
        for warning in expected {
            assert!(said.contains(warning.as_str()), "{line}: {said}");
        }
    }
}

#[cfg(unix)]
#[test]
fn the_check_goes_on_to_the_end() {
    use std::os::unix::fs::symlink;

    let workspace = Workspace::with_data(2, 1);
    let at = |name: &str| workspace.path(name);
    symlink("gone.png", at("data/train/a/dead.png")).unwrap();
    symlink(".", at("data/train/b/circle")).unwrap();
    workspace.write("data/train/b/1.heic", "");
    workspace.write("data/val/c/bad.png", "no image");
    let output = workspace.kvt(&["data", "check", "data"]).assert().code(1);
    let stdout = String::from_utf8(output.get_output().stdout.clone()).unwrap();
    insta::assert_snapshot!(stdout, @r"
     split  classes  images  per class           sizes  grey  CMYK  unreadable  bad links  other formats
     train        3       7     2 to 3  16x16 to 16x16     0     0           0          2              1
     val          3       4     1 to 2  16x16 to 16x16     0     0           1          0              0
    image `data/train/a/dead.png`: a link to `gone.png` that leads nowhere: No such file or directory (os error 2)
    could not list `data/train/b/circle`: a link in a circle, to the folder `data/train/b` that contains it
    not read in `train`: 1 .heic, such as `data/train/b/1.heic`; convert them to JPEG or PNG
    unreadable `data/val/c/bad.png`: not a JPEG, PNG, WebP, BMP, TIFF or GIF file
    ");
}

#[test]
fn other_contents_are_noticed_on_resume() {
    let workspace = Workspace::with_data(6, 2);
    let train = ["train", "tiny.toml", "--set", "train.max_steps=3"];
    workspace.kvt(&train).assert().success();
    let resume = ["train", "tiny.toml", "--resume"];
    let image = workspace.path("data/train/b/003.png");
    let old = fs_err::read(&image).unwrap();
    // Still a PNG: data after its end is ignored.
    fs_err::write(&image, [&old[..], b"more"].concat()).unwrap();
    insta::assert_snapshot!(workspace.error(&resume), @"error: the data of run `run` has changed: files have the same names but other sizes: restore the data to resume, or use `--set data.check_sizes=false` if they were changed on purpose, or use another `run.dir` to start a new run");

    // On purpose.
    let accept = [
        &resume[..],
        &[
            "--set",
            "data.check_sizes=false",
            "--set",
            "train.max_steps=4",
        ],
    ];
    workspace.kvt(&accept.concat()).assert().success();
    // That checkpoint has no sizes; the next one does.
    let more = [&resume[..], &["--set", "train.max_steps=5"]].concat();
    workspace.kvt(&more).assert().success();
    fs_err::write(&image, old).unwrap();
    let error = workspace.error(&resume);
    assert!(error.contains("other sizes"), "{error}");
}

#[test]
fn images_are_known_by_what_does_not_depend_on_their_place() {
    let workspace = Workspace::with_data(3, 1);
    let state = |data: &str, sets: &[&str]| {
        let mut sets: Vec<String> = sets.iter().map(|&text| text.to_owned()).collect();
        sets.push(set("data.path", &workspace.path(data)));
        let plan = load_plan(&workspace.path("tiny.toml"), &sets).unwrap();
        let splits = Splits::open(&plan, (16, 16), None, &mut |_, _| {});
        splits.map(|splits| splits.state())
    };
    let here = state("data", &[]).unwrap();
    fs_err::rename(workspace.path("data"), workspace.path("moved")).unwrap();
    assert_eq!(state("moved", &[]).unwrap(), here);
    let without = state("moved", &["data.check_sizes=false"]).unwrap();
    assert_eq!((without.listing, without.sizes), (here.listing, None));

    let image = workspace.path("moved/val/a/000.png");
    fs_err::write(&image, "another size").unwrap();
    let resized = state("moved", &[]).unwrap();
    assert_eq!(resized.listing, here.listing);
    assert_ne!(resized.sizes, here.sizes);
    assert!(!resized.agrees(&here) && resized.agrees(&without) && without.agrees(&here));
    fs_err::rename(&image, workspace.path("moved/val/a/001.png")).unwrap();
    let renamed = state("moved", &[]).unwrap();
    assert_ne!(renamed.listing, here.listing);
    assert!(!renamed.agrees(&without));

    // In the format of older versions.
    let old = format!(r#"{{"train": 9, "val": 3, "listing": {}}}"#, here.listing);
    let old: DataState = serde_json::from_str(&old).unwrap();
    assert!(old.agrees(&here) && here.agrees(&old) && !old.agrees(&renamed));

    let missing = state("data", &[]).unwrap_err();
    assert!(
        matches!(missing, DataError::Folder(FolderError::MissingFolder(_))),
        "{missing}"
    );
}
