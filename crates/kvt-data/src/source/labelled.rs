//! Images whose labels are in a table, `data.labels`, beside their folder: one for each, or any number.

mod classes;
mod splits;
mod unused;

use std::path::Path;

use rayon::prelude::*;

use super::label_sets::{Numbers, labels_in};
use super::labels::{Labels, Row, whole};
use super::splits::Split;
use super::{Place, Sample, Source, share};
use crate::text::{counted, quoted};
use crate::{DataConfig, DataError, OnError, listing};

/// Missing files in a message.
const FIRST: usize = 5;

/// A table of labels, and the configuration that names it.
struct Table<'a> {
    data: &'a DataConfig,
    labels: Labels,
}

/// The training and validation images, as [`open`](crate::open).
pub(super) fn open(
    data: &DataConfig,
    classes: Option<&[String]>,
) -> Result<[Source; 2], DataError> {
    let table = Table::read(data)?;
    let [mut train, val] = if data.val_fraction > 0.0 {
        table.refuse_splits()?;
        let all = table.images(None, &table.classes(classes, &[])?)?;
        share::split(&all, data.val_fraction)
    } else {
        let [train, val] = [table.name(Split::Train)?, table.name(Split::Val)?];
        let classes = table.classes(classes, &[train, val])?;
        [
            table.images(Some(train), &classes)?,
            table.images(Some(val), &classes)?,
        ]
    };
    // Of several labels, classes without images are a warning.
    if !data.label_sets {
        table.refuse_empty(&train)?;
    }
    (train.notes, train.others) = table.unused();
    Ok([train, val])
}

/// Whether a table of labels, `data.labels`, says which images train and which validate, by its rows or by their folders.
///
/// # Errors
/// If the table cannot be read.
pub fn has_splits(data: &DataConfig) -> Result<bool, DataError> {
    let table = Table::read(data)?;
    let mut both = [&data.train, &data.val].into_iter();
    Ok(both.all(|split| table.found(split).is_some()))
}

/// A split by its name, as [`open_split`](crate::open_split).
pub(super) fn open_split(
    data: &DataConfig,
    split: &str,
    classes: Option<&[String]>,
) -> Result<Source, DataError> {
    let table = Table::read(data)?;
    let split = table.found(split).unwrap_or(split);
    table.images(Some(split), &table.classes(classes, &[split])?)
}

/// The splits `data.train`, `data.val` and that of test images, or all images with `data.val_fraction`, by their names, for a check:
/// missing images are no error.
pub(crate) fn surveys(data: &DataConfig) -> Result<Vec<(String, Source)>, DataError> {
    let data = &DataConfig {
        on_error: OnError::Skip,
        ..data.clone()
    };
    let table = Table::read(data)?;
    let mut surveys = Vec::new();
    if data.val_fraction > 0.0 {
        table.refuse_splits()?;
        let all = table.images(None, &table.classes(None, &[])?)?;
        surveys.push((data.path.display().to_string(), all));
    } else {
        let mut splits = vec![table.name(Split::Train)?, table.name(Split::Val)?];
        let test = table.test().filter(|test| !splits.contains(test));
        splits.extend(test);
        let classes = table.classes(None, &splits)?;
        for split in splits {
            surveys.push((split.to_owned(), table.images(Some(split), &classes)?));
        }
    }
    if let Some((_, first)) = surveys.first_mut() {
        (first.notes, first.others) = table.unused();
    }
    Ok(surveys)
}

impl<'a> Table<'a> {
    /// Reads it. Without a column of its own, the split of a row is the first folder below that of the data.
    fn read(data: &'a DataConfig) -> Result<Self, DataError> {
        let mut labels = Labels::read(&data.path.join(&data.labels), data.label_sets)?;
        if !labels.has_splits {
            let root = whole(&data.path);
            for row in &mut labels.rows {
                let path = whole(&row.path);
                let folder = path.strip_prefix(&root).ok().and_then(Path::parent);
                let first = folder.and_then(|folder| folder.iter().next());
                row.split = first.unwrap_or_default().to_string_lossy().into_owned();
            }
        }
        Ok(Self { data, labels })
    }

