//! A gradient as a few numbers: its norm, and its products with three vectors (`sketch` in
//! `scripts/reference/common.py`). A wrong number of the gradient changes them.

/// Norm and products of a tensor.
pub(crate) fn sketch(values: &[f32]) -> [f64; 4] {
    let product = |vector: u64| {
        let terms = (vector << 32..).zip(values);
        terms.map(|(place, &x)| number(place) * f64::from(x)).sum()
    };
    let squares = values.iter().map(|&x| f64::from(x).powi(2));
    [
        squares.sum::<f64>().sqrt(),
        product(0),
        product(1),
        product(2),
    ]
}

/// A number in [-1, 1) for each place, by splitmix64.
fn number(place: u64) -> f64 {
    let x = place.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    let x = x ^ (x >> 31);
    (x >> 40) as f64 / f64::from(1 << 23) - 1.0
}

/// One wrong number, or two that changed places, changes every product.
#[test]
fn a_sketch_tells_gradients_apart() {
    let values: Vec<f32> = (0..2000).map(|i| (i * 37 % 101) as f32 / 50.0).collect();
    let mut wrong = values.clone();
    wrong[1234] += 0.5;
    let mut swapped = values.clone();
    swapped.swap(3, 1999);
    let expected = sketch(&values);
    for other in [wrong, swapped] {
        for (a, e) in sketch(&other).iter().zip(expected).skip(1) {
            assert!((a - e).abs() > 1e-4 * expected[0], "{a} for {e}");
        }
    }
}
