//! The parts of Thrift's compact protocol in which a file or a page says how much memory it takes:
//! <https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md>. The crate `parquet` reads all else.

use std::borrow::Cow;

/// The end of a structure, in place of the type of a field.
pub(super) const END: u8 = 0;
pub(super) const BYTES: u8 = 8;
pub(super) const LIST: u8 = 9;
pub(super) const STRUCT: u8 = 12;

/// The rest of a structure.
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    pub(super) fn byte(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    /// A number with seven bits per byte, the lowest first.
    pub(super) fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for at in 0..10 {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << (7 * at);
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    /// A signed number of a field, with the sign in the lowest bit.
    pub(super) fn int(&mut self) -> Option<i32> {
        let number = self.number()?;
        i32::try_from((number >> 1) as i64 ^ -((number & 1) as i64)).ok()
    }

    pub(super) fn text(&mut self) -> Option<Cow<'a, str>> {
        let length = usize::try_from(self.number()?).ok()?;
        self.take(length).map(String::from_utf8_lossy)
    }

    /// The number and the type of the next field, after a field of the number `last`.
    pub(super) fn field(&mut self, last: i32) -> Option<(i32, u8)> {
        let head = self.byte()?;
        let number = match (head >> 4, head & 15) {
            (_, END) => last,
            (0, _) => self.int()?,
            (more, _) => last.checked_add(more.into())?,
        };
        Some((number, head & 15))
    }

    /// Skips a value in a structure without lists. A structure lies in at most `depth` others.
    pub(super) fn skip(&mut self, kind: u8, depth: usize) -> Option<()> {
        match kind {
            // The type of a boolean is its value.
            1 | 2 => {}
            3 => drop(self.byte()?),
            4..=6 => drop(self.number()?),
            BYTES => drop(self.text()?),
            STRUCT => {
                let depth = depth.checked_sub(1)?;
                loop {
                    match self.field(0)? {
                        (_, END) => break,
                        (_, kind) => self.skip(kind, depth)?,
                    }
                }
            }
            _ => return None,
        }
        Some(())
    }
}
