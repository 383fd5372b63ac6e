//! Reads MATLAB files of version 5 whose arrays have whole numbers from 0 on, plain or compressed. Tables of labels are such files.
//!
//! Source: The MathWorks, "MAT-File Format", chapter 1. After a header of 128 bytes come elements: a type and a length of 4 bytes
//! each, then the content, padded to a multiple of 8. A small element has a length of at most 4 in the upper half of its type, and its
//! content follows directly.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;

use flate2::read::ZlibDecoder;
use kvt_data::regular;

use crate::fetch::FetchError;

/// Most bytes of a file, and of an unpacked element.
const LARGEST: u64 = 1 << 20;
/// The header, whose last 4 bytes are the version and the order of bytes.
const HEADER: usize = 128;
const VERSION_5: [u8; 4] = [0x00, 0x01, b'I', b'M'];

const INT8: u32 = 1;
const UINT8: u32 = 2;
const INT16: u32 = 3;
const UINT16: u32 = 4;
const INT32: u32 = 5;
const UINT32: u32 = 6;
const DOUBLE: u32 = 9;
const MATRIX: u32 = 14;
const COMPRESSED: u32 = 15;

/// The arrays of a file by their names, each as a flat list.
///
/// # Errors
/// If the file has another format or more than a mebibyte, or an array has a number that is negative or not whole.
pub(super) fn read(path: &Path) -> Result<BTreeMap<String, Vec<u32>>, FetchError> {
    let bytes = regular::read_at_most(path, LARGEST)?;
    let reason = "it is no file of MATLAB 5 with whole numbers";
    arrays(&bytes).ok_or_else(|| FetchError::archive(path, reason))
}

fn arrays(bytes: &[u8]) -> Option<BTreeMap<String, Vec<u32>>> {
    let (header, mut rest) = bytes.split_at_checked(HEADER)?;
    if !header.ends_with(&VERSION_5) {
        return None;
    }
    let mut arrays = BTreeMap::new();
    while !rest.is_empty() {
        let (kind, content) = element(&mut rest)?;
        let (name, numbers) = match kind {
            MATRIX => matrix(content)?,
            COMPRESSED => {
                let mut unpacked = Vec::new();
                let mut from = ZlibDecoder::new(content).take(LARGEST);
                from.read_to_end(&mut unpacked).ok()?;
                match element(&mut unpacked.as_slice())? {
                    (MATRIX, content) => matrix(content)?,
                    _ => return None,
                }
            }
            _ => return None,
        };
        arrays.insert(name, numbers);
    }
    Some(arrays)
}

/// The name and the numbers of a matrix, column by column. Flags, dimensions, name and numbers are one element each.
fn matrix(mut content: &[u8]) -> Option<(String, Vec<u32>)> {
    let flags = element(&mut content)?;
    let dimensions = element(&mut content)?;
    let (INT8, name) = element(&mut content)? else {
        return None;
    };
    let (kind, numbers) = element(&mut content)?;
    let numbers = whole(kind, numbers)?;
    let sizes = whole(dimensions.0, dimensions.1)?;
    let count = sizes
        .iter()
        .try_fold(1_u32, |count, &size| count.checked_mul(size))?;
    let is_whole = flags.0 == UINT32 && usize::try_from(count) == Ok(numbers.len());
    let name = std::str::from_utf8(name).ok()?.to_owned();
    is_whole.then_some((name, numbers))
}

/// Takes the type and the content of an element.
fn element<'a>(rest: &mut &'a [u8]) -> Option<(u32, &'a [u8])> {
    let kind = u32::from_le_bytes(*take(rest, 4)?.first_chunk()?);
    if kind >> 16 != 0 {
        let content = take(rest, 4)?.get(..(kind >> 16) as usize)?;
        return Some((kind & 0xffff, content));
    }
    let length = u32::from_le_bytes(*take(rest, 4)?.first_chunk()?) as usize;
    let content = take(rest, length)?;
    // A compressed element has no padding, and the last element may lack it.
    if kind != COMPRESSED {
        let fill = length.next_multiple_of(8) - length;
        *rest = rest.get(fill..).unwrap_or_default();
    }
    Some((kind, content))
}

fn take<'a>(rest: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (taken, left) = rest.split_at_checked(count)?;
    *rest = left;
    Some(taken)
}

/// Whole numbers of a type. MATLAB stores numbers in the smallest type that fits, not in the array's.
fn whole(kind: u32, bytes: &[u8]) -> Option<Vec<u32>> {
    match kind {
        UINT8 => Some(bytes.iter().map(|&byte| byte.into()).collect()),
        INT8 => each(bytes, |[byte]: [u8; 1]| u32::try_from(byte as i8).ok()),
        UINT16 => each(bytes, |two| Some(u16::from_le_bytes(two).into())),
        INT16 => each(bytes, |two| i16::from_le_bytes(two).try_into().ok()),
        UINT32 => each(bytes, |four| Some(u32::from_le_bytes(four))),
        INT32 => each(bytes, |four| i32::from_le_bytes(four).try_into().ok()),
        DOUBLE => each(bytes, |eight| {
            let number = f64::from_le_bytes(eight);
            let is_whole = number.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&number);
            is_whole.then_some(number as u32)
        }),
        _ => None,
    }
}

fn each<const N: usize>(bytes: &[u8], number: impl Fn([u8; N]) -> Option<u32>) -> Option<Vec<u32>> {
    let (numbers, rest) = bytes.as_chunks::<N>();
    if !rest.is_empty() {
        return None;
    }
    numbers.iter().map(|bytes| number(*bytes)).collect()
}

#[cfg(test)]
mod tests;
