//! Order keys: scores as unsigned integers in the same order, and the weight of a kept score.

use cubecl::prelude::*;

/// The order key of -inf.
pub(crate) const NEGATIVE_INFINITY: u32 = 0x007f_ffff;
/// The order key of +inf; only the key of NaN is larger.
pub(crate) const INFINITY: u32 = 0xff80_0000;

/// A u32 in the same order as the floats. Both zeros have the same key, and every NaN has the largest key. NaNs are
/// detected by their bits, since shader compilers may assume that there are none.
#[cube]
pub(crate) fn ordered_key<F: Float>(value: F) -> u32 {
    let value = f32::cast_from(value);
    let bits = u32::reinterpret(value);
    let bits = select(bits & 0x7fff_ffffu32 > 0x7f80_0000u32, 0x7fff_ffffu32, bits);
    let bits = select(bits == 0x8000_0000u32, 0u32, bits);
    let mask = select(bits >> 31u32 == 1u32, 0xffff_ffffu32, 0x8000_0000u32);
    bits ^ mask
}

/// The inverse of [`ordered_key`].
#[cube]
pub(crate) fn key_value(key: u32) -> f32 {
    let mask = select(key >> 31u32 == 1u32, 0x8000_0000u32, 0xffff_ffffu32);
    f32::reinterpret(key ^ mask)
}

/// [`survivor_key_exp`] of a score.
#[cube]
pub(crate) fn survivor_exp<F: Float>(
    score: F,
    index: u32,
    max: f32,
    threshold: u32,
    bound: u32,
) -> f32 {
    survivor_key_exp(ordered_key::<F>(score), index, max, threshold, bound)
}

/// `exp(score - max)` of the survivor with the given key, otherwise 0. A key survives if it is above the threshold, or equal
/// to it at an index below the bound.
#[cube]
pub(crate) fn survivor_key_exp(key: u32, index: u32, max: f32, threshold: u32, bound: u32) -> f32 {
    let kept = key > threshold || (key == threshold && index < bound);
    let mut weight = 0.0f32;
    if kept && key > NEGATIVE_INFINITY {
        weight = (key_value(key) - max).exp();
    }
    weight
}
