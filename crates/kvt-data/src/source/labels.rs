//! A table of labels: a CSV file with the columns `path` and `label`, and `split` if wanted. What a label means is for its reader. Of
//! several labels, each class can have a column in place of `label`.

use std::collections::{HashMap, HashSet};
use std::path::{Component, Path, PathBuf};

use super::label_sets::{BETWEEN, flag, is_class};
use crate::DataError;
use crate::text::{quoted, read_text};

/// The most bytes of a table: far more than a million images need.
const MOST: u64 = 1 << 28;
/// What can stand between the cells of a row; the first of the head counts, as some spreadsheets write semicolons.
const DELIMITERS: [char; 3] = [',', ';', '\t'];

/// The rows of a table of labels, in the order of the file.
#[derive(Debug)]
pub(crate) struct Labels {
    /// The file.
    pub(crate) path: PathBuf,
    /// Its folder, to which the paths of images are relative.
    pub(crate) folder: PathBuf,
    pub(crate) rows: Vec<Row>,
    /// Whether there is a column `split`.
    pub(crate) has_splits: bool,
    /// The classes, where each has a column in place of `label`.
    pub(crate) classes: Vec<String>,
    /// The other columns, which are not read.
    pub(crate) unread: Vec<String>,
}

/// A row: an image and its label, as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    /// The image as the table names it.
    pub(crate) name: String,
    /// Its file: below the table's folder, without `.` and `..` where the name alone says where they lead.
    pub(crate) path: PathBuf,
    /// The label, or of several a text such as `cat|dog`; it can be empty.
    pub(crate) label: String,
    /// The split; empty if there is no such column.
    pub(crate) split: String,
    /// The line, from 1.
    pub(crate) line: u64,
}

impl Labels {
    /// Reads a table. With `label_sets` it may have a column for each class, with 0 and 1 or false and true, in place of `label`.
    /// Spaces around a cell do not count, and lines without text are passed over.
    ///
    /// # Errors
    /// If the file cannot be read, a column is missing or twice there, or a row is without an image or split, of another length than
    /// the head, or names the image of another row; with the line.
    pub(crate) fn read(path: &Path, label_sets: bool) -> Result<Self, DataError> {
        let text = read_text(path, MOST)?;
        let head = text.lines().find(|line| !line.trim().is_empty());
        let head = head.unwrap_or_default();
        let delimiter = head.chars().find(|found| DELIMITERS.contains(found));
        let mut reader = csv::ReaderBuilder::new()
            // All three are one byte.
            .delimiter(delimiter.map_or(b',', |found| found as u8))
            .flexible(true)
            .has_headers(false)
            .trim(csv::Trim::All)
            .from_reader(text.as_bytes());
        let at = |line, reason| DataError::Row {
            path: path.to_owned(),
            line,
            reason,
        };
        let folder = path.parent().unwrap_or(Path::new("")).to_owned();
        let mut columns = None;
        let (mut rows, mut lines) = (Vec::new(), HashMap::new());
        for record in reader.records() {
            let record = record.map_err(|error| {
                let line = error.position().map_or(1, csv::Position::line);
                at(line, format!("it cannot be read as CSV: {error}"))
            })?;
            // Where a record is said to begin, empty lines before it can stand.
            let (start, first) = record
                .position()
                .map_or((0, 1), |found| (found.byte() as usize, found.line()));
            let before = text.get(start..).unwrap_or_default().bytes();
            let before = before.take_while(|byte| matches!(byte, b'\n' | b'\r'));
            let line = first + before.filter(|byte| *byte == b'\n').count() as u64;
            if record.iter().all(str::is_empty) {
                continue;
            }
            let Some(columns) = &columns else {
                columns =
                    Some(Columns::of(&record, label_sets).map_err(|reason| at(line, reason))?);
                continue;
            };
            let row = columns
                .row(&record, &folder, line)
                .map_err(|reason| at(line, reason))?;
            if let Some(other) = lines.insert(whole(&row.path), line) {
                let reason = format!("`{}` is in line {other} already", row.name);
                return Err(at(line, reason));
            }
            rows.push(row);
        }
        match columns {
            Some(columns) if !rows.is_empty() => Ok(Self {
                path: path.to_owned(),
                folder,
                rows,
                has_splits: columns.split.is_some(),
                classes: columns.classes.into_iter().map(|(_, name)| name).collect(),
                unread: columns.unread,
            }),
            _ => Err(DataError::Records {
                path: path.to_owned(),
                reason: "it has no rows: expected the columns `path` and `label`, and a row for each image".to_owned(),
            }),
        }
    }

