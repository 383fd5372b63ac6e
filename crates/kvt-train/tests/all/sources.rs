//! Data other than a folder with splits: shards, shares of a folder, memory. Training on the images is the same for every source.

use crate::support::{Workspace, steps};

/// Shuffled, cropped and flipped.
const SET: [&str; 3] = [
    "augment.preset=cifar",
    "augment.padding=2",
    "data.workers=2",
];

fn train(workspace: &Workspace, run: &str, set: &[&str]) {
    let run = format!("run.dir={run:?}");
    let mut arguments = vec!["train", "tiny.toml", "--set", &run];
    let all = SET.iter().chain(set);
    arguments.extend(all.flat_map(|set| ["--set", set]));
    workspace.kvt(&arguments).assert().success();
}

fn state(workspace: &Workspace, run: &str) -> [Vec<u8>; 2] {
    ["model", "optimizer"].map(|file| {
        let file = format!("{file}.safetensors");
        fs_err::read(workspace.last_checkpoint(run).join(file)).unwrap()
    })
}

/// The shards have the same images in the same order.
#[test]
fn shards_train_as_the_folder_that_was_packed() {
    let workspace = Workspace::with_data(6, 2);
    train(&workspace, "folder", &[]);
    let pack = ["data", "pack", "data", "packed"];
    workspace.kvt(&pack).assert().success();
    assert!(workspace.error(&pack).contains("`packed` already exists"));
    let tar = ["data.kind=tar", "data.path=packed"];
    train(&workspace, "tar", &tar);
    assert!(state(&workspace, "tar") == state(&workspace, "folder"));

    // Stopped within the second epoch of three updates, and resumed from the sample where it stopped.
    train(
        &workspace,
        "cut",
        &[&tar[..], &["train.max_steps=4"]].concat(),
    );
    let resume = [
        "train",
        "tiny.toml",
        "--resume",
        "--run-dir",
        "cut",
        "--set",
        "data.kind=tar",
        "--set",
        "data.path=packed",
        "--set",
        SET[0],
        "--set",
        SET[1],
    ];
    workspace.kvt(&resume).assert().success();
    assert!(state(&workspace, "cut") == state(&workspace, "folder"));

    let value = |arguments: &[&str]| workspace.json(arguments)["top1"].clone();
    let eval = |run| value(&["eval", "--run", run, "--checkpoint", "last", "--json"]);
    assert_eq!(eval("tar"), eval("folder"));

    // The checkpoint remembers the content of the shards.
    workspace.write(
        "data/train/a/new.png",
        fs_err::read(workspace.path("data/val/a/000.png")).unwrap(),
    );
    fs_err::remove_dir_all(workspace.path("packed")).unwrap();
    workspace.kvt(&pack).assert().success();
    let error = workspace.error(&resume);
    assert!(error.contains("now there are 19 and 6"), "{error}");
}

