#![expect(clippy::unwrap_used, reason = "tests")]

use super::*;
use crate::{ClassNames, ImageLimits, SplitError, check_labels, listing_of};

/// A folder of empty images and a table `labels.csv` in it.
fn folder(images: &[&str], table: &str) -> (tempfile::TempDir, DataConfig) {
    let dir = tempfile::tempdir().unwrap();
    for image in images {
        let path = dir.path().join(image);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(path, b"").unwrap();
    }
    fs_err::write(dir.path().join("labels.csv"), table).unwrap();
    let data = DataConfig {
        path: dir.path().to_owned(),
        labels: "labels.csv".to_owned(),
        ..DataConfig::default()
    };
    (dir, data)
}

fn names(source: &Source) -> Vec<(String, &str)> {
    let name = |sample: &Sample| {
        let path = sample.path.strip_prefix(&source.root).unwrap();
        let class = &source.classes[sample.label as usize];
        (path.to_str().unwrap().to_owned(), class.as_str())
    };
    source.samples.iter().map(name).collect()
}

const SPLIT: &str =
    "path,label,split\nb.png,cat,train\na.png,dog,train\nc/d.png,cat,valid\ne.png,owl,test\n";
const IMAGES: [&str; 5] = ["a.png", "b.png", "c/d.png", "e.png", "f.png"];

#[test]
fn a_column_divides() {
    let (_dir, mut data) = folder(&IMAGES, SPLIT);
    let [train, val] = open(&data, None).unwrap();
    let own = |name: &str, class| (name.to_owned(), class);
    assert_eq!(names(&train), [own("a.png", "dog"), own("b.png", "cat")]);
    assert_eq!(names(&val), [own("c/d.png", "cat")]);
    // Not the label of a test image.
    assert_eq!(train.classes, ["cat", "dog"]);
    assert_eq!((train.notes.len(), val.notes.len()), (1, 0));
    let note = train.notes.first().unwrap();
    assert!(
        note.contains("names 1 image in") && note.contains("f.png"),
        "{note}"
    );
    let test = crate::open_split(&data, "test", None).unwrap();
    assert_eq!(names(&test), [own("e.png", "owl")]);
    data.val_fraction = 0.5;
    let error = open(&data, None).unwrap_err();
    assert!(
        matches!(error, DataError::Split(SplitError::AlreadySplit { splits, .. }) if splits == ["test", "train", "valid"])
    );
    // So are rows of names that no split usually has.
    let table = "path,label,split\nb.png,cat,fit\na.png,dog,kept\n";
    let (_dir, mut data) = folder(&IMAGES, table);
    data.val_fraction = 0.5;
    let error = open(&data, None).unwrap_err();
    assert!(
        matches!(error, DataError::Split(SplitError::AlreadySplit { splits, .. }) if splits == ["fit", "kept"])
    );
}

#[test]
fn a_file_has_one_row_whatever_its_path_is_relative_to() {
    let (dir, data) = folder(&IMAGES, SPLIT);
    let whole = dir.path().join("a.png");
    let table = format!("path,label\na.png,dog\n{},cat\n", whole.display());
    fs_err::write(dir.path().join("labels.csv"), table).unwrap();
    let error = open(&data, None).unwrap_err().to_string();
    assert!(error.contains("is in line 2 already"), "{error}");
}

#[test]
fn folders_divide_where_no_column_does() {
    let images = ["train/1.png", "val/x/2.png", "other/3.png", "4.png"];
    let table = "path,label,size\nval/x/2.png,a,1\ntrain/1.png,a,1\n4.png,b,1\nother/3.png,a,1\n";
    let (dir, mut data) = folder(&images, table);
    let [train, val] = open(&data, None).unwrap();
    assert_eq!((train.samples.len(), val.samples.len()), (1, 1));
    let notes = train.notes.join("\n");
    assert!(notes.contains("not read: `size`"), "{notes}");
    assert!(
        notes.contains("2 rows of") && notes.contains("not read: ``, `other`"),
        "{notes}"
    );
    // A table beside the folder of the images says the same.
    fs_err::create_dir(dir.path().join("tables")).unwrap();
    let beside: String = table.lines().map(|line| format!("../{line}\n")).collect();
    fs_err::write(
        dir.path().join("tables/labels.csv"),
        beside.replace("../path", "path"),
    )
    .unwrap();
    data.labels = "tables/labels.csv".to_owned();
    let [there, _] = open(&data, None).unwrap();
    assert_eq!(there.samples, train.samples);
    // Whole, each class gives its share: of the two of `a` one.
    data.val_fraction = 0.4;
    fs_err::remove_dir_all(dir.path().join("val")).unwrap();
    fs_err::write(
        dir.path().join("labels.csv"),
        "path,label\ntrain/1.png,a\nother/3.png,a\n4.png,b\n",
    )
    .unwrap();
    data.labels = "labels.csv".to_owned();
    let [train, val] = open(&data, None).unwrap();
    assert_eq!(
        (train.class_counts(), val.class_counts()),
        (vec![1, 1], vec![1, 0])
    );
}

