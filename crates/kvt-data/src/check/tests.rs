#![expect(clippy::unwrap_used, reason = "tests")]

use image::{GrayImage, RgbImage};

use super::*;

fn check_all(root: &Path) -> Check {
    let splits = ["train", "val"].map(str::to_owned);
    check_folder(root, &splits, ImageLimits::default(), "label").unwrap()
}

#[test]
fn tells_what_is_wrong() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    for class in ["train/a", "train/b", "val/a", "val/c"] {
        fs_err::create_dir_all(at(class)).unwrap();
    }
    let rgb = |level| RgbImage::from_pixel(8, 6, image::Rgb([level; 3]));
    rgb(1).save(at("train/a/1.png")).unwrap();
    rgb(2).save(at("train/a/2.png")).unwrap();
    GrayImage::new(3, 3).save(at("train/b/1.png")).unwrap();
    fs_err::write(at("train/b/bad.jpg"), b"no image").unwrap();
    rgb(1).save(at("val/a/copy.png")).unwrap();
    rgb(3).save(at("val/c/1.png")).unwrap();

    let found = check_all(dir.path());
    let train = &found.splits[0];
    assert_eq!(train.classes, [("a".to_owned(), 2), ("b".to_owned(), 2)]);
    assert_eq!((train.images, train.grey, train.cmyk), (4, 1, 0));
    assert_eq!(train.sizes, Some(((3, 3), (8, 6))));
    assert_eq!(train.unreadable[0].path, at("train/b/bad.jpg"));
    assert!(!found.same_classes && !found.is_sound());
    let copies = vec![at("train/a/1.png"), at("val/a/copy.png")];
    assert_eq!(found.duplicates, [Duplicate { paths: copies }]);
}

/// Splits of shards, each with an image of every label; the first split also has the names of the classes.
fn shards(splits: [(&str, &[u32]); 2], names: &[&str]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (split, labels) in splits {
        let folder = dir.path().join(split);
        fs_err::create_dir(&folder).unwrap();
        let file = fs_err::File::create(folder.join("0.tar")).unwrap();
        let mut shard = tar::Builder::new(file);
        for label in labels {
            let mut image = std::io::Cursor::new(Vec::new());
            RgbImage::from_pixel(2, 2, image::Rgb([*label as u8, 0, split.len() as u8]))
                .write_to(&mut image, image::ImageFormat::Png)
                .unwrap();
            for (ending, bytes) in [
                ("png", image.into_inner()),
                ("cls", label.to_string().into()),
            ] {
                let mut header = tar::Header::new_gnu();
                header.set_size(bytes.len() as u64);
                let name = format!("{label}.{ending}");
                shard
                    .append_data(&mut header, name, bytes.as_slice())
                    .unwrap();
            }
        }
        shard.finish().unwrap();
    }
    if !names.is_empty() {
        let text = serde_json::to_string(names).unwrap();
        fs_err::write(dir.path().join(splits[0].0).join("classes.json"), text).unwrap();
    }
    dir
}

/// Without a list of names, the classes are numbers, and a split does not need to contain the largest one.
#[test]
fn classes_without_names_are_those_of_all_splits() {
    let counts = |found: &Check| -> Vec<Vec<usize>> {
        let splits = found.splits.iter();
        splits
            .map(|split| split.classes.iter().map(|(_, count)| *count).collect())
            .collect()
    };
    // Previously, three classes against two were not the same.
    let fewer = shards([("train", &[0, 1, 2]), ("val", &[0, 1])], &[]);
    let found = check_all(fewer.path());
    assert!(found.same_classes);
    assert_eq!(counts(&found), [[1, 1, 1], [1, 1, 0]]);
    let more = shards([("train", &[0, 1]), ("val", &[0, 1, 2])], &[]);
    let found = check_all(more.path());
    assert!(found.same_classes);
    assert_eq!(counts(&found), [[1, 1, 0], [1, 1, 1]]);
    // There are no images to learn the third class from.
    assert!(!found.is_sound());
    let same = shards([("train", &[0, 1]), ("val", &[1, 0])], &[]);
    assert!(check_all(same.path()).is_sound());

    // Names that only the training images have apply to both splits, as in training.
    let named = shards([("train", &[0, 1]), ("val", &[1, 0])], &["cat", "dog"]);
    let found = check_all(named.path());
    assert!(found.is_sound());
    assert_eq!(found.splits[1].classes[1].0, "dog");
    let beyond = shards([("train", &[0, 1]), ("val", &[0, 1, 2])], &["cat", "dog"]);
    assert!(!check_all(beyond.path()).same_classes);
}

