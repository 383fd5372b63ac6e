use rayon::ThreadPoolBuilder;

use super::*;

fn values(len: usize, seed: usize) -> Vec<f32> {
    // Small integers: sums are exact in any order.
    let number = |i: usize| ((i * 7919 + seed) % 7) as f32 - 3.0;
    (0..len).map(number).collect()
}

/// One row and few, several blocks, several parts, and parts of several blocks; more inputs than outputs, and fewer.
#[test]
fn gradients_match_the_definition_on_any_number_of_threads() {
    for (rows, inputs, outputs) in [
        (1, 1, 1),
        (3, 2, 5),
        (600, 33, 4),
        (1537, 5, 40),
        (2049, 3, 33),
        (3200, 40, 17),
    ] {
        let (x, grads) = (values(rows * inputs, 1), values(rows * outputs, 2));
        let w = values(inputs * outputs, 3);
        let of_weight = |at: usize| -> f32 {
            let (input, output) = (at / outputs, at % outputs);
            let product = |row| x[row * inputs + input] * grads[row * outputs + output];
            (0..rows).map(product).sum()
        };
        let of_x = |at: usize| -> f32 {
            let (row, input) = (at / inputs, at % inputs);
            let product = |o| grads[row * outputs + o] * w[input * outputs + o];
            (0..outputs).map(product).sum()
        };
        let of_bias = |o| (0..rows).map(|row| grads[row * outputs + o]).sum();
        let expected_weight: Vec<f32> = (0..w.len()).map(of_weight).collect();
        let expected_x: Vec<f32> = (0..x.len()).map(of_x).collect();
        let expected_bias: Vec<f32> = (0..outputs).map(of_bias).collect();
        let of_turned = transposed(&expected_weight, [inputs, outputs], outputs);
        let x = Matrix::new(&x, [rows, inputs], inputs);
        let grads = Matrix::new(&grads, [rows, outputs], outputs);
        let backward = || {
            let layer = Backward::new(rows, Matrix::new(&w, [inputs, outputs], outputs));
            let parts = Parts::new(rows, inputs.max(outputs));
            parts.each_block(inputs, |[first, second], out, rows| {
                let (x, grads) = (x.rows(rows.clone()), grads.rows(rows));
                first.add(parts.threads(), x, grads);
                second.add(parts.threads(), x, grads);
                layer.inputs(out, grads)
            })
        };
        for threads in [1, 3, 32] {
            let pool = ThreadPoolBuilder::new().num_threads(threads).build();
            let pool = pool.unwrap_or_else(|error| panic!("{error}"));
            let (of_x, [first, second]) = pool.install(backward);
            assert_eq!(of_x, expected_x);
            let shape = [inputs, outputs];
            let [weight, bias] = first.into_values(shape, false);
            assert_eq!(
                (weight, bias),
                (expected_weight.clone(), expected_bias.clone())
            );
            assert_eq!(second.into_values(shape, true)[0], of_turned);
            let alone = pool.install(|| product_over_rows(x, grads));
            assert_eq!(alone, expected_weight);
        }
    }
}

/// No block is empty or larger than what fits the cache, and parts are the same for any number of threads.
#[test]
fn blocks_are_even() {
    for (rows, width) in [
        (1, 7),
        (197, 768),
        (3152, 768),
        (100_000, 24),
        (700, 1 << 20),
    ] {
        let parts = Parts::new(rows, width);
        assert!(parts.block <= 512 && (parts.block * width <= 384 * 1024 || parts.block == 1));
        let covered: usize = (0..parts.count).map(|part| parts.rows_of(part).len()).sum();
        assert_eq!(covered, rows);
        assert!(parts.count == 1 || parts.part >= 768);
    }
}
