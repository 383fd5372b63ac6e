//! Rows in another order, row by row, on every device.

use burn::tensor::{DType, Device, Tensor};
use kvt_ops::{RowOrder, reorder_rows};

use kvt_testing::devices::{devices, tensor, values};

const SOURCES: [Option<usize>; 6] = [Some(4), None, Some(0), Some(3), None, Some(1)];
const ROWS: usize = 5;

fn numbers(count: usize, from: f32) -> Vec<f32> {
    (0..count).map(|i| from + i as f32).collect()
}

#[test]
fn rows_and_gradients_are_in_their_places() {
    // More rows than a block has, and few.
    for [batch, dim] in [[2, 3], [3, 9000], [1, 1]] {
        let x = numbers(batch * ROWS * dim, 1.0);
        let probe = numbers(batch * SOURCES.len() * dim, 1000.0);
        let (mut expected, mut of_x) = (vec![0.0; probe.len()], vec![0.0; x.len()]);
        for image in 0..batch {
            for (place, source) in SOURCES.iter().enumerate() {
                for i in 0..dim {
                    if let Some(source) = source {
                        let from = (image * ROWS + source) * dim + i;
                        let to = (image * SOURCES.len() + place) * dim + i;
                        expected[to] = x[from];
                        of_x[from] = probe[to];
                    }
                }
            }
        }
        for (name, device) in devices() {
            let device = device.autodiff();
            let leaf = tensor(&x, [batch, ROWS, dim], &device).require_grad();
            let out = reorder_rows(leaf.clone(), RowOrder::new(SOURCES, ROWS));
            let shape = [batch, SOURCES.len(), dim];
            let grads = (out.clone() * tensor(&probe, shape, &device))
                .sum()
                .backward();
            assert_eq!(values(out), expected, "{name}");
            assert_eq!(values(leaf.grad(&grads).unwrap()), of_x, "{name}");
        }
    }
}

#[test]
fn other_types_and_views_have_the_same_rows() {
    let device = Device::flex();
    let run = |x: Tensor<3>| values(reorder_rows(x, RowOrder::new(SOURCES, ROWS)));
    let x: Tensor<3> = tensor(&numbers(2 * ROWS * 3, 1.0), [2, ROWS, 3], &device);
    let expected = run(x.clone());
    for dtype in [DType::BF16, DType::F16, DType::F64] {
        assert_eq!(run(x.clone().cast(dtype)), expected, "{dtype:?}");
    }
    let view = x.swap_dims(1, 2);
    let copy = tensor(&values(view.clone()), [2, 3, ROWS], &device);
    let reversed = |x| values(reorder_rows(x, RowOrder::new([Some(2), Some(0)], 3)));
    assert_eq!(reversed(view), reversed(copy));
}

#[test]
#[should_panic(expected = "row 1 has two places")]
fn a_row_has_one_place() {
    let _ = RowOrder::new([Some(1), Some(1)], 2);
}

#[test]
#[should_panic(expected = "an order of 2 rows, not of 3")]
fn an_order_of_other_rows_is_refused() {
    let x = tensor(&[0.0; 3], [1, 3, 1], &Device::flex());
    let _ = reorder_rows(x, RowOrder::new([Some(1)], 2));
}
