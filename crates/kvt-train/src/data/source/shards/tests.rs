#![expect(clippy::unwrap_used, reason = "tests")]

use super::*;
use crate::data::{ClassOrder, ImageLimits, pack};

/// A shard with these files.
fn shard(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (name, bytes) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        builder.append_data(&mut header, name, *bytes).unwrap();
    }
    builder.into_inner().unwrap()
}

fn folder(shards: &[(&str, Vec<u8>)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, bytes) in shards {
        fs::write(dir.path().join(name), bytes).unwrap();
    }
    dir
}

fn fault(shard: Vec<u8>) -> (Option<String>, ShardFault) {
    let dir = folder(&[("a.tar", shard)]);
    match open(dir.path(), None).unwrap_err() {
        DataError::Shard {
            shard,
            member,
            fault,
        } => {
            assert_eq!(shard, dir.path().join("a.tar"));
            (member, fault)
        }
        other => unreachable!("{other}"),
    }
}

#[test]
fn images_and_labels_are_found_where_they_lie() {
    let long = format!("{}/7.jpg", "deep/".repeat(40));
    let first = shard(&[
        ("0.jpg", b"zero"),
        ("0.cls", b"2\n"),
        // The label first, an extension in capitals, an ignored file, dots in the name.
        ("x/1.cls", b"0"),
        ("x/1.JPEG", b"one"),
        ("x/1.json", b"{}"),
        ("x/._2.jpg", b"of another system"),
        ("3.seg.png", b"not an image of the sample"),
        (&long, b"seven"),
        (&long.replace("jpg", "cls"), b"1"),
    ]);
    let second = shard(&[("0.png", b"again"), ("0.cls", b"1")]);
    let dir = folder(&[("b.tar", second), ("a.tar", first), (".c.tar", b"".into())]);
    let source = open(dir.path(), None).unwrap();
    assert_eq!(source.classes, ["0", "1", "2"]);
    let read = |sample: &Sample| {
        let bytes = source.bytes(sample, ImageLimits::default()).unwrap();
        let name = sample.path.strip_prefix(dir.path()).unwrap().to_owned();
        (
            name.to_str().unwrap().to_owned(),
            sample.label,
            String::from_utf8(bytes).unwrap(),
        )
    };
    let found: Vec<_> = source.samples.iter().map(read).collect();
    let expected = [
        ("a.tar/0.jpg".to_owned(), 2, "zero"),
        ("a.tar/x/1.JPEG".to_owned(), 0, "one"),
        (format!("a.tar/{long}"), 1, "seven"),
        ("b.tar/0.png".to_owned(), 1, "again"),
    ];
    assert_eq!(
        found,
        expected.map(|(name, label, text)| (name, label, text.to_owned()))
    );
}

#[test]
fn what_is_wrong_with_a_shard_is_named() {
    let whole = shard(&[
        ("0.jpg", &[7; 2000]),
        ("0.cls", b"0"),
        ("1.jpg", &[8; 700]),
        ("1.cls", b"1"),
    ]);
    let of = |name: &str, what| (Some(name.to_owned()), what);
    let no_label = shard(&[("0.jpg", b"x"), ("1.jpg", b"y"), ("1.cls", b"0")]);
    assert_eq!(fault(no_label), of("0.jpg", ShardFault::NoLabel));
    let no_image = shard(&[("0.tif", b"x"), ("0.cls", b"0")]);
    assert_eq!(fault(no_image), of("0.cls", ShardFault::NoImage));
    let two = shard(&[("0.jpg", b"x"), ("0.png", b"y"), ("0.cls", b"0")]);
    assert_eq!(fault(two), of("0.png", ShardFault::TwoImages));
    for text in ["cat", "-1", "", "4294967296"] {
        let label = text.to_owned();
        let bad = shard(&[("0.jpg", b"x"), ("0.cls", text.as_bytes())]);
        let classes = None;
        assert_eq!(
            fault(bad),
            of("0.jpg", ShardFault::Label { label, classes })
        );
    }
    assert!(matches!(
        fault(b"no archive, however long".repeat(50)).1,
        ShardFault::Damaged(_)
    ));

    // It is damaged if truncated anywhere, even after a whole sample: each header has 512 bytes, contents are padded to whole blocks.
    assert_eq!(
        fault(whole[..512 + 1000].to_vec()),
        of("0.jpg", ShardFault::Truncated)
    );
    assert_eq!(
        fault(whole[..512 + 2048 + 1024].to_vec()),
        (None, ShardFault::NoEnd)
    );
    for length in 0..whole.len() - 1024 {
        let dir = folder(&[("a.tar", whole[..length].to_vec())]);
        assert!(open(dir.path(), None).is_err(), "{length}");
    }
    assert!(open(folder(&[("a.tar", whole)]).path(), None).is_ok());
    let none = folder(&[("a.txt", Vec::new())]);
    assert!(matches!(
        open(none.path(), None),
        Err(DataError::NoShards(_))
    ));
    assert!(matches!(
        open(&none.path().join("x"), None),
        Err(DataError::NoShards(_))
    ));
}

