#![expect(clippy::unwrap_used, reason = "tests")]

use image::{Rgb, RgbImage};
use tempfile::TempDir;

use super::*;
use crate::data::{ImageLimits, pack};

/// Files of `datasets` and of pyarrow, by `scripts/reference/parquet_files.py`.
const FILES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/parquet");

fn variant(name: &str) -> Result<Source, DataError> {
    let file = Path::new(FILES).join(format!("{name}.parquet"));
    open(Path::new(FILES), &[file], "label", None)
}

fn fault(error: DataError) -> ParquetFault {
    match error {
        DataError::Parquet { fault, .. } => fault,
        other => unreachable!("{other}"),
    }
}

/// The rule of the script.
fn picture(number: u32) -> RgbImage {
    let label = number % 3;
    RgbImage::from_fn(6, 5, |x, y| {
        let levels = [7 * number + 11 * x, 23 * y + 40 * label, number * x * y];
        Rgb(levels.map(|level| (level % 256) as u8))
    })
}

fn decoded(source: &Source, index: usize) -> Result<RgbImage, String> {
    let limits = ImageLimits::default();
    let bytes = source.bytes(&source.samples[index], limits)?;
    Ok(source.picture(&bytes, limits)?.image)
}

/// Dictionaries, plain values, several pages, both versions of pages, packed or not.
#[test]
fn however_it_is_written_it_is_the_same() {
    for name in [
        "plain",
        "plain_pages",
        "plain_v2",
        "dictionary",
        "dictionary_v2",
        "dictionary_full",
        "numbers",
    ] {
        let source = variant(name).unwrap();
        assert_eq!(source.classes, ["0", "1", "2"], "{name}");
        assert_eq!(source.samples.len(), 12, "{name}");
        // In no order.
        for index in [11, 0, 6, 7, 3, 10, 1, 2, 9, 8, 5, 4] {
            assert_eq!(source.samples[index].label, index as u32 % 3, "{name}");
            let found = decoded(&source, index).unwrap();
            assert!(found == picture(index as u32), "{name} {index}");
        }
        let path = format!("{FILES}/{name}.parquet/00000010");
        assert_eq!(source.samples[10].path, Path::new(&path));
    }
}

/// As a repository of the Hub is laid out, and moved into folders.
#[test]
fn files_of_a_split_are_found_by_their_names() {
    let hub = Path::new(FILES).join("hub");
    let names = |files: Vec<PathBuf>| -> Vec<String> {
        let names = files.iter().map(|file| file.strip_prefix(&hub).unwrap());
        names
            .map(|name| name.to_str().unwrap().to_owned())
            .collect()
    };
    let train = [
        "data/train-00000-of-00002.parquet",
        "data/train-00001-of-00002.parquet",
    ];
    let val = ["data/validation-00000-of-00001.parquet"];
    assert_eq!(names(files(&hub, "train")), train);
    assert_eq!(names(files(&hub, "val")), val);
    assert_eq!(names(all_files(&hub)), [&train[..], &val].concat());
    assert!(files(&hub, "trai").is_empty() && files(&hub, "test").is_empty());

    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    fs::create_dir(at("train")).unwrap();
    for name in [
        "train/b.parquet",
        "train/a.parquet",
        "train/.c.parquet",
        "test.parquet",
        "val_1.txt",
    ] {
        fs::write(at(name), b"").unwrap();
    }
    assert_eq!(
        files(dir.path(), "train"),
        [at("train/a.parquet"), at("train/b.parquet")]
    );
    assert_eq!(files(dir.path(), "val"), [at("test.parquet")]);
}

#[test]
fn the_classes_have_their_names() {
    let hub = Path::new(FILES).join("hub");
    let source = open(&hub, &files(&hub, "train"), "label", None).unwrap();
    assert_eq!(source.classes, ["cat", "dog", "ship"]);
    assert!(!source.is_numbered);
    for index in [21, 0, 10, 11] {
        assert!(decoded(&source, index).unwrap() == picture(index as u32));
    }
    let name = "data/train-00001-of-00002.parquet/00000000";
    assert_eq!(source.samples[11].path, hub.join(name));

    // Files of one split that do not agree.
    let dir = tempfile::tempdir().unwrap();
    let mixed = [
        files(&hub, "val"),
        vec![Path::new(FILES).join("plain.parquet")],
    ]
    .concat();
    let error = fault(open(dir.path(), &mixed, "label", None).unwrap_err());
    assert_eq!(error, ParquetFault::OtherClasses(mixed[0].clone()));
}

