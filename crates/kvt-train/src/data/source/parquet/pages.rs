//! The pages of a column: where each lies, and the values in it.

use std::fs::File;

use super::footer::{Chunk, Column, Kind, read_at};
use super::levels::numbers;
use super::thrift::Value;
use crate::data::ParquetFault;

/// Bytes in which the header of a page is looked for, then more of them: it may hold the smallest and the largest value.
const HEADER: [u64; 3] = [1 << 10, 1 << 16, 1 << 24];

/// Encodings, by the numbers of the format.
const PLAIN: i64 = 0;
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

/// Compressions, by the numbers of the format.
const UNCOMPRESSED: i64 = 0;
const SNAPPY: i64 = 1;
const CODECS: [(i64, &str); 6] = [
    (2, "GZIP"),
    (3, "LZO"),
    (4, "BROTLI"),
    (5, "LZ4"),
    (6, "ZSTD"),
    (7, "LZ4_RAW"),
];
/// How many times smaller than its content a Snappy stream may be: three bytes stand for at most 64.
const SNAPPY_RATIO: u64 = 22;

/// A page.
#[derive(Debug, Clone)]
struct Page {
    /// Where its content lies in the file.
    place: u64,
    stored: u64,
    /// Bytes of the content, unpacked.
    size: u64,
    values: u64,
    encoding: i64,
    levels: Levels,
    is_packed: bool,
}

/// Where a page says which of its values are there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Levels {
    /// Nowhere: a dictionary has all of its values.
    None,
    /// Packed with the values, behind the number of bytes (the first version of pages).
    Within,
    /// In so many bytes before what is packed (the second).
    Before(u64),
}

/// The pages of a column in a group of rows.
#[derive(Debug, Clone)]
pub(super) struct Pages {
    codec: i64,
    dictionary: Option<Page>,
    /// With the row of the group that each begins with.
    pages: Vec<(u64, Page)>,
}

/// The values of a page that are there, and which those are.
struct Content {
    /// For each value, of a dictionary for none.
    is_there: Vec<bool>,
    bytes: Vec<u8>,
    /// Where the values begin in `bytes`.
    start: usize,
}

impl Content {
    fn values(&self) -> &[u8] {
        self.bytes.get(self.start..).unwrap_or_default()
    }
}

impl Pages {
    /// Finds the pages of `rows` values of a column. `length` is the file's.
    pub(super) fn find(
        file: &mut File,
        length: u64,
        column: &Column,
        chunk: &Chunk,
        rows: u64,
    ) -> Result<Self, ParquetFault> {
        let end = chunk.start.checked_add(chunk.length);
        let end = end.filter(|&end| end <= length);
        let end = end.ok_or_else(|| damaged(column, "lies behind the end of the file"))?;
        if let Some(codec) = name(chunk.codec, &CODECS, &[UNCOMPRESSED, SNAPPY]) {
            return Err(ParquetFault::Unread {
                column: column.name(),
                what: format!("compressed with {codec}"),
                instead: "SNAPPY",
            });
        }
        let mut found = Self {
            codec: chunk.codec,
            dictionary: None,
            pages: Vec::new(),
        };
        let (mut place, mut row) = (chunk.start, 0);
        while row < rows {
            let (kind, page) = Page::read(file, column, place, end)?;
            place = page.place + page.stored;
            match kind {
                PageKind::Dictionary => found.dictionary = Some(page),
                PageKind::Data => {
                    let first = row;
                    row += page.values;
                    found.pages.push((first, page));
                }
                PageKind::Other => {}
            }
        }
        match row == rows {
            true => Ok(found),
            false => Err(damaged(column, "has more values than rows")),
        }
    }

    /// The bytes that the page of a row takes in the file.
    pub(super) fn stored(&self, row: u64) -> u64 {
        self.page(row).map_or(0, |(_, page)| page.stored)
    }

    fn page(&self, row: u64) -> Option<&(u64, Page)> {
        let behind = self.pages.partition_point(|(first, _)| *first <= row);
        self.pages.get(behind.checked_sub(1)?)
    }

    /// The bytes in a row; `None` if there are none.
    pub(super) fn bytes(
        &self,
        file: &mut File,
        column: &Column,
        row: u64,
    ) -> Result<Option<Vec<u8>>, ParquetFault> {
        let damaged = || damaged(column, "has a page that cannot be read");
        let (first, page) = self.page(row).ok_or_else(damaged)?;
        let at = (row - first) as usize;
        let content = page.content(file, column, self.codec)?;
        let (before, rest) = content.is_there.split_at_checked(at).ok_or_else(damaged)?;
        if rest.first() != Some(&true) {
            return Ok(None);
        }
        let at = before.iter().filter(|is_there| **is_there).count();
        let found = if page.encoding == PLAIN {
            nth(content.values(), at)
        } else {
            let places = indices(content.values(), at + 1).ok_or_else(damaged)?;
            let place = *places.last().ok_or_else(damaged)?;
            let dictionary = self.dictionary.as_ref().ok_or_else(damaged)?;
            let content = dictionary.content(file, column, self.codec)?;
            nth(content.values(), place as usize)
        };
        Ok(Some(found.ok_or_else(damaged)?))
    }

