#![expect(clippy::unwrap_used, reason = "tests")]

use rayon::ThreadPoolBuilder;

use super::testing::kernels;
use super::*;

/// Numbers of different magnitudes that bf16 cannot represent.
fn values(len: usize, seed: usize) -> Vec<f32> {
    (0..len)
        .map(|i| {
            let whole = ((i * 7919 + seed * 104_729) % 2003) as f32 - 1001.0;
            whole / 700.0 * [1.0, 1e-3, 30.0][i % 3]
        })
        .collect()
}

fn halves(values: &[f32]) -> Vec<bf16> {
    values.iter().map(|x| bf16::from_f32(*x)).collect()
}

/// The product of the rounded numbers in f64, and the sum of the absolute values of its terms. `bf16::from_f32` rounds.
fn naive<A: Number, B: Number>(a: Matrix<'_, A>, b: Matrix<'_, B>) -> Vec<[f64; 2]> {
    let ([rows, inner], [_, columns]) = (a.shape(), b.shape());
    let at = |place: usize, strides: [usize; 2], [i, j]: [usize; 2]| {
        place + i * strides[0] + j * strides[1]
    };
    let rounded = |x: f32| f64::from(bf16::from_f32(x).to_f32());
    let mut out = Vec::new();
    for i in 0..rows {
        for j in 0..columns {
            let mut sums = [0.0; 2];
            for p in 0..inner {
                let a = a.values()[at(0, a.strides(), [i, p])].widened();
                let b = b.values()[at(0, b.strides(), [p, j])].widened();
                let product = rounded(a) * rounded(b);
                sums[0] += product;
                sums[1] += product.abs();
            }
            out.push(sums);
        }
    }
    out
}

/// `error` is the relative rounding error of the output's type.
fn assert_near<T: Number>(what: &str, actual: &[T], expected: &[[f64; 2]], error: f64) {
    assert_eq!(actual.len(), expected.len(), "{what}");
    for (index, (actual, [expected, size])) in actual.iter().zip(expected).enumerate() {
        let actual = f64::from(actual.widened());
        // The instruction flushes subnormals, and f32 rounds every sum.
        let tolerance = 1e-6 * size + error * expected.abs() + 1e-37;
        assert!(
            (actual - expected).abs() <= tolerance,
            "{what}, number {index}: {actual} is not {expected}"
        );
    }
}

/// Half a unit of bf16.
const HALF_UNIT: f64 = 1.0 / 256.0;

#[test]
fn products_match_the_definition() {
    // Sizes 0 and 1, and sizes just below and above those of panels, tiles and blocks; even and odd.
    for [m, k, n] in [
        [3, 0, 5],
        [0, 4, 5],
        [3, 4, 0],
        [1, 1, 1],
        [1, 64, 33],
        [3, 17, 3],
        [12, 2, 32],
        [13, 3, 31],
        [11, 64, 65],
        [97, 5, 17],
        [192, 197, 64],
        [197, 64, 197],
        [197, 192, 577],
        [200, 577, 7],
    ] {
        let (a, b) = (values(m * k, 1), values(k * n, 2));
        let (a16, b16) = (halves(&a), halves(&b));
        for kernel in kernels() {
            let what = |how| format!("{m} {k} {n} {how}, {kernel:?}");
            let (wide_a, wide_b) = (Matrix::new(&a, [m, k], k), Matrix::new(&b, [k, n], n));
            let (a, b) = (Matrix::new(&a16, [m, k], k), Matrix::new(&b16, [k, n], n));
            let expected = naive(a, b);
            let out: Vec<f32> = product(kernel, a, b, Added::nothing());
            assert_near(&what("a b"), &out, &expected, 0.0);
            // Numbers in f32 are rounded first.
            let mixed: Vec<f32> = product(kernel, a, wide_b, Added::nothing());
            assert_eq!(mixed, out, "{}", what("mixed"));
            let mixed: Vec<f32> = product(kernel, wide_a, b, Added::nothing());
            assert_eq!(mixed, out, "{}", what("mixed"));
            let rounded: Vec<bf16> = product(kernel, a, b, Added::nothing());
            assert_near(&what("in bf16"), &rounded, &expected, HALF_UNIT);
            // Transposes: the same numbers are stored by column.
            let (at, bt) = (transposed(&a16, [m, k]), transposed(&b16, [k, n]));
            let (at, bt) = (Matrix::new(&at, [k, m], m), Matrix::new(&bt, [n, k], k));
            for (a, b) in [(at.t(), b), (a, bt.t()), (at.t(), bt.t())] {
                let again: Vec<f32> = product(kernel, a, b, Added::nothing());
                assert_near(&what("transposed"), &again, &expected, 0.0);
            }
            let over_rows = product_over_rows(kernel, at, b);
            assert_near(&what("over rows"), &over_rows, &expected, 0.0);
        }
    }
}

