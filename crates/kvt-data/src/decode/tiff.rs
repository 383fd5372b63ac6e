//! The first directory of a TIFF, which EXIF has too, as Pillow reads it.

/// The tag of XMP.
pub(super) const XMP: u64 = 700;
/// The tag of what further samples of a pixel are.
const EXTRA: u64 = 338;

/// An entry of a directory.
pub(super) struct Entry<'a> {
    kind: u64,
    /// Bytes of a value.
    size: usize,
    is_little: bool,
    /// All values.
    pub(super) bytes: &'a [u8],
}

impl Entry<'_> {
    /// Its first value; `None` if it is no whole number.
    pub(super) fn number(&self) -> Option<u64> {
        let first = self.bytes.get(..self.size)?;
        matches!(self.kind, 3 | 4 | 6 | 8 | 9 | 13 | 16).then(|| number(first, self.is_little))
    }
}

fn number(bytes: &[u8], is_little: bool) -> u64 {
    let add = |sum: u64, byte: &u8| sum << 8 | u64::from(*byte);
    if is_little {
        bytes.iter().rfold(0, add)
    } else {
        bytes.iter().fold(0, add)
    }
}

/// The entry of a tag in the first directory.
pub(super) fn entry(tiff: &[u8], tag: u64) -> Option<Entry<'_>> {
    let is_little = match tiff.first_chunk()? {
        b"II*\0" | b"II\0*" => true,
        b"MM\0*" | b"MM*\0" => false,
        _ => return None,
    };
    let part = |at: u64, size: u64| tiff.get(at as usize..at.checked_add(size)? as usize);
    let number = |at, size| Some(number(part(at, size)?, is_little));
    let directory = number(4, 4)?;
    let length = tiff.len() as u64;
    // Bytes of the values that are outside of the directory.
    let mut outside = 0;
    for index in 0..number(directory, 2)? {
        let at = directory + 2 + 12 * index;
        let (found, kind) = (number(at, 2)?, number(at + 2, 2)?);
        let (count, inside) = (number(at + 4, 4)?, number(at + 8, 4)?);
        let size = match kind {
            1 | 2 | 6 | 7 => 1,
            3 | 8 => 2,
            4 | 9 | 11 | 13 => 4,
            5 | 10 | 12 | 16 => 8,
            _ => continue,
        };
        let bytes = count * size;
        let value = match bytes {
            0 => continue,
            1..=4 => at + 8,
            _ => {
                // As in Pillow: values that claim too much are passed over, and those after the end are an end.
                outside += bytes;
                if outside > length {
                    continue;
                }
                inside
            }
        };
        let bytes = part(value, bytes)?;
        if found == tag {
            let size = size as usize;
            return Some(Entry {
                kind,
                size,
                is_little,
                bytes,
            });
        }
    }
    None
}

/// Whether the file is a BigTIFF, whose offsets have 64 bits.
pub(super) fn is_big(bytes: &[u8]) -> bool {
    bytes.starts_with(b"II+\0") || bytes.starts_with(b"MM\0+")
}

/// Whether colours are multiplied by alpha.
pub(super) fn is_multiplied(bytes: &[u8]) -> bool {
    entry(bytes, EXTRA).and_then(|extra| extra.number()) == Some(1)
}

/// The message for a file of a kind that is not read.
pub(super) fn refused(bytes: &[u8]) -> String {
    let of = |tag| entry(bytes, tag).and_then(|found| found.number());
    let colors = match of(262) {
        Some(0 | 1) => "grey",
        Some(2) => "RGB",
        Some(3) => "a palette",
        Some(5) => "CMYK",
        Some(6) => "YCbCr",
        Some(8) => "L*a*b*",
        _ => "unknown colours",
    };
    let kind = match of(339) {
        Some(2) => "signed ",
        Some(3) => "floating-point ",
        _ => "",
    };
    let (samples, bits) = (of(277).unwrap_or(1), of(258).unwrap_or(1));
    let packed = of(259).unwrap_or(1);
    format!(
        "a TIFF of {samples} x {bits} {kind}bits of {colors}, compression {packed}, which is not read; expected 8 or 16 bits of grey, or of RGB \
         perhaps with alpha: convert it to PNG"
    )
}
