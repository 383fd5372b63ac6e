//! Thrift's compact protocol, which Parquet uses to describe files and pages:
//! <https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md>.

use std::borrow::Cow;

/// Maximum nesting of structs: more than Parquet has, and few enough for recursion.
const DEEPEST: usize = 32;

/// A value; for kinds that are not needed, only that there is one.
#[derive(Debug, PartialEq)]
pub(super) enum Value<'a> {
    Bool(bool),
    Int(i64),
    Bytes(&'a [u8]),
    List(Vec<Value<'a>>),
    /// Fields by number.
    Struct(Vec<(i16, Value<'a>)>),
    /// A double or a map.
    Passed,
}

impl<'a> Value<'a> {
    /// Reads the struct at the beginning of `bytes`, and returns the number of bytes it takes; `None` if the struct is incomplete.
    pub(super) fn read(bytes: &'a [u8]) -> Option<(Self, usize)> {
        let mut reader = Reader { rest: bytes };
        let value = reader.fields(DEEPEST)?;
        Some((value, bytes.len() - reader.rest.len()))
    }

    /// A field of a struct.
    pub(super) fn field(&self, number: i16) -> Option<&Self> {
        match self {
            Self::Struct(fields) => {
                let mut fields = fields.iter();
                fields.find_map(|(known, value)| (*known == number).then_some(value))
            }
            _ => None,
        }
    }

    pub(super) fn int(&self, number: i16) -> Option<i64> {
        match self.field(number)? {
            Self::Int(int) => Some(*int),
            _ => None,
        }
    }

    /// A non-negative number.
    pub(super) fn count(&self, number: i16) -> Option<u64> {
        self.int(number)?.try_into().ok()
    }

    pub(super) fn bool(&self, number: i16) -> Option<bool> {
        match self.field(number)? {
            Self::Bool(bool) => Some(*bool),
            _ => None,
        }
    }

    pub(super) fn text(&self, number: i16) -> Option<Cow<'a, str>> {
        self.field(number)?.as_text()
    }

    pub(super) fn as_text(&self) -> Option<Cow<'a, str>> {
        match self {
            Self::Bytes(bytes) => Some(String::from_utf8_lossy(bytes)),
            _ => None,
        }
    }

    /// The items of a list; empty if there is no list.
    pub(super) fn items(&self, number: i16) -> &[Self] {
        match self.field(number) {
            Some(Self::List(items)) => items,
            _ => &[],
        }
    }
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    fn number(&mut self) -> Option<u64> {
        let (number, taken) = varint(self.rest)?;
        self.rest = &self.rest[taken..];
        Some(number)
    }

    /// A signed number, with the sign in the lowest bit.
    fn signed(&mut self) -> Option<i64> {
        let number = self.number()?;
        Some((number >> 1) as i64 ^ -((number & 1) as i64))
    }

    fn fields(&mut self, depth: usize) -> Option<Value<'a>> {
        let mut fields = Vec::new();
        let mut number = 0_i16;
        loop {
            let head = self.byte()?;
            if head == 0 {
                return Some(Value::Struct(fields));
            }
            number = match head >> 4 {
                0 => self.signed()?.try_into().ok()?,
                more => number.checked_add(more.into())?,
            };
            let value = match head & 15 {
                // A boolean field is encoded in its type.
                kind @ (1 | 2) => Value::Bool(kind == 1),
                kind => self.value(kind, depth)?,
            };
            fields.push((number, value));
        }
    }

    fn value(&mut self, kind: u8, depth: usize) -> Option<Value<'a>> {
        let depth = depth.checked_sub(1)?;
        Some(match kind {
            1 | 2 => Value::Bool(self.byte()? == 1),
            3 => Value::Int((self.byte()? as i8).into()),
            4..=6 => Value::Int(self.signed()?),
            7 => {
                self.take(8)?;
                Value::Passed
            }
            8 => {
                let count = self.number()?.try_into().ok()?;
                Value::Bytes(self.take(count)?)
            }
            9 | 10 => {
                let head = self.byte()?;
                let count = match head >> 4 {
                    15 => self.number()?,
                    few => few.into(),
                };
                let mut items = Vec::new();
                // Each item takes at least one byte: the list is not larger than the remaining bytes.
                for _ in 0..count {
                    items.push(self.value(head & 15, depth)?);
                }
                Value::List(items)
            }
            11 => {
                let count = self.number()?;
                let kinds = if count > 0 { self.byte()? } else { 0 };
                for _ in 0..count {
                    self.value(kinds >> 4, depth)?;
                    self.value(kinds & 15, depth)?;
                }
                Value::Passed
            }
            12 => self.fields(depth)?,
            _ => return None,
        })
    }
}

/// A number with seven bits per byte, the lowest first, and the number of bytes it takes.
pub(super) fn varint(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut number = 0_u64;
    for (at, &byte) in bytes.iter().take(10).enumerate() {
        number |= u64::from(byte & 0x7f) << (7 * at);
        if byte < 0x80 {
            return Some((number, at + 1));
        }
    }
    None
}