fn transposed(values: &[bf16], [rows, columns]: [usize; 2]) -> Vec<bf16> {
    (0..values.len())
        .map(|i| values[i % rows * columns + i / rows])
        .collect()
}

#[test]
fn sums_over_many_rows_match_the_definition() {
    for rows in [1, 511, 1025, 1500, 2049] {
        let (a, b) = (values(rows * 13, 1), values(rows * 35, 2));
        let a16 = halves(&a);
        let (a, b) = (
            Matrix::new(&a16, [rows, 13], 13),
            Matrix::new(&b, [rows, 35], 35),
        );
        for kernel in kernels() {
            let out = product_over_rows(kernel, a, b);
            assert_near("over rows", &out, &naive(a.t(), b), 0.0);
        }
    }
}

/// Rows some distance apart, replaced or added to. With an odd number of terms the left rows may have one number more, which does not count.
#[test]
fn products_are_written_to_rows_or_added_to_them() {
    for (rows, inner, columns) in [(1, 1, 1), (13, 7, 5), (9, 6, 4), (40, 33, 70), (30, 9, 64)] {
        let width = inner + 1;
        let (a, b) = (
            halves(&values(rows * width, 1)),
            halves(&values(inner * columns, 2)),
        );
        let b = Matrix::new(&b, [inner, columns], columns);
        let stride = columns + 3;
        for kernel in kernels().into_iter().flatten() {
            let mut right = Right::default();
            right.fill(kernel, b);
            for numbers in [inner, inner + inner % 2] {
                let mut out = vec![0.5; rows * stride];
                for (write, factor) in [(Write::Replace, 2.0), (Write::Add, -1.0)] {
                    let a = Matrix::new(&a, [rows, numbers], width);
                    let (out, left) = ((&mut out[..], stride), &mut Scratch::default());
                    multiply(kernel, out, write, factor, a, &right, left);
                }
                let expected = naive(Matrix::new(&a, [rows, inner], width), b);
                for (out, expected) in out.chunks(stride).zip(expected.chunks(columns)) {
                    assert_near("sums", &out[..columns], expected, 0.0);
                    assert_eq!(out[columns..], [0.5; 3], "{kernel:?}");
                }
            }
            let few = Matrix::new(&a, [rows, inner - 1], width);
            let run = || {
                let out = &mut vec![0.0; rows * columns];
                let left = &mut Scratch::default();
                multiply(
                    kernel,
                    (out, columns),
                    Write::Replace,
                    1.0,
                    few,
                    &right,
                    left,
                );
            };
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).unwrap_err();
        }
    }
}

