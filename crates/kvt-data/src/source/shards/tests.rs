#![expect(clippy::unwrap_used, reason = "tests")]

use fs_err as fs;

use super::*;
use crate::{ClassError, ClassOrder, ImageLimits, pack};

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
    let dir = folder(&[("b.TAR", second), ("a.tar", first), (".c.tar", b"".into())]);
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
        ("b.TAR/0.png".to_owned(), 1, "again"),
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
    let no_image = shard(&[("0.psd", b"x"), ("0.cls", b"0")]);
    assert_eq!(fault(no_image), of("0.cls", ShardFault::NoImage));
    let two = shard(&[("0.jpg", b"x"), ("0.png", b"y"), ("0.cls", b"0")]);
    assert_eq!(fault(two), of("0.png", ShardFault::Second("image")));
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
    let source = source.relabelled(Some(&names(&["a", "b"]))).unwrap();
    assert_eq!(
        (source.classes.as_slice(), source.samples[0].label),
        (&names(&["a", "b"])[..], 0)
    );
    assert!(matches!(
        source.relabelled(Some(&names(&["a", "c"]))),
        Err(DataError::Classes(ClassError::ClassesDiffer { missing, extra, .. })) if missing == ["c"] && extra == ["b"]
    ));
    // With the byte-order mark of an editor.
    fs::write(dir.path().join(CLASSES), "\u{feff}[\"b\", \"a\"]").unwrap();
    assert_eq!(open(dir.path(), None).unwrap().classes, ["b", "a"]);
    let error = |list: &str| {
        fs::write(dir.path().join(CLASSES), list).unwrap();
        open(dir.path(), None).unwrap_err()
    };
    let invalid = error("{}").to_string();
    assert!(invalid.contains("no JSON list"), "{invalid}");
    // Two classes with the same name would be one.
    let twice = error(r#"["crane", "owl", "crane"]"#);
    assert!(
        matches!(twice, DataError::Classes(ClassError::TwoClasses { class, .. }) if class == "crane")
    );
    // A link that leads nowhere is no missing list.
    #[cfg(unix)]
    {
        fs::remove_file(dir.path().join(CLASSES)).unwrap();
        std::os::unix::fs::symlink("gone.json", dir.path().join(CLASSES)).unwrap();
        let message = open(dir.path(), None).unwrap_err().to_string();
        assert!(
            message.starts_with("no file `") && message.contains(CLASSES),
            "{message}"
        );
    }
}

/// A member of another type, with what it names.
fn typed(kind: EntryType, name: &str, target: &str) -> Vec<u8> {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(0);
    let mut builder = tar::Builder::new(Vec::new());
    builder.append_link(&mut header, name, target).unwrap();
    without_end(builder.into_inner().unwrap())
}

/// The members of an archive alone.
fn without_end(mut archive: Vec<u8>) -> Vec<u8> {
    archive.truncate(archive.len() - 1024);
    archive
}

const END: [u8; 1024] = [0; 1024];

#[test]
fn a_hard_link_is_the_file_that_it_names() {
    let files = without_end(shard(&[
        ("0.png", b"zero"),
        ("0.cls", b"1"),
        ("plain", b"two"),
    ]));
    let link = |name: &str, target: &str| typed(EntryType::Link, name, target);
    let links = [
        link("1.png", "0.png"),
        link("1.cls", "0.cls"),
        // Through a link, and to a file without an ending.
        link("2.cls", "1.cls"),
        link("2.png", "plain"),
    ];
    let dir = folder(&[("a.tar", [&files, &links.concat(), &END[..]].concat())]);
    let source = open(dir.path(), None).unwrap();
    let read = |sample: &Sample| source.bytes(sample, ImageLimits::default()).unwrap();
    let found: Vec<_> = source.samples.iter().map(|s| (read(s), s.label)).collect();
    let expected = [
        (b"zero".to_vec(), 1),
        (b"zero".to_vec(), 1),
        (b"two".to_vec(), 1),
    ];
    assert_eq!(found, expected);

    for target in ["3.png", "9.png"] {
        let late = without_end(shard(&[("3.cls", b"1"), ("9.png", b"x")]));
        let bad = [&files, &link("3.png", target), &late, &END[..]].concat();
        let what = format!("a hard link to `{target}`, which is no file before it in the shard");
        let expected = (Some("3.png".to_owned()), ShardFault::NotAFile(what));
        assert_eq!(fault(bad), expected);
    }
}

