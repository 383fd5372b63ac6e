//! Data other than a folder with splits: shards, shares of a folder, memory. Training on the images is the same for every source.

use std::path::Path;

use image::{ImageFormat, Rgb, RgbImage};
use kvt_train::run::{Event, Topic};

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
    unreadable `packed/val/000000.tar/000000003.png`: not a JPEG, PNG, WebP, BMP, TIFF or GIF file
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
    let hub = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../kvt-data/tests/fixtures/parquet/hub"
    );
    let check = ["data", "check", hub];
    let output = workspace.kvt(&check).assert().success();
    let stdout = String::from_utf8(output.get_output().stdout.clone()).unwrap();
    insta::assert_snapshot!(stdout, @r"
     split       classes  images  per class       sizes  grey  CMYK  unreadable  bad links  other formats
     train             3      22     7 to 8  6x5 to 6x5     0     0           0          0              0
     validation        3       6     2 to 2  6x5 to 6x5     0     0           0          0              0
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
    insta::assert_snapshot!(error, @"error: `data` has no Parquet files of a split `train` (`train-00000-of-00001.parquet`, ... or `train/*.parquet`): expected files as Hugging Face writes them");
}

/// Test images choose the best checkpoint only where that is wanted, and the log says which images validate.
#[test]
fn test_images_choose_nothing_in_silence() {
    let workspace = Workspace::empty();
    let hub = Path::new(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../kvt-data/tests/fixtures/parquet/hub/data"
    ));
    let copy = |from: &str, to: &str| {
        let bytes = fs_err::read(hub.join(format!("{from}.parquet"))).unwrap();
        workspace.write(&format!("hub/data/{to}.parquet"), bytes);
    };
    let photos = |split: &str, count| {
        for class in ["a", "b", "c"] {
            workspace.images(&format!("photos/{split}/{class}"), count);
        }
    };
    let part = "train-00000-of-00002";
    copy(part, part);
    copy("train-00001-of-00002", "train-00001-of-00002");
    copy(part, "train_aug-00000-of-00001");
    copy(part, "test-00000-of-00001");
    photos("train", 4);
    photos("test", 2);
    // What `kvt data check` lists: splits and their numbers of images.
    let check = |dir: &str| {
        let output = workspace.kvt(&["data", "check", dir]).output().unwrap();
        let table = String::from_utf8(output.stdout).unwrap();
        let rows = table.lines().map(|row| row.split_whitespace());
        let rows =
            rows.filter_map(|mut row| Some((row.next()?.to_owned(), row.nth(1)?.parse().ok()?)));
        rows.collect::<Vec<(String, usize)>>()
    };
    let named = |rows: &[(&str, usize)]| -> Vec<_> {
        rows.iter()
            .map(|&(split, images)| (split.to_owned(), images))
            .collect()
    };
    // The note of a run about its images.
    let places = |kind: &str, dir: &str, more: &str| {
        let set = [format!("data.kind={kind}"), format!("data.path={dir}")];
        let set = [&*set[0], &*set[1], more, "train.max_steps=1"];
        let run = format!("{kind}-{more}");
        train(&workspace, &run, &set);
        let mut notes = workspace
            .log(&run)
            .into_iter()
            .filter_map(|event| match event {
                Event::Note(note) if note.topic == Topic::Start => Some(note.message),
                _ => None,
            });
        notes.find(|note| note.ends_with(" validate")).unwrap()
    };
    for (kind, dir) in [("parquet", "hub"), ("folder", "photos")] {
        let set = [format!("data.kind={kind}"), format!("data.path={dir}")];
        let error = workspace.error(&["train", "tiny.toml", "--set", &set[0], "--set", &set[1]]);
        let expected = format!(
            "error: `{dir}` has no validation images (`val`, `valid`, `validation`, `dev`): to choose the best checkpoint by \
             its test images, set `data.val` to `test`"
        );
        assert_eq!(error.trim_end(), expected);
    }
    assert_eq!(check("hub"), named(&[("train", 22), ("test", 11)]));
    assert_eq!(check("photos"), named(&[("train", 12), ("test", 6)]));
    insta::assert_snapshot!(places("parquet", "hub", "data.val=test"), @"22 images in `hub/data/train-00000-of-00002.parquet` to `hub/data/train-00001-of-00002.parquet` (2 files) train, 11 in `hub/data/test-00000-of-00001.parquet` validate");
    insta::assert_snapshot!(places("folder", "photos", "data.val=test"), @"12 images in `photos/train` train, 6 in `photos/test` validate");

    copy("validation-00000-of-00001", "valid-00000-of-00001");
    photos("valid", 1);
    assert_eq!(
        check("hub"),
        named(&[("train", 22), ("valid", 6), ("test", 11)])
    );
    assert_eq!(
        check("photos"),
        named(&[("train", 12), ("valid", 3), ("test", 6)])
    );
    let places = |kind, dir| places(kind, dir, "data.val=val");
    assert!(
        places("parquet", "hub")
            .ends_with(", 6 in `hub/data/valid-00000-of-00001.parquet` validate")
    );
    assert!(places("folder", "photos").ends_with(", 3 in `photos/valid` validate"));
}

