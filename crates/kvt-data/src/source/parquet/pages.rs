//! The pages of a column: their locations, and their content.

mod values;

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::{Compression, Encoding, Type};
use parquet::column::page::{Page, PageReader};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::page_index::offset_index::PageLocation;
use parquet::file::serialized_reader::SerializedPageReader;
use parquet::schema::types::ColumnDescPtr;

use self::values::values;
use super::footer::{guarded, name, read_at};
use super::headers::{Headers, end, sizes};
use super::labels::number;
use crate::ParquetFault;

/// A page may take so many bytes for each of its values, however small it is packed: equal ones pack to almost nothing.
const PER_VALUE: u64 = 256;

/// Enough bytes for the sizes at the beginning of a header.
const SIZES: u64 = 32;

/// The pages of a column in a group of rows.
#[derive(Debug)]
pub(super) struct Pages {
    column: ColumnDescPtr,
    codec: Compression,
    dictionary: Option<Spot>,
    pages: Vec<Spot>,
}

/// Where a page is in the file.
#[derive(Debug)]
pub(super) struct Spot {
    place: u64,
    header: u64,
    pub(super) stored: u32,
    /// Bytes of the unpacked content.
    size: u32,
    /// The row of the group that it begins with; 0 for a dictionary.
    pub(super) first: u64,
    rows: usize,
}

/// A page of byte arrays that has been read.
#[derive(Debug)]
pub(super) struct OpenPage {
    values: Vec<Option<ByteArray>>,
    /// The bytes that it takes in memory.
    pub(super) size: usize,
}

impl Pages {
    /// Finds the pages of `rows` values of a column. `length` is the length of the file.
    pub(super) fn find(
        file: &mut File,
        length: u64,
        chunk: &ColumnChunkMetaData,
        rows: u64,
    ) -> Result<Self, ParquetFault> {
        let column = chunk.column_descr_ptr();
        let codec = chunk.compression();
        let ratio = ratio(codec).ok_or_else(|| ParquetFault::Unread {
            column: name(&column),
            what: format!("compressed with {}", chunk.compression_codec()),
            instead: "SNAPPY",
        })?;
        for encoding in chunk.encodings() {
            if !of_levels(encoding) {
                refuse_others(encoding, &column)?;
            }
        }
        let mut found = Self {
            column,
            codec,
            dictionary: None,
            pages: Vec::new(),
        };
        let extent = extent(chunk, length);
        let (start, end) =
            extent.ok_or_else(|| found.damaged("its pages are past the end of the file"))?;
        let located = ColumnChunkMetaData::builder(Arc::clone(&found.column))
            .set_data_page_offset(start)
            .set_total_compressed_size(end - start);
        let opened = guarded(|| {
            let headers = Arc::new(Headers::new(file, length)?);
            let chunk = located.build()?;
            let reader = SerializedPageReader::new(Arc::clone(&headers), &chunk, 0, None)?;
            Ok((headers, reader))
        });
        let (headers, mut reader) = opened.map_err(|why| found.damaged(&why))?;
        let mut row = 0;
        while row < rows {
            let passed = guarded(|| {
                let Some(page) = reader.peek_next_page()? else {
                    return Ok(None);
                };
                let header = headers.last();
                reader.skip_next_page()?;
                Ok(Some((page, header)))
            });
            let passed = passed.map_err(|why| found.damaged(&why))?;
            let (page, header) =
                passed.ok_or_else(|| found.damaged("it has fewer values than rows"))?;
            let values = page.num_levels.unwrap_or_default();
            if values as u64 > rows - row {
                return Err(found.damaged("it has more values than rows"));
            }
            let mut spot = found.spot(file, header, end as u64, values, ratio)?;
            if page.is_dict {
                found.dictionary = Some(spot);
            } else if values > 0 {
                spot.first = row;
                found.pages.push(spot);
                row += values as u64;
            }
        }
        Ok(found)
    }