    /// An error of a row.
    pub(crate) fn error(&self, row: &Row, reason: String) -> DataError {
        DataError::Row {
            path: self.path.clone(),
            line: row.line,
            reason,
        }
    }
}

/// Where the columns are.
struct Columns {
    path: usize,
    label: Option<usize>,
    split: Option<usize>,
    /// Those of the classes, if there is none of the label.
    classes: Vec<(usize, String)>,
    /// The number of all.
    count: usize,
    unread: Vec<String>,
}

impl Columns {
    fn of(head: &csv::StringRecord, label_sets: bool) -> Result<Self, String> {
        let names: Vec<String> = head.iter().map(str::to_owned).collect();
        let of = |name: &str| {
            let is_it = |(_, found): &(usize, &String)| found.eq_ignore_ascii_case(name);
            let mut found = names.iter().enumerate().filter(is_it);
            match (found.next(), found.next()) {
                (_, Some(_)) => Err(format!("there are two columns `{name}`")),
                (found, None) => Ok(found.map(|(column, _)| column)),
            }
        };
        let missing = |name| {
            let names = quoted(&names);
            format!(
                "there is no column `{name}`: the first line with text names the columns, `path` and `label`, and `split` if wanted; it \
                 has {names}"
            )
        };
        let path = of("path")?.ok_or_else(|| missing("path"))?;
        let label = of("label")?;
        let split = of("split")?;
        let used = [Some(path), label, split];
        let others = names.iter().cloned().enumerate();
        let mut others: Vec<(usize, String)> = others
            .filter(|(column, _)| !used.contains(&Some(*column)))
            .collect();
        let mut classes = Vec::new();
        if label.is_none() {
            if !label_sets || others.is_empty() {
                return Err(missing("label"));
            }
            classes = std::mem::take(&mut others);
            let mut seen = HashSet::new();
            for (column, name) in &classes {
                if !is_class(name) {
                    return Err(format!(
                        "column {} is `{name}`, which cannot be the name of a class",
                        column + 1
                    ));
                }
                if !seen.insert(name) {
                    return Err(format!("there are two columns `{name}`"));
                }
            }
        }
        Ok(Self {
            path,
            label,
            split,
            count: names.len(),
            classes,
            unread: others.into_iter().map(|(_, name)| name).collect(),
        })
    }

    fn row(&self, record: &csv::StringRecord, folder: &Path, line: u64) -> Result<Row, String> {
        if record.len() != self.count {
            let (found, count) = (record.len(), self.count);
            return Err(format!(
                "it has {found} cells, but there are {count} columns; a cell with the delimiter in it stands in quotation marks"
            ));
        }
        let cell = |column: usize| record.get(column).unwrap_or_default().to_owned();
        let name = cell(self.path);
        if name.is_empty() {
            return Err("the column `path` is empty".to_owned());
        }
        let split = self.split.map(cell);
        if split.as_ref().is_some_and(String::is_empty) {
            return Err(
                "the column `split` is empty: expected `train`, `val` or `test`".to_owned(),
            );
        }
        let label = match self.label {
            Some(column) => cell(column),
            None => {
                let mut labels = Vec::new();
                for (column, name) in &self.classes {
                    let cell = cell(*column);
                    match flag(&cell) {
                        Some(false) => {}
                        Some(true) => labels.push(name.as_str()),
                        None => {
                            return Err(format!(
                                "the column `{name}` is `{cell}`: without a column `label` each other one is a class, with 0 or 1, or with \
                                 false or true"
                            ));
                        }
                    }
                }
                labels.join(BETWEEN)
            }
        };
        Ok(Row {
            path: plain(&folder.join(&name)),
            name,
            label,
            split: split.unwrap_or_default(),
            line,
        })
    }
}

/// A path by which a file can be told from others, whatever folder it is relative to.
pub(super) fn whole(path: &Path) -> PathBuf {
    plain(&std::path::absolute(path).unwrap_or_else(|_| path.to_owned()))
}

/// A path without `.`, and without `..` where a folder is before it, so that each file has one path.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        let last = plain.components().next_back();
        match part {
            Component::CurDir => {}
            Component::ParentDir if matches!(last, Some(Component::Normal(_))) => {
                plain.pop();
            }
            part => plain.push(part),
        }
    }
    plain
}

#[cfg(test)]
mod tests;