    fn error(&self, reason: impl Into<String>) -> DataError {
        DataError::records(&self.labels.path, reason)
    }

    /// The rows of a split, or all.
    fn rows(&self, split: Option<&str>) -> impl Iterator<Item = &Row> {
        let rows = self.labels.rows.iter();
        rows.filter(move |row| split.is_none_or(|split| split == row.split))
    }

    /// The labels of a row: one, or any number.
    fn labels_of<'r>(&self, row: &'r Row) -> Result<Vec<&'r str>, String> {
        if self.data.label_sets {
            labels_in(&row.label)
        } else {
            Ok(vec![row.label.as_str()])
        }
    }

    /// The images of a split, or all, by their paths: the order of the rows does not matter.
    fn images(&self, split: Option<&str>, classes: &[String]) -> Result<Source, DataError> {
        let mut rows: Vec<&Row> = self.rows(split).collect();
        if rows.is_empty() {
            return Err(DataError::NoImages {
                path: self.labels.path.clone(),
                split: split.map(str::to_owned),
            });
        }
        if self.data.on_error == OnError::Fail {
            self.refuse_missing(&rows)?;
        }
        rows.sort_by(|a, b| a.path.as_os_str().cmp(b.path.as_os_str()));
        let numbers = Numbers::new(classes);
        let (mut samples, mut sets) = (Vec::new(), Vec::new());
        for row in rows {
            let labels = self.numbers_of(row, &numbers);
            let labels = labels.map_err(|fault| self.labels.error(row, fault))?;
            samples.push(Sample {
                path: row.path.clone(),
                label: labels.first().copied().unwrap_or(0),
                place: Place::File,
            });
            sets.push(labels);
        }
        let source = Source::new(self.labels.folder.clone(), classes.to_vec(), samples)?;
        Ok(if self.data.label_sets {
            source.with_label_sets(sets)
        } else {
            source
        })
    }

    /// The labels of a row as numbers, or why its image cannot be used.
    fn numbers_of(&self, row: &Row, numbers: &Numbers<'_>) -> Result<Vec<u32>, String> {
        let name = &row.name;
        if let Some(ending) = listing::other_format(&row.path) {
            return Err(format!(
                "`{name}`: .{ending} pictures are not read; convert it to JPEG or PNG"
            ));
        }
        // A name without an ending may be a picture's: only its content says so.
        if row.path.extension().is_some() && !listing::is_image(&row.path) {
            return Err(format!(
                "`{name}` is no picture by its name: expected .jpg, .jpeg, .png, .webp, .bmp, .tif, .tiff or .gif"
            ));
        }
        if row.label.is_empty() && !self.data.label_sets {
            return Err("the column `label` is empty".to_owned());
        }
        numbers.of(&self.labels_of(row)?)
    }

    /// Rejects rows whose files are not there: they would be met after hours.
    fn refuse_missing(&self, rows: &[&Row]) -> Result<(), DataError> {
        // On many threads, since each query of a remote disk is slow.
        let missing = rows.par_iter().filter(|row| !row.path.is_file());
        let missing: Vec<&&Row> = missing.collect();
        let [first, further @ ..] = missing.as_slice() else {
            return Ok(());
        };
        let mut reason = format!("no file `{}`", first.path.display());
        if !further.is_empty() {
            let rows = counted(further.len(), "more row");
            let lines = further.iter().take(FIRST - 1);
            let lines: Vec<String> = lines.map(|row| format!("line {}", row.line)).collect();
            reason += &format!(", and {rows} without its file: {}", lines.join(", "));
        }
        Err(self.labels.error(first, reason))
    }

    /// Rejects training images that lack a class.
    fn refuse_empty(&self, train: &Source) -> Result<(), DataError> {
        let counts = train.class_counts().into_iter().zip(&train.classes);
        let empty = counts.filter(|(count, _)| *count == 0);
        let empty: Vec<String> = empty.map(|(_, class)| class.clone()).collect();
        if empty.is_empty() {
            return Ok(());
        }
        let empty = quoted(&empty);
        Err(self.error(format!("no training image is of the class {empty}")))
    }
}

#[cfg(test)]
mod tests;