    /// The page of so many rows behind a header, given by its place and length, in a column that ends at `end`.
    fn spot(
        &self,
        file: &mut File,
        (place, header): (u64, u64),
        end: u64,
        rows: usize,
        ratio: u64,
    ) -> Result<Spot, ParquetFault> {
        let mut first = vec![0; header.min(SIZES) as usize];
        read_at(file, place, &mut first)?;
        let sizes = sizes(&first);
        let (size, stored) = sizes.ok_or_else(|| self.damaged("a page has no size"))?;
        // Memory is reserved for this size before the content is unpacked.
        let most = ratio * u64::from(stored) + PER_VALUE * rows as u64;
        let is_larger = u64::from(size) > most;
        if is_larger && matches!(self.codec, Compression::ZSTD(_)) {
            return Err(ParquetFault::Unread {
                column: name(&self.column),
                what: format!("packed to a page of {stored} bytes that unpacks to {size}"),
                instead: "SNAPPY",
            });
        }
        if is_larger || place + header + u64::from(stored) > end {
            return Err(self.damaged("a page is larger than it can be"));
        }
        Ok(Spot {
            place,
            header,
            stored,
            size,
            first: 0,
            rows,
        })
    }

    fn damaged(&self, words: &str) -> ParquetFault {
        ParquetFault::Damaged(format!("column `{}`: {words}", name(&self.column)))
    }

    /// The page that contains a row.
    pub(super) fn page(&self, row: u64) -> Option<&Spot> {
        let behind = self.pages.partition_point(|page| page.first <= row);
        self.pages.get(behind.checked_sub(1)?)
    }

    /// Reads and unpacks a page.
    fn read(&self, file: &mut File, spot: &Spot) -> Result<Page, ParquetFault> {
        let page = guarded(|| {
            let mut bytes = Vec::with_capacity(spot.header as usize + spot.stored as usize + 8);
            append(file, spot.place, spot.header.saturating_sub(1), &mut bytes)?;
            bytes.extend(end(spot.size));
            append(
                file,
                spot.place + spot.header,
                spot.stored.into(),
                &mut bytes,
            )?;
            let chunk = ColumnChunkMetaData::builder(Arc::clone(&self.column))
                .set_compression(self.codec)
                .build()?;
            let place = PageLocation {
                offset: 0,
                compressed_page_size: bytes.len().try_into()?,
                first_row_index: 0,
            };
            let bytes = Arc::new(Bytes::from(bytes));
            SerializedPageReader::new(bytes, &chunk, spot.rows, Some(vec![place]))?.get_next_page()
        });
        let page = page
            .map_err(|why| self.damaged(&why))?
            .ok_or_else(|| self.damaged("a page is not there"))?;
        refuse_others(page.encoding(), &self.column)?;
        // Memory is reserved for the values of a dictionary, each of which takes four bytes or more.
        let is_whole = match &page {
            Page::DictionaryPage {
                buf, num_values, ..
            } => *num_values as usize <= buf.len() / 4,
            page => {
                matches!(page.encoding(), Encoding::PLAIN | Encoding::RLE)
                    || self.dictionary.is_some()
            }
        };
        if is_whole {
            Ok(page)
        } else {
            Err(self.damaged("a dictionary is not whole"))
        }
    }

    /// The values of `rows` rows of the dictionary and these pages, `None` for missing ones.
    fn values<T: DataType>(
        &self,
        pages: Vec<Page>,
        rows: usize,
    ) -> Result<Vec<Option<T::T>>, ParquetFault> {
        let values = guarded(|| values::<T>(&self.column, pages, rows));
        values.map_err(|why| self.damaged(&why))
    }

    /// Reads a page, and the dictionary of its values if there is one.
    pub(super) fn open(&self, file: &mut File, spot: &Spot) -> Result<OpenPage, ParquetFault> {
        let page = self.read(file, spot)?;
        let mut pages = Vec::new();
        if let Some(dictionary) = &self.dictionary
            && page.encoding() != Encoding::PLAIN
        {
            pages.push(self.read(file, dictionary)?);
        }
        pages.push(page);
        let unpacked = pages.iter().map(|page| page.buffer().len());
        let size = unpacked.sum::<usize>() + spot.rows * size_of::<ByteArray>();
        let values = self.values::<ByteArrayType>(pages, spot.rows)?;
        // Such a value would panic.
        if values.contains(&Some(ByteArray::new())) {
            return Err(self.damaged("a dictionary is not whole"));
        }
        Ok(OpenPage { values, size })
    }