/// As pandas writes the numbers of rows.
#[test]
fn a_column_without_a_name_is_told_in_words() {
    for (head, expected) in [
        (",path,label,split", "1 without a name"),
        ("size,path,label,split", "`size`"),
        (",path,label,split,size,", "`size` and 2 without a name"),
    ] {
        let rest = ",".repeat(head.matches(',').count() - 3);
        let table = format!("{head}\n0,a.png,x,train{rest}\n1,b.png,x,val{rest}\n");
        let (_dir, data) = folder(&["a.png", "b.png"], &table);
        let [train, _] = open(&data, None).unwrap();
        let notes = train.notes.join("\n");
        assert!(
            notes.ends_with(&format!("labels.csv` that are not read: {expected}")),
            "{notes}"
        );
    }
}

#[test]
fn the_order_of_rows_does_not_matter() {
    let turned: Vec<&str> = SPLIT.lines().skip(1).collect();
    let turned: Vec<&str> = turned.into_iter().rev().collect();
    let turned = format!("path,label,split\n{}\n", turned.join("\n"));
    let (_dir, data) = folder(&IMAGES, SPLIT);
    let (_other, other) = folder(&IMAGES, &turned);
    let listing = |data: &DataConfig| open(data, None).unwrap().map(|source| listing_of(&source));
    assert_eq!(listing(&data), listing(&other));
}

/// Also of one that is called as a number.
#[test]
fn a_list_of_classes_that_is_not_there_is_named_with_its_key() {
    let (dir, mut data) = folder(&IMAGES, SPLIT);
    data.classes = Some(ClassNames::File("300".into()));
    let error = open(&data, None).unwrap_err().to_string();
    let file = dir.path().join("300").display().to_string();
    assert!(
        error.contains(&file) && error.contains("`data.classes` is the path of a file"),
        "{error}"
    );
}

#[test]
fn mistakes_are_named() {
    let said = |table: &str, classes: Option<&str>, known: Option<&[String]>| {
        let (dir, mut data) = folder(&["a.png", "b.png", "c.heic", "notes.txt"], table);
        if let Some(classes) = classes {
            fs_err::write(dir.path().join("names.txt"), classes).unwrap();
            data.classes = Some(ClassNames::File("names.txt".into()));
        }
        open(&data, known).unwrap_err().to_string()
    };
    let known = ["x".to_owned(), "y".to_owned()];
    let both = "path,label,split\na.png,x,train\nb.png,y,val\n";
    for (table, classes, known, expected) in [
        (
            "path,label,split\na.png,x,train\n\nz.png,y,train\nb.png,x,val\n",
            None,
            None,
            ["labels.csv`, line 4: no file", "z.png"],
        ),
        (
            "path,label,split\na.png,x,train\nb.png,,val\n",
            None,
            None,
            ["line 3", "the column `label` is empty"],
        ),
        (
            "path,label,split\na.png,x,train\nc.heic,x,val\n",
            None,
            None,
            ["line 3", ".heic pictures are not read"],
        ),
        (
            "path,label,split\na.png,x,train\nnotes.txt,x,train\nb.png,x,val\n",
            None,
            None,
            [
                "labels.csv`, line 3: `notes.txt` is no picture",
                "expected .jpg, .jpeg",
            ],
        ),
        (
            both,
            Some("x\nz\n"),
            None,
            ["line 3", "the label `y` is none of the classes `x`, `z`"],
        ),
        (
            "path,label,split\na.png,x,train\nb.png,q,val\n",
            None,
            Some(&known[..]),
            ["line 3", "the label `q` is none"],
        ),
        (
            both,
            Some("x\ny\n"),
            None,
            ["labels.csv`", "no training image is of the class `y`"],
        ),
        (
            "path,label\na.png,x\nb.png,y\n",
            None,
            None,
            ["no row is of the split `train`", "set `data.val_fraction`"],
        ),
        (
            "path,label,split\na.png,x,train\nb.png,x,test\n",
            None,
            None,
            ["no validation images", "set `data.val` to `test`"],
        ),
    ] {
        let said = said(table, classes, known);
        assert!(expected.iter().all(|part| said.contains(part)), "{said}");
    }
}

