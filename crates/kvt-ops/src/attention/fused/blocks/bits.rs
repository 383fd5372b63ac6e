//! The keys that a row of scores keeps, as a set of bits.

use crate::cpu::softmax_row::RowState;

/// Keys per word.
const BITS: usize = u32::BITS as usize;

/// Words of a row.
pub(super) fn words(keys: usize) -> usize {
    keys.div_ceil(BITS)
}

/// Writes the survivors of a row of scores (see [`RowState`]), or all keys if its softmax is undefined.
#[inline(always)]
pub(super) fn write(row: &mut [f32], state: &RowState, words: &mut [u32]) {
    let least = state.drop_ties(row);
    for (word, scores) in words.iter_mut().zip(row.chunks(BITS)) {
        let mut bytes = [0_u8; BITS];
        for (byte, score) in bytes.iter_mut().zip(scores) {
            *byte = u8::from(*score >= least || score.is_nan());
        }
        *word = 0;
        for (number, eight) in bytes.as_chunks::<8>().0.iter().enumerate() {
            // Each byte is 0 or 1. The product moves byte i to bit 56 + i, and no two to the same bit.
            let moved = u64::from_le_bytes(*eight).wrapping_mul(0x0102_0408_1020_4080);
            *word |= ((moved >> 56) as u32) << (8 * number);
        }
    }
}

/// The keys of a set, in ascending order: writes them to the beginning of `keys`, and returns their number.
#[inline(always)]
pub(super) fn read(words: &[u32], keys: &mut [u32]) -> usize {
    let mut count = 0;
    for (number, &word) in (0_u32..).zip(words) {
        let mut left = word;
        while left != 0 {
            keys[count] = number * u32::BITS + left.trailing_zeros();
            count += 1;
            left &= left - 1;
        }
    }
    count
}
