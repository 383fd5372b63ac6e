//! What the forward pass saves of a row, and what the backward pass makes of it.

use cubecl::prelude::*;

/// [`super::super::saved::words`], in a kernel.
#[cube]
pub(super) fn saved_words(keys: usize, #[comptime] select: bool) -> usize {
    let mut words = 2usize;
    if comptime!(select) {
        words += keys.div_ceil(32);
    }
    words
}

/// The probability of a key from its score and what was saved of the row: largest score, sum, and a
/// word that has the bit of the key.
#[cube]
pub(super) fn probability(
    score: f32,
    max: u32,
    sum: u32,
    word: u32,
    key: usize,
    #[comptime] select: bool,
) -> f32 {
    let mut probability = (score - f32::reinterpret(max)).exp() / f32::reinterpret(sum);
    if comptime!(select) {
        let bit = (word >> (key % 32) as u32) & 1u32;
        if bit == 0u32 {
            probability = 0.0f32;
        }
    }
    probability
}

/// The word with the bit of a key; none where all are kept.
#[cube]
pub(super) fn word_of(
    saved: &Tensor<u32>,
    row: usize,
    key: usize,
    #[comptime] select: bool,
) -> u32 {
    let mut word = 0u32;
    if comptime!(select) {
        word = saved[row + 2 + key / 32];
    }
    word
}