/// What is in the file says what it is: the one that is no picture is an error once it is read.
#[test]
fn a_picture_may_have_no_ending() {
    let table = "path,label,split\n0a1b,x,train\nb.png,y,train\nc,x,val\n";
    let (dir, data) = folder(&["0a1b", "b.png", "c"], table);
    let pixel = image::RgbImage::from_pixel(1, 1, image::Rgb([7; 3]));
    let path = dir.path().join("0a1b");
    pixel
        .save_with_format(path, image::ImageFormat::Png)
        .unwrap();
    let [train, val] = open(&data, None).unwrap();
    let limits = ImageLimits::default();
    assert_eq!(train.image(0, limits).unwrap(), pixel);
    let error = val.image(0, limits).unwrap_err().to_string();
    assert!(error.contains("the file is empty"), "{error}");
}

#[test]
fn the_classes_of_a_run_are_those_of_the_data() {
    let table = "path,label,split\na.png,x,train\nb.png,y,val\n";
    let (dir, data) = folder(&["a.png", "b.png"], table);
    let known = ["x", "y"].map(str::to_owned);
    let classes = |data: &DataConfig| {
        let opened = crate::open_split(data, "val", Some(&known));
        opened.map_or_else(|error| error.to_string(), |source| source.classes.join(" "))
    };
    let of = |classes_of: ClassNames| {
        classes(&DataConfig {
            classes: Some(classes_of),
            ..data.clone()
        })
    };
    let listed = |text: &str| {
        fs_err::write(dir.path().join("names.txt"), text).unwrap();
        of(ClassNames::File("names.txt".into()))
    };
    assert_eq!(classes(&data), "x y");
    assert_eq!(listed("y\nx\n"), "x y");
    // The run has read it, and a pipe is empty then.
    assert_eq!(of(ClassNames::File("/dev/fd/999".into())), "x y");
    for (said, expected) in [
        (listed("x\nz\n"), "(missing: `y`; new: `z`): name those"),
        (listed("x\ny\nz\n"), "(missing: none; new: `z`)"),
        (listed(""), "(missing: `x`, `y`; new: none)"),
        (
            of(ClassNames::Count(2)),
            "(missing: `x`, `y`; new: `0`, `1`)",
        ),
    ] {
        let expected = format!("the classes of `data.classes` are not those of the run {expected}");
        assert!(
            said.contains("labels.csv`: ") && said.contains(&expected),
            "{said}"
        );
    }
    let columns = "path,x,z,split\na.png,1,0,train\nb.png,1,0,val\n";
    fs_err::write(dir.path().join("labels.csv"), columns).unwrap();
    let said = classes(&data.as_label_sets());
    let expected = "the classes of the columns are not those of the run (missing: `y`; new: `z`)";
    assert!(said.contains(expected), "{said}");
}

#[test]
fn a_check_has_all_splits() {
    let table = SPLIT.replace("owl", "dog").replace("b.png", "lost.png");
    let (_dir, data) = folder(&IMAGES, &table);
    let found = check_labels(&data, ImageLimits::default()).unwrap();
    let splits: Vec<_> = found
        .splits
        .iter()
        .map(|split| (split.name.as_str(), split.images))
        .collect();
    assert_eq!(splits, [("train", 2), ("valid", 1), ("test", 1)]);
    // Those of the folder are empty files, and one is not there.
    let bad: Vec<_> = found
        .splits
        .iter()
        .map(|split| split.unreadable.len())
        .collect();
    assert_eq!(bad, [2, 1, 1]);
    assert_eq!(found.splits.first().unwrap().notes.len(), 1);
    assert!(!found.is_sound());
}

