//! One page: its header, and its decompressed content.

use std::fs::File;

use super::super::footer::{Column, read_at};
use super::super::levels::numbers;
use super::super::thrift::Value;
use super::{damaged, unread};
use crate::ParquetFault;

/// Number of bytes in which the header of a page is searched, in increasing steps: it can contain the smallest and the largest value.
const HEADER: [u64; 3] = [1 << 10, 1 << 16, 1 << 24];

/// Encodings, by their numbers in the format.
pub(super) const PLAIN: i64 = 0;
const DICTIONARY: [i64; 2] = [2, 8];
const RLE: i64 = 3;
const BITS: i64 = 4;
const ENCODINGS: [(i64, &str); 5] = [
    (BITS, "BIT_PACKED"),
    (5, "DELTA_BINARY_PACKED"),
    (6, "DELTA_LENGTH_BYTE_ARRAY"),
    (7, "DELTA_BYTE_ARRAY"),
    (9, "BYTE_STREAM_SPLIT"),
];

/// Compressions, by their numbers in the format.
pub(super) const UNCOMPRESSED: i64 = 0;
pub(super) const SNAPPY: i64 = 1;
pub(super) const CODECS: [(i64, &str); 6] = [
    (2, "GZIP"),
    (3, "LZO"),
    (4, "BROTLI"),
    (5, "LZ4"),
    (6, "ZSTD"),
    (7, "LZ4_RAW"),
];
/// The maximum compression ratio of a Snappy stream: three bytes represent at most 64.
const SNAPPY_RATIO: u64 = 22;

/// A page.
#[derive(Debug, Clone)]
pub(super) struct Page {
    /// Offset of its content in the file.
    pub(super) place: u64,
    pub(super) stored: u64,
    /// Bytes of the decompressed content.
    size: u64,
    pub(super) values: u64,
    pub(super) encoding: i64,
    levels: Levels,
    is_packed: bool,
}

/// Where a page stores which of its values exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Levels {
    /// Nowhere: a dictionary contains all of its values.
    None,
    /// Compressed with the values, after their length in bytes (version 1 of pages).
    Within,
    /// In this number of bytes before the compressed values (version 2).
    Before(u64),
}

/// The existing values of a page, and which ones exist.
#[derive(Debug)]
pub(super) struct Content {
    /// For each value; empty for a dictionary.
    pub(super) is_there: Vec<bool>,
    bytes: Vec<u8>,
    /// Offset of the values in `bytes`.
    start: usize,
}

impl Content {
    /// The bytes that it takes in memory.
    pub(super) fn size(&self) -> usize {
        self.is_there.len() + self.bytes.len()
    }

    pub(super) fn values(&self) -> &[u8] {
        self.bytes.get(self.start..).unwrap_or_default()
    }
}

/// The kind of a page.
pub(super) enum PageKind {
    Data,
    Dictionary,
    Other,
}

impl Page {
    /// Reads the header of the page at a position of a column that ends at `end`.
    pub(super) fn read(
        file: &mut File,
        column: &Column,
        place: u64,
        end: u64,
    ) -> Result<(PageKind, Self), ParquetFault> {
        for most in HEADER {
            let mut bytes = vec![0; most.min(end.saturating_sub(place)) as usize];
            read_at(file, place, &mut bytes)?;
            if let Some((header, taken)) = Value::read(&bytes) {
                let found = Self::of(&header, column, place + taken as u64).filter(|(_, page)| {
                    let behind = page.place.checked_add(page.stored);
                    behind.is_some_and(|behind| behind <= end)
                });
                let (kind, page) =
                    found.ok_or_else(|| damaged(column, "has a page that is not whole"))?;
                let is_read = &[PLAIN, DICTIONARY[0], DICTIONARY[1]];
                if let Some(encoding) = unread(page.encoding, &ENCODINGS, is_read) {
                    return Err(ParquetFault::Unread {
                        column: column.name(),
                        what: format!("encoded as {encoding}"),
                        instead: "PLAIN",
                    });
                }
                return Ok((kind, page));
            }
        }
        Err(damaged(column, "has a page without a header"))
    }

