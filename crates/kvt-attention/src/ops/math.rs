//! Functions that loops over slices vectorise: no calls, no branches.

/// e^x for x <= 0 to within 2 units in the last place; 0 below -87.3, where the true value is not
/// a normal f32. Branch-free, so that a loop over it becomes SIMD code (`f32::exp` is a call).
///
/// `x = n ln 2 + r` with `|r| <= ln 2 / 2`, Taylor polynomial in r, then `2^n` by its bits.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    // 1.5 * 2^23: adding it rounds to a whole number, which is then in the low bits.
    const ROUND: f32 = 12_582_912.0;
    const LN2_HIGH: f32 = 0.693_359_4;
    const LN2_LOW: f32 = -2.121_944_4e-4;
    let shifted = x.max(-87.3) * std::f32::consts::LOG2_E + ROUND;
    let n = shifted - ROUND;
    let r = x.max(-87.3) - n * LN2_HIGH - n * LN2_LOW;
    let p = 1.0 / 5040.0;
    let p = p * r + 1.0 / 720.0;
    let p = p * r + 1.0 / 120.0;
    let p = p * r + 1.0 / 24.0;
    let p = p * r + 1.0 / 6.0;
    let p = p * r + 0.5;
    let p = p * r + 1.0;
    let p = p * r + 1.0;
    let power = f32::from_bits(shifted.to_bits().wrapping_add(127) << 23);
    if x < -87.3 { 0.0 } else { p * power }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_is_accurate() {
        let mut worst = 0.0f64;
        for i in 0..=873_000 {
            let x = -(i as f32) * 1e-4;
            let expected = f64::from(x).exp();
            worst = worst.max((f64::from(exp(x)) - expected).abs() / expected);
        }
        assert!(worst < 2.4e-7, "relative error {worst}");
        assert_eq!(exp(0.0), 1.0);
        assert_eq!(exp(f32::NEG_INFINITY), 0.0);
        assert_eq!(exp(-1000.0), 0.0);
    }
}
