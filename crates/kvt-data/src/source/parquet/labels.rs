//! The labels of a file: numbers or names in a column, or a column for each class.

use std::collections::{BTreeSet, HashMap};

use parquet::basic::Type;
use parquet::file::metadata::KeyValue;
use parquet::schema::types::ColumnDescPtr;

use super::classes;
use super::table::names;
use crate::ParquetFault;
use crate::source::label_sets::BETWEEN;

/// The metadata entry in which Hugging Face's `datasets` describes the columns.
const NOTE: &str = "huggingface";

/// The columns that have the labels.
pub(super) enum LabelColumns {
    One(usize),
    /// A column for each class.
    OfClasses(Vec<usize>),
}

impl LabelColumns {
    /// The column `label`. Where there is none and it `may_lack`, those beside the images.
    pub(super) fn find(
        columns: &[ColumnDescPtr],
        images: usize,
        label: &str,
        may_lack: bool,
    ) -> Result<Self, ParquetFault> {
        let missing = match label_column(columns, label) {
            Err(fault @ ParquetFault::NoLabels { .. }) if may_lack => fault,
            found => return found.map(Self::One),
        };
        match classes::columns(columns, images)? {
            none if none.is_empty() => Err(missing),
            found => Ok(Self::OfClasses(found)),
        }
    }

    /// Whether they are names.
    pub(super) fn is_text(&self, columns: &[ColumnDescPtr]) -> bool {
        match self {
            Self::One(column) => columns[*column].physical_type() == Type::BYTE_ARRAY,
            Self::OfClasses(_) => true,
        }
    }

    /// The classes in the order of their names, if each has a column.
    pub(super) fn classes(&self, columns: &[ColumnDescPtr]) -> Option<Vec<String>> {
        let Self::OfClasses(places) = self else {
            return None;
        };
        let names = places.iter().map(|&place| columns[place].name().to_owned());
        Some(names.collect::<BTreeSet<_>>().into_iter().collect())
    }
}

/// The number of a name, which is the next one where it is not known.
pub(super) fn number(name: String, known: &mut HashMap<String, i64>) -> i64 {
    let next = known.len() as i64;
    *known.entry(name).or_insert(next)
}

/// The names in the order of their numbers; the empty one as a text of no labels.
pub(super) fn in_order(known: HashMap<String, i64>) -> Vec<String> {
    let mut names: Vec<(String, i64)> = known.into_iter().collect();
    names.sort_unstable_by_key(|(_, number)| *number);
    let names = names.into_iter().map(|(name, _)| match name.as_str() {
        "" => BETWEEN.to_owned(),
        _ => name,
    });
    names.collect()
}

/// The column of the labels: whole numbers or names, one for each row.
fn label_column(columns: &[ColumnDescPtr], label: &str) -> Result<usize, ParquetFault> {
    let is_label = |column: &ColumnDescPtr| {
        let is_named = matches!(column.path().parts(), [name] if name == label);
        is_named && column.max_rep_level() == 0
    };
    let Some(place) = columns.iter().position(is_label) else {
        return Err(ParquetFault::NoLabels {
            column: label.to_owned(),
            columns: names(columns),
        });
    };
    match columns[place].physical_type() {
        Type::INT32 | Type::INT64 | Type::BYTE_ARRAY => Ok(place),
        kind => Err(ParquetFault::Unread {
            column: label.to_owned(),
            what: format!("of type {kind}"),
            instead: "whole numbers or names",
        }),
    }
}

/// The numbers of all rows as labels; `none` is that of the empty name.
pub(super) fn to_labels(
    numbers: Vec<Option<i64>>,
    none: Option<i64>,
    column: &str,
) -> Result<Vec<u32>, ParquetFault> {
    let mut labels: Vec<u32> = Vec::new();
    for (row, number) in (0..).zip(numbers) {
        let Some(number) = number.filter(|&number| Some(number) != none) else {
            return Err(ParquetFault::Row {
                column: column.to_owned(),
                row,
                reason: "there is no label; leave the row out, or give it one".to_owned(),
            });
        };
        let label = u32::try_from(number);
        labels.push(label.map_err(|_| ParquetFault::label(column, row, number, None))?);
    }
    Ok(labels)
}

/// The names of the classes in Hugging Face's metadata entry for a column.
pub(super) fn noted_classes(notes: Option<&Vec<KeyValue>>, label: &str) -> Option<Vec<String>> {
    let note = notes?.iter().find(|note| note.key == NOTE)?;
    let note: serde_json::Value = serde_json::from_str(note.value.as_deref()?).ok()?;
    let names = &note["info"]["features"][label]["names"];
    let names: Vec<String> = serde_json::from_value(names.clone()).ok()?;
    let mut times: HashMap<&str, usize> = HashMap::new();
    for name in &names {
        *times.entry(name).or_default() += 1;
    }
    // ImageNet has `crane` twice: classes are distinguished by their names.
    let names = (0_usize..).zip(&names);
    let names = names.map(|(number, name)| match times.get(name.as_str()) {
        Some(1) => name.clone(),
        _ => format!("{name} ({number})"),
    });
    Some(names.collect())
}