    fn of(header: &Value<'_>, column: &Column, place: u64) -> Option<(PageKind, Self)> {
        let kind = header.int(1)?;
        let page = Self {
            place,
            stored: header.count(3)?,
            size: header.count(2)?,
            values: 0,
            encoding: PLAIN,
            levels: Levels::None,
            is_packed: true,
        };
        let of = |field, encoding| -> Option<Self> {
            let more = header.field(field)?;
            Some(Self {
                values: more.count(1)?,
                encoding: more.int(encoding)?,
                ..page.clone()
            })
        };
        Some(match kind {
            0 => {
                // Bit-packed levels, as in early versions, do not occur in files of images. Columns that cannot have
                // missing values have no levels, even if parquet-mr declares this encoding.
                let has_levels = column.level > 0;
                let levels = header.field(5)?.int(3)?;
                let page = of(5, 2)?;
                let page = Self {
                    encoding: if has_levels && levels != RLE {
                        BITS
                    } else {
                        page.encoding
                    },
                    levels: Levels::Within,
                    ..page
                };
                (PageKind::Data, page)
            }
            2 => (PageKind::Dictionary, of(7, 2)?),
            3 => {
                let more = header.field(8)?;
                let page = Self {
                    levels: Levels::Before(more.count(5)?),
                    is_packed: more.bool(7).unwrap_or(true),
                    ..of(8, 4)?
                };
                // No value is part of a repetition.
                (more.count(6)? == 0).then_some((PageKind::Data, page))?
            }
            _ => (PageKind::Other, page),
        })
    }

    /// Reads and decompresses the page.
    pub(super) fn content(
        &self,
        file: &mut File,
        column: &Column,
        codec: i64,
    ) -> Result<Content, ParquetFault> {
        let mut stored = vec![0; self.stored as usize];
        read_at(file, self.place, &mut stored)?;
        let content = self.unpacked(&stored, column, codec);
        content.ok_or_else(|| damaged(column, "has a page that cannot be unpacked"))
    }

    fn unpacked(&self, stored: &[u8], column: &Column, codec: i64) -> Option<Content> {
        let before = match self.levels {
            Levels::Before(length) => length,
            _ => 0,
        };
        let (ahead, rest) = stored.split_at_checked(before.try_into().ok()?)?;
        let size = self.size.checked_sub(before)?;
        let bytes = if codec == SNAPPY && self.is_packed {
            snappy(rest, size)?
        } else {
            rest.to_vec()
        };
        if bytes.len() as u64 != size {
            return None;
        }
        let (levels, start) = match self.levels {
            _ if column.level == 0 => (None, 0),
            Levels::None => (None, 0),
            Levels::Before(_) => (Some(ahead), 0),
            Levels::Within => {
                let (length, rest) = bytes.split_first_chunk::<4>()?;
                let length = u32::from_le_bytes(*length) as usize;
                (Some(rest.get(..length)?), 4 + length)
            }
        };
        let values = match self.levels {
            Levels::None => 0,
            _ => self.values.try_into().ok()?,
        };
        let is_there = match levels {
            Some(levels) => {
                let width = u32::BITS - column.level.leading_zeros();
                let levels = numbers(levels, width, values)?.into_iter();
                levels.map(|level| level == column.level).collect()
            }
            None => vec![true; values],
        };
        Some(Content {
            is_there,
            bytes,
            start,
        })
    }
}

/// The content of a Snappy stream with the given size.
fn snappy(packed: &[u8], size: u64) -> Option<Vec<u8>> {
    // The stream declares its own size, and memory is allocated for it before it is read.
    let says = snap::raw::decompress_len(packed).ok()?;
    let most = SNAPPY_RATIO * packed.len() as u64;
    if says as u64 != size || size > most {
        return None;
    }
    snap::raw::Decoder::new().decompress_vec(packed).ok()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use std::io::Write;

    use super::super::super::footer::Kind;
    use super::*;

    /// A handmade page with the number 7, whose header declares bit-packed levels.
    #[test]
    fn levels_that_are_not_there_are_in_no_encoding() {
        let sizes: [u8; 6] = [0x15, 0, 0x15, 8, 0x15, 8];
        let numbers = [0x2c, 0x15, 2, 0x15, 0, 0x15, 8, 0x15, 8, 0, 0];
        let mut file = tempfile::tempfile().unwrap();
        let bytes = [&sizes[..], &numbers, &[7, 0, 0, 0]].concat();
        file.write_all(&bytes).unwrap();
        let mut read = |level| {
            let column = Column {
                path: vec!["label".into()],
                kind: Kind::Int32,
                level,
                repeats: false,
            };
            let (_, page) = Page::read(&mut file, &column, 0, bytes.len() as u64)?;
            page.content(&mut file, &column, UNCOMPRESSED)
        };
        let content = read(0).unwrap();
        assert_eq!(
            (content.is_there.as_slice(), content.values()),
            (&[true][..], &[7, 0, 0, 0][..])
        );
        let fault = read(1).err().unwrap().to_string();
        assert!(fault.contains("encoded as BIT_PACKED"), "{fault}");
    }
}