    /// The whole numbers of all rows, `None` where there is none.
    pub(super) fn integers(
        &self,
        file: &mut File,
        column: &Column,
    ) -> Result<Vec<Option<i64>>, ParquetFault> {
        let damaged = || damaged(column, "has a page that cannot be read");
        let of = |bytes: &[u8], count: usize| integers(bytes, column.kind, count);
        let dictionary = match &self.dictionary {
            Some(page) => {
                let content = page.content(file, column, self.codec)?;
                of(content.values(), page.values as usize).ok_or_else(damaged)?
            }
            None => Vec::new(),
        };
        let mut all = Vec::new();
        for (_, page) in &self.pages {
            let content = page.content(file, column, self.codec)?;
            let there = content.is_there.iter().filter(|is_there| **is_there);
            let count = there.count();
            let values = if page.encoding == PLAIN {
                of(content.values(), count)
            } else {
                let places = indices(content.values(), count).ok_or_else(damaged)?;
                let values = places.into_iter();
                values
                    .map(|place| dictionary.get(place as usize).copied())
                    .collect()
            };
            let mut values = values.ok_or_else(damaged)?.into_iter();
            let rows = content.is_there.iter();
            all.extend(rows.map(|is_there| is_there.then(|| values.next()).flatten()));
        }
        Ok(all)
    }
}

enum PageKind {
    Data,
    Dictionary,
    Other,
}

impl Page {
    /// Reads the header of the page at a place of a column that ends at `end`.
    fn read(
        file: &mut File,
        column: &Column,
        place: u64,
        end: u64,
    ) -> Result<(PageKind, Self), ParquetFault> {
        for most in HEADER {
            let mut bytes = vec![0; most.min(end.saturating_sub(place)) as usize];
            read_at(file, place, &mut bytes)?;
            if let Some((header, taken)) = Value::read(&bytes) {
                let found = Self::of(&header, place + taken as u64);
                let found = found.filter(|(_, page)| {
                    let behind = page.place.checked_add(page.stored);
                    behind.is_some_and(|behind| behind <= end)
                });
                let (kind, page) =
                    found.ok_or_else(|| damaged(column, "has a page that is not whole"))?;
                let is_read = &[PLAIN, DICTIONARY[0], DICTIONARY[1]];
                if let Some(encoding) = name(page.encoding, &ENCODINGS, is_read) {
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

    fn of(header: &Value<'_>, place: u64) -> Option<(PageKind, Self)> {
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
                // Levels in bits, as writers of the first days had them, are in no file of images.
                let levels = header.field(5)?.int(3)?;
                let page = of(5, 2)?;
                let page = Self {
                    encoding: if levels == RLE { page.encoding } else { BITS },
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
                // No value is one of several.
                (more.count(6)? == 0).then_some((PageKind::Data, page))?
            }
            _ => (PageKind::Other, page),
        })
    }

    /// Reads the page and unpacks it.
    fn content(
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
        let bytes = match codec == SNAPPY && self.is_packed {
            true => snappy(rest, size)?,
            false => rest.to_vec(),
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

fn damaged(column: &Column, words: &str) -> ParquetFault {
    ParquetFault::Damaged(format!("column `{}` {words}", column.name()))
}

/// What a number stands for, if it is none of those that are read.
fn name(number: i64, names: &[(i64, &str)], read: &[i64]) -> Option<String> {
    if read.contains(&number) {
        return None;
    }
    let known = names.iter().find(|(known, _)| *known == number);
    Some(known.map_or_else(|| number.to_string(), |(_, name)| (*name).to_owned()))
}

/// What a Snappy stream of that size holds.
fn snappy(packed: &[u8], size: u64) -> Option<Vec<u8>> {
    // The stream says its size itself, and memory is taken for it before it is read.
    let says = snap::raw::decompress_len(packed).ok()?;
    let most = SNAPPY_RATIO * packed.len() as u64;
    if says as u64 != size || size > most {
        return None;
    }
    snap::raw::Decoder::new().decompress_vec(packed).ok()
}

/// One of several texts, each behind its length.
fn nth(mut bytes: &[u8], at: usize) -> Option<Vec<u8>> {
    for _ in 0..at {
        bytes = split(bytes)?.1;
    }
    Some(split(bytes)?.0.to_vec())
}

fn split(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    rest.split_at_checked(u32::from_le_bytes(*length) as usize)
}

/// Places in a dictionary: the bits that each takes, then the places.
fn indices(bytes: &[u8], count: usize) -> Option<Vec<u32>> {
    // A page without a value may have nothing at all.
    if count == 0 {
        return Some(Vec::new());
    }
    let (&width, places) = bytes.split_first()?;
    numbers(places, width.into(), count)
}

fn integers(bytes: &[u8], kind: Kind, count: usize) -> Option<Vec<i64>> {
    match kind {
        Kind::Int64 => {
            let (numbers, _) = bytes.as_chunks::<8>();
            let numbers = numbers.get(..count)?.iter();
            Some(numbers.map(|&bytes| i64::from_le_bytes(bytes)).collect())
        }
        _ => {
            let (numbers, _) = bytes.as_chunks::<4>();
            let numbers = numbers.get(..count)?.iter();
            Some(
                numbers
                    .map(|&bytes| i32::from_le_bytes(bytes).into())
                    .collect(),
            )
        }
    }
}
