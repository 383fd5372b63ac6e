//! A kernel in plain Rust, which tests packing and tiling on every CPU.

use burn::tensor::bf16;

use super::pack::{HEIGHT, LANES, Rows, Sums, VECTORS, WIDTH};
use super::{Kernel, Number};

/// No kernel, the kernel in plain Rust, and that of this CPU if it has one, with and without AMX.
pub(crate) fn kernels() -> Vec<Option<Kernel>> {
    let found = Kernel::detect();
    if found.is_none() {
        kvt_testing::skipped("the CPU has no AVX512-BF16");
    }
    let mut kernels = vec![None, Some(Kernel::scalar())];
    if let Some(kernel) = found {
        kernels.push(Some(kernel.without_amx()));
        if kernel.tiles().is_some() {
            kernels.push(Some(kernel));
        } else {
            kvt_testing::skipped("the CPU has no AMX");
        }
    }
    kernels
}

/// A tile of the kernel by its definition.
pub(super) fn tile(
    rows: Rows<'_>,
    columns: &[[[u32; LANES]; VECTORS]],
    Sums(sums): &mut Sums<HEIGHT>,
) {
    for (row, sums) in sums.iter_mut().enumerate() {
        sums.fill(0.0);
        for (pair, columns) in columns.iter().enumerate() {
            let [low, high] = match rows {
                Rows::Packed(panel) => numbers(panel[pair][row]),
                Rows::InPlace(rows) => rows[row][pair].map(|bits| widened(bits.into())),
            };
            for (sum, column) in sums.iter_mut().zip(columns.as_flattened()) {
                let column = numbers(*column);
                *sum += low * column[0] + high * column[1];
            }
        }
    }
}

pub(super) fn round(sums: &[f32; WIDTH]) -> [bf16; WIDTH] {
    sums.map(bf16::rounded)
}

pub(super) fn transposed(square: [[u32; LANES]; LANES]) -> [[u32; LANES]; LANES] {
    std::array::from_fn(|row| square.map(|line| line[row]))
}

/// The two numbers of a pair.
fn numbers(pair: u32) -> [f32; 2] {
    [pair & 0xffff, pair >> 16].map(widened)
}

fn widened(bits: u32) -> f32 {
    f32::from_bits(bits << 16)
}
