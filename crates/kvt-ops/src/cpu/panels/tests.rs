use super::*;

/// A matrix with numbers that are in none between its rows; the same values for the same seed if it is transposed.
struct Case {
    values: Vec<f32>,
    shape: [usize; 2],
    transposed: bool,
}

/// Small integers: sums are exact in any order.
fn number(seed: usize, [row, column]: [usize; 2]) -> f32 {
    ((3 * row + 5 * column + seed) % 7) as f32 - 3.0
}

impl Case {
    fn new(seed: usize, shape @ [rows, columns]: [usize; 2], transposed: bool) -> Self {
        let at = |row, column| number(seed, [row, column]);
        let (height, width) = if transposed {
            (columns, rows)
        } else {
            (rows, columns)
        };
        let line = |i| -> Vec<f32> {
            let numbers = (0..width).map(|j| if transposed { at(j, i) } else { at(i, j) });
            numbers.chain([1e9; 2]).collect()
        };
        Self {
            values: (0..height).flat_map(line).collect(),
            shape,
            transposed,
        }
    }

    fn matrix(&self) -> Matrix<'_> {
        let [rows, columns] = self.shape;
        if self.transposed {
            Matrix::new(&self.values, [columns, rows], rows + 2).t()
        } else {
            Matrix::new(&self.values, [rows, columns], columns + 2)
        }
    }
}

/// Rows of products of a left matrix (seed 1) and a right one (seed 2), `factor` times, in an output that is three numbers wider and was 0.5.
fn expected([rows, inner, columns]: [usize; 3], factor: f32) -> Vec<f32> {
    let product = |row, column| -> f32 {
        let products = (0..inner).map(|i| number(1, [row, i]) * number(2, [i, column]));
        products.sum()
    };
    let row = |row| {
        let products = (0..columns).map(move |column| factor * product(row, column));
        products.chain([0.5; 3])
    };
    (0..rows).flat_map(row).collect()
}

fn kernels() -> Vec<Kernel> {
    let kernels: Vec<_> = Kernel::all().collect();
    if kernels.len() < 2 {
        kvt_testing::skipped("the CPU lacks AVX-512 or AVX2");
    }
    kernels
}

/// Each height of a tile with each number of registers, panels of two widths, and nothing.
fn shapes() -> impl Iterator<Item = [usize; 3]> {
    let heights = (1..=13).flat_map(|rows| [16, 32, 48, 64].map(|columns| [rows, 5, columns]));
    let others = [
        [1, 1, 1],
        [5, 0, 3],
        [0, 3, 4],
        [3, 4, 0],
        [7, 3, 17],
        [50, 64, 197],
        [197, 50, 64],
        [25, 9, 80],
        [3, 2, 333],
    ];
    others.into_iter().chain(heights)
}

/// Both orders of both factors, rows that are further apart than they are long, sums, and factors.
#[test]
fn products_match_the_definition() {
    for shape @ [rows, inner, columns] in shapes() {
        let stride = columns + 3;
        let expected = expected(shape, 1.5);
        for (kernel, [left, right]) in kernels().into_iter().flat_map(|kernel| {
            let orders = [[false; 2], [false, true], [true, false], [true; 2]];
            orders.map(|orders| (kernel, orders))
        }) {
            let left = Case::new(1, [rows, inner], left);
            let right = Case::new(2, [inner, columns], right);
            let (left, right) = (left.matrix(), right.matrix());
            for panels in [
                Panels::new(kernel, right),
                Panels::on_this_thread(kernel, right),
            ] {
                assert_eq!(panels.shape(), [inner, columns]);
                let mut out = vec![0.5; rows * stride];
                panels.multiply((&mut out, stride), Write::Replace, 2.0, left);
                panels.multiply((&mut out, stride), Write::Add, -0.5, left);
                assert_eq!(out, expected, "{shape:?} {kernel:?}");
            }
        }
    }
}

/// Each size that the kernel relies on, wrong by one.
#[test]
fn sizes_that_do_not_match_are_refused() {
    let (a, b) = (Case::new(1, [7, 5], false), Case::new(2, [5, 20], false));
    let (a, b) = (a.matrix(), b.matrix());
    for kernel in kernels() {
        let panels = Panels::new(kernel, b);
        let refused = |len: usize, stride, left: Matrix<'_>| {
            let mut out = vec![0.0; len];
            let product = || panels.multiply((&mut out, stride), Write::Replace, 1.0, left);
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(product)).is_err()
        };
        assert!(!refused(6 * 21 + 20, 21, a));
        assert!(refused(6 * 21 + 19, 21, a), "an output that is too short");
        assert!(refused(7 * 21, 19, a), "rows that overlap");
        let narrow = a.t().rows(0..4).t();
        assert!(refused(7 * 21, 21, narrow), "other inputs");
        let refused = |bias: usize, residual: usize| {
            let mut out = Box::new_uninit_slice(7 * 20);
            let (bias, residual) = (vec![0.0; bias], vec![0.0; residual]);
            let product = || {
                panels.affine(&mut out, a, &bias, Some(&residual));
            };
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(product)).is_err()
        };
        assert!(!refused(20, 7 * 20));
        assert!(refused(19, 7 * 20), "a bias that is too short");
        assert!(refused(20, 7 * 20 - 1), "a residual that is too short");
    }
}

/// Panels of a row are as wide as the others, or narrower by a line.
#[test]
fn lines_are_divided_evenly() {
    for kernel in kernels() {
        for columns in [0, 1, 16, 65, 80, 197, 576, 1000] {
            let division = Division::new(kernel, columns);
            let panels: Vec<_> = division.all().collect();
            let lines: Vec<usize> = panels.iter().cloned().flatten().collect();
            assert_eq!(lines, (0..columns.div_ceil(LINE)).collect::<Vec<_>>());
            let widths = || panels.iter().map(ExactSizeIterator::len);
            let (least, most) = (widths().min(), widths().max());
            assert!(most <= Some(kernel.lines()) && most <= least.map(|least| least + 1));
            assert_eq!(panels.len(), lines.len().div_ceil(kernel.lines()));
        }
    }
}
