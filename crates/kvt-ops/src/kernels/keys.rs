//! Scores as unsigned numbers of the same order, and what becomes of those that are kept.

use cubecl::prelude::*;

/// The key of -inf.
pub(crate) const NEGATIVE_INFINITY: u32 = 0x007f_ffff;
/// The key of +inf; only NaN's is larger.
pub(crate) const INFINITY: u32 = 0xff80_0000;

/// A u32 whose unsigned order is the order of the floats. Both zeros map to one key, and every NaN
/// to the largest: shader compilers may assume that there is none, so it is found by its bits.
#[cube]
pub(crate) fn ordered_key<F: Float>(value: F) -> u32 {
    let value = f32::cast_from(value);
    let bits = u32::reinterpret(value);
    let bits = select(bits & 0x7fff_ffffu32 > 0x7f80_0000u32, 0x7fff_ffffu32, bits);
    let bits = select(bits == 0x8000_0000u32, 0u32, bits);
    let mask = select(bits >> 31u32 == 1u32, 0xffff_ffffu32, 0x8000_0000u32);
    bits ^ mask
}

/// The float that [`ordered_key`] came from.
#[cube]
pub(crate) fn key_value(key: u32) -> f32 {
    let mask = select(key >> 31u32 == 1u32, 0x8000_0000u32, 0xffff_ffffu32);
    f32::reinterpret(key ^ mask)
}

/// `exp(score - max)` of a survivor, else 0.
#[cube]
pub(crate) fn weight<F: Float>(score: F, index: u32, max: f32, threshold: u32, bound: u32) -> f32 {
    let key = ordered_key::<F>(score);
    let kept = key > threshold || (key == threshold && index < bound);
    let mut weight = 0.0f32;
    if kept && key > NEGATIVE_INFINITY {
        weight = (f32::cast_from(score) - max).exp();
    }
    weight
}
