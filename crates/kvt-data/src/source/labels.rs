//! A table of labels: a CSV file with the columns `path` and `label`, and `split` if wanted. What a label means is for its reader. Of
//! several labels, each class can have a column in place of `label`.

mod find;
mod quotes;

use std::collections::{HashMap, HashSet};
use std::io::Read as _;
use std::path::{Path, PathBuf};

pub use self::find::label_tables;
use super::label_sets::{BETWEEN, flag, is_class};
use crate::DataError;
use crate::fs::plain;
use crate::text::{quoted, read_text};

/// The most bytes of a table: far more than a million images need.
const MOST: u64 = 1 << 28;
/// What can stand between the cells of a row; the first of the head counts, as some spreadsheets write semicolons.
const DELIMITERS: [char; 3] = [',', ';', '\t'];
/// A row behind the last one. A text has no zero byte, so a cell that ends with this one is open: the reader itself passes that over.
const END: &str = "\n\0";

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
    /// the head, or names the image of another row, a label or split has several lines, or a quotation mark is not closed or has text
    /// behind it; with the line.
    pub(crate) fn read(path: &Path, label_sets: bool) -> Result<Self, DataError> {
        let text = read_text(path, MOST)?;
        let head = text.lines().find(|line| !line.trim().is_empty());
        let head = head.unwrap_or_default();
        let delimiter = head.chars().find(|found| DELIMITERS.contains(found));
        let delimiter = delimiter.unwrap_or(',');
        let mut reader = csv::ReaderBuilder::new()
            // All three are one byte.
            .delimiter(delimiter as u8)
            .flexible(true)
            .has_headers(false)
            .trim(csv::Trim::All)
            .from_reader(text.as_bytes().chain(END.as_bytes()));
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
            if record.iter().all(str::is_empty) {
                continue;
            }
            let (line, behind) = place_of(&record, &text);
            if record.iter().any(|cell| cell.ends_with('\0')) {
                if record.len() == 1 && record.get(0) == Some(END.trim_start()) {
                    break;
                }
                let reason = "a quotation mark is not closed, and takes in all that follows";
                return Err(at(line, reason.to_owned()));
            }
            if quotes::run_on(behind, delimiter) {
                let reason = "text follows a closing quotation mark: is one left over or missing? One that is part of a cell is written twice";
                return Err(at(line, reason.to_owned()));
            }
            let Some(columns) = &columns else {
                let found = Columns::of(&record, label_sets);
                columns = Some(found.map_err(|reason| at(line, reason))?);
                continue;
            };
            let row = columns.row(&record, &folder, line);
            let row = row.map_err(|reason| at(line, reason))?;
            if let Some(other) = lines.insert(whole(&row.path), line) {
                let reason = format!("`{}` is in line {other} already", row.name);
                return Err(at(line, reason));
            }
            rows.push(row);
        }
        let Some(columns) = columns.filter(|_| !rows.is_empty()) else {
            let reason =
                "it has no rows: expected the columns `path` and `label`, and a row for each image";
            return Err(DataError::records(path, reason));
        };
        Ok(Self {
            path: path.to_owned(),
            folder,
            rows,
            has_splits: columns.split.is_some(),
            classes: columns.classes.into_iter().map(|(_, name)| name).collect(),
            unread: columns.unread,
        })
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

/// The line of a record, from 1, and the text from its beginning on. Empty lines can stand before it, behind the place where the reader
/// says that it begins.
fn place_of<'t>(record: &csv::StringRecord, text: &'t str) -> (u64, &'t str) {
    let place = record.position();
    let (start, line) = place.map_or((0, 1), |found| (found.byte() as usize, found.line()));
    let behind = text.get(start..).unwrap_or_default();
    let own = behind.trim_start_matches(['\n', '\r']);
    let before = behind.bytes().take(behind.len() - own.len());
    let empty = before.filter(|byte| *byte == b'\n').count();
    (line + empty as u64, own)
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
        let (label, split) = (of("label")?, of("split")?);
        let used = [Some(path), label, split];
        let others = names.iter().cloned().enumerate();
        let others = others.filter(|(column, _)| !used.contains(&Some(*column)));
        let mut others: Vec<(usize, String)> = others.collect();
        let mut classes = Vec::new();
        if label.is_none() {
            if !label_sets || others.is_empty() {
                return Err(missing("label"));
            }
            check_classes(&others)?;
            classes = std::mem::take(&mut others);
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
            None => self.classes_of(record)?,
        };
        let names = [("label", Some(&label)), ("split", split.as_ref())];
        for (column, text) in names {
            if text.is_some_and(|text| text.contains(['\n', '\r'])) {
                return Err(format!(
                    "the column `{column}` goes on in the next line: is a quotation mark left over or missing?"
                ));
            }
        }
        Ok(Row {
            path: plain(&folder.join(&name)),
            name,
            label,
            split: split.unwrap_or_default(),
            line,
        })
    }

    /// The classes whose columns say so, as one text.
    fn classes_of(&self, record: &csv::StringRecord) -> Result<String, String> {
        let mut labels = Vec::new();
        for (column, name) in &self.classes {
            let cell = record.get(*column).unwrap_or_default();
            match flag(cell) {
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
        Ok(labels.join(BETWEEN))
    }
}

/// Refuses columns whose names cannot be those of classes, or are there twice.
fn check_classes(columns: &[(usize, String)]) -> Result<(), String> {
    let mut seen = HashSet::new();
    for (column, name) in columns {
        if name.is_empty() {
            return Err(format!(
                "column {} has no name: without a column `label` each other one is a class; name it, or leave it out",
                column + 1
            ));
        }
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
    Ok(())
}

/// A path by which a file can be told from others, whatever folder it is relative to.
pub(super) fn whole(path: &Path) -> PathBuf {
    plain(&std::path::absolute(path).unwrap_or_else(|_| path.to_owned()))
}

#[cfg(test)]
mod tests;
