//! Parquet files as written by Hugging Face's `datasets`: a row is an image, with a structure `image` that contains the file's
//! `bytes`, and its `label`: an integer, with the names of the classes in the metadata entry `huggingface` at the end of the
//! file, or the name itself. Of any number of labels, it is a text such as `cat|dog`, or each class has a column.
//!
//! The ends of the files, the headers of the pages and the labels are read once. Then every image is read independently with
//! the page that contains it, so that an epoch can visit the images in any order, each once, and continue in the middle. A
//! thread that reads images in order reads each page once. The crate `parquet` reads the format; here are the locations of pages,
//! which it does not keep, and the bounds of what it reserves memory for.

mod classes;
mod fault;
mod footer;
mod headers;
mod labels;
mod pages;
mod schema;
mod table;
mod thrift;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rayon::prelude::*;

pub use self::fault::ParquetFault;
pub use self::footer::is_guarded;
pub(super) use self::table::Table;
use super::classes::{numbers, without};
use super::names::{part, set_of, usual};
use super::shards::MAX_CLASSES;
use super::{Known, Place, Sample, Source, within};
use crate::listing::{self, OtherFormats};
use crate::{ClassOrder, DataError};

/// The extension of the files.
const ENDING: &str = "parquet";
/// The folder in which the Hugging Face Hub stores the files.
const HUB: &str = "data";

/// All files of a folder, or of its folder `data`.
pub(super) fn all_files(root: &Path) -> Vec<PathBuf> {
    list(root, |_| true)
}

/// The files of a split: `<split>.parquet` or the [numbered ones](set_of) of that name in a folder or in its folder `data`, or all
/// files of the folder `<split>`.
pub(super) fn files(root: &Path, split: &str) -> Vec<PathBuf> {
    let folder = list(&root.join(split), |_| true);
    if folder.is_empty() {
        // `train_aug-00000` is another split.
        list(root, |stem| stem == split || set_of(stem) == split)
    } else {
        folder
    }
}

/// The files beside those of splits that belong to none of them, nor to another one with a usual name.
pub(super) fn others(root: &Path, splits: &[&str]) -> OtherFormats {
    let own = splits.iter().flat_map(|split| files(root, split));
    let usual = usual().flat_map(|split| files(root, split));
    let known: HashSet<PathBuf> = own.chain(usual).collect();
    let mut found = OtherFormats::default();
    for file in all_files(root) {
        if !known.contains(&file) {
            found.add(ENDING.to_owned(), 1, file);
        }
    }
    found
}

/// The files of a folder, or otherwise of its folder `data`, with matching names, ordered by the bytes of the names.
fn list(dir: &Path, is_right: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let of = |dir: &Path| {
        let mut files = listing::with_ending(dir, ENDING);
        files.retain(|path| is_right(&path.file_stem().unwrap_or_default().to_string_lossy()));
        files
    };
    let files = of(dir);
    if files.is_empty() {
        of(&dir.join(HUB))
    } else {
        files
    }
}

/// Rejects sets of numbered files that are not whole.
fn refuse_parts(files: &[PathBuf]) -> Result<(), DataError> {
    // Of each set the files with their number, and how many their name says there are.
    let mut sets: BTreeMap<_, Vec<(u32, u32, &PathBuf)>> = BTreeMap::new();
    for path in files {
        let stem = path.file_stem().and_then(|stem| stem.to_str());
        if let Some((set, number, of)) = stem.and_then(part) {
            let set = sets.entry((path.parent(), set)).or_default();
            set.push((number, of, path));
        }
    }
    for parts in sets.values() {
        let Some(&(_, of, path)) = parts.first() else {
            continue;
        };
        let same = parts.iter().filter(|(_, own, _)| *own == of);
        let there: BTreeSet<u32> = same.map(|(number, ..)| *number).collect();
        // Some programs count from 1.
        let first = u32::from(there.contains(&of));
        let absent = (first..first + of).filter(|number| !there.contains(number));
        let missing: Vec<String> = absent.map(|number| format!("{number:05}")).collect();
        let fault = if !missing.is_empty() {
            ParquetFault::MissingParts { of, missing }
        } else if parts.len() != of as usize {
            ParquetFault::OtherParts(of)
        } else {
            continue;
        };
        let path = path.clone();
        return Err(DataError::Parquet { path, fault });
    }
    Ok(())
}

