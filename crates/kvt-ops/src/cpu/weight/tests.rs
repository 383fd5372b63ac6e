use super::*;

fn values(len: usize, seed: usize) -> Vec<f32> {
    // Small integers: sums are exact in any order.
    let number = |i: usize| ((i * 7919 + seed) % 7) as f32 - 3.0;
    (0..len).map(number).collect()
}

/// No kernel, and those that this CPU can run.
fn kernels() -> Vec<Option<Kernel>> {
    let found: Vec<_> = Kernel::all().collect();
    if found.len() < 2 {
        kvt_testing::skipped("the CPU lacks AVX-512 or AVX2");
    }
    let found = found.into_iter().map(Some);
    [None].into_iter().chain(found).collect()
}

#[test]
fn products_have_bias_and_residual_as_defined() {
    // Numbers of columns below, at and above one to four registers, and each height of a tile with each number of registers.
    let heights = (1..=13).flat_map(|rows| [16, 32, 48, 64].map(|outputs| (rows, 5, outputs)));
    let others = [
        (1, 1, 1),
        (2, 3, 15),
        (3, 5, 16),
        (7, 4, 17),
        (10, 3, 17),
        (11, 0, 5),
        (12, 33, 31),
        (23, 17, 32),
        (15, 5, 47),
        (25, 5, 63),
        (97, 8, 33),
        (100, 3, 112),
        (200, 600, 65),
    ];
    for (rows, inputs, outputs) in others.into_iter().chain(heights) {
        let (x, w) = (values(rows * inputs, 1), values(inputs * outputs, 2));
        let (bias, residual) = (values(outputs, 3), values(rows * outputs, 4));
        let naive = |row: usize, column: usize| -> f32 {
            let products = (0..inputs).map(|i| x[row * inputs + i] * w[i * outputs + column]);
            bias[column] + products.sum::<f32>()
        };
        let plain: Vec<f32> = (0..rows * outputs)
            .map(|at| naive(at / outputs, at % outputs))
            .collect();
        let added: Vec<f32> = plain.iter().zip(&residual).map(|(x, y)| x + y).collect();
        // The same weight stored by column.
        let turned: Vec<f32> = (0..w.len())
            .map(|at| w[at % inputs * outputs + at / inputs])
            .collect();
        let w = Matrix::new(&w, [inputs, outputs], outputs);
        let turned = Matrix::new(&turned, [outputs, inputs], inputs).t();
        let x = Matrix::new(&x, [rows, inputs], inputs);
        for kernel in kernels() {
            for (weight, residual) in [w, turned]
                .into_iter()
                .flat_map(|weight| [None, Some(&residual)].map(|residual| (weight, residual)))
            {
                let expected = if residual.is_some() { &added } else { &plain };
                let weight = Weight::on(kernel, weight);
                let blocks = weight.blocks(rows, outputs);
                let mut out = Box::new_uninit_slice(rows * outputs);
                let parts = out.chunks_mut(blocks.height * outputs).enumerate();
                let mut actual = Vec::new();
                for (number, out) in parts {
                    let rows = blocks.rows(number, rows);
                    let range = rows.start * outputs..rows.end * outputs;
                    let residual = residual.map(|residual| &residual[range]);
                    let x = x.rows(rows);
                    actual.extend_from_slice(weight.affine(blocks, out, x, &bias, residual));
                }
                assert_eq!(actual, *expected, "{rows} {inputs} {outputs} {kernel:?}");
                // In one block, whatever the number of threads.
                let residual = residual.map(Vec::as_slice);
                let actual = weight.affine(blocks, &mut out, x, &bias, residual);
                assert_eq!(actual, *expected, "{rows} {inputs} {outputs} {kernel:?}");
            }
        }
    }
}

/// A block holds at least one row even where a row exceeds the cache; no block is empty.
#[test]
fn blocks_cover_all_rows() {
    let w = values(15, 1);
    for kernel in kernels() {
        let weight = Weight::on(kernel, Matrix::new(&w, [5, 3], 3));
        for (rows, width) in [
            (0, 3),
            (1, 3),
            (197, 768),
            (6304, 768),
            (7, 1 << 20),
            (100_000, 24),
        ] {
            let blocks = weight.blocks(rows, width);
            let covered: Vec<_> = (0..blocks.count).map(|i| blocks.rows(i, rows)).collect();
            assert!(
                covered.iter().all(|block| !block.is_empty()),
                "{rows} {width}"
            );
            assert_eq!(
                covered.iter().map(ExactSizeIterator::len).sum::<usize>(),
                rows
            );
        }
    }
}
