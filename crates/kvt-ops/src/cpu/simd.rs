//! The exponential function, sums and dot products in explicit SIMD.

use pulp::Simd;

/// The argument below which [`exp`] is constant: the true value would be subnormal.
pub(crate) const SMALLEST_EXPONENT: f32 = -87.3;

/// `e^x` for x <= 0 with an error of at most 2 units in the last place; `e^-87.3` for x below -87.3.
///
/// `x = n ln 2 + r` with `|r| <= ln 2 / 2`: a Taylor polynomial in r, multiplied by `2^n`, which is built from bits.
#[inline(always)]
pub(crate) fn exp<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
    let all = |value: f32| simd.splat_f32s(value);
    // Adding 1.5 * 2^23 rounds to an integer and leaves it in the low bits.
    let round = all(12_582_912.0);
    let x = simd.max_f32s(x, all(SMALLEST_EXPONENT));
    let shifted = simd.mul_add_f32s(x, all(std::f32::consts::LOG2_E), round);
    let n = simd.sub_f32s(shifted, round);
    // ln 2 in two parts, so that no bits of r are lost.
    let r = simd.mul_add_f32s(n, all(-0.693_359_4), x);
    let r = simd.mul_add_f32s(n, all(2.121_944_4e-4), r);
    let mut p = all(1.0 / 5040.0);
    for coefficient in [
        1.0 / 720.0,
        1.0 / 120.0,
        1.0 / 24.0,
        1.0 / 6.0,
        0.5,
        1.0,
        1.0,
    ] {
        p = simd.mul_add_f32s(p, r, all(coefficient));
    }
    let bits = simd.add_u32s(simd.transmute_u32s_f32s(shifted), simd.splat_u32s(127));
    let power = simd.wrapping_dyn_shl_u32s(bits, simd.splat_u32s(23));
    simd.mul_f32s(p, simd.transmute_f32s_u32s(power))
}

/// The sum of a row.
#[inline(always)]
pub(crate) fn sum<S: Simd>(simd: S, row: &[f32]) -> f32 {
    let (main, rest) = S::as_simd_f32s(row);
    let mut sum = simd.partial_load_f32s(rest);
    for x in main {
        sum = simd.add_f32s(sum, *x);
    }
    simd.reduce_sum_f32s(sum)
}

/// The sum of each of four registers.
#[inline(always)]
pub(crate) fn sums_of<S: Simd>(simd: S, registers: [S::f32s; 4]) -> [f32; 4] {
    #[cfg(target_arch = "x86_64")]
    if std::any::TypeId::of::<S>() == std::any::TypeId::of::<pulp::x86::V4>() {
        #[expect(unsafe_code, reason = "instructions that not every CPU has")]
        // SAFETY: the token is proof of AVX-512.
        return unsafe { sums_with_avx512(bytemuck::cast(registers)) };
    }
    registers.map(|register| simd.reduce_sum_f32s(register))
}

/// [`sums_of`] with fewer instructions than four sums: each step halves the numbers of all four.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx512f")]
#[expect(unsafe_code, reason = "loads and stores take pointers")]
fn sums_with_avx512(registers: [[f32; 16]; 4]) -> [f32; 4] {
    use std::arch::x86_64::*;
    // SAFETY: the arrays have as many numbers as the registers.
    let [a, b, c, d] = registers
        .each_ref()
        .map(|register| unsafe { _mm512_loadu_ps(register.as_ptr()) });
    // In each quarter a0 + a2, b0 + b2, a1 + a3, b1 + b3.
    let ab = _mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
    let cd = _mm512_add_ps(_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
    let (ab, cd) = (_mm512_castps_pd(ab), _mm512_castps_pd(cd));
    let even = _mm512_castpd_ps(_mm512_unpacklo_pd(ab, cd));
    let all = _mm512_add_ps(even, _mm512_castpd_ps(_mm512_unpackhi_pd(ab, cd)));
    let upper = _mm512_castpd_ps(_mm512_castpd256_pd512(_mm512_extractf64x4_pd::<1>(
        _mm512_castps_pd(all),
    )));
    let half = _mm512_castps512_ps256(_mm512_add_ps(all, upper));
    let quarter = _mm_add_ps(
        _mm256_castps256_ps128(half),
        _mm256_extractf128_ps::<1>(half),
    );
    let mut sums = [0.0; 4];
    // SAFETY: the array has four places.
    unsafe { _mm_storeu_ps(sums.as_mut_ptr(), quarter) };
    sums
}

/// The dot product of two rows of equal length.
#[inline(always)]
pub(crate) fn dot<S: Simd>(simd: S, a: &[f32], b: &[f32]) -> f32 {
    let ((a, a_rest), (b, b_rest)) = (S::as_simd_f32s(a), S::as_simd_f32s(b));
    let (a_rest, b_rest) = (
        simd.partial_load_f32s(a_rest),
        simd.partial_load_f32s(b_rest),
    );
    let mut sum = simd.mul_f32s(a_rest, b_rest);
    for (a, b) in a.iter().zip(b) {
        sum = simd.mul_add_f32s(*a, *b, sum);
    }
    simd.reduce_sum_f32s(sum)
}

/// Replaces each of the values by what `change` makes of it and of the value at the same place of `others`.
#[inline(always)]
pub(crate) fn each_with<S: Simd>(
    simd: S,
    values: &mut [f32],
    others: &[f32],
    change: impl Fn(S::f32s, S::f32s) -> S::f32s,
) {
    let (values, values_rest) = S::as_mut_simd_f32s(values);
    let (others, others_rest) = S::as_simd_f32s(others);
    for (value, other) in values.iter_mut().zip(others) {
        *value = change(*value, *other);
    }
    let value = simd.partial_load_f32s(values_rest);
    let other = simd.partial_load_f32s(others_rest);
    simd.partial_store_f32s(values_rest, change(value, other));
}

#[cfg(test)]
mod tests {
    use pulp::Scalar;

    use super::*;

    /// With the widest registers of this CPU.
    struct SumsOfFour;

    impl pulp::WithSimd for SumsOfFour {
        type Output = ();

        #[inline(always)]
        fn with_simd<S: Simd>(self, simd: S) {
            let of = |register: usize| {
                let value = |lane: usize| (1000 * register + lane * lane) as f32;
                let values: Vec<f32> = (0..S::F32_LANES).map(value).collect();
                (simd.partial_load_f32s(&values), values.iter().sum::<f32>())
            };
            let all = [1, 2, 3, 4].map(of);
            let sums = sums_of(simd, all.map(|(register, _)| register));
            assert_eq!(sums, all.map(|(_, sum)| sum));
        }
    }

    #[test]
    fn four_registers_are_summed() {
        pulp::Arch::new().dispatch(SumsOfFour);
        pulp::Arch::Scalar.dispatch(SumsOfFour);
    }

    #[test]
    fn exp_is_accurate() {
        let mut worst = 0.0f64;
        for i in 0..=873_000 {
            let x = -(i as f32) * 1e-4;
            let expected = f64::from(x).exp();
            worst = worst.max((f64::from(exp(Scalar, x)) - expected).abs() / expected);
        }
        assert!(worst < 2.4e-7, "relative error {worst}");
        assert_eq!(exp(Scalar, 0.0), 1.0);
        assert_eq!(
            exp(Scalar, f32::NEG_INFINITY),
            exp(Scalar, SMALLEST_EXPONENT)
        );
    }
}
