//! The saved statistics of a row, read in the backward kernels.

use cubecl::prelude::*;

/// [`super::saved::words`] in a kernel.
#[cube]
pub(super) fn saved_words(keys: usize, #[comptime] select: bool) -> usize {
    let mut words = 2usize;
    if comptime!(select) {
        words += keys.div_ceil(32);
    }
    words
}

/// The probability of a key from its score, the saved maximum and sum of the row, and the word that contains the bit of
/// the key.
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

/// The word that contains the bit of a key; unused if all keys are kept.
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