/// Splits are not classes, for any command.
#[test]
fn splits_are_not_divided_again() {
    let workspace = Workspace::empty();
    for place in [
        "train/a", "train/b", "valid/a", "valid/b", "test/a", "test/b",
    ] {
        workspace.images(&format!("data/{place}"), 2);
    }
    let split: [&[&str]; 3] = [
        &["train", "tiny.toml", "--set", "data.val_fraction=0.5"],
        &["data", "split", "data", "--val-fraction", "0.5"],
        &["data", "pack", "data", "out", "--val-fraction", "0.5"],
    ];
    for command in split {
        insta::allow_duplicates! {
            insta::assert_snapshot!(workspace.error(command), @"error: `data` is divided into splits already, `train`, `valid`, `test`: leave `data.val_fraction` out, or set `data.path` to the folder that holds the classes");
        }
    }
    // Shards of several splits side by side.
    workspace
        .kvt(&["data", "pack", "data", "packed"])
        .assert()
        .success();
    let move_to = |from: &str, to: &str| {
        let to = workspace.path("flat").join(to);
        fs_err::create_dir_all(to.parent().unwrap()).unwrap();
        fs_err::copy(workspace.path("packed").join(from), to).unwrap();
    };
    move_to("train/000000.tar", "train-0.tar");
    move_to("train/000000.tar", "test-0.tar");
    insta::assert_snapshot!(workspace.error(&["data", "check", "flat"]), @"error: `flat` holds the shards of several splits, `test`, `train`: move those for training into a folder `flat/train`, and those for validation into one called `val`");
    let train = [
        "train",
        "tiny.toml",
        "--set",
        "data.kind=tar",
        "--set",
        "data.path=flat",
    ];
    assert!(
        workspace
            .error(&train)
            .contains("the shards of several splits")
    );
    // Within a split, files may have any names.
    for name in ["train-0.tar", "test-0.tar"] {
        move_to("train/000000.tar", &format!("train/{name}"));
        move_to("train/000000.tar", &format!("val/{name}"));
        fs_err::remove_file(workspace.path("flat").join(name)).unwrap();
    }
    workspace.kvt(&["data", "check", "flat"]).assert().success();
    // Classes within a split may have usual names, and folders with the same names.
    for place in [
        "train/a/left",
        "train/train/left",
        "val/a/left",
        "val/train/left",
    ] {
        workspace.images(&format!("nested/{place}"), 2);
    }
    workspace
        .kvt(&["data", "check", "nested"])
        .assert()
        .success();
    // Splits, only one of which has a usual name, distinguished from classes by their classes.
    fs_err::rename(workspace.path("data/valid"), workspace.path("data/holdout")).unwrap();
    fs_err::rename(workspace.path("data/test"), workspace.path("test")).unwrap();
    for command in split {
        insta::allow_duplicates! {
            insta::assert_snapshot!(workspace.error(command), @"error: `data` holds splits, not classes: `holdout`, `train`; the images of one are in `data/train`; if these are classes after all, rename it");
        }
    }
    fs_err::rename(workspace.path("data/holdout"), workspace.path("data/valid")).unwrap();
    fs_err::rename(workspace.path("test"), workspace.path("data/test")).unwrap();
    // One of the splits is not mistaken for a class either.
    fs_err::rename(
        workspace.path("data/train"),
        workspace.path("data/Training"),
    )
    .unwrap();
    fs_err::remove_dir_all(workspace.path("data/test")).unwrap();
    for command in split {
        insta::allow_duplicates! {
            insta::assert_snapshot!(workspace.error(command), @"error: `data` holds splits, not classes: `Training`, `valid`; the images of one are in `data/valid`; if these are classes after all, rename it");
        }
    }
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

    // Nothing is packed under names that a share ignores.
    let pack = ["data", "pack", "data", "packed", "--val-fraction", "0.2"];
    let named = workspace.error(&[&pack[..], &["--splits", "train,test"]].concat());
    let expected =
        "the splits `train`, `test` are named, but a `val_fraction` makes splits of its own";
    assert!(named.contains(expected), "{named}");
    assert!(!workspace.path("packed").exists());
    // Packed, it has the same splits.
    workspace.kvt(&pack).assert().success();
    train(
        &workspace,
        "tar",
        &["data.kind=tar", "data.path=packed", "train.batch_size=4"],
    );
    assert!(state(&workspace, "tar") == state(&workspace, "run"));

    let split = Workspace::with_data(2, 1);
    let error = split.error(&["train", "tiny.toml", "--set", "data.val_fraction=0.5"]);
    insta::assert_snapshot!(error, @"error: `data` is divided into splits already, `train`, `val`: leave `data.val_fraction` out, or set `data.path` to the folder that holds the classes");
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
    let warning = "1 of 3 classes have no training images: `c`; `data.subset` is 2, ask for more";
    for (subset, is_told) in [(2, true), (3, false)] {
        let (run, subset) = (format!("of{subset}"), format!("data.subset={subset}"));
        let set = [&*subset, "train.batch_size=1", "train.max_steps=1"];
        train(&workspace, &run, &set);
        let log = workspace.read(&format!("{run}/log.jsonl"));
        assert_eq!(log.contains(warning), is_told, "{log}");
        let any = log.contains("classes have no training images");
        assert_eq!(any, is_told, "{log}");
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

#[test]
fn what_shards_hold_beside_the_samples_is_told() {
    let workspace = Workspace::empty();
    for split in ["train", "val"] {
        fs_err::create_dir_all(workspace.path(&format!("data/{split}"))).unwrap();
        let file = fs_err::File::create(workspace.path(&format!("data/{split}/0.tar"))).unwrap();
        let mut shard = tar::Builder::new(file);
        for n in 0..2_u8 {
            let mut image = std::io::Cursor::new(Vec::new());
            let picture = RgbImage::from_pixel(16, 16, Rgb([n, split.len() as u8, 0]));
            picture.write_to(&mut image, ImageFormat::Png).unwrap();
            for (ending, bytes) in [
                ("png", image.into_inner()),
                ("cls", n.to_string().into_bytes()),
                ("txt", b"a caption".to_vec()),
                ("mask.psd", Vec::new()),
            ] {
                let mut header = tar::Header::new_gnu();
                header.set_size(bytes.len() as u64);
                let name = format!("{n}.{ending}");
                shard.append_data(&mut header, name, &*bytes).unwrap();
            }
        }
        shard.into_inner().unwrap();
    }
    let expected = [
        "files of other picture formats in `data/train` are not read: 2 .mask.psd, such as `data/train/0.tar/0.mask.psd`; \
         convert them to JPEG or PNG",
        "files in `data/train` that belong to no image are not read: 2 .txt, such as \
         `data/train/0.tar/0.txt`",
    ];
    let output = workspace.kvt(&["data", "check", "data"]).assert().success();
    let stdout = String::from_utf8(output.get_output().stdout.clone()).unwrap();
    let told = stdout.lines().filter(|line| line.contains("in `train`"));
    let expected_check = [
        "not read in `train`: 2 .mask.psd, such as `data/train/0.tar/0.mask.psd`; convert them to JPEG or PNG",
        "of no image, and not read, in `train`: 2 .txt, such as `data/train/0.tar/0.txt`",
    ];
    assert_eq!(told.collect::<Vec<_>>(), expected_check);
    let train = [
        "train",
        "tiny.toml",
        "--set",
        "data.kind=tar",
        "--set",
        "train.batch_size=2",
    ];
    workspace.kvt(&train).assert().success();
    let log = workspace.log("run").into_iter();
    let told = log.filter_map(|event| match event {
        Event::Note(note) if note.message.contains("`data/train`") => Some(note.message),
        _ => None,
    });
    assert_eq!(told.collect::<Vec<_>>(), expected);
}

/// What a command warns of.
fn warnings(workspace: &Workspace, command: &[&str]) -> Vec<String> {
    let output = workspace.kvt(command).assert().success();
    let stderr = String::from_utf8(output.get_output().stderr.clone()).unwrap();
    let warnings = stderr
        .lines()
        .filter_map(|line| line.strip_prefix("warning: "));
    warnings.map(str::to_owned).collect()
}

#[test]
fn what_lies_beside_the_data_is_told() {
    let workspace = Workspace::with_data(4, 2);
    for place in ["valid/a", "test/a", "test/b", "test/c"] {
        workspace.images(&format!("data/{place}"), 1);
    }
    // Two splits for validation.
    let train = ["train", "tiny.toml", "--set", "train.max_steps=1"];
    insta::assert_snapshot!(warnings(&workspace, &train)[0], @"`data` has `val`, which is used, and also `valid`, which is not read");
    let named = [&train[..], &["--set", "data.val=valid"]].concat();
    assert!(
        workspace
            .error(&named)
            .contains("the classes of `data/valid`")
    );
    // A split that is not packed unless it is named.
    let pack = ["data", "pack", "data", "packed"];
    insta::assert_snapshot!(warnings(&workspace, &pack).join("\n"), @"`test` is not packed: `--splits train,val,test` packs it too");
    let all = ["data", "pack", "data", "all", "--splits", "train,val,test"];
    assert_eq!(warnings(&workspace, &all), [""; 0]);
    // Shards, one of which was not downloaded.
    let shard = workspace.path("packed/train/000000.tar");
    for number in [2, 3] {
        fs_err::copy(
            &shard,
            workspace.path(&format!("packed/train/00000{number}.tar")),
        )
        .unwrap();
    }
    let set = [
        "--set",
        "data.kind=tar",
        "--set",
        "data.path=packed",
        "--set",
        "run.dir=shards",
    ];
    insta::assert_snapshot!(warnings(&workspace, &[&train[..], &set].concat())[0], @"the numbered files in `packed/train` have gaps: there are files before and after `000001`; fetch what is missing");
    let check = workspace
        .kvt(&["data", "check", "packed"])
        .output()
        .unwrap();
    let check = String::from_utf8(check.stdout).unwrap();
    let missing = "missing between other numbered files of `train`: `000001`";
    assert!(check.lines().any(|line| line == missing), "{check}");
    // Once, also if both parts are of one folder.
    for name in ["000000", "000002", "000003"] {
        let to = workspace.path(&format!("whole/{name}.tar"));
        fs_err::create_dir_all(to.parent().unwrap()).unwrap();
        fs_err::copy(&shard, to).unwrap();
    }
    workspace.write("whole/README.md", "");
    let set = [
        "data.kind=tar",
        "data.path=whole",
        "data.val_fraction=0.5",
        "run.dir=share",
    ];
    let set: Vec<&str> = set.iter().flat_map(|key| ["--set", key]).collect();
    let mut said = warnings(&workspace, &[&train[..], &set].concat());
    said.retain(|warning| warning.contains("whole"));
    insta::assert_snapshot!(said.join(" / "), @"the numbered files in `whole` have gaps: there are files before and after `000001`; fetch what is missing");
    // Files where folders are expected.
    let eval = ["eval", "--run", "shards", "--data", "packed/train"];
    insta::assert_snapshot!(workspace.error(&eval), @"error: `packed/train` holds tar shards, not class folders: `data.kind = \"tar\"` reads them, where `data.path` is the folder that holds `train` and `val`");
    let mut list = workspace.kvt(&["data", "split", "packed/val", "--val-fraction", "0.5"]);
    let list = String::from_utf8(list.unwrap().stdout).unwrap();
    assert_eq!(list.lines().count(), 6, "{list}");
}