#[test]
fn a_bias_is_added_before_rounding_and_a_residual_behind_it() {
    // Columns that fill registers, and columns that do not.
    for [m, k, n] in [[99, 6, 40], [1, 3, 5], [13, 32, 32]] {
        let (a, b) = (values(m * k, 1), values(k * n, 2));
        let (bias, residual32) = (values(n, 3), values(m * n, 4));
        let residual16 = halves(&residual32);
        let (a, b) = (Matrix::new(&a, [m, k], k), Matrix::new(&b, [k, n], n));
        let sums = naive(a, b).into_iter().enumerate();
        let expected: Vec<[f64; 2]> = sums
            .map(|(i, [sum, size])| {
                let bias = f64::from(bias[i % n]);
                [sum + bias, size + bias.abs()]
            })
            .collect();
        for kernel in kernels() {
            let bias = Some(bias.as_slice());
            let residual = None;
            let out: Vec<f32> = product(kernel, a, b, Added { bias, residual });
            assert_near("bias", &out, &expected, 0.0);
            let residual = None;
            let branch: Vec<bf16> = product(kernel, a, b, Added { bias, residual });
            assert_near("bias, in bf16", &branch, &expected, HALF_UNIT);
            let residual = Some(residual32.as_slice());
            let out = product(kernel, a, b, Added { bias, residual });
            let pairs = branch.iter().zip(&residual32);
            let added: Vec<f32> = pairs.map(|(x, r)| x.to_f32() + r).collect();
            assert_eq!(out, added, "a residual in f32");
            let residual = Some(residual16.as_slice());
            let out = product(kernel, a, b, Added { bias, residual });
            let pairs = branch.iter().zip(&residual16);
            let sums = pairs.map(|(x, r)| bf16::from_f32(x.to_f32() + r.to_f32()));
            assert_eq!(out, sums.collect::<Vec<_>>(), "a residual in bf16");
        }
    }
}

/// 33 blocks of 96 rows would be 17 for one of two threads, 1,632 rows; 44 of 72 are 22 for each, 1,584. As many rows in blocks of 12 would
/// read the right matrix 132 times.
#[test]
fn threads_get_equally_many_rows() {
    let cases = [
        (2, 3152, 72),
        (1, 3152, 96),
        (2, 12, 12),
        (2, 197, 36),
        (1, 197, 72),
        (2, 394, 72),
        (2, 0, 96),
    ];
    for (threads, rows, expected) in cases {
        let pool = ThreadPoolBuilder::new().num_threads(threads).build();
        let height = pool
            .unwrap()
            .install(|| block_height(Some(Kernel::scalar()), rows));
        assert_eq!(height, expected, "{rows} rows, {threads} threads");
    }
}

#[test]
fn the_number_of_threads_does_not_change_a_bit() {
    let (k, n) = (130, 70);
    let b = values(k * n, 2);
    // Rows of the output that are shared by threads or not, with sums of one or two parts.
    for (m, kernel) in [30, 300, 1100]
        .into_iter()
        .flat_map(|m| kernels().into_iter().map(move |kernel| (m, kernel)))
    {
        let (a, grad) = (halves(&values(m * k, 1)), halves(&values(m * n, 3)));
        let run = |threads| {
            let pool = ThreadPoolBuilder::new().num_threads(threads).build();
            pool.unwrap().install(|| {
                let a = Matrix::new(&a, [m, k], k);
                let out: Vec<f32> =
                    product(kernel, a, Matrix::new(&b, [k, n], n), Added::nothing());
                let sums = product_over_rows(kernel, a, Matrix::new(&grad, [m, n], n));
                (out, sums)
            })
        };
        assert_eq!(run(1), run(5));
    }
}

#[test]
fn infinities_and_nans_stay_in_their_rows() {
    for kernel in kernels() {
        let mut a = vec![1.0; 15 * 3];
        (a[0], a[4 * 3 + 2]) = (f32::NAN, f32::INFINITY);
        let b = [1.0; 3 * 2];
        let (a, b) = (Matrix::new(&a, [15, 3], 3), Matrix::new(&b, [3, 2], 2));
        let out: Vec<f32> = product(kernel, a, b, Added::nothing());
        for (row, sums) in out.chunks(2).enumerate() {
            match row {
                0 => assert!(sums.iter().all(|x| x.is_nan())),
                4 => assert_eq!(sums, [f32::INFINITY; 2]),
                _ => assert_eq!(sums, [3.0; 2]),
            }
        }
    }
}