    /// The numbers of all rows, `None` for missing ones; 0 and 1 for false and true. Those of names are by their first occurrence, also in
    /// `known`.
    pub(super) fn numbers(
        &self,
        file: &mut File,
        known: &mut HashMap<String, i64>,
    ) -> Result<Vec<Option<i64>>, ParquetFault> {
        let mut pages: Vec<Page> = Vec::new();
        for spot in self.dictionary.iter().chain(&self.pages) {
            pages.push(self.read(file, spot)?);
        }
        let rows: usize = self.pages.iter().map(|page| page.rows).sum();
        Ok(match self.column.physical_type() {
            Type::BOOLEAN => widened(self.values::<BoolType>(pages, rows)?),
            Type::INT32 => widened(self.values::<Int32Type>(pages, rows)?),
            Type::INT64 => self.values::<Int64Type>(pages, rows)?,
            _ => {
                let mut numbers = Vec::new();
                for value in self.values::<ByteArrayType>(pages, rows)? {
                    let number = value.map(|value| self.number_of(&value, known));
                    numbers.push(number.transpose()?);
                }
                numbers
            }
        })
    }

    /// The number of a name.
    fn number_of(
        &self,
        value: &ByteArray,
        known: &mut HashMap<String, i64>,
    ) -> Result<i64, ParquetFault> {
        let text = value.as_utf8().map_err(|_| ParquetFault::Unread {
            column: name(&self.column),
            what: "of bytes that are no text in UTF-8".to_owned(),
            instead: "whole numbers or names",
        })?;
        let found = known.get(text).copied();
        Ok(found.unwrap_or_else(|| number(text.to_owned(), known)))
    }
}

impl OpenPage {
    /// The bytes of its row number `at`, from 0; `None` if they are missing.
    pub(super) fn bytes(&self, at: usize) -> Option<Vec<u8>> {
        let value = self.values.get(at)?.as_ref()?;
        Some(value.data().to_vec())
    }
}

/// Where the pages of a column begin and end in a file of `length` bytes; `None` if that is past its end.
fn extent(chunk: &ColumnChunkMetaData, length: u64) -> Option<(i64, i64)> {
    // Some writers use 0 for none.
    let dictionary = chunk.dictionary_page_offset().filter(|&place| place > 0);
    let data = chunk.data_page_offset();
    let start = dictionary.map_or(data, |place| place.min(data));
    let end = start.checked_add(chunk.compressed_size())?;
    (start >= 0 && end as u64 <= length).then_some((start, end))
}

fn widened<T>(values: Vec<Option<T>>) -> Vec<Option<i64>>
where
    i64: From<T>,
{
    let values = values.into_iter();
    values.map(|value| value.map(i64::from)).collect()
}

/// Reads a part of a file.
fn append(file: &mut File, place: u64, length: u64, bytes: &mut Vec<u8>) -> io::Result<usize> {
    file.seek(SeekFrom::Start(place))?;
    file.take(length).read_to_end(bytes)
}

/// How many times as large as it is stored a page can be; `None` for a compression that is not read.
fn ratio(codec: Compression) -> Option<u64> {
    match codec {
        Compression::UNCOMPRESSED => Some(1),
        // Three bytes become at most 64.
        Compression::SNAPPY => Some(22),
        // One byte becomes at most 255.
        Compression::LZ4 | Compression::LZ4_RAW => Some(255),
        // What Deflate reaches. Zstandard has no limit, but images are already compressed: more is refused, though it may be whole.
        Compression::GZIP(_) | Compression::ZSTD(_) => Some(1032),
        Compression::LZO | Compression::BROTLI(_) => None,
    }
}

/// Whether an encoding can be that of the levels beside the values.
#[expect(
    deprecated,
    reason = "parquet-mr names it even where there are no levels"
)]
fn of_levels(encoding: Encoding) -> bool {
    matches!(encoding, Encoding::RLE | Encoding::BIT_PACKED)
}

/// Refuses values in an encoding other than the common ones: in some, values are much larger together than their page.
fn refuse_others(encoding: Encoding, column: &ColumnDescPtr) -> Result<(), ParquetFault> {
    match encoding {
        Encoding::PLAIN | Encoding::PLAIN_DICTIONARY | Encoding::RLE_DICTIONARY => Ok(()),
        // At most a bit for each row.
        Encoding::RLE if column.physical_type() == Type::BOOLEAN => Ok(()),
        _ => Err(ParquetFault::Unread {
            column: name(column),
            what: format!("encoded as {encoding}"),
            instead: "PLAIN",
        }),
    }
}

#[cfg(test)]
mod tests;