/// The images of these files in the order of their rows. `label` is the column of the labels, and whether a row may
/// have any number of them: then each class may have a column instead. If labels are names, the classes
/// are those of `known` if that has them all, or otherwise sorted in the given order. If the files do not name the classes, these are
/// those of `known`, or otherwise the numbers up to the largest label; numbers do not count classes whose order is that of labels
/// that are names.
pub(super) fn open(
    root: &Path,
    files: &[PathBuf],
    (label, may_lack): (&str, bool),
    order: ClassOrder,
    known: Option<Known<'_>>,
) -> Result<Source, DataError> {
    refuse_parts(files)?;
    let opened = files
        .par_iter()
        .map(|path| table::read(path, label, may_lack));
    let mut read = opened.collect::<Result<Vec<_>, DataError>>()?;
    let are_names = read.iter().any(|file| file.text.is_some());
    unite(&mut read, order, known.map(|known| known.classes));
    let names = known
        .filter(|known| !known.are_labels)
        .map(|known| known.classes);
    let noted = read.first().and_then(|first| first.classes.clone());
    let columns = read.first().and_then(|first| first.columns.clone());
    let classes = match (&noted, names) {
        (Some(classes), _) => classes.clone(),
        (None, Some(names)) => names.to_vec(),
        (None, None) => numbers_up_to_largest_label(&read),
    };
    let mut samples = Vec::new();
    let mut tables = Vec::new();
    for (number, file) in (0..).zip(read) {
        if file.classes != noted || file.columns != columns {
            let first = files.first().map_or(root, PathBuf::as_path);
            return Err(DataError::Parquet {
                fault: ParquetFault::OtherClasses(first.to_owned()),
                path: file.table.path,
            });
        }
        for (row, &class) in (0..).zip(&file.labels) {
            if class as usize >= classes.len() {
                return Err(DataError::Parquet {
                    path: file.table.path,
                    fault: ParquetFault::label(label, row, class.into(), Some(classes.len())),
                });
            }
            samples.push(Sample {
                path: within(&file.table.path, &format!("{row:08}")),
                label: class,
                place: Place::Row { file: number, row },
            });
        }
        tables.push(file.table);
    }
    Ok(Source {
        tables: Arc::from(tables),
        is_numbered: noted.is_none() && names.is_none(),
        are_labels: are_names,
        class_columns: columns,
        ..Source::new(root.to_owned(), classes, samples)?
    })
}

fn numbers_up_to_largest_label(files: &[table::Read]) -> Vec<String> {
    let labels = files.iter().flat_map(|file| &file.labels);
    let largest = labels.copied().max();
    let count = largest.map_or(0, |label| label.saturating_add(1));
    numbers(count.min(MAX_CLASSES) as usize)
}

/// Numbers the classes of labels that are names, over all files.
fn unite(files: &mut [table::Read], order: ClassOrder, known: Option<&[String]>) {
    let names = files.iter().flat_map(|file| file.text.iter().flatten());
    let mut all: Vec<String> = names
        .collect::<BTreeSet<_>>()
        .into_iter()
        .cloned()
        .collect();
    order.sort(&mut all);
    // A class may have no image in this split.
    if let Some(known) = known.filter(|known| without(&all, known).is_empty()) {
        all = known.to_vec();
    }
    let numbers: HashMap<&str, u32> = all.iter().map(String::as_str).zip(0..).collect();
    for file in files {
        let Some(own) = file.text.take() else {
            continue;
        };
        // None is missing: they are those of all files, or more.
        let own = own.iter().filter_map(|name| numbers.get(&**name).copied());
        let own: Vec<u32> = own.collect();
        for label in &mut file.labels {
            *label = own.get(*label as usize).copied().unwrap_or(*label);
        }
        file.classes = Some(all.clone());
    }
}

#[cfg(test)]
mod tests;
