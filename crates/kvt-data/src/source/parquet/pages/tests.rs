#![expect(clippy::unwrap_used, reason = "tests")]

use std::io::Write;

use parquet::basic::Repetition;
use parquet::schema::types::{ColumnDescriptor, ColumnPath, Type as Element};

use super::*;

/// The number 7, plain and packed with Snappy.
const PLAIN: [u8; 4] = [7, 0, 0, 0];
const SNAPPY: [u8; 6] = [4, 3 << 2, 7, 0, 0, 0];

/// A field with a number of 35 bits.
fn int(head: &[u8], number: u32) -> Vec<u8> {
    let groups = (0..5).map(|at| ((2 * u64::from(number)) >> (7 * at)) as u8 & 0x7f);
    let mut bytes: Vec<u8> = groups.map(|group| group | 0x80).collect();
    bytes[4] &= 0x7f;
    [head, &bytes].concat()
}

/// A page of type `kind`, whose header says that its content takes so many bytes, and has these fields then.
fn page(kind: u32, size: u32, fields: &[u8], content: &[u8]) -> Vec<u8> {
    let [kind, size] = [kind, size].map(|number| int(&[0x15], number));
    let stored = int(&[0x15], content.len() as u32);
    [&kind, &size, &stored, fields, &[0], content].concat()
}

/// The header of a data page of one plain value, whose levels are said to be bit-packed, and that of a dictionary.
const DATA: [u8; 10] = [0x2c, 0x15, 2, 0x15, 0, 0x15, 8, 0x15, 8, 0];

fn dictionary(values: u32) -> Vec<u8> {
    [&[0x4c][..], &int(&[0x15], values), &[0x15, 0, 0]].concat()
}

fn find(
    bytes: &[u8],
    codec: Compression,
    repetition: Repetition,
) -> Result<(File, Pages), ParquetFault> {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    let element = Element::primitive_type_builder("label", Type::INT32);
    let element = Arc::new(element.with_repetition(repetition).build().unwrap());
    let level = i16::from(repetition == Repetition::OPTIONAL);
    let path = ColumnPath::from("label");
    let column = Arc::new(ColumnDescriptor::new(element, level, 0, path));
    let chunk = ColumnChunkMetaData::builder(column)
        .set_compression(codec)
        .set_total_compressed_size(bytes.len() as i64)
        .build()
        .unwrap();
    let pages = Pages::find(&mut file, bytes.len() as u64, &chunk, 1)?;
    Ok((file, pages))
}

fn numbers(bytes: &[u8], codec: Compression) -> Result<Vec<Option<i64>>, String> {
    let read = || {
        let (mut file, pages) = find(bytes, codec, Repetition::REQUIRED)?;
        pages.numbers(&mut file, &mut HashMap::new())
    };
    read().map_err(|fault: ParquetFault| fault.to_string())
}

#[test]
fn a_number_is_read_without_levels_in_any_encoding_of_them() {
    let plain = page(0, 4, &DATA, &PLAIN);
    assert_eq!(
        numbers(&plain, Compression::UNCOMPRESSED),
        Ok(vec![Some(7)])
    );
    let snappy = page(0, 4, &DATA, &SNAPPY);
    assert_eq!(numbers(&snappy, Compression::SNAPPY), Ok(vec![Some(7)]));
}

#[test]
fn a_page_says_no_larger_size_than_it_can_have() {
    for (codec, ratio) in [
        (Compression::UNCOMPRESSED, 1),
        (Compression::SNAPPY, 22),
        (Compression::LZ4, 255),
        (Compression::LZ4_RAW, 255),
        (Compression::GZIP(Default::default()), 1032),
        (Compression::ZSTD(Default::default()), 1032),
    ] {
        let of = |size| {
            let bytes = page(0, size, &DATA, &SNAPPY);
            find(&bytes, codec, Repetition::REQUIRED).map(|(_, pages)| pages.pages.len())
        };
        let most = ratio * 6 + 256;
        assert_eq!(of(most), Ok(1));
        for size in [most + 1, 1 << 30, i32::MAX as u32] {
            let fault = of(size).unwrap_err().to_string();
            let expected = match codec {
                Compression::ZSTD(_) => {
                    format!("`label` is packed to a page of 6 bytes that unpacks to {size}, which")
                }
                _ => "`label`: a page is larger than it can be".to_owned(),
            };
            assert!(fault.contains(&expected), "{fault}");
        }
    }
}

/// Of several sizes in a header the crate takes the last, we check the first.
#[test]
fn the_size_that_is_checked_is_the_one_that_is_unpacked() {
    let fields = [&DATA[..], &int(&[5, 4], 1 << 20)].concat();
    let bytes = page(0, 4, &fields, &SNAPPY);
    let (mut file, pages) = find(&bytes, Compression::SNAPPY, Repetition::REQUIRED).unwrap();
    let page = pages.read(&mut file, &pages.pages[0]).unwrap();
    assert_eq!(page.buffer()[..], PLAIN);
    // The first field of a header is the kind of the page, then come the sizes.
    let other = [&int(&[0x25], 4)[..], &int(&[0x15], 4), &DATA, &[0], &PLAIN].concat();
    assert!(numbers(&other, Compression::UNCOMPRESSED).is_err());
}

#[test]
fn a_dictionary_has_the_values_that_it_says() {
    // One index of one bit.
    let fields = [0x2c, 0x15, 2, 0x15, 16, 0x15, 8, 0x15, 8, 0];
    let data = page(0, 3, &fields, &[1, 2, 0]);
    let of = |values| {
        let first = page(2, 4, &dictionary(values), &PLAIN);
        numbers(&[first, data.clone()].concat(), Compression::UNCOMPRESSED)
    };
    assert_eq!(of(1), Ok(vec![Some(7)]));
    for values in [2, 1 << 30] {
        let fault = of(values).unwrap_err();
        assert!(
            fault.contains("`label`: a dictionary is not whole"),
            "{fault}"
        );
    }
    let fault = numbers(&data, Compression::UNCOMPRESSED).unwrap_err();
    assert!(
        fault.contains("`label`: a dictionary is not whole"),
        "{fault}"
    );
}

/// The crate panics where the header has no fields of the kind of its page, and where bit-packed levels are not whole.
#[test]
fn a_panic_is_an_error() {
    let fault = numbers(&page(0, 4, &[], &PLAIN), Compression::UNCOMPRESSED).unwrap_err();
    assert!(fault.contains("column `label`: "), "{fault}");
    let bytes = page(0, 0, &DATA, &[]);
    let (mut file, pages) = find(&bytes, Compression::UNCOMPRESSED, Repetition::OPTIONAL).unwrap();
    let fault = pages.numbers(&mut file, &mut HashMap::new()).unwrap_err();
    assert!(matches!(fault, ParquetFault::Damaged(_)), "{fault}");
}

/// Values that share their beginnings can be much larger together than their page.
#[test]
fn another_encoding_is_refused_where_the_file_does_not_announce_it() {
    let fields = [0x2c, 0x15, 2, 0x15, 14, 0x15, 8, 0x15, 8, 0];
    let fault = numbers(&page(0, 4, &fields, &PLAIN), Compression::UNCOMPRESSED).unwrap_err();
    assert!(fault.contains("encoded as DELTA_BYTE_ARRAY"), "{fault}");
}
