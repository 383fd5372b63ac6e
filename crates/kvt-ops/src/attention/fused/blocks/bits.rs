//! The keys that a row of scores keeps, as a set of bits.

use pulp::Simd;

use crate::cpu::softmax_row::RowState;

/// Keys per word.
pub(super) const BITS: usize = u32::BITS as usize;

/// Words of a row.
pub(super) fn words(keys: usize) -> usize {
    keys.div_ceil(BITS)
}

/// Each bit of a word.
const PLACES: [u32; BITS] = {
    let mut places = [0; BITS];
    let mut bit = 0;
    while bit < BITS {
        places[bit] = 1 << bit;
        bit += 1;
    }
    places
};

/// Writes the survivors of a row of scores (see [`RowState`]), or all keys if its softmax is undefined.
#[inline(always)]
pub(super) fn write<S: Simd>(simd: S, row: &mut [f32], state: &RowState, words: &mut [u32]) {
    if state.scale.is_nan() {
        for (word, scores) in words.iter_mut().zip(row.chunks(BITS)) {
            *word = u32::MAX >> (BITS - scores.len());
        }
        return;
    }
    let least = simd.splat_f32s(state.drop_ties(row));
    let (whole, rest) = row.as_chunks::<BITS>();
    for (word, scores) in words.iter_mut().zip(whole) {
        *word = at_least(simd, scores, least);
    }
    if let (false, Some(last)) = (rest.is_empty(), words.last_mut()) {
        // A score that survives is finite.
        let mut scores = [f32::NEG_INFINITY; BITS];
        scores[..rest.len()].copy_from_slice(rest);
        *last = at_least(simd, &scores, least);
    }
}

/// The scores that are at least `least`.
#[inline(always)]
fn at_least<S: Simd>(simd: S, scores: &[f32; BITS], least: S::f32s) -> u32 {
    let (places, zero) = (S::as_simd_u32s(&PLACES).0, simd.splat_u32s(0));
    let mut found = zero;
    for (&x, &place) in S::as_simd_f32s(scores).0.iter().zip(places) {
        let survives = simd.greater_than_or_equal_f32s(x, least);
        found = simd.or_u32s(found, simd.select_u32s(survives, place, zero));
    }
    let found: &[u32] = bytemuck::cast_slice(std::slice::from_ref(&found));
    found.iter().fold(0, |word, bits| word | bits)
}

/// The number of keys in a set.
pub(super) fn count(words: &[u32]) -> usize {
    words.iter().map(|word| word.count_ones() as usize).sum()
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
