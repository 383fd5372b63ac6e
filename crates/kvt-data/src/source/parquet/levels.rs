//! Small integers, run-length encoded and bit-packed: Parquet's `RLE` encoding, for levels and for indices into a dictionary.
//! <https://parquet.apache.org/docs/file-format/data-pages/encodings/>

use super::thrift::varint;

/// The first `count` numbers of `width` bits each; `None` if there are fewer.
pub(super) fn numbers(mut bytes: &[u8], width: u32, count: usize) -> Option<Vec<u32>> {
    if width > 32 {
        return None;
    }
    let mut numbers = Vec::new();
    let size = width.div_ceil(8) as usize;
    while numbers.len() < count {
        let left = count - numbers.len();
        let (head, taken) = varint(bytes)?;
        bytes = &bytes[taken..];
        if head & 1 == 0 {
            // One number, repeated.
            let (number, rest) = bytes.split_at_checked(size)?;
            bytes = rest;
            let mut whole = [0; 4];
            whole[..size].copy_from_slice(number);
            let times = usize::try_from(head >> 1).ok()?.min(left);
            // An empty run would be read forever.
            if times == 0 {
                return None;
            }
            numbers.resize(numbers.len() + times, u32::from_le_bytes(whole));
        } else {
            // Groups of eight, the lowest bits first; the last group may be truncated after the last number.
            let groups = usize::try_from(head >> 1).ok()?;
            let packed = groups.checked_mul(width as usize)?.min(bytes.len());
            let (packed, rest) = bytes.split_at_checked(packed)?;
            bytes = rest;
            let there = match width {
                0 => left,
                width => packed.len() * 8 / width as usize,
            };
            let times = groups.checked_mul(8)?.min(there).min(left);
            if times == 0 {
                return None;
            }
            numbers.extend((0..times).map(|at| bits(packed, at * width as usize, width)));
        }
    }
    Some(numbers)
}

/// `width` bits from bit `at` on.
fn bits(bytes: &[u8], at: usize, width: u32) -> u32 {
    (0..width).fold(0, |number, bit| {
        let place = at + bit as usize;
        let byte = bytes.get(place / 8).copied().unwrap_or_default();
        number | u32::from(byte >> (place % 8) & 1) << bit
    })
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    /// The examples in the description of the format.
    #[test]
    fn runs_and_packed_numbers() {
        let packed = [0b10001000, 0b11000110, 0b11111010];
        let bytes: Vec<u8> = [0x03].into_iter().chain(packed).collect();
        assert_eq!(numbers(&bytes, 3, 8).unwrap(), [0, 1, 2, 3, 4, 5, 6, 7]);
        // Twenty times 300 in nine bits, then a packed group: five of its numbers are used.
        let bytes = [20 << 1, 0x2c, 1, 0x03, 0x81, 2, 0, 0, 0, 0, 0, 0, 0];
        let found = numbers(&bytes, 9, 25).unwrap();
        assert_eq!(found[..20], [300; 20]);
        assert_eq!(found[20..], [0x81, 1, 0, 0, 0]);
        assert_eq!(numbers(&[8], 0, 4).unwrap(), [0; 4]);
    }

    #[test]
    fn what_is_not_whole_is_refused() {
        for bytes in [&[][..], &[20 << 1], &[0x00, 1], &[0x03], &[0x80; 11]] {
            assert_eq!(numbers(bytes, 3, 4), None, "{bytes:?}");
        }
        assert_eq!(numbers(&[2, 1, 1], 33, 1), None);
    }
}
