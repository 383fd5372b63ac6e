#![expect(clippy::unwrap_used, reason = "tests")]

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
            let parts = Parts::new(rows, inputs * outputs);
            parts.each_block(inputs, |[first, second], out, rows| {
                let (x, grads) = (x.rows(rows.clone()), grads.rows(rows));
                first.add(parts.threads(), x, grads);
                second.add(parts.threads(), x, grads);
                layer.inputs(out, grads)
            })
        };
        for threads in [1, 3, 32] {
            let pool = ThreadPoolBuilder::new().num_threads(threads).build();
            let pool = pool.unwrap();
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

/// Parts cover all rows, none is empty, and their blocks fit the cache; large sums have few parts.
#[test]
fn parts_are_even_and_their_blocks_fit() {
    for (rows, summed, count, block) in [
        (1, 7, 1, 1),
        (197, 1 << 18, 1, 197),
        (3152, 1 << 18, 4, 394),
        (3152, 9 << 19, 1, 451),
        (100_000, 100, 16, 481),
    ] {
        let parts = Parts::new(rows, summed);
        assert_eq!(
            [parts.count, parts.block],
            [count, block],
            "{rows} {summed}"
        );
        let lens: Vec<usize> = (0..count).map(|part| parts.rows_of(part).len()).collect();
        assert_eq!(lens.iter().sum::<usize>(), rows);
        assert!(
            lens.iter()
                .all(|len| *len > 0 && len.abs_diff(lens[0]) < count)
        );
    }
}

/// Sums of fractions, which depend on the order of the terms, in products that are large enough for several threads each.
#[test]
fn the_number_of_threads_does_not_change_a_bit() {
    let (rows, inputs, outputs) = (1600, 80, 96);
    let fractions = |len, seed| -> Vec<f32> {
        let number = |i: usize| ((i * 7919 + seed) % 1009) as f32 / 997.0 - 0.5;
        (0..len).map(number).collect()
    };
    let (x, grads) = (fractions(rows * inputs, 1), fractions(rows * outputs, 2));
    let w = fractions(inputs * outputs, 3);
    let x = Matrix::new(&x, [rows, inputs], inputs);
    let grads = Matrix::new(&grads, [rows, outputs], outputs);
    let run = |threads| {
        let pool = ThreadPoolBuilder::new().num_threads(threads).build();
        let pool = pool.unwrap();
        pool.install(|| {
            let layer = Backward::new(rows, Matrix::new(&w, [inputs, outputs], outputs));
            let parts = Parts::new(rows, inputs * outputs);
            let (of_x, [sums]) = parts.each_block(inputs, |[sums], out, rows| {
                let (x, grads) = (x.rows(rows.clone()), grads.rows(rows));
                sums.add(parts.threads(), x, grads);
                layer.inputs(out, grads)
            });
            (of_x, sums.into_values([inputs, outputs], true))
        })
    };
    let one = run(1);
    assert!([2, 3, 16].into_iter().all(|threads| run(threads) == one));
}
