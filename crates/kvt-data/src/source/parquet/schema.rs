//! The columns of a file. The crate `parquet` would reserve memory for as many as a structure says that it has, and descend as
//! deep as they are nested: so they are read here, within bounds.
//! <https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift>

use std::sync::Arc;

use parquet::basic::{Repetition, Type as Kind};
use parquet::schema::types::{SchemaDescriptor, Type};

use super::thrift::{BYTES, END, LIST, Reader, STRUCT};

/// How deep columns may be nested: deeper than any schema of images, and not too deep for recursion.
const DEEPEST: usize = 32;

/// Each column keeps its whole path, of names that it can share with many others: in all so many times the length of the
/// description.
const PATHS: usize = 64;

/// Types of values, in the order of their numbers in the format.
const KINDS: [Kind; 8] = [
    Kind::BOOLEAN,
    Kind::INT32,
    Kind::INT64,
    Kind::INT96,
    Kind::FLOAT,
    Kind::DOUBLE,
    Kind::BYTE_ARRAY,
    Kind::FIXED_LEN_BYTE_ARRAY,
];

/// The elements of a schema that are not read yet. An element precedes those below it.
struct Elements<'a> {
    reader: Reader<'a>,
    /// Bytes that paths may still take.
    room: usize,
}

/// Reads the columns from the description of a file.
pub(super) fn read(description: &[u8]) -> Option<SchemaDescriptor> {
    let mut reader = Reader(description);
    let mut number = 0;
    loop {
        let kind;
        (number, kind) = reader.field(number)?;
        match (number, kind) {
            (2, LIST) => break,
            (_, END) => return None,
            _ => reader.skip(kind, DEEPEST)?,
        }
    }
    // The number of elements says nothing more than they do.
    match reader.byte()? {
        head if head & 15 != STRUCT => return None,
        head if head >> 4 == 15 => drop(reader.number()?),
        _ => {}
    }
    let room = PATHS * description.len();
    let root = Elements { reader, room }.next(DEEPEST, 0)?;
    root.is_group()
        .then(|| SchemaDescriptor::new(Arc::new(root)))
}

impl Elements<'_> {
    /// The next element and those below it. `path` is the length of the names above it.
    fn next(&mut self, depth: usize, path: usize) -> Option<Type> {
        let depth = depth.checked_sub(1)?;
        let (mut name, mut kind) = (None, None);
        let (mut length, mut repetition, mut below) = (-1, 0, 0);
        let mut number = 0;
        loop {
            let field;
            (number, field) = self.reader.field(number)?;
            match (number, field) {
                (_, END) => break,
                (1, 4..=6) => kind = Some(self.reader.int()?),
                (2, 4..=6) => length = self.reader.int()?,
                (3, 4..=6) => repetition = self.reader.int()?,
                (4, BYTES) => name = Some(self.reader.text()?),
                (5, 4..=6) => below = self.reader.int()?,
                _ => self.reader.skip(field, DEEPEST)?,
            }
        }
        let name = name?;
        let path = path + size_of::<String>() + name.len();
        let repetition = match repetition {
            1 => Repetition::OPTIONAL,
            2 => Repetition::REPEATED,
            _ => Repetition::REQUIRED,
        };
        // A file without columns has a group of none.
        if below > 0 || kind.is_none() {
            let mut columns = Vec::new();
            for _ in 0..below {
                columns.push(Arc::new(self.next(depth, path)?));
            }
            let group = Type::group_type_builder(&name).with_fields(columns);
            return group.with_repetition(repetition).build().ok();
        }
        self.room = self.room.checked_sub(path)?;
        let kind = *KINDS.get(usize::try_from(kind?).ok()?)?;
        let column = Type::primitive_type_builder(&name, kind).with_length(length);
        column.with_repetition(repetition).build().ok()
    }
}