/// Two splits of two classes with one image each.
fn small() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (level, folder) in (0..).zip(["train/a", "train/b", "val/a", "val/b"]) {
        let folder = dir.path().join(folder);
        fs_err::create_dir_all(&folder).unwrap();
        let image = RgbImage::from_pixel(2, 2, image::Rgb([level; 3]));
        image.save(folder.join("1.png")).unwrap();
    }
    dir
}

#[test]
fn other_formats_are_counted_by_their_ending() {
    let dir = small();
    let at = |name: &str| dir.path().join(name);
    for name in [
        "a/3.HEIC",
        "a/2.heic",
        "b/deep/1.heic",
        "b/1.avif",
        "b/notes.txt",
        "b/.1.psd",
    ] {
        let path = at("train").join(name);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(path, b"").unwrap();
    }
    let found = check_all(dir.path());
    let others = &found.splits[0].others;
    let kind = |count, example| crate::NotRead {
        count,
        example: at(example),
    };
    let expected = [
        ("avif".to_owned(), kind(1, "train/b/1.avif")),
        ("heic".to_owned(), kind(3, "train/a/2.heic")),
    ];
    assert_eq!(others.0, BTreeMap::from(expected));
    assert_eq!(others.count(), 4);
    assert_eq!(found.splits[1].others.count(), 0);
    // They are ignored: training works.
    assert!(found.is_sound());

    // A class that contains nothing else.
    fs_err::remove_file(at("train/a/1.png")).unwrap();
    let found = check_all(dir.path());
    assert_eq!(found.splits[0].classes[0], ("a".to_owned(), 0));
    assert!(!found.is_sound());
}

#[cfg(unix)]
#[test]
fn links_that_lead_nowhere_or_in_a_circle_are_reported() {
    use std::os::unix::fs::symlink;

    let dir = small();
    assert!(check_all(dir.path()).is_sound());
    let at = |name: &str| dir.path().join(name);
    symlink("/gone/1.jpg", at("train/a/dead.jpg")).unwrap();
    symlink("circle.png", at("train/a/circle.png")).unwrap();
    symlink("/gone/more", at("train/a/more")).unwrap();
    symlink(".", at("train/b/up")).unwrap();
    symlink("/gone/c", at("train/c")).unwrap();
    // An editor's lock file, and a valid link.
    symlink("user@machine.1234", at("train/a/.#1.png")).unwrap();
    symlink("1.png", at("train/b/2.png")).unwrap();
    let found = check_all(dir.path());
    let train = &found.splits[0];
    let dead: Vec<_> = train
        .dead_links
        .iter()
        .map(|link| link.path.clone())
        .collect();
    assert_eq!(dead, [at("train/a/circle.png"), at("train/a/dead.jpg")]);
    assert!(
        train.dead_links[1]
            .reason
            .contains("a link to `/gone/1.jpg` that leads nowhere")
    );
    let unlisted: Vec<_> = train
        .unlisted
        .iter()
        .map(|link| link.path.clone())
        .collect();
    assert_eq!(
        unlisted,
        [at("train/c"), at("train/a/more"), at("train/b/up")]
    );
    assert!(train.unlisted[2].reason.contains("a link in a circle"));
    // All other images were read.
    assert_eq!(train.classes, [("a".to_owned(), 3), ("b".to_owned(), 2)]);
    assert_eq!(
        (train.unreadable.len(), train.sizes),
        (0, Some(((2, 2), (2, 2))))
    );
    assert!(found.same_classes && !found.is_sound());
}

#[test]
fn unequal_classes_are_told() {
    let split = |counts: &[usize]| SplitCheck {
        name: "train".to_owned(),
        images: counts.iter().sum(),
        label_sets: None,
        classes: counts
            .iter()
            .enumerate()
            .map(|(class, count)| (class.to_string(), *count))
            .collect(),
        unreadable: Vec::new(),
        dead_links: Vec::new(),
        unlisted: Vec::new(),
        others: OtherFormats::default(),
        beside: OtherFormats::default(),
        gaps: Vec::new(),
        notes: Vec::new(),
        sizes: None,
        grey: 0,
        cmyk: 0,
    };
    for counts in [&[][..], &[0, 0], &[4, 1], &[9, 0, 2]] {
        assert_eq!(split(counts).imbalance(), None, "{counts:?}");
    }
    let split = split(&[3, 15, 0, 2, 15, 2]);
    let expected = Imbalance {
        most: ("1", 15),
        least: ("5", 2),
        ratio: 7.5,
    };
    assert_eq!(split.imbalance(), Some(expected));
}
