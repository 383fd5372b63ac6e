//! The headers of the pages of a column.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, Length};

use super::thrift::Reader;

/// A file that is asked for headers of pages, and knows where the last one is: the crate `parquet` does not say it.
pub(super) struct Headers {
    file: File,
    length: u64,
    place: AtomicU64,
    taken: Arc<AtomicU64>,
}

/// A header that is being read.
pub(super) struct Header {
    file: BufReader<File>,
    taken: Arc<AtomicU64>,
}

impl Headers {
    pub(super) fn new(file: &File, length: u64) -> io::Result<Self> {
        Ok(Self {
            file: file.try_clone()?,
            length,
            place: AtomicU64::default(),
            taken: Arc::default(),
        })
    }

    /// The offset of the last header in the file, and its length.
    pub(super) fn last(&self) -> (u64, u64) {
        let place = self.place.load(Ordering::Relaxed);
        (place, self.taken.load(Ordering::Relaxed))
    }
}

impl Length for Headers {
    fn len(&self) -> u64 {
        self.length
    }
}

impl ChunkReader for Headers {
    type T = Header;

    fn get_read(&self, start: u64) -> Result<Header, ParquetError> {
        let mut file = self.file.try_clone()?;
        file.seek(SeekFrom::Start(start))?;
        self.place.store(start, Ordering::Relaxed);
        self.taken.store(0, Ordering::Relaxed);
        Ok(Header {
            file: BufReader::new(file),
            taken: Arc::clone(&self.taken),
        })
    }

    fn get_bytes(&self, _: u64, _: usize) -> Result<Bytes, ParquetError> {
        Err(ParquetError::General("only headers are read".to_owned()))
    }
}

impl Read for Header {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read(bytes)?;
        self.taken.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

/// The unpacked and the stored size of a page, with which its header begins.
pub(super) fn sizes(header: &[u8]) -> Option<(u32, u32)> {
    let mut reader = Reader(header);
    let mut number = |expected| match reader.field(expected - 1)? {
        (found, 4..=6) if found == expected => reader.int(),
        _ => None,
    };
    number(1)?;
    Some((number(2)?.try_into().ok()?, number(3)?.try_into().ok()?))
}

/// What is put in place of the end of a header, so that the unpacked size is this one: a header can say several, and the crate
/// `parquet` takes the last.
pub(super) fn end(size: u32) -> [u8; 8] {
    // A field of type `i32` whose number, twice 2, follows; five groups of seven bits; the end.
    let group = |at: u32| ((2 * u64::from(size)) >> (7 * at)) as u8 & 0x7f;
    let more = |at| group(at) | 0x80;
    [5, 4, more(0), more(1), more(2), more(3), group(4), 0]
}