#[test]
fn names_of_classes_are_those_of_the_list() {
    let bytes = || shard(&[("0.jpg", b"x"), ("0.cls", b"1")]);
    let names = |list: &[&str]| list.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
    let dir = folder(&[("a.tar", bytes())]);
    let given = open(dir.path(), Some(&names(&["cat", "dog", "owl"]))).unwrap();
    assert_eq!(given.classes, ["cat", "dog", "owl"]);
    let few = open(dir.path(), Some(&names(&["cat"]))).unwrap_err();
    let message = few.to_string();
    assert!(
        message.contains("label `1` is not a whole number below 1"),
        "{message}"
    );

    fs::write(dir.path().join(CLASSES), r#"["b", "a"]"#).unwrap();
    let source = open(dir.path(), Some(&names(&["cat", "dog", "owl"]))).unwrap();
    assert_eq!(
        (source.classes.as_slice(), source.samples[0].label),
        (&names(&["b", "a"])[..], 1)
    );
    let source = source.relabelled(&names(&["a", "b"])).unwrap();
    assert_eq!(
        (source.classes.as_slice(), source.samples[0].label),
        (&names(&["a", "b"])[..], 0)
    );
    assert!(matches!(
        source.relabelled(&names(&["a", "c"])),
        Err(DataError::ClassesDiffer { missing, extra, .. }) if missing == ["c"] && extra == ["b"]
    ));
    // With the byte-order mark of an editor.
    fs::write(dir.path().join(CLASSES), "\u{feff}[\"b\", \"a\"]").unwrap();
    assert_eq!(open(dir.path(), None).unwrap().classes, ["b", "a"]);
    // Two classes with the same name would be one.
    for list in ["{}", r#"["crane", "crane"]"#] {
        fs::write(dir.path().join(CLASSES), list).unwrap();
        assert!(matches!(
            open(dir.path(), None),
            Err(DataError::ClassList { .. })
        ));
    }
}

#[test]
fn an_identifier_is_not_the_number_of_a_class() {
    let dir = folder(&[("a.tar", shard(&[("0.jpg", b"x"), ("0.cls", b"4000000000")]))]);
    let message = open(dir.path(), None).unwrap_err().to_string();
    assert!(message.contains("4000000000"), "{message}");
}

#[test]
fn a_packed_folder_comes_back() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    for (n, name) in ["b/2.JPEG", "a/1.png", "b/sub/1.jpg", "a/3.bmp"]
        .iter()
        .enumerate()
    {
        fs::create_dir_all(at(&format!("in/{name}")).parent().unwrap()).unwrap();
        fs::write(at(&format!("in/{name}")), vec![n as u8; 1000 * n]).unwrap();
    }
    let source = Source::open(at("in"), ClassOrder::Byte).unwrap();
    let mut done = 0;
    let splits = [("train", &source), ("val", &source)];
    let packed = pack(&splits, &at("out/here"), 1500, &mut |count| done = count).unwrap();
    // With 1000, 3000, 0 and 2000 bytes, sorted: the second image fills the first shard.
    assert_eq!((packed.images, packed.shards, done), (8, 4, 8));
    let found = open(&at("out/here/train"), None).unwrap();
    assert_eq!(found.classes, source.classes);
    assert_eq!(found.samples.len(), source.samples.len());
    for (old, new) in source.samples.iter().zip(&found.samples) {
        let limits = ImageLimits::default();
        assert_eq!(old.label, new.label);
        assert_eq!(
            old.path.extension().unwrap().to_ascii_lowercase(),
            new.path.extension().unwrap()
        );
        assert_eq!(
            source.bytes(old, limits).unwrap(),
            found.bytes(new, limits).unwrap()
        );
    }
    assert!(matches!(
        pack(&splits, &at("out/here"), 1, &mut |_| {}),
        Err(DataError::Exists(_))
    ));

    // If an image is missing, no output is left behind.
    fs::remove_file(at("in/a/1.png")).unwrap();
    assert!(matches!(
        pack(&splits, &at("out/there"), 1, &mut |_| {}),
        Err(DataError::Decode(_))
    ));
    let left: Vec<_> = fs::read_dir(at("out"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(left, ["here"]);
}