/// Compared with the crate that Burn uses for rounding: halfway cases, the largest numbers, infinities, subnormals and NaNs.
#[test]
fn numbers_round_to_the_nearest() {
    let cases = (0..=u32::MAX / 4099).map(|i| i * 4099);
    let halfway = (0..=u32::from(u16::MAX)).map(|high| high << 16 | 0x8000);
    for bits in cases.chain(halfway) {
        let x = f32::from_bits(bits);
        let (actual, expected) = (<bf16 as Number>::rounded(x), bf16::from_f32(x));
        assert_eq!(actual.is_nan(), x.is_nan(), "{x}");
        assert!(x.is_nan() || actual.to_bits() == expected.to_bits(), "{x}");
    }
}

/// Rows further apart than they are long, and blocks with tiles in place and a rest; what lies between rows is NaN.
#[test]
fn neighbours_of_rows_are_not_read_as_numbers() {
    for [m, k, gap] in [
        [40, 64, 2],
        [40, 64, 1],
        [33, 31, 1],
        [70, 33, 31],
        [64, 32, 32],
        [65, 30, 34],
        [31, 96, 4],
    ] {
        let (stride, n) = (k + gap, 37);
        let mut wide = vec![bf16::NAN; m * stride];
        let numbers = halves(&values(m * k, 1));
        for (to, from) in wide.chunks_mut(stride).zip(numbers.chunks(k)) {
            to[..k].copy_from_slice(from);
        }
        let b = halves(&values(k * n, 2));
        let (a, b) = (
            Matrix::new(&wide, [m, k], stride),
            Matrix::new(&b, [k, n], n),
        );
        let expected = naive(Matrix::new(&numbers, [m, k], k), b);
        for kernel in kernels().into_iter().flatten() {
            let mut out = vec![MaybeUninit::<f32>::uninit(); m * n];
            let (right, added) = (Right::new(kernel, b), Added::nothing());
            let scratch = &mut Scratch::default();
            let out = rows_of_product(kernel, a, &right, added, &mut out, scratch);
            assert_near(&format!("{m} {k} {gap} {kernel:?}"), out, &expected, 0.0);
        }
    }
}

/// Buffers that held NaNs in other shapes.
#[test]
fn reused_buffers_are_as_new() {
    let nans = vec![f32::NAN; 70 * 100];
    for kernel in kernels().into_iter().flatten() {
        let mut scratch = Scratch::default();
        for [m, k, n] in [[33, 3, 5], [5, 40, 33], [1, 0, 2], [40, 64, 7]] {
            for is_transposed in [false, true] {
                let dirty = Matrix::new(&nans, [70, 100], 100);
                let right = Right::new(kernel, Matrix::new(&nans, [100, 2], 2));
                let (added, out) = (Added::nothing(), &mut [MaybeUninit::<f32>::uninit(); 140]);
                rows_of_product(kernel, dirty, &right, added, out, &mut scratch);
                let (a, b) = (values(m * k, 1), values(k * n, 2));
                let a = if is_transposed {
                    Matrix::new(&a, [k, m], m).t()
                } else {
                    Matrix::new(&a, [m, k], k)
                };
                let b = Matrix::new(&b, [k, n], n);
                let mut out = vec![MaybeUninit::<f32>::uninit(); m * n];
                let (right, added) = (Right::new(kernel, b), Added::nothing());
                let out = rows_of_product(kernel, a, &right, added, &mut out, &mut scratch);
                assert_near(&format!("{m} {k} {n} {kernel:?}"), out, &naive(a, b), 0.0);
            }
        }
    }
}

#[test]
fn packed_numbers_begin_with_lines_of_the_cache() {
    let b = values(70 * 100, 1);
    for kernel in kernels().into_iter().flatten() {
        let Right(panels) = Right::new(kernel, Matrix::new(&b, [70, 100], 100));
        for number in 0..4 {
            let address = panels.panel(number).as_ptr().addr();
            assert!(address.is_multiple_of(64), "{kernel:?}, panel {number}");
        }
    }
    assert_eq!(
        (size_of::<pack::Line>(), align_of::<pack::Line>()),
        (64, 64)
    );
}