/// Images are counted, not labels, and what helps one label is not said of several.
#[test]
fn a_check_counts_labels_by_image() {
    let table = "path,label,split\na.png,cat|dog|owl,train\nb.png,,train\nc/d.png,cat,val\n";
    let (_dir, data) = folder(&["a.png", "b.png", "c/d.png"], table);
    let found = check_labels(&data.as_label_sets(), ImageLimits::default()).unwrap();
    let splits = found.splits.iter();
    let counts: Vec<_> = splits
        .map(|split| {
            let labels = split.label_sets.unwrap();
            (
                split.images,
                labels.least,
                labels.most,
                labels.unlabelled,
                labels.mean(split.images),
            )
        })
        .collect();
    assert_eq!(counts, [(2, 0, 3, 1, 1.5), (1, 1, 1, 0, 1.0)]);
    let own = |count| ["cat", "dog", "owl"].map(|class| (class.to_owned(), count));
    assert_eq!(found.splits[0].classes, own(1));
    // With one label for each image there is nothing of this.
    let (_dir, one) = folder(&IMAGES, &SPLIT.replace("owl", "dog"));
    let found = check_labels(&one, ImageLimits::default()).unwrap();
    assert_eq!(
        (found.splits[0].images, found.splits[0].label_sets),
        (2, None)
    );
}

#[test]
fn an_image_can_have_any_number_of_labels() {
    let table = "path,label,split\nb.png,dog|cat,train\na.png,,train\nc/d.png,cat,val\n";
    let (_dir, mut data) = folder(&["a.png", "b.png", "c/d.png"], table);
    let data_of = |data: &DataConfig| open(&data.as_label_sets(), None).unwrap();
    let [train, val] = data_of(&data);
    assert_eq!(train.classes, ["cat", "dog"]);
    assert_eq!((train.labels(0), train.labels(1)), (&[][..], &[0, 1][..]));
    assert_eq!((val.labels(0), val.classes.len()), (&[0][..], 2));
    assert_eq!((train.unlabelled(), val.class_counts()), (1, vec![1, 0]));

    // A column for each class; one that no image has is a class too.
    let columns =
        "path,owl,dog,cat,split\na.png,0,0,0,train\nb.png,0,1,1,train\nc/d.png,0,0,1,val\n";
    fs_err::write(data.path.join("labels.csv"), columns).unwrap();
    let [same, _] = data_of(&data);
    assert_eq!(same.classes, ["cat", "dog", "owl"]);
    assert_eq!((same.labels(0), same.labels(1)), (&[][..], &[0, 1][..]));
    // As pandas writes them.
    let words = columns.replace(",0", ",False").replace(",1", ",true");
    fs_err::write(data.path.join("labels.csv"), words).unwrap();
    let [words, _] = data_of(&data);
    assert_eq!(
        (words.classes, words.label_sets),
        (same.classes, same.label_sets)
    );

    // Without any label there is no class either.
    for (label, expected) in [
        ("", "no image of the splits has a label"),
        ("a||b", "is empty"),
    ] {
        let rows = format!("path,label,split\nb.png,{label},train\na.png,,train\nc/d.png,,val\n");
        fs_err::write(data.path.join("labels.csv"), rows).unwrap();
        let error = open(&data.as_label_sets(), None).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }

    data.classes = Some(ClassNames::File("names.txt".into()));
    fs_err::write(data.path.join("names.txt"), "dog\ncat\n").unwrap();
    fs_err::write(data.path.join("labels.csv"), table).unwrap();
    let [named, _] = data_of(&data);
    assert_eq!((named.classes.len(), named.labels(1)), (2, &[0, 1][..]));
    for (bad, line, expected) in [
        (
            "dog|cow",
            2,
            "the label `cow` is none of the classes `dog`, `cat`",
        ),
        ("dog||cat", 2, "one of the labels `dog||cat` is empty"),
        ("dog|dog", 2, "the label `dog` is twice"),
    ] {
        fs_err::write(data.path.join("labels.csv"), table.replace("dog|cat", bad)).unwrap();
        match open(&data.as_label_sets(), None).unwrap_err() {
            DataError::Row {
                line: found,
                reason,
                ..
            } => {
                assert!(
                    found == line && reason.contains(expected),
                    "{found}: {reason}"
                );
            }
            other => unreachable!("{other}"),
        }
    }
}