#[test]
fn what_could_be_an_image_or_a_label_is_read_or_named() {
    let whole = without_end(shard(&[("0.png", b"x"), ("0.cls", b"0")]));
    let with = |member: &[u8]| [&whole, member, &END[..]].concat();
    let of = |name: &str, what| (Some(name.to_owned()), what);
    let symbolic = ShardFault::NotAFile("a symbolic link to `0.png`".to_owned());
    let member = typed(EntryType::Symlink, "1.png", "0.png");
    assert_eq!(fault(with(&member)), of("1.png", symbolic));
    let pipe = ShardFault::NotAFile("not a regular file".to_owned());
    assert_eq!(
        fault(with(&typed(EntryType::Fifo, "1.cls", "x"))),
        of("1.cls", pipe)
    );
    // No sample could be lost by those.
    for member in [
        typed(EntryType::Symlink, "1.json", "0.json"),
        typed(EntryType::Directory, "1.png/", "x"),
    ] {
        let dir = folder(&[("a.tar", with(&member))]);
        assert_eq!(open(dir.path(), None).unwrap().samples.len(), 1);
    }

    let twice = shard(&[("0.png", b"x"), ("0.cls", b"0"), ("0.cls", b"1")]);
    assert_eq!(fault(twice), of("0.cls", ShardFault::Second("label")));
    // The first 32 bytes are another number.
    let digits = format!("{:>32}5", "1");
    let long = shard(&[("0.png", b"x"), ("0.cls", digits.as_bytes())]);
    assert_eq!(fault(long), of("0.cls", ShardFault::LongLabel(33)));
    let longest = shard(&[("0.png", b"x"), ("0.cls", &digits.as_bytes()[1..])]);
    let dir = folder(&[("a.tar", longest)]);
    assert_eq!(open(dir.path(), None).unwrap().samples[0].label, 15);
}

#[test]
fn nothing_but_zeros_follows_the_end() {
    let whole = shard(&[("0.png", b"x"), ("0.cls", b"0")]);
    let end = whole.len();
    // Records of GNU tar have 20 blocks.
    let padded = [&whole[..], &[0; 9000]].concat();
    assert!(open(folder(&[("a.tar", padded)]).path(), None).is_ok());
    // As `cat` joins them, and with a header that was overwritten.
    let joined = [&whole[..], &whole].concat();
    assert_eq!(fault(joined), (None, ShardFault::Behind(end as u64)));
    let mut zeroed = shard(&[
        ("0.png", b"x"),
        ("0.cls", b"0"),
        ("1.png", b"y"),
        ("1.cls", b"1"),
    ]);
    zeroed[2048..2048 + 512].fill(0);
    assert_eq!(fault(zeroed), (None, ShardFault::Behind(2048 + 512)));
    for at in [end, end + 8999] {
        let mut other = [&whole[..], &[0; 9000]].concat();
        other[at] = 1;
        assert_eq!(fault(other), (None, ShardFault::Behind(at as u64)));
    }
    // One block of zeros alone is no end.
    assert_eq!(
        fault(whole[..end - 512].to_vec()),
        (None, ShardFault::NoEnd)
    );
}

#[test]
fn what_is_not_read_is_counted() {
    let files = shard(&[
        ("0.png", b"x"),
        ("0.cls", b"0"),
        ("0.txt", b"a caption"),
        ("0.seg.PNG", b"another picture"),
        ("1.psd", b"x"),
        ("1.jpg", b"y"),
        ("1.cls", b"1"),
        ("1.txt", b"another"),
        ("._1.txt", b"of another system"),
        ("README", b""),
    ]);
    let source = open(
        folder(&[("a.tar", files.clone()), ("b.tar", files)]).path(),
        None,
    )
    .unwrap();
    let counts = |found: &OtherFormats| {
        let counts = found
            .0
            .iter()
            .map(|(ending, kind)| (ending.clone(), kind.count));
        counts.collect::<Vec<_>>()
    };
    let expected = |list: &[(&str, usize)]| {
        let list = list
            .iter()
            .map(|&(ending, count)| (ending.to_owned(), count));
        list.collect::<Vec<_>>()
    };
    assert_eq!(counts(&source.others), expected(&[("psd", 2)]));
    assert_eq!(
        counts(&source.beside),
        expected(&[("seg.png", 2), ("txt", 4)])
    );
    let example = &source.beside.0["txt"].example;
    assert_eq!(example, &source.root.join("a.tar/0.txt"));
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
