//! Parquet files as written by Hugging Face's `datasets`: a row is an image, with a structure `image` that contains the file's
//! `bytes`, and its integer `label`. The names of the classes are in the metadata entry `huggingface` at the end of the file.
//!
//! The ends of the files, the headers of the pages and the labels are read once. Then every image is read independently with
//! the page that contains it, so that an epoch can visit the images in any order, each once, and continue in the middle. A
//! thread that reads images in order reads each page once.

mod footer;
mod levels;
mod pages;
mod table;
mod thrift;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use fs_err as fs;
use rayon::prelude::*;

pub(super) use self::table::Table;
use super::shards::MAX_CLASSES;
use super::{Place, Sample, Source, within};
use crate::data::{DataError, ParquetFault, listing};

/// The extension of the files.
const ENDING: &str = "parquet";
/// The folder in which the Hugging Face Hub stores the files.
const HUB: &str = "data";
/// The usual name of the validation split, and its names on the Hub.
const VAL: [&str; 3] = ["val", "validation", "test"];

/// The files of a split: `<split>-*.parquet` in a folder or in its folder `data`, or all files of the folder `<split>`. If
/// there is no `val`, it is `validation`, or otherwise `test`.
pub(super) fn files(root: &Path, split: &str) -> Vec<PathBuf> {
    let names: &[&str] = match split == VAL[0] {
        true => &VAL,
        false => &[split],
    };
    let mut found = names.iter().map(|name| named(root, name));
    found.find(|files| !files.is_empty()).unwrap_or_default()
}

/// All files of a folder, or of its folder `data`.
pub(super) fn all_files(root: &Path) -> Vec<PathBuf> {
    list(root, |_| true)
}

fn named(root: &Path, split: &str) -> Vec<PathBuf> {
    let folder = list(&root.join(split), |_| true);
    match folder.is_empty() {
        false => folder,
        true => list(root, |stem| {
            let rest = stem.strip_prefix(split);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '_', '.']))
        }),
    }
}

/// The files of a folder, or otherwise of its folder `data`, with matching names, ordered by the bytes of the names.
fn list(dir: &Path, is_right: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let of = |dir: &Path| -> Vec<PathBuf> {
        let entries = fs::read_dir(dir).into_iter().flatten().flatten();
        let files = entries.map(|entry| entry.path()).filter(|path| {
            let stem = path.file_stem().unwrap_or_default();
            let is_file = path.extension().is_some_and(|ending| ending == ENDING);
            is_file && !listing::is_hidden(stem) && is_right(&stem.to_string_lossy())
        });
        let mut files: Vec<PathBuf> = files.collect();
        files.sort_by(|a, b| a.as_os_str().cmp(b.as_os_str()));
        files
    };
    let files = of(dir);
    match files.is_empty() {
        true => of(&dir.join(HUB)),
        false => files,
    }
}

/// The images of these files in the order of their rows. `label` is the column of the labels. If the files do not name
/// the classes, they are `names`, or otherwise the numbers up to the largest label.
pub(super) fn open(
    root: &Path,
    files: &[PathBuf],
    label: &str,
    names: Option<&[String]>,
) -> Result<Source, DataError> {
    let read: Result<Vec<_>, DataError> = files
        .par_iter()
        .map(|path| table::read(path, label))
        .collect();
    let read = read?;
    let noted = read.first().and_then(|first| first.classes.clone());
    let classes = match (&noted, names) {
        (Some(classes), _) => classes.clone(),
        (None, Some(names)) => names.to_vec(),
        (None, None) => {
            let labels = read.iter().flat_map(|file| &file.labels);
            let most = labels
                .copied()
                .max()
                .map_or(0, |most| most.saturating_add(1));
            (0..most.min(MAX_CLASSES)).map(|n| n.to_string()).collect()
        }
    };
    let mut samples = Vec::new();
    let mut tables = Vec::new();
    for (number, file) in (0..).zip(read) {
        if file.classes != noted {
            let first = files.first().map_or(root, PathBuf::as_path);
            return Err(DataError::Parquet {
                fault: ParquetFault::OtherClasses(first.to_owned()),
                path: file.table.path,
            });
        }
        for (row, &class) in file.labels.iter().enumerate() {
            if class as usize >= classes.len() {
                return Err(DataError::Parquet {
                    path: file.table.path,
                    fault: ParquetFault::Label {
                        column: label.to_owned(),
                        row,
                        label: class.into(),
                        classes: Some(classes.len()),
                    },
                });
            }
            samples.push(Sample {
                path: within(&file.table.path, &format!("{row:08}")),
                label: class,
                place: Place::Row {
                    file: number,
                    row: row as u64,
                },
            });
        }
        tables.push(file.table);
    }
    Ok(Source {
        tables: Arc::from(tables),
        is_numbered: noted.is_none() && names.is_none(),
        ..Source::new(root.to_owned(), classes, samples)?
    })
}

#[cfg(test)]
mod tests;
