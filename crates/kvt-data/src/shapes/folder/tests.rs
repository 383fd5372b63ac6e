#![expect(clippy::unwrap_used, reason = "tests")]

use super::*;
use crate::{ClassOrder, ImageLimits, Source, decode};

fn small() -> ShapesConfig {
    ShapesConfig {
        image_size: 16,
        classes: 3,
        train_per_class: 3,
        val_per_class: 2,
        ..ShapesConfig::default()
    }
}

#[test]
fn is_made_once_and_reused() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("deep/shapes");
    let mut steps = Vec::new();
    let made = ensure(&small(), &dir, &mut |done, total| steps.push((done, total))).unwrap();
    assert_eq!(steps, (1..=15).map(|n| (n, 15)).collect::<Vec<_>>());
    assert!(made.generated);
    assert!(!ensure(&small(), &dir, &mut |_, _| {}).unwrap().generated);
    let train = Source::open(dir.join("train"), ClassOrder::Byte).unwrap();
    assert_eq!(train.classes, made.classes);
    assert_eq!(train.class_counts(), [3, 3, 3]);
    let path = dir.join("val/square/00001.png");
    let image = decode(&path, ImageLimits::default()).unwrap();
    let key = small().key(Split::Val, Figure::Square, 1);
    assert_eq!(image, render(Figure::Square, 16, 0.5, 0.3, key));
    // Nothing is left next to it.
    assert_eq!(fs_err::read_dir(dir.parent().unwrap()).unwrap().count(), 1);
}

/// Two processes that found nothing and generate at the same time.
fn at_once(configs: [ShapesConfig; 2], dir: &Path) -> [Result<Summary, DataError>; 2] {
    let begun = std::sync::Barrier::new(2);
    let run = |config: ShapesConfig| {
        let mut first = true;
        ensure(&config, dir, &mut |_, _| {
            // Neither finishes before both have begun.
            if std::mem::take(&mut first) {
                begun.wait();
            }
        })
    };
    std::thread::scope(|scope| {
        let threads = configs.map(|config| scope.spawn(|| run(config)));
        threads.map(|thread| thread.join().unwrap())
    })
}

#[test]
fn two_that_generate_the_same_both_have_it() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("shapes");
    for _ in 0..20 {
        let [a, b] = at_once([small(), small()], &dir).map(Result::unwrap);
        assert_ne!(a.generated, b.generated, "one is taken");
        assert_eq!((a.train, a.val), (b.train, b.val));
        let train = Source::open(dir.join("train"), ClassOrder::Byte).unwrap();
        assert_eq!(train.class_counts(), [3, 3, 3]);
        // Nothing is left next to it.
        assert_eq!(fs_err::read_dir(temp.path()).unwrap().count(), 1);
        fs_err::remove_dir_all(&dir).unwrap();
    }
}

#[test]
fn of_two_that_differ_the_slower_one_is_refused() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("shapes");
    let other = ShapesConfig { seed: 4, ..small() };
    let [a, b] = at_once([small(), other], &dir);
    let (made, refused) = match a {
        Ok(made) => (made, b.unwrap_err()),
        Err(refused) => (b.unwrap(), refused),
    };
    assert!(made.generated);
    assert!(
        matches!(
            refused,
            DataError::Shapes(ShapesError::OtherSettings { .. })
        ),
        "{refused}"
    );
}

#[test]
fn what_killed_processes_left_is_removed() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("shapes");
    let left = temp.path().join(".kvt-tmp-Ab3dE6");
    // Before it is generated, and once it exists.
    for generated in [true, false] {
        fs_err::create_dir_all(left.join("data/train/circle")).unwrap();
        let made = ensure(&small(), &dir, &mut |_, _| {}).unwrap();
        assert_eq!((made.generated, left.exists()), (generated, false));
    }
}

#[test]
fn refuses_other_settings_and_other_folders() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("shapes");
    ensure(&small(), &dir, &mut |_, _| {}).unwrap();
    let other = ShapesConfig { seed: 4, ..small() };
    let message = ensure(&other, &dir, &mut |_, _| {})
        .unwrap_err()
        .to_string();
    assert!(message.contains("`seed` is 0 there, 4 here"), "{message}");
    fs_err::write(temp.path().join("file"), b"").unwrap();
    let error = ensure(&small(), temp.path(), &mut |_, _| {}).unwrap_err();
    assert!(matches!(
        error,
        DataError::Shapes(ShapesError::NotGenerated(_))
    ));
}

#[test]
fn larger_sets_begin_with_the_smaller() {
    let temp = tempfile::tempdir().unwrap();
    let (a, b) = (temp.path().join("a"), temp.path().join("b"));
    ensure(&small(), &a, &mut |_, _| {}).unwrap();
    let larger = ShapesConfig {
        classes: 4,
        train_per_class: 5,
        ..small()
    };
    ensure(&larger, &b, &mut |_, _| {}).unwrap();
    for name in ["train/circle/00002.png", "val/triangle/00000.png"] {
        assert_eq!(
            fs_err::read(a.join(name)).unwrap(),
            fs_err::read(b.join(name)).unwrap()
        );
    }
}

#[test]
fn senseless_settings_are_refused() {
    for (bad, key) in [
        (
            ShapesConfig {
                classes: 11,
                ..small()
            },
            "classes",
        ),
        (
            ShapesConfig {
                clutter: f64::NAN,
                ..small()
            },
            "clutter",
        ),
        (
            ShapesConfig {
                image_size: 0,
                ..small()
            },
            "image_size",
        ),
    ] {
        assert!(bad.validate().unwrap_err().to_string().contains(key));
    }
}

/// Everything that a data set of this layout contains has stayed since version 1 of its manifest.
#[test]
fn the_bytes_of_the_folder_layout_stay() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("shapes");
    ensure(&small(), &dir, &mut |_, _| {}).unwrap();
    assert_eq!(
        hash_of(&dir),
        "968ce782b59e9bee648543c456a42de2e7f239d9b9b8fa3c43fdfd23c19bd832"
    );
    // Keys of scenes have no effect.
    let same = ShapesConfig {
        objects: [2, 5],
        ..small()
    };
    assert!(!ensure(&same, &dir, &mut |_, _| {}).unwrap().generated);
}

/// The hash of all files of a folder, with their names.
pub(in crate::shapes) fn hash_of(dir: &Path) -> String {
    let mut hash = blake3::Hasher::new();
    for entry in walkdir::WalkDir::new(dir).sort_by_file_name() {
        let entry = entry.unwrap();
        if entry.file_type().is_file() {
            let name = entry.path().strip_prefix(dir).unwrap().to_str().unwrap();
            hash.update(name.as_bytes());
            hash.update(&fs_err::read(entry.path()).unwrap());
        }
    }
    hash.finalize().to_hex().to_string()
}
