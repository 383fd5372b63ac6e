#![expect(clippy::unwrap_used, reason = "tests")]

use flate2::Compression;
use flate2::write::GzEncoder;

use super::*;

/// A `.tgz` of these files. Names are written as they are, since the builder of archives refuses those that lead out of one.
fn tgz(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut builder = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for (name, content) in files {
        let mut header = tar::Header::new_gnu();
        let field = &mut header.as_gnu_mut().unwrap().name;
        field[..name.len()].copy_from_slice(name.as_bytes());
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        header.set_cksum();
        builder.append(&header, *content).unwrap();
    }
    builder.into_inner().unwrap().finish().unwrap()
}

/// A set of two classes, as Imagenette's archives are.
fn photos() -> Vec<u8> {
    // Hardly gets smaller.
    let noise: Vec<u8> = (0..100_000_u64)
        .map(|i| (i * i * i * 31 % 65_521) as u8)
        .collect();
    tgz(&[
        ("nette/train/n1/a.JPEG", &noise),
        ("./nette/train/n2/b.JPEG", b"b"),
        ("nette/val/n1/c.JPEG", b"c"),
        ("nette/noisy.csv", b"x,y"),
        ("nette/train/.DS_Store", b"?"),
    ])
}

/// A data set that is at these addresses.
fn set(files: &[(String, &[u8])], images: [usize; 3], layout: Layout) -> Dataset {
    let folder = tempfile::tempdir().unwrap();
    let sum = |content: &[u8]| {
        let path = folder.path().join("x");
        fs::write(&path, content).unwrap();
        of_file(&path).unwrap().to_string()
    };
    let files = files.iter().map(|(url, content)| Remote {
        url: url.clone().leak(),
        sum: sum(content).leak(),
        bytes: content.len() as u64,
    });
    Dataset {
        name: "tiny",
        about: "",
        images,
        licence: "none",
        page: "https://example.org",
        files: files.collect::<Vec<_>>().leak(),
        layout,
    }
}

const CLASSES: Layout = Layout::Splits(&[("n1", "cat"), ("n2", "dog")]);

/// The photos, in an archive that lies in the folder.
fn placed(folder: &Path, archive: &[u8], layout: Layout) -> Dataset {
    fs::write(folder.join("nette.tgz"), archive).unwrap();
    let url = "http://127.0.0.1:1/nette.tgz".to_owned();
    set(&[(url, archive)], [2, 1, 0], layout)
}

/// All files below a folder, with `/` between their parts, sorted.
fn files(folder: &Path) -> Vec<String> {
    let all = walkdir::WalkDir::new(folder).into_iter().flatten();
    let all = all.filter(|entry| !entry.file_type().is_dir());
    let mut names: Vec<String> = all
        .map(|entry| {
            let path = entry.path().strip_prefix(folder).unwrap();
            let parts: Vec<_> = path.iter().map(|part| part.to_str().unwrap()).collect();
            parts.join("/")
        })
        .collect();
    names.sort();
    names
}

const UNPACKED: [&str; 4] = [
    "dataset.toml",
    "train/n1-cat/a.JPEG",
    "train/n2-dog/b.JPEG",
    "val/n1-cat/c.JPEG",
];

#[test]
fn an_archive_that_lies_there_is_taken_and_kept() {
    let folder = tempfile::tempdir().unwrap();
    let tiny = placed(folder.path(), &photos(), CLASSES);
    let out = folder.path().join("tiny");
    let mut steps = Vec::new();
    let fetched = tiny.fetch(&out, &mut |done, total| steps.push((done, total)));
    assert_eq!(fetched.unwrap(), Fetched::Now);
    assert_eq!(steps, [(1, 3), (2, 3), (3, 3)]);
    assert_eq!(files(&out), UNPACKED);
    assert_eq!(fs::read(out.join("val/n1-cat/c.JPEG")).unwrap(), b"c");
    assert!(folder.path().join("nette.tgz").exists());
    // The second time it is there, and nothing is unpacked.
    fs::remove_file(folder.path().join("nette.tgz")).unwrap();
    let fetched = tiny.fetch(&out, &mut |_, _| {}).unwrap();
    assert_eq!(fetched, Fetched::Before);
    // A folder of others is not touched.
    let other = folder.path().join("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("mine"), "x").unwrap();
    let error = tiny.fetch(&other, &mut |_, _| {}).unwrap_err();
    assert!(matches!(error, FetchError::Occupied { .. }), "{error}");
    assert_eq!(files(&other), ["mine"]);
}

#[test]
fn another_archive_than_the_known_one_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let tiny = placed(folder.path(), &photos(), CLASSES);
    fs::write(folder.path().join("nette.tgz"), "other").unwrap();
    let error = tiny.fetch(&folder.path().join("tiny"), &mut |_, _| {});
    let error = error.unwrap_err();
    assert!(matches!(error, FetchError::OtherFile { .. }), "{error}");
    assert_eq!(files(folder.path()), ["nette.tgz"]);
}

