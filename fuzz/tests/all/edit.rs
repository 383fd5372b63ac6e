//! Small changes of bytes, of the kind that happens to files and of the kind that somebody makes.

use std::ops::Range;

use proptest::collection::vec;
use proptest::prelude::*;

/// A change of a file. Places wrap around its length, so that each is somewhere.
#[derive(Clone, Debug)]
pub(crate) enum Edit {
    /// One bit is another.
    Flip { at: u32, bit: u8 },
    /// One byte is another.
    Set { at: u32, byte: u8 },
    /// Eight bytes are a number at the end of a range.
    Number { at: u32, extreme: u8 },
    /// The digits from a place on are another number.
    Digits { at: u32, extreme: u8 },
    /// A few bytes come in between.
    Insert { at: u32, bytes: Vec<u8> },
    /// Some bytes are gone.
    Delete { at: u32, count: u8 },
    /// A part stands there a second time.
    Repeat { at: u32, count: u8, to: u32 },
    /// Some bytes are zero, as after a loss of power.
    Zero { at: u32, count: u8 },
    /// The rest is gone.
    Truncate { at: u32 },
    /// A part of another file of the corpus comes in between.
    Splice {
        other: u8,
        from: u32,
        count: u8,
        to: u32,
    },
}

/// The ends of ranges, and what a product of two of them wraps around.
const EXTREMES: [u64; 10] = [
    0,
    1,
    0x7f,
    u32::MAX as u64,
    1 << 32,
    1 << 40,
    i64::MAX as u64,
    1 << 63,
    u64::MAX - 7,
    u64::MAX,
];
const DIGITS: [&str; 12] = [
    "0",
    "-1",
    "4294967296",
    "9223372036854775807",
    "18446744073709551615",
    "99999999999999999999999",
    "1e-320",
    "1e400",
    "1e38",
    "nan",
    "inf",
    "-0.0",
];

/// A few edits.
pub(crate) fn edits(count: Range<usize>) -> impl Strategy<Value = Vec<Edit>> {
    vec(edit(), count)
}

fn edit() -> impl Strategy<Value = Edit> {
    let at = any::<u32>;
    let small = any::<u8>;
    prop_oneof![
        (at(), 0..8u8).prop_map(|(at, bit)| Edit::Flip { at, bit }),
        (at(), small()).prop_map(|(at, byte)| Edit::Set { at, byte }),
        (at(), small()).prop_map(|(at, extreme)| Edit::Number { at, extreme }),
        (at(), small()).prop_map(|(at, extreme)| Edit::Digits { at, extreme }),
        (at(), vec(small(), 1..5)).prop_map(|(at, bytes)| Edit::Insert { at, bytes }),
        (at(), small()).prop_map(|(at, count)| Edit::Delete { at, count }),
        (at(), small(), at()).prop_map(|(at, count, to)| Edit::Repeat { at, count, to }),
        (at(), small()).prop_map(|(at, count)| Edit::Zero { at, count }),
        at().prop_map(|at| Edit::Truncate { at }),
        (small(), at(), small(), at()).prop_map(|(other, from, count, to)| Edit::Splice {
            other,
            from,
            count,
            to
        }),
    ]
}

/// A file of the corpus with edits.
pub(crate) fn edited(corpus: &[Vec<u8>], file: u8, edits: &[Edit]) -> Vec<u8> {
    let mut bytes = corpus[usize::from(file) % corpus.len()].clone();
    for edit in edits {
        edit.apply(&mut bytes, corpus);
    }
    bytes
}

impl Edit {
    fn apply(&self, bytes: &mut Vec<u8>, corpus: &[Vec<u8>]) {
        let place = |at: u32, length: usize| at as usize % (length + 1);
        // The range of `count` bytes from `at` on, as far as there are so many.
        let range = |at: u32, count: u8, length: usize| {
            let start = place(at, length);
            start..(start + usize::from(count)).min(length)
        };
        let length = bytes.len();
        match self {
            Self::Flip { at, bit } => {
                if let Some(byte) = bytes.get_mut(place(*at, length)) {
                    *byte ^= 1 << bit;
                }
            }
            Self::Set { at, byte } => {
                if let Some(old) = bytes.get_mut(place(*at, length)) {
                    *old = *byte;
                }
            }
            Self::Number { at, extreme } => {
                let number = EXTREMES[usize::from(*extreme) % EXTREMES.len()];
                let range = range(*at, 8, length);
                let count = range.len();
                bytes[range].copy_from_slice(&number.to_le_bytes()[..count]);
            }
            Self::Digits { at, extreme } => {
                let from = place(*at, length);
                let is_digit = |byte: &u8| byte.is_ascii_digit();
                if let Some(start) = bytes[from..].iter().position(is_digit) {
                    let start = from + start;
                    let count = bytes[start..].iter().take_while(|b| is_digit(b)).count();
                    let digits = DIGITS[usize::from(*extreme) % DIGITS.len()];
                    bytes.splice(start..start + count, digits.bytes());
                }
            }
            Self::Insert { at, bytes: new } => {
                let at = place(*at, length);
                bytes.splice(at..at, new.iter().copied());
            }
            Self::Delete { at, count } => {
                bytes.drain(range(*at, *count, length));
            }
            Self::Repeat { at, count, to } => {
                let part = bytes[range(*at, *count, length)].to_vec();
                let to = place(*to, length);
                bytes.splice(to..to, part);
            }
            Self::Zero { at, count } => bytes[range(*at, *count, length)].fill(0),
            Self::Truncate { at } => bytes.truncate(place(*at, length)),
            Self::Splice {
                other,
                from,
                count,
                to,
            } => {
                let other = &corpus[usize::from(*other) % corpus.len()];
                let part = other[range(*from, *count, other.len())].to_vec();
                let to = place(*to, length);
                bytes.splice(to..to, part);
            }
        }
    }
}