#[test]
fn names_that_stand_twice_are_told_apart() {
    let note = r#"{"info": {"features": {"label": {"names": ["crane", "dog", "crane"]}}}}"#;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.parquet");
    // The note of a file, by one of the same length.
    let bytes =
        fs::read(Path::new(FILES).join("hub/data/validation-00000-of-00001.parquet")).unwrap();
    let start = bytes
        .windows(9)
        .position(|part| part == br#"{"info": "#)
        .unwrap();
    let length = bytes[start..].iter().position(|&byte| byte < b' ').unwrap();
    let mut changed = bytes;
    changed[start..start + length].fill(b' ');
    changed[start..start + note.len()].copy_from_slice(note.as_bytes());
    fs::write(&path, changed).unwrap();
    let source = open(dir.path(), &[path], "label", None).unwrap();
    assert_eq!(source.classes, ["crane (0)", "dog", "crane (2)"]);
}

#[test]
fn what_is_wrong_with_a_file_is_named() {
    let words = |name| {
        let text = variant(name).unwrap_err().to_string();
        text.replace(FILES, "DIR")
    };
    insta::assert_snapshot!(words("zstd"), @"`DIR/zstd.parquet`: column `image.bytes` is compressed with ZSTD, which is not read: write the file again with SNAPPY");
    insta::assert_snapshot!(words("delta"), @"`DIR/delta.parquet`: column `image.bytes` is encoded as DELTA_LENGTH_BYTE_ARRAY, which is not read: write the file again with PLAIN");
    insta::assert_snapshot!(words("no_label"), @"`DIR/no_label.parquet`: column `label`, row 4: there is no label; leave the row out, or give it one");
    insta::assert_snapshot!(words("no_labels"), @"`DIR/no_labels.parquet`: column `label`, row 0: label -1 is not a number from 0; -1 in all rows is a split without labels");

    let file = Path::new(FILES).join("plain.parquet");
    let open = |label, names: Option<&[String]>| {
        let error = open(Path::new(FILES), std::slice::from_ref(&file), label, names).unwrap_err();
        error.to_string().replace(FILES, "DIR")
    };
    insta::assert_snapshot!(open("fine_label", None), @"`DIR/plain.parquet`: no column `fine_label` of whole numbers: name that of the labels in `data.label_column`; there are `image.bytes`, `image.path`, `label`");
    let two = ["a", "b"].map(str::to_owned);
    insta::assert_snapshot!(open("label", Some(&two)), @"`DIR/plain.parquet`: column `label`, row 2: label 2 is not a number from 0 to 1; -1 in all rows is a split without labels");

    // Images that are not there are images that cannot be read.
    let source = variant("nulls").unwrap();
    for index in 0..12 {
        match decoded(&source, index) {
            Ok(found) => assert!(found == picture(index as u32), "{index}"),
            Err(reason) => {
                assert!(reason.contains("`image.bytes` is empty"), "{reason}");
                assert!([3, 7].contains(&index));
            }
        }
    }
}

fn changed(dir: &TempDir, bytes: &[u8]) -> Result<Source, DataError> {
    let path = dir.path().join("x.parquet");
    fs::write(&path, bytes).unwrap();
    open(dir.path(), &[path], "label", None)
}

#[test]
fn a_file_that_is_cut_off_is_damaged() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = fs::read(Path::new(FILES).join("dictionary.parquet")).unwrap();
    for length in 0..bytes.len() {
        let error = fault(changed(&dir, &bytes[..length]).unwrap_err());
        assert!(matches!(error, ParquetFault::Damaged(_)), "{length}");
    }
}

/// A page may be all images of a group: they are read in their order without reading it again.
#[test]
fn a_page_is_read_once_for_images_in_their_order() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["plain", "dictionary"] {
        let bytes = fs::read(Path::new(FILES).join(format!("{name}.parquet"))).unwrap();
        let source = changed(&dir, &bytes).unwrap();
        assert!(decoded(&source, 0).unwrap() == picture(0));
        fs::remove_file(dir.path().join("x.parquet")).unwrap();
        // Groups of seven rows.
        for index in [6, 1, 0] {
            let found = decoded(&source, index).unwrap();
            assert!(found == picture(index as u32), "{name} {index}");
        }
        assert!(decoded(&source, 7).is_err());
        // A file in the same place is another one.
        let other = changed(
            &dir,
            &fs::read(Path::new(FILES).join("nulls.parquet")).unwrap(),
        );
        assert!(decoded(&other.unwrap(), 3).is_err());
    }
}

/// Shards know an image by its ending, which a row does not have: one of another format would be lost among them.
#[test]
fn what_is_not_an_image_is_not_packed() {
    let dir = tempfile::tempdir().unwrap();
    let whole = fs::read(Path::new(FILES).join("plain.parquet")).unwrap();
    for start in [*b"GIF89a", *b"no img"] {
        let mut bytes = whole.clone();
        while let Some(at) = bytes.windows(6).position(|part| part == b"\x89PNG\r\n") {
            bytes[at..at + 6].copy_from_slice(&start);
        }
        let source = changed(&dir, &bytes).unwrap();
        let out = dir.path().join("out");
        let error = pack(&[("train", &source)], &out, 1 << 20, &mut |_| {}).unwrap_err();
        let expected = "x.parquet/00000000`: not a JPEG, PNG, WebP or BMP file";
        assert!(error.to_string().ends_with(expected), "{error}");
        assert!(!out.exists());
    }
}