#[test]
fn shards_are_checked() {
    let workspace = Workspace::with_data(2, 1);
    workspace.write("data/val/c/bad.png", "no image");
    workspace
        .kvt(&["data", "pack", "data", "packed", "--shard-size", "1"])
        .assert()
        .success();
    let output = workspace.kvt(&["data", "check", "packed"]).assert().code(1);
    let stdout = String::from_utf8(output.get_output().stdout.clone()).unwrap();
    insta::assert_snapshot!(stdout, @r"
     split  classes  images  per class           sizes  grey  CMYK  unreadable  bad links  other formats
     train        3       6     2 to 2  16x16 to 16x16     0     0           0          0              0
     val          3       4     1 to 2  16x16 to 16x16     0     0           1          0              0
    unreadable `packed/val/000000.tar/000000003.png`: not a JPEG, PNG, WebP or BMP file
    ");
    let shard = workspace.path("packed/train/000000.tar");
    let bytes = fs_err::read(&shard).unwrap();
    fs_err::write(&shard, &bytes[..600]).unwrap();
    insta::assert_snapshot!(workspace.error(&["data", "check", "packed"]), @"error: shard `packed/train/000000.tar`, `000000000.png`: the shard ends before it: truncated; write it again");

    // A complete archive without files.
    fs_err::write(&shard, [0; 1024]).unwrap();
    let train = [
        "train",
        "tiny.toml",
        "--set",
        "data.kind=tar",
        "--set",
        "data.path=packed",
    ];
    insta::assert_snapshot!(workspace.error(&train), @"error: the files in `packed/train` of the split `train` hold no image");
    assert!(!workspace.path("run").exists());
}

/// Written by `datasets`, and the same images packed into shards.
#[test]
fn parquet_trains_as_the_shards_that_are_made_of_it() {
    let workspace = Workspace::with_data(2, 1);
    let hub = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/parquet/hub");
    let check = ["data", "check", hub];
    let output = workspace.kvt(&check).assert().success();
    let stdout = String::from_utf8(output.get_output().stdout.clone()).unwrap();
    insta::assert_snapshot!(stdout, @r"
     split  classes  images  per class       sizes  grey  CMYK  unreadable  bad links  other formats
     train        3      22     7 to 8  6x5 to 6x5     0     0           0          0              0
     val          3       6     2 to 2  6x5 to 6x5     0     0           0          0              0
    ");
    let path = format!("data.path={hub:?}");
    let parquet = ["data.kind=parquet", &path];
    train(&workspace, "parquet", &parquet);
    workspace
        .kvt(&["data", "pack", hub, "packed"])
        .assert()
        .success();
    let tar = ["data.kind=tar", "data.path=packed"];
    train(&workspace, "tar", &tar);
    assert!(state(&workspace, "tar") == state(&workspace, "parquet"));

    // Stopped within an epoch, and resumed from the sample where it stopped.
    train(
        &workspace,
        "cut",
        &[&parquet[..], &["train.max_steps=2"]].concat(),
    );
    let mut resume = vec!["train", "tiny.toml", "--resume", "--run-dir", "cut"];
    resume.extend(SET.iter().chain(&parquet).flat_map(|set| ["--set", set]));
    workspace.kvt(&resume).assert().success();
    assert!(state(&workspace, "cut") == state(&workspace, "parquet"));

    let error = workspace.error(&[
        "train",
        "tiny.toml",
        "--set",
        "data.kind=parquet",
        "--set",
        "data.path=data",
    ]);
    insta::assert_snapshot!(error, @"error: `data` has no Parquet files of a split `train` (`train-*.parquet` or `train/*.parquet`): expected files as Hugging Face writes them");
}

/// Kept in memory after the first epoch, read again, or kept in part.
#[test]
fn memory_changes_nothing() {
    let workspace = Workspace::with_data(6, 2);
    train(&workspace, "read", &["train.epochs=3"]);
    train(&workspace, "kept", &["train.epochs=3", "data.cache=1"]);
    assert!(state(&workspace, "kept") == state(&workspace, "read"));
    let error = workspace.error(&[
        "train",
        "tiny.toml",
        "--set",
        "data.cache=1",
        "--set",
        "data.decode=scaled",
    ]);
    assert!(
        error.contains("invalid value `1` for `data.cache`: expected 0 with"),
        "{error}"
    );
}

#[test]
fn a_share_of_a_folder_validates() {
    let workspace = Workspace::empty();
    for class in ["a", "b", "c"] {
        workspace.images(&format!("data/{class}"), 10);
    }
    let share = ["data.val_fraction=0.2", "train.batch_size=4"];
    train(&workspace, "run", &share);
    let log = workspace.log("run");
    // 24 images are left for training.
    assert_eq!(steps(&log).last().unwrap().step, 12);
    let list = workspace
        .kvt(&["data", "split", "data", "--val-fraction", "0.2"])
        .assert()
        .success();
    let list = String::from_utf8(list.get_output().stdout.clone()).unwrap();
    let count = |split: &str| list.lines().filter(|line| line.starts_with(split)).count();
    assert_eq!(
        (count("train\t"), count("val\t"), list.lines().count()),
        (24, 6, 30)
    );
    let again = workspace
        .kvt(&["data", "split", "data", "--val-fraction", "0.2"])
        .assert();
    assert_eq!(list.as_bytes(), again.get_output().stdout);
    // The seed has no influence.
    let evaluated = workspace.json(&["eval", "--run", "run", "--json"]);
    assert_eq!(evaluated["images"], 6);

    // Packed, it has the same splits.
    workspace
        .kvt(&["data", "pack", "data", "packed", "--val-fraction", "0.2"])
        .assert()
        .success();
    train(
        &workspace,
        "tar",
        &["data.kind=tar", "data.path=packed", "train.batch_size=4"],
    );
    assert!(state(&workspace, "tar") == state(&workspace, "run"));

    let split = Workspace::with_data(2, 1);
    let error = split.error(&["train", "tiny.toml", "--set", "data.val_fraction=0.5"]);
    insta::assert_snapshot!(error, @"error: `data` is divided into `train` and `val` already: leave `data.val_fraction` out, or set `data.path` to the folder that holds the classes");
    let error = split.error(&[
        "train",
        "tiny.toml",
        "--set",
        "data.val_fraction=0.5",
        "--set",
        "data.kind=cifar",
    ]);
    assert!(
        error.contains("invalid value `0.5` for `data.val_fraction`: expected 0.0"),
        "{error}"
    );
}

/// Every run has the same images, independent of its seed, and so has an evaluation of them.
#[test]
fn a_subset_trains_on_fewer_images() {
    let workspace = Workspace::with_data(10, 2);
    let subset = ["data.subset=12", "train.batch_size=4"];
    train(&workspace, "run", &subset);
    assert_eq!(steps(&workspace.log("run")).last().unwrap().step, 6);
    let images = |split: &str| {
        workspace.json(&["eval", "--run", "run", "--json", "--split", split])["images"].clone()
    };
    assert_eq!(images("train"), 12);
    assert_eq!(images("val"), 6);
    let resume = ["train", "tiny.toml", "--resume", "--set", "data.subset=13"];
    assert!(workspace.error(&resume).contains("data.subset"));
    let error = workspace.error(&["train", "tiny.toml", "--set", "data.subset=31"]);
    insta::assert_snapshot!(error, @"error: `data.subset` is 31, but `data/train` has 30 training images: ask for fewer, or for all with 0");
}

#[test]
fn a_subset_without_images_of_a_class_is_told() {
    let workspace = Workspace::with_data(4, 2);
    let warning = "1 of 3 classes have no training images: with `data.subset`, ask for more";
    for (subset, is_told) in [(2, true), (3, false)] {
        let (run, subset) = (format!("of{subset}"), format!("data.subset={subset}"));
        let set = [&*subset, "train.batch_size=1", "train.max_steps=1"];
        train(&workspace, &run, &set);
        let log = workspace.read(&format!("{run}/log.jsonl"));
        assert_eq!(log.contains(warning), is_told, "{log}");
    }
}

/// Batch norms have seen the images before the unreadable one: this must leave no trace.
#[test]
fn an_update_with_an_image_that_cannot_be_read_is_not_made() {
    let set = [
        "model.name=cvt_13",
        "model.patch_stride=2",
        "data.shuffle=false",
        "train.batch_size=3",
        "train.accumulate=3",
    ];
    let whole = Workspace::with_data(6, 2);
    train(&whole, "run", &set);
    let cut = Workspace::with_data(6, 2);
    // In the second update, in its second micro-batch.
    let image = cut.path("data/train/c/001.png");
    let old = fs_err::read(&image).unwrap();
    fs_err::write(&image, "no image").unwrap();
    let mut arguments = vec!["train", "tiny.toml"];
    arguments.extend(SET.iter().chain(&set).flat_map(|set| ["--set", set]));
    let error = cut.error(&arguments);
    assert!(error.contains("`data/train/c/001.png`"), "{error}");
    assert!(error.contains("the state after step 1 is saved"), "{error}");
    fs_err::write(&image, old).unwrap();
    arguments.push("--resume");
    cut.kvt(&arguments).assert().success();
    assert!(state(&cut, "run") == state(&whole, "run"));
}

#[test]
fn what_a_killed_pack_left_is_removed_by_the_next() {
    let workspace = Workspace::with_data(2, 1);
    fs_err::create_dir_all(workspace.path(".kvt-tmp-Ab3dE6/data/train")).unwrap();
    workspace
        .kvt(&["data", "pack", "data", "shards"])
        .assert()
        .success();
    let mut left = workspace.entries(".");
    left.sort();
    assert_eq!(left, ["data", "shards", "tiny.toml"]);
}
