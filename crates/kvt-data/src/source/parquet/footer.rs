//! The end of a Parquet file: its columns, and the location of their pages.

use std::cell::Cell;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use parquet::errors::ParquetError;
use parquet::file::metadata::{
    ColumnChunkMetaData, ParquetMetaData, ParquetMetaDataOptions, ParquetMetaDataReader,
    ParquetStatisticsPolicy,
};
use parquet::schema::types::ColumnDescriptor;

use super::schema;
use crate::ParquetFault;
use crate::ordered::panic_message;

const MAGIC: &[u8; 4] = b"PAR1";
/// The length of the metadata, and the magic number.
const TAIL: u64 = 8;

/// Characters of a column's name in messages.
const LONGEST: usize = 100;

/// The name of a column for messages. Many columns can have the same long one.
pub(super) fn name(column: &ColumnDescriptor) -> String {
    words(column.path().parts())
}

/// A path for messages.
pub(super) fn words(path: &[String]) -> String {
    let parts = path.iter().map(|part| part.chars());
    let text = parts.flat_map(|part| std::iter::once('.').chain(part));
    text.skip(1).take(LONGEST).collect()
}

thread_local! {
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Whether a panic of this thread becomes an error about a damaged file. A program may then keep the panic's own message back, by a
/// hook: a library must not replace the hook of its program.
pub fn is_guarded() -> bool {
    GUARDED.get()
}

/// What the crate `parquet` reads, or why it cannot. It panics at some contents of damaged files.
pub(super) fn guarded<T>(read: impl FnOnce() -> Result<T, ParquetError>) -> Result<T, String> {
    GUARDED.set(true);
    let found = catch_unwind(AssertUnwindSafe(read));
    GUARDED.set(false);
    let found = found.map_err(|panic| panic_message(&*panic))?;
    found.map_err(|error| error.to_string())
}

/// Reads the metadata of a file of `length` bytes. In all, it has no more rows and no more bytes of pages than that.
pub(super) fn read(file: &mut File, length: u64) -> Result<ParquetMetaData, ParquetFault> {
    let damaged = |words: &str| ParquetFault::Damaged(words.to_owned());
    let mut tail = [0; TAIL as usize];
    let start = length
        .checked_sub(TAIL)
        .filter(|&start| start >= 4)
        .ok_or_else(|| damaged("it is too short"))?;
    read_at(file, start, &mut tail)?;
    let [a, b, c, d, magic @ ..] = tail;
    if magic != *MAGIC {
        return Err(damaged("its end is missing"));
    }
    let size = u64::from(u32::from_le_bytes([a, b, c, d]));
    let place = start
        .checked_sub(size)
        .ok_or_else(|| damaged("it is shorter than its description"))?;
    let mut bytes = vec![0; size as usize];
    read_at(file, place, &mut bytes)?;
    let cannot = |why: &str| damaged(&format!("its description cannot be read ({why})"));
    let columns = schema::read(&bytes).ok_or_else(|| cannot("the columns"))?;
    let mut options = ParquetMetaDataOptions::new().with_schema(Arc::new(columns));
    options.set_column_stats_policy(ParquetStatisticsPolicy::SkipAll);
    options.set_size_stats_policy(ParquetStatisticsPolicy::SkipAll);
    let metadata =
        guarded(|| ParquetMetaDataReader::decode_metadata_with_options(&bytes, Some(&options)));
    let metadata = metadata.map_err(|why| cannot(&why))?;
    // Memory is allocated for each row. With more rows than bytes, it would not be proportional to the file. Nor would the
    // time, if the pages of several groups or columns were the same ones.
    let groups = metadata.row_groups().iter();
    let rows = groups.clone().map(|group| group.num_rows());
    let chunks = groups.flat_map(|group| group.columns());
    let sizes = chunks.map(ColumnChunkMetaData::compressed_size);
    if within(rows, length) && within(sizes, length) {
        Ok(metadata)
    } else {
        Err(cannot("it has more rows or pages than bytes"))
    }
}

/// Whether numbers are at most `most` in all, and none is negative.
fn within(mut numbers: impl Iterator<Item = i64>, most: u64) -> bool {
    let sum = numbers.try_fold(0_u64, |sum, number| {
        sum.checked_add(u64::try_from(number).ok()?)
    });
    sum.is_some_and(|sum| sum <= most)
}

/// Fills `bytes` from a position in a file.
pub(super) fn read_at(file: &mut File, place: u64, bytes: &mut [u8]) -> Result<(), ParquetFault> {
    let words = |error: std::io::Error| ParquetFault::Damaged(error.to_string());
    file.seek(SeekFrom::Start(place)).map_err(words)?;
    file.read_exact(bytes).map_err(words)
}

#[cfg(test)]
mod tests;