/// Names that lead out of the folder, links, classes that nobody knows, and what is no archive: nothing appears anywhere.
#[test]
fn what_is_not_a_plain_file_inside_is_refused() {
    let mut link = tar::Header::new_gnu();
    link.set_entry_type(tar::EntryType::Symlink);
    link.set_size(0);
    let mut builder = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    builder
        .append_link(&mut link, "nette/train/n1", "/etc")
        .unwrap();
    let link = builder.into_inner().unwrap().finish().unwrap();
    let whole = photos();
    let cases = [
        (
            tgz(&[("nette/train/../../../../x.JPEG", b"x")]),
            "leads out of the folder",
        ),
        (
            tgz(&[("/nette/train/n1/x.JPEG", b"x")]),
            "leads out of the folder",
        ),
        (
            tgz(&[("nette/train/n1/x\\y.JPEG", b"x")]),
            "leads out of the folder",
        ),
        (
            tgz(&[("nette/train/n1/c:y.JPEG", b"x")]),
            "leads out of the folder",
        ),
        (link, "is a link"),
        (
            tgz(&[("nette/train/n3/x.JPEG", b"x")]),
            "none of its classes",
        ),
        (whole[..whole.len() / 2].to_vec(), "could not unpack"),
        (b"not an archive".to_vec(), "could not unpack"),
    ];
    for (archive, words) in cases {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("deep/er");
        fs::create_dir_all(&data).unwrap();
        let tiny = placed(&data, &archive, CLASSES);
        let error = tiny.fetch(&data.join("tiny"), &mut |_, _| {}).unwrap_err();
        assert!(error.to_string().contains(words), "{words}: {error}");
        assert_eq!(files(folder.path()), ["deep/er/nette.tgz"], "{words}");
    }
}

/// The labels and splits are those of `mat/tests.rs`: photos 3 and 1 train, of the classes 102 and 77, and 4 validates.
#[test]
fn flowers_get_their_splits_and_classes() {
    let archive = tgz(&[
        ("jpg/image_00001.jpg", b"1"),
        ("jpg/image_00003.jpg", b"3"),
        ("jpg/image_00004.jpg", b"4"),
    ]);
    let mat = include_bytes!("mat/flowers.mat");
    let labels = include_bytes!("mat/compressed.mat");
    let folder = tempfile::tempdir().unwrap();
    let url = |name: &str| format!("http://127.0.0.1:1/{name}");
    let all: [(String, &[u8]); 3] = [
        (url("jpg.tgz"), &archive),
        (url("labels.mat"), labels),
        (url("sets.mat"), mat),
    ];
    let tiny = set(&all, [2, 1, 0], Layout::Flowers);
    for (url, content) in &all {
        fs::write(folder.path().join(url.rsplit('/').next().unwrap()), content).unwrap();
    }
    let out = folder.path().join("tiny");
    tiny.fetch(&out, &mut |_, _| {}).unwrap();
    assert_eq!(
        files(&out),
        [
            "dataset.toml",
            "train/077-passion-flower/image_00001.jpg",
            "train/102-blackberry-lily/image_00003.jpg",
            "val/040-lenten-rose/image_00004.jpg",
        ]
    );
}

/// Two records of the authors' format: a label, then planes of red, green and blue.
#[test]
fn cifar_becomes_png() {
    let record = |label: u8, colour: [u8; 3]| {
        let planes = colour.into_iter().flat_map(|value| [value; 1024]);
        let record: Vec<u8> = std::iter::once(label).chain(planes).collect();
        record
    };
    let first = [record(1, [10, 20, 30]), record(0, [1, 2, 3])].concat();
    let one = record(0, [7, 8, 9]);
    let mut members: Vec<(String, &[u8])> = (2..=5)
        .map(|batch| (format!("c/data_batch_{batch}.bin"), one.as_slice()))
        .collect();
    members.push(("c/data_batch_1.bin".to_owned(), &first));
    members.push(("c/test_batch.bin".to_owned(), &first));
    members.push(("c/batches.meta.txt".to_owned(), b"cat\ndog\n\n"));
    members.push(("c/readme.html".to_owned(), b"<p>"));
    let members: Vec<(&str, &[u8])> = members
        .iter()
        .map(|(name, content)| (name.as_str(), *content))
        .collect();
    let folder = tempfile::tempdir().unwrap();
    let tiny = placed(folder.path(), &tgz(&members), Layout::Cifar10);
    let out = folder.path().join("tiny");
    tiny.fetch(&out, &mut |_, _| {}).unwrap();
    let names = files(&out);
    assert_eq!(names.len(), 1 + 6 + 2, "{names:?}");
    let picture = image::open(out.join("val/dog/test_batch_00000.png")).unwrap();
    let picture = picture.into_rgb8();
    assert_eq!(picture.dimensions(), (32, 32));
    assert_eq!(picture.get_pixel(5, 6).0, [10, 20, 30]);
    assert!(names.contains(&"train/cat/data_batch_1_00001.png".to_owned()));
    assert!(names.contains(&"train/cat/data_batch_5_00000.png".to_owned()));
}

#[test]
fn the_list_is_sound() {
    let mut names = std::collections::BTreeSet::new();
    for set in Dataset::all() {
        assert!(names.insert(set.name), "{} twice", set.name);
        for file in set.files {
            assert!(Sum::parse(file.sum).is_some(), "{}", file.url);
            assert!(file.url.starts_with("https://"), "{}", file.url);
            assert!(names.insert(file.name()), "{} twice", file.name());
        }
    }
    let error = Dataset::find("imagenette").unwrap_err().to_string();
    assert!(error.contains("`imagenette-160`"), "{error}");
}

#[cfg(feature = "fetch")]
mod from_a_server;
