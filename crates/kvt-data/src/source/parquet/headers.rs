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

    /// It begins with the type and the sizes.
    fn of(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        let mut number = |expected| match reader.field(expected - 1)? {
            (found, 4..=6) if found == expected => reader.int(),
            _ => None,
        };
        let (kind, size, stored) = (number(1)?, number(2)?, number(3)?);
        let (mut last, mut values) = (3, None);
        loop {
            let field;
            (last, field) = reader.field(last)?;
            match (last, field, kind) {
                (_, END, _) => break,
                // No writer says them twice, and the crate would take the last ones.
                (1..=3, ..) => return None,
                (5, STRUCT, DATA) | (8, STRUCT, DATA_V2) => {
                    let (1, 4..=6) = reader.field(0)? else {
                        return None;
                    };
                    values = Some(usize::try_from(reader.int()?).ok()?);
                    // What else the structure has.
                    reader.skip(STRUCT, DEEPEST)?;
                }
                _ => reader.skip(field, DEEPEST)?,
            }
        }
        let is_data = matches!(kind, DATA | DATA_V2);
        Some(Self {
            length: (bytes.len() - reader.0.len()) as u64,
            size: size.try_into().ok()?,
            stored: stored.try_into().ok()?,
            values: if is_data { values? } else { 0 },
            is_dictionary: kind == DICTIONARY,
        })
    }
}
