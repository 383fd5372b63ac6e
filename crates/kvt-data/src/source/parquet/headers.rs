//! The headers of the pages of a column.
//! <https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift>

use std::fs::File;

use super::footer::read_at;
use super::thrift::{END, Reader, STRUCT};
use crate::ParquetFault;

/// Bytes that are read for a header at first, and how many times more if it is longer: statistics can contain whole images.
const USUAL: u64 = 256;
const MORE: u64 = 8;

/// Types of pages, as numbers of the format.
const DATA: i32 = 0;
const DICTIONARY: i32 = 2;
const DATA_V2: i32 = 3;

/// How deep structures may be nested in a header: statistics are two deep.
const DEEPEST: usize = 4;

/// What the header of a page says.
#[derive(Clone, Copy)]
pub(super) struct Header {
    /// Bytes of the header itself.
    pub(super) length: u64,
    /// Bytes of the unpacked and of the stored content.
    pub(super) size: u32,
    pub(super) stored: u32,
    /// The number of its values; 0 unless it is a data page.
    pub(super) values: usize,
    pub(super) is_dictionary: bool,
}

impl Header {
    /// Reads the header that begins at a place of a file; `None` if there is none before `end`.
    pub(super) fn read(
        file: &mut File,
        place: u64,
        end: u64,
    ) -> Result<Option<Self>, ParquetFault> {
        let mut count = USUAL;
        loop {
            let mut bytes = vec![0; count.min(end - place) as usize];
            read_at(file, place, &mut bytes)?;
            let header = Self::of(&bytes);
            if header.is_some() || count >= end - place {
                return Ok(header);
            }
            count *= MORE;
        }
    }

    /// It begins with the type and the sizes. Fields of other types than the format has are refused, and so are sizes that are there twice:
    /// the crate `parquet` would take the former to be of the right type, and the last of the latter.
    fn of(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        let mut number = |expected| match reader.field(expected - 1)? {
            (found, 4..=6) if found == expected => reader.int(),
            _ => None,
        };
        let (kind, size, stored) = (number(1)?, number(2)?, number(3)?);
        let (mut last, mut values) = (3, (kind != DATA && kind != DATA_V2).then_some(0));
        loop {
            let field;
            (last, field) = reader.field(last)?;
            match (last, field) {
                (_, END) => break,
                (4, 4..=6) => drop(reader.number()?),
                (5 | 7 | 8, STRUCT) => {
                    let first = first_number(&mut reader, last)?;
                    if matches!((last, kind), (5, DATA) | (8, DATA_V2)) {
                        values = Some(usize::try_from(first).ok()?);
                    }
                }
                (6, STRUCT) | (9..=99, _) => reader.skip(field, DEEPEST)?,
                _ => return None,
            }
        }
        Some(Self {
            length: (bytes.len() - reader.0.len()) as u64,
            size: size.try_into().ok()?,
            stored: stored.try_into().ok()?,
            values: values?,
            is_dictionary: kind == DICTIONARY,
        })
    }
}

/// The number of values, which is the first field of the structures 5, 7 and 8: those of data, of dictionaries, and of data in version 2.
fn first_number(reader: &mut Reader<'_>, structure: i32) -> Option<i32> {
    let (mut last, mut first) = (0, None);
    loop {
        let field;
        (last, field) = reader.field(last)?;
        match (structure, last, field) {
            (_, _, END) => return first,
            (_, 1, 4..=6) => first = Some(reader.int()?),
            (5, 2..=4, 4..=6) | (7, 2, 4..=6) | (8, 2..=6, 4..=6) => drop(reader.number()?),
            // The type of a boolean is its value.
            (7, 3, 1 | 2) | (8, 7, 1 | 2) => {}
            (5, 5, STRUCT) | (8, 8, STRUCT) => reader.skip(STRUCT, DEEPEST)?,
            _ => return None,
        }
    }
}
