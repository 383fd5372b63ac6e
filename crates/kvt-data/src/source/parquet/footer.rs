//! The end of a Parquet file: its columns, and the location of their pages.
//! <https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift>

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::sync::Arc;

use super::thrift::Value;
use crate::ParquetFault;

const MAGIC: &[u8; 4] = b"PAR1";
/// The length of the metadata, and the magic number.
const TAIL: u64 = 8;

/// Characters of a column's name in messages.
const LONGEST: usize = 100;

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
    /// Shared with the other columns of a structure, whose names can be long.
    pub(super) path: Vec<Arc<str>>,
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
    /// Another one, by its number in the format.
    Other(Option<i64>),
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
        words(&self.path)
    }
}

/// A path for messages. Many columns can have the same long one.
pub(super) fn words(path: &[Arc<str>]) -> String {
    let parts = path.iter().map(|part| part.chars());
    let text = parts.flat_map(|part| std::iter::once('.').chain(part));
    text.skip(1).take(LONGEST).collect()
}

impl Footer {
    /// Reads the metadata of a file of `length` bytes.
    pub(super) fn read(file: &mut File, length: u64) -> Result<Self, ParquetFault> {
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
        let groups = value
            .items(4)
            .iter()
            .map(|group| {
                let rows = group.count(3)?;
                let chunks: Option<Vec<Chunk>> = group.items(1).iter().map(Chunk::of).collect();
                let chunks = chunks?;
                (chunks.len() == columns.len()).then_some(Group { rows, chunks })
            })
            .collect::<Option<Vec<Group>>>()?;
        // Memory is allocated for each row. With more rows than bytes, it would not be proportional to the file. Nor would the
        // time, if the pages of several groups or columns were the same ones.
        let rows = groups.iter().map(|group| group.rows);
        let chunks = groups.iter().flat_map(|group| &group.chunks);
        let fits = |sizes: u64| (sizes <= length).then_some(());
        fits(rows.fold(0, u64::saturating_add))?;
        fits(
            chunks
                .map(|chunk| chunk.length)
                .fold(0, u64::saturating_add),
        )?;
        let notes = value.items(5).iter().filter_map(|note| {
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
            kind: Kind::Other(None),
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
    column.path.push(element.text(4)?.into());
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
                other => Kind::Other(other),
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

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use std::io::Write;

    use super::*;

    /// A number with seven bits per byte.
    fn varint(mut number: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        while number >= 0x80 {
            bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        bytes.push(number as u8);
        bytes
    }

    /// Fields of Thrift's compact protocol, each `step` after the number of the one before it.
    fn int(step: u8, number: usize) -> Vec<u8> {
        [&[step << 4 | 6][..], &varint(2 * number)].concat()
    }

    fn text(step: u8, text: &str) -> Vec<u8> {
        [&[step << 4 | 8][..], &varint(text.len()), text.as_bytes()].concat()
    }

    fn list(step: u8, items: &[Vec<u8>]) -> Vec<u8> {
        [
            &[step << 4 | 9, 0xfc][..],
            &varint(items.len()),
            &items.concat(),
        ]
        .concat()
    }

    fn leaf(name: &str) -> Vec<u8> {
        [int(1, 6), text(3, name), vec![0]].concat()
    }

    fn structure(name: &str, columns: usize) -> Vec<u8> {
        [text(4, name), int(1, columns), vec![0]].concat()
    }

    /// A group without rows, whose columns are in the same 50 bytes each.
    fn group(columns: usize) -> Vec<u8> {
        let place = |column| [int(4, 0), int(3, 50), int(2, 4 + 50 * column), vec![0]].concat();
        let chunk = |column| [vec![3 << 4 | 12], place(column), vec![0]].concat();
        let chunks: Vec<_> = (0..columns).map(chunk).collect();
        [list(1, &chunks), int(2, 0), vec![0]].concat()
    }

    fn read(schema: &[Vec<u8>], groups: &[Vec<u8>]) -> Result<Footer, ParquetFault> {
        let description = [
            int(1, 1),
            list(1, schema),
            int(1, 0),
            list(1, groups),
            vec![0],
        ]
        .concat();
        let length = (description.len() as u32).to_le_bytes();
        let bytes = [&MAGIC[..], &[0; 100], &description, &length, MAGIC].concat();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&bytes).unwrap();
        Footer::read(&mut file, bytes.len() as u64)
    }

    /// A name that each column below it has would otherwise take the memory of a file many times as large.
    #[test]
    fn a_name_is_kept_once_and_shown_in_part() {
        let long = "x".repeat(10_000);
        let schema = [
            structure("schema", 1),
            structure(&long, 2),
            leaf("a"),
            leaf("b"),
        ];
        let columns = read(&schema, &[]).unwrap().columns;
        let paths = columns
            .iter()
            .map(|column| column.path.iter().map(|part| &**part).collect());
        let paths: Vec<Vec<&str>> = paths.collect();
        assert_eq!(paths, [[&*long, "a"], [&*long, "b"]]);
        assert!(Arc::ptr_eq(&columns[0].path[0], &columns[1].path[0]));
        assert_eq!(columns[0].name(), long[..LONGEST]);
        assert_eq!(words(&["image".into(), "bytes".into()]), "image.bytes");
    }

    /// The pages of all groups are looked for, so each must have its own.
    #[test]
    fn groups_do_not_share_their_pages() {
        let schema = [structure("schema", 2), leaf("a"), leaf("b")];
        assert_eq!(read(&schema, &[group(2)]).unwrap().groups.len(), 1);
        assert!(read(&schema, &[group(2), group(2), group(2), group(2)]).is_err());
    }
}
