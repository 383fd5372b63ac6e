//! Values as stored in a page: one after another, or as indices into a dictionary.

use std::collections::HashMap;

use super::super::footer::Kind;
use super::super::levels::numbers;

/// One of several byte arrays, each after its length.
pub(super) fn nth(mut bytes: &[u8], at: usize) -> Option<Vec<u8>> {
    for _ in 0..at {
        bytes = split(bytes)?.1;
    }
    Some(split(bytes)?.0.to_vec())
}

fn split(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    rest.split_at_checked(u32::from_le_bytes(*length) as usize)
}

/// Indices into a dictionary: the number of bits of each, then the indices.
pub(super) fn indices(bytes: &[u8], count: usize) -> Option<Vec<u32>> {
    // A page without values can be empty.
    if count == 0 {
        return Some(Vec::new());
    }
    let (&width, places) = bytes.split_first()?;
    numbers(places, width.into(), count)
}

/// The first `count` texts as numbers: each new one gets the next number.
pub(in super::super) fn texts(
    mut bytes: &[u8],
    count: usize,
    known: &mut HashMap<String, i64>,
) -> Option<Vec<i64>> {
    let numbers = (0..count).map(|_| {
        let (text, rest) = split(bytes)?;
        bytes = rest;
        let text = str::from_utf8(text).ok()?;
        if let Some(number) = known.get(text) {
            return Some(*number);
        }
        let number = known.len() as i64;
        known.insert(text.to_owned(), number);
        Some(number)
    });
    numbers.collect()
}

/// The first `count` integers.
pub(in super::super) fn integers(bytes: &[u8], kind: Kind, count: usize) -> Option<Vec<i64>> {
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
