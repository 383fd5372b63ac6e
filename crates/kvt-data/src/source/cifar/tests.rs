#![expect(clippy::unwrap_used, reason = "tests")]

use fs_err as fs;

use super::*;
use crate::{ImageLimits, Picture, check_folder};

/// A record whose pixel (x, y) is (seed + x, y, label).
fn record(labels: &[u8], seed: u8) -> Vec<u8> {
    let mut bytes = labels.to_vec();
    let label = *labels.last().unwrap();
    let planes: [&dyn Fn(u8, u8) -> u8; 3] = [&|x, _| seed + x, &|_, y| y, &|_, _| label];
    for plane in planes {
        bytes.extend((0..32).flat_map(|y| (0..32).map(move |x| plane(x, y))));
    }
    bytes
}

fn cifar10(dir: &Path) {
    fs::create_dir_all(dir).unwrap();
    // With the byte-order mark of an editor.
    let names = "\u{feff}cat\ndog\nowl\n\n";
    fs::write(dir.join("batches.meta.txt"), names).unwrap();
    for batch in 1..=5 {
        let records = [record(&[batch % 3], batch), record(&[2], batch + 100)].concat();
        fs::write(dir.join(format!("data_batch_{batch}.bin")), records).unwrap();
    }
    let test = [record(&[0], 50), record(&[1], 51), record(&[2], 52)].concat();
    fs::write(dir.join("test_batch.bin"), test).unwrap();
}

fn whole(source: &Source, index: u32) -> RgbImage {
    match source.decode(index, ImageLimits::default(), None).unwrap() {
        Picture::Whole(image) => image.rgb,
        Picture::Part(_) => unreachable!("nobody asked for a part"),
    }
}

fn both(path: &Path) -> Result<[Source; 2], DataError> {
    Ok([open(path, "train")?, open(path, "test")?])
}

#[test]
fn records_become_labelled_pictures() {
    let dir = tempfile::tempdir().unwrap();
    cifar10(&dir.path().join("cifar-10-batches-bin"));
    let [train, test] = both(dir.path()).unwrap();
    assert_eq!(train.classes, ["cat", "dog", "owl"]);
    assert_eq!(
        (train.class_counts(), test.class_counts()),
        (vec![1, 2, 7], vec![1, 1, 1])
    );
    let sample = &train.samples[7];
    let name = "cifar-10-batches-bin/data_batch_4.bin/00001";
    assert_eq!(
        (sample.path.clone(), sample.label),
        (dir.path().join(name), 2)
    );
    let image = whole(&train, 7);
    assert_eq!(image.dimensions(), (32, 32));
    assert_eq!(image.get_pixel(3, 9).0, [104 + 3, 9, 2]);
    assert_eq!(image.get_pixel(31, 0).0, [104 + 31, 0, 2]);

    let checked = check_folder(
        &dir.path().join("cifar-10-batches-bin"),
        &["train", "val"].map(str::to_owned),
        ImageLimits::default(),
        "label",
    )
    .unwrap();
    assert!(
        checked.is_sound() && checked.duplicates.is_empty(),
        "{checked:?}"
    );
    assert_eq!(checked.splits[0].images, 10);
}

#[test]
fn the_fine_label_counts() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    fs::write(at("fine_label_names.txt"), "a\nb\n").unwrap();
    fs::write(at("train.bin"), record(&[9, 1], 0)).unwrap();
    fs::write(at("test.bin"), record(&[8, 0], 3)).unwrap();
    let [train, test] = both(dir.path()).unwrap();
    assert_eq!((train.samples[0].label, test.samples[0].label), (1, 0));
    let image = whole(&test, 0);
    assert_eq!(image.get_pixel(2, 5).0, [5, 5, 0]);
}

#[test]
fn damaged_files_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    assert!(matches!(both(dir.path()), Err(DataError::NoCifar(_))));
    cifar10(dir.path());
    let whole = fs::read(at("data_batch_3.bin")).unwrap();
    for bytes in [&whole[..3072], &whole[..3073 + 5], &[]] {
        fs::write(at("data_batch_3.bin"), bytes).unwrap();
        let message = both(dir.path()).unwrap_err().to_string();
        assert!(message.contains("data_batch_3.bin"), "{message}");
        assert!(
            message.contains("not a whole number of records of 3073 bytes"),
            "{message}"
        );
    }
    fs::write(at("data_batch_3.bin"), record(&[3], 0)).unwrap();
    let message = both(dir.path()).unwrap_err().to_string();
    assert!(
        message.contains("record 0 has label 3, but there are names of 3 classes"),
        "{message}"
    );
    fs::write(at("data_batch_3.bin"), &whole).unwrap();
    fs::remove_file(at("batches.meta.txt")).unwrap();
    let message = both(dir.path()).unwrap_err().to_string();
    assert!(message.contains("batches.meta.txt"), "{message}");
}

#[test]
fn two_classes_have_two_names() {
    let dir = tempfile::tempdir().unwrap();
    cifar10(dir.path());
    fs::write(dir.path().join("batches.meta.txt"), "cat\nowl\nowl\n").unwrap();
    let message = both(dir.path()).unwrap_err().to_string();
    assert!(
        message.contains("two of the classes") && message.contains("`owl`"),
        "{message}"
    );
}

/// Neither of them would ever end.
#[cfg(unix)]
#[test]
fn a_pipe_or_a_device_is_no_file_of_the_data() {
    for name in ["batches.meta.txt", "data_batch_3.bin", "test_batch.bin"] {
        let dir = tempfile::tempdir().unwrap();
        cifar10(dir.path());
        let path = dir.path().join(name);
        let refused = |what: &str| {
            let message = both(dir.path()).unwrap_err().to_string();
            assert!(
                message.contains(name) && message.contains("not a "),
                "{what}: {message}"
            );
        };
        fs::remove_file(&path).unwrap();
        let made = std::process::Command::new("mkfifo").arg(&path).status();
        assert!(made.unwrap().success());
        refused("a pipe");
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
        refused("a device");
    }
}
