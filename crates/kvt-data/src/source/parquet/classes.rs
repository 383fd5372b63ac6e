//! Any number of labels for each image, where no column has them: each class has a column.

use std::collections::{HashMap, HashSet};
use std::fs::File;

use parquet::basic::Type;
use parquet::schema::types::ColumnDescPtr;

use super::footer::name;
use super::pages::Pages;
use crate::ParquetFault;
use crate::source::label_sets::{BETWEEN, flag, is_class};

/// What a column that is not read should be.
const INSTEAD: &str = "0 and 1 in it, or without it: where no column is `data.label_column`, each beside the images is a class";

/// The labels of all rows may take so many times the bytes of their file: more than any images have, and a hostile file packs them to
/// almost nothing.
const MOST: u64 = 64;

/// The bytes that the labels of a file of so many bytes may take.
pub(super) fn room(length: u64) -> u64 {
    MOST.saturating_mul(length)
}

/// The columns of the classes: all but those of the images.
pub(super) fn columns(
    columns: &[ColumnDescPtr],
    images: usize,
) -> Result<Vec<usize>, ParquetFault> {
    let first = |place: usize| columns.get(place)?.path().parts().first();
    let (mut found, mut seen) = (Vec::new(), HashSet::new());
    for (place, column) in columns.iter().enumerate() {
        if first(place) == first(images) {
            continue;
        }
        let is_plain = column.path().parts().len() == 1 && column.max_rep_level() == 0;
        let what = match column.physical_type() {
            _ if !is_plain => "a list or a structure".to_owned(),
            _ if !is_class(column.name()) => "named as no class can be".to_owned(),
            _ if !seen.insert(column.name()) => "there twice".to_owned(),
            Type::BOOLEAN | Type::INT32 | Type::INT64 | Type::BYTE_ARRAY => {
                found.push(place);
                continue;
            }
            kind => format!("of type {kind}"),
        };
        return Err(ParquetFault::Unread {
            column: name(column),
            what,
            instead: INSTEAD,
        });
    }
    Ok(found)
}

/// Adds a class to the labels of those rows, of a group that begins with the row `first`, whose column says so. They may take
/// `room` more bytes, of which each value takes one.
pub(super) fn add(
    (labels, room): (&mut [String], &mut u64),
    first: u64,
    class: &ColumnDescPtr,
    pages: &Pages,
    file: &mut File,
) -> Result<(), ParquetFault> {
    let too_much = || ParquetFault::Unread {
        column: name(class),
        what: format!("of labels that take more than {MOST} times the bytes of the file"),
        instead: "shorter names",
    };
    // A value that is false takes time alone.
    *room = room.checked_sub(labels.len() as u64).ok_or_else(too_much)?;
    let mut known = HashMap::new();
    let values = pages.numbers(file, &mut known)?;
    let is_text = class.physical_type() == Type::BYTE_ARRAY;
    let texts: HashMap<i64, String> = known.into_iter().map(|(text, at)| (at, text)).collect();
    for (row, (labels, value)) in (first..).zip(labels.iter_mut().zip(values)) {
        let is_there = match value {
            Some(at) if is_text => texts.get(&at).and_then(|text| flag(text)),
            Some(0) => Some(false),
            Some(1) => Some(true),
            _ => None,
        };
        match is_there {
            Some(false) => {}
            Some(true) => {
                let left = room.checked_sub(class.name().len() as u64 + 1);
                *room = left.ok_or_else(too_much)?;
                if !labels.is_empty() {
                    labels.push_str(BETWEEN);
                }
                labels.push_str(class.name());
            }
            None => {
                let cell = match value {
                    None => "null".to_owned(),
                    Some(at) if is_text => texts.get(&at).cloned().unwrap_or_default(),
                    Some(number) => number.to_string(),
                };
                return Err(ParquetFault::Row {
                    column: name(class),
                    row,
                    reason: format!(
                        "`{cell}` is neither 0 nor 1, and neither false nor true: where no column is `data.label_column`, each beside the images \
                         is a class"
                    ),
                });
            }
        }
    }
    Ok(())
}
