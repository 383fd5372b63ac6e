//! Parquet files of images, as somebody downloads them.

use std::path::{Path, PathBuf};

use kvt_train::data::{DataConfig, DataKind, ImageLimits, open};
use proptest::prelude::any;

use crate::edit::{edited, edits};
use crate::runner::fuzz;

/// The files by which reading is tested.
fn files() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = folder.join("../crates/kvt-data/tests/fixtures/parquet");
    let list = |folder: PathBuf| -> Vec<PathBuf> {
        let entries = fs_err::read_dir(folder).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect()
    };
    let mut paths = [list(folder.clone()), list(folder.join("hub/data"))].concat();
    paths.retain(|path| path.is_file());
    paths.sort();
    assert!(paths.len() > 10, "{paths:?}");
    let files = paths.iter().map(|path| fs_err::read(path).unwrap());
    files.collect()
}

fn read(folder: &Path, bytes: &[u8]) -> usize {
    fs_err::write(folder.join("a.parquet"), bytes).unwrap();
    let config = DataConfig {
        kind: DataKind::Parquet,
        path: folder.to_owned(),
        val_fraction: 0.5,
        ..DataConfig::default()
    };
    for source in open(&config.as_label_sets(), None).into_iter().flatten() {
        let indices = (0..).take(source.samples.len());
        let mut labels = indices.flat_map(|index| source.labels(index));
        assert!(labels.all(|&label| (label as usize) < source.classes.len()));
    }
    let Ok(splits) = open(&config, None) else {
        return 0;
    };
    let mut images = 0;
    for source in splits {
        for sample in &source.samples {
            assert!((sample.label as usize) < source.classes.len());
            if let Ok(image) = source.bytes(sample, ImageLimits::default()) {
                // What is allowed of gzip and Zstandard, and for each of the at most as many values as bytes.
                assert!(image.len() <= (1032 + 256) * bytes.len());
                images += 1;
            }
        }
    }
    images
}

#[test]
fn tables() {
    let files = files();
    let folder = tempfile::tempdir().unwrap();
    let images: Vec<usize> = files.iter().map(|file| read(folder.path(), file)).collect();
    // Fourteen variants of twelve images, one of them without two; three files of `datasets`; the others are refused.
    assert_eq!(images.iter().sum::<usize>(), 14 * 12 - 2 + 28, "{images:?}");
    fuzz(1_000, &(any::<u8>(), edits(1..6)), |(file, edits)| {
        read(folder.path(), &edited(&files, file, &edits));
    });
}
