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

/// A group without rows, whose columns are in the same 150 bytes each.
fn group(columns: usize) -> Vec<u8> {
    // One encoding, and no path.
    let lists = [&int(1, 6)[..], &[1 << 4 | 9, 1 << 4 | 5, 0, 1 << 4 | 9, 8]].concat();
    let sizes = [int(1, 0), int(1, 0), int(1, 150), int(1, 150), int(2, 4)].concat();
    let chunk = [int(2, 4), vec![1 << 4 | 12], lists, sizes, vec![0, 0]].concat();
    let chunks = vec![chunk; columns];
    [list(1, &chunks), int(1, 0), int(1, 0), vec![0]].concat()
}

fn read(schema: &[Vec<u8>], groups: &[Vec<u8>]) -> Result<ParquetMetaData, ParquetFault> {
    let description = [
        int(1, 1),
        list(1, schema),
        int(1, 0),
        list(1, groups),
        vec![0],
    ]
    .concat();
    let length = (description.len() as u32).to_le_bytes();
    let bytes = [&MAGIC[..], &[0; 300], &description, &length, MAGIC].concat();
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&bytes).unwrap();
    super::read(&mut file, bytes.len() as u64)
}

fn reason(schema: &[Vec<u8>], groups: &[Vec<u8>]) -> String {
    read(schema, groups).unwrap_err().to_string()
}

#[test]
fn a_panic_is_an_error_and_known_to_be_one() {
    let why = guarded::<()>(|| unreachable!("{}", is_guarded())).unwrap_err();
    assert!(why.ends_with("true"), "{why}");
    assert!(!is_guarded());
}

#[test]
fn a_file_may_have_no_columns() {
    let metadata = read(&[structure("schema", 0)], &[]).unwrap();
    assert_eq!(metadata.file_metadata().schema_descr().num_columns(), 0);
}

/// A long name is part of the path of each column below it: with many, they would take the memory of a file many times as large.
#[test]
fn a_long_name_is_shown_in_part_and_shared_by_few() {
    let long = "x".repeat(10_000);
    let columns = |count| {
        let mut schema = vec![structure("schema", 1), structure(&long, count)];
        schema.resize(2 + count, leaf("a"));
        schema
    };
    let metadata = read(&columns(2), &[]).unwrap();
    let schema = metadata.file_metadata().schema_descr();
    assert_eq!(schema.columns().len(), 2);
    assert_eq!(schema.column(1).path().parts(), [&*long, "a"]);
    assert_eq!(name(&schema.column(1)), long[..LONGEST]);
    assert_eq!(words(&["image".into(), "bytes".into()]), "image.bytes");
    assert!(read(&columns(40), &[]).is_ok());
    let refused = reason(&columns(1_000), &[]);
    assert!(
        refused.contains("cannot be read (the columns)"),
        "{refused}"
    );
}

/// Memory is reserved for the columns that are there, not for those that a structure says that it has; and a schema is read by
/// recursion.
#[test]
fn a_schema_has_the_columns_that_it_says_and_is_not_deep() {
    assert!(read(&[structure("schema", 1), leaf("a")], &[]).is_ok());
    assert!(read(&[structure("schema", 2), leaf("a")], &[]).is_err());
    assert!(read(&[structure("schema", i32::MAX as usize), leaf("a")], &[]).is_err());
    let nested = |depth| {
        let mut schema = vec![structure("x", 1); depth];
        schema.push(leaf("a"));
        read(&schema, &[])
    };
    assert!(nested(31).is_ok());
    assert!(nested(32).is_err());
    assert!(nested(100_000).is_err());
}

/// The pages of all groups are looked for, so each must have its own.
#[test]
fn groups_do_not_share_their_pages() {
    let schema = [structure("schema", 2), leaf("a"), leaf("b")];
    let metadata = read(&schema, &[group(2)]).unwrap();
    assert_eq!(metadata.row_group(0).column(1).compressed_size(), 150);
    let refused = reason(&schema, &[group(2), group(2), group(2), group(2)]);
    assert!(
        refused.contains("more rows or pages than bytes"),
        "{refused}"
    );
    // A group has all columns.
    assert!(read(&schema, &[group(1)]).is_err());
}
