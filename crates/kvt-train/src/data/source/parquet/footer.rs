//! The end of a Parquet file: its columns, and the location of their pages.
//! <https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift>

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};

use super::thrift::Value;
use crate::data::ParquetFault;

const MAGIC: &[u8; 4] = b"PAR1";
/// The length of the metadata, and the magic number.
const TAIL: u64 = 8;

/// The metadata of a file.
pub(super) struct Footer {
    pub(super) columns: Vec<Column>,
    pub(super) groups: Vec<Group>,
    /// Key-value metadata written by programs.
    pub(super) notes: Vec<(String, String)>,
}

/// A column of values; those within a structure have a path.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Column {
    pub(super) path: Vec<String>,
    pub(super) kind: Kind,
    /// How many parts of the path can be missing: a value that exists has this level.
    pub(super) level: u32,
    /// Whether a row has several values.
    pub(super) repeats: bool,
}

/// The type of the values of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Int32,
    Int64,
    Bytes,
    Other,
}

/// Rows whose values are stored together.
pub(super) struct Group {
    pub(super) rows: u64,
    /// For each column.
    pub(super) chunks: Vec<Chunk>,
}

/// The values of a column in a group.
pub(super) struct Chunk {
    pub(super) codec: i64,
    /// Offset of its pages in the file, and their total length.
    pub(super) start: u64,
    pub(super) length: u64,
}

impl Column {
    pub(super) fn name(&self) -> String {
        self.path.join(".")
    }
}

impl Footer {
    /// Reads the metadata of a file of `length` bytes.
    pub(super) fn read(file: &mut File, length: u64) -> Result<Self, ParquetFault> {
        let damaged = |words: &str| ParquetFault::Damaged(words.to_owned());
        let mut tail = [0; TAIL as usize];
        let start = length.checked_sub(TAIL).filter(|&start| start >= 4);
        let start = start.ok_or_else(|| damaged("it is too short"))?;
        read_at(file, start, &mut tail)?;
        let [a, b, c, d, magic @ ..] = tail;
        if magic != *MAGIC {
            return Err(damaged("its end is missing"));
        }
        let size = u64::from(u32::from_le_bytes([a, b, c, d]));
        let place = start.checked_sub(size);
        let place = place.ok_or_else(|| damaged("it is shorter than its description"))?;
        let mut bytes = vec![0; size as usize];
        read_at(file, place, &mut bytes)?;
        let found = Value::read(&bytes).and_then(|(value, _)| Self::of(&value, length));
        found.ok_or_else(|| damaged("its description cannot be read"))
    }

    fn of(value: &Value<'_>, length: u64) -> Option<Self> {
        let mut columns = Vec::new();
        let (root, rest) = value.items(2).split_first()?;
        let mut elements = rest.iter();
        for _ in 0..root.count(5)? {
            descend(&mut elements, &Column::root(), &mut columns)?;
        }
        let groups = value.items(4).iter().map(|group| {
            let rows = group.count(3)?;
            let chunks: Option<Vec<Chunk>> = group.items(1).iter().map(Chunk::of).collect();
            let chunks = chunks?;
            (chunks.len() == columns.len()).then_some(Group { rows, chunks })
        });
        let groups = groups.collect::<Option<Vec<Group>>>()?;
        // Memory is allocated for each row. With more rows than bytes, it would not be proportional to the file.
        let rows = groups.iter().map(|group| group.rows);
        rows.reduce(u64::saturating_add)
            .is_none_or(|rows| rows <= length)
            .then_some(())?;
        let notes = value.items(5).iter();
        let notes = notes.filter_map(|note| {
            let text = |number| note.text(number).map(|text| text.into_owned());
            Some((text(1)?, text(2)?))
        });
        Some(Self {
            columns,
            groups,
            notes: notes.collect(),
        })
    }
}

impl Column {
    fn root() -> Self {
        Self {
            path: Vec::new(),
            kind: Kind::Other,
            level: 0,
            repeats: false,
        }
    }
}

/// Collects the columns below the next element of the schema. In the list, an element precedes those below it.
fn descend<'a, 'b: 'a>(
    elements: &mut impl Iterator<Item = &'a Value<'b>>,
    above: &Column,
    columns: &mut Vec<Column>,
) -> Option<()> {
    let element = elements.next()?;
    let mut column = above.clone();
    column.path.push(element.text(4)?.into_owned());
    // Deeper than any schema of images; nested structures are read by recursion.
    if column.path.len() > 32 {
        return None;
    }
    match element.int(3) {
        Some(1) => column.level += 1,
        Some(2) => {
            column.level += 1;
            column.repeats = true;
        }
        _ => {}
    }
    match element.count(5) {
        Some(count) if count > 0 => {
            for _ in 0..count {
                descend(elements, &column, columns)?;
            }
        }
        _ => {
            column.kind = match element.int(1) {
                Some(1) => Kind::Int32,
                Some(2) => Kind::Int64,
                Some(6) => Kind::Bytes,
                _ => Kind::Other,
            };
            columns.push(column);
        }
    }
    Some(())
}

impl Chunk {
    fn of(value: &Value<'_>) -> Option<Self> {
        let chunk = value.field(3)?;
        let pages = chunk.count(9)?;
        // Some writers use 0 for none.
        let dictionary = chunk.count(11).filter(|&place| place > 0);
        Some(Self {
            codec: chunk.int(4)?,
            start: dictionary.map_or(pages, |place| place.min(pages)),
            length: chunk.count(7)?,
        })
    }
}

/// Fills `bytes` from a position in a file.
pub(super) fn read_at(file: &mut File, place: u64, bytes: &mut [u8]) -> Result<(), ParquetFault> {
    let words = |error: std::io::Error| ParquetFault::Damaged(error.to_string());
    file.seek(SeekFrom::Start(place)).map_err(words)?;
    file.read_exact(bytes).map_err(words)
}
