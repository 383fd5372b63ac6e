//! Tables of labels, as a spreadsheet or a program writes them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use kvt_train::data::{DataConfig, OnError, Source, open};
use proptest::prelude::*;

use crate::corpus::corpus;
use crate::edit::{edited, edits};
use crate::runner::fuzz;

/// The labels of each image by its path, of the training and of the validation images.
type Found = [BTreeMap<PathBuf, Vec<String>>; 2];

/// What a table says; the images themselves are not there.
fn read(folder: &Path, table: &[u8], several: bool, val_fraction: f64) -> Option<Found> {
    fs_err::write(folder.join("labels.csv"), table).unwrap();
    let data = DataConfig {
        path: folder.to_owned(),
        labels: "labels.csv".to_owned(),
        on_error: OnError::Skip,
        label_sets: several,
        val_fraction,
        ..DataConfig::default()
    };
    let splits = open(&data, None).ok()?;
    let all: usize = splits.iter().map(|source| source.samples.len()).sum();
    assert!(
        all <= table
            .iter()
            .filter(|byte| matches!(byte, b'\n' | b'\r'))
            .count()
    );
    let found = splits.map(|source| labels(&source));
    // No image is in both splits, or twice in one.
    let mut paths: Vec<&PathBuf> = found.iter().flat_map(BTreeMap::keys).collect();
    paths.sort();
    paths.dedup();
    assert_eq!(paths.len(), all);
    Some(found)
}

fn labels(source: &Source) -> BTreeMap<PathBuf, Vec<String>> {
    let indices = (0..).take(source.samples.len());
    let of = |index: u32| {
        let own = source.labels(index).iter();
        own.map(|&label| source.classes[label as usize].clone())
            .collect()
    };
    let paths = source.samples.iter().map(|sample| sample.path.clone());
    paths.zip(indices.map(of)).collect()
}

/// The same as a table with a column `split`, every cell in quotation marks.
fn written(folder: &Path, found: &Found) -> String {
    let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
    let mut table = "path,label,split\n".to_owned();
    for (split, images) in ["train", "val"].into_iter().zip(found) {
        for (path, labels) in images {
            // Spaces at the ends of a cell do not count.
            let name = match path.strip_prefix(folder) {
                Ok(inner) => format!("./{}/.", inner.display()),
                Err(_) => format!("{}/.", path.display()),
            };
            let (name, labels) = (quoted(&name), quoted(&labels.join("|")));
            table += &format!("{name},{labels},{split}\n");
        }
    }
    table
}

/// What is read is written and read again alike.
#[test]
fn tables_of_labels() {
    let files = corpus("labels");
    let folder = tempfile::tempdir().unwrap();
    // Folders such as `train` are found by the path of the data as it is given.
    let folder = folder.path().canonicalize().unwrap();
    let check = |table: &[u8], several: bool, val_fraction: f64| {
        let found = read(&folder, table, several, val_fraction)?;
        let table = written(&folder, &found);
        let again = read(&folder, table.as_bytes(), several, 0.0);
        assert_eq!(again.as_ref(), Some(&found), "{table}");
        Some(found.map(|split| split.len()))
    };
    let of = |several, val_fraction| {
        let found = files.iter().map(|file| check(file, several, val_fraction));
        found.collect::<Vec<_>>()
    };
    // In the order of their names: columns, one, several, whole.
    assert_eq!(of(false, 0.0), [None, Some([2, 1]), None, None]);
    assert_eq!(
        of(true, 0.0),
        [Some([2, 1]), Some([2, 1]), Some([2, 1]), None]
    );
    assert_eq!(of(false, 0.5)[3].map(|[train, val]| train + val), Some(8));
    let cases = (any::<u8>(), edits(1..6), any::<bool>(), any::<bool>());
    fuzz(2_000, &cases, |(file, edits, several, is_divided)| {
        let val_fraction = if is_divided { 0.5 } else { 0.0 };
        check(&edited(&files, file, &edits), several, val_fraction);
    });
}
