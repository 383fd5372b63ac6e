//! Matrices in panels, stored in the order in which the kernel reads them.
//!
//! A panel holds some rows of a matrix: the first two numbers of each of them, then the next two, and so on. The two are
//! adjacent terms of a sum, which the kernel adds in one instruction. Missing rows and numbers are zeros.

use super::{Kernel, Number};
use crate::cpu::gemm::Matrix;

/// Numbers per register.
pub(super) const LANES: usize = 16;

/// Rows per panel of the left matrix.
pub(super) const HEIGHT: usize = 12;

/// Registers per row of a tile.
pub(super) const VECTORS: usize = 2;

/// Columns per panel of the right matrix.
pub(super) const WIDTH: usize = VECTORS * LANES;

/// A line of the cache. AMX reads numbers that begin with one up to 1.5 times as fast as others.
#[derive(Clone, Copy, Default, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C, align(64))]
pub(super) struct Line(pub(super) [u16; 2 * LANES]);

/// The sums of a tile of `H` rows, which are whole lines.
#[repr(C, align(64))]
pub(super) struct Sums<const H: usize>(pub(super) [[f32; WIDTH]; H]);

/// The rows of a tile.
#[derive(Clone, Copy)]
#[cfg_attr(
    not(any(test, target_arch = "x86_64")),
    expect(dead_code, reason = "there is no kernel that reads them")
)]
pub(super) enum Rows<'a> {
    /// A panel, `[pair, row]`.
    Packed(&'a [[u32; HEIGHT]]),
    /// The rows where they are stored.
    InPlace([&'a [[u16; 2]]; HEIGHT]),
}

/// Rows that are packed together, where fewer than a register has are left, or a panel has no place for so many.
const TOGETHER: usize = 4;

/// Buffers for rows of a matrix of another type, converted to bf16; reused.
pub(super) type Buffers = [Vec<u16>; LANES];

/// Two numbers, the first in the lower bits.
#[inline(always)]
fn pair(low: u16, high: u16) -> u32 {
    u32::from(low) | u32::from(high) << 16
}

/// Fills a panel, `[pair, row]`, with the rows of a matrix from `start` on.
#[inline(always)]
pub(super) fn pack<T: Number, const W: usize>(
    kernel: Kernel,
    panel: &mut [[u32; W]],
    matrix: Matrix<'_, T>,
    start: usize,
    buffers: &mut Buffers,
) {
    let [rows, numbers] = matrix.shape();
    let [down, along] = matrix.strides();
    let count = W.min(rows - start);
    if along == 1 {
        let (panel, rest) = panel.split_at_mut(numbers.div_ceil(2));
        rest.fill([0; W]);
        if count < W {
            panel.fill([0; W]);
        }
        let row = |index: usize| &matrix.values()[(start + index) * down..][..numbers];
        let squares = count - count % LANES;
        for first in (0..squares).step_by(LANES) {
            let mut together = [[].as_slice(); LANES];
            let of_rows = together.iter_mut().zip(&mut *buffers).enumerate();
            for (index, (to, buffer)) in of_rows {
                *to = T::bits_of(row(first + index), buffer);
            }
            pack_squares(kernel, panel, together, first);
        }
        let whole = count - count % TOGETHER;
        for first in (squares..whole).step_by(TOGETHER) {
            let [a, b, c, d, ..] = &mut *buffers;
            let together = [
                T::bits_of(row(first), a),
                T::bits_of(row(first + 1), b),
                T::bits_of(row(first + 2), c),
                T::bits_of(row(first + 3), d),
            ];
            pack_together(panel, together, first);
        }
        for index in whole..count {
            let bits = T::bits_of(row(index), &mut buffers[0]);
            for (to, pairs) in panel.iter_mut().zip(bits.chunks(2)) {
                to[index] = pair(pairs[0], pairs.get(1).copied().unwrap_or(0));
            }
        }
    } else {
        // Adjacent numbers belong to different rows.
        for (number, to) in panel.iter_mut().enumerate() {
            let of = |number: usize| {
                let inside = number < numbers;
                inside.then(|| &matrix.values()[number * along + start..][..count])
            };
            interleave(to, of(2 * number), of(2 * number + 1));
        }
    }
}

/// Packs as many rows as a register has numbers side by side into a panel, from position `first` on.
#[inline(always)]
fn pack_squares<const W: usize>(
    kernel: Kernel,
    panel: &mut [[u32; W]],
    rows: [&[u16]; LANES],
    first: usize,
) {
    for (number, panel) in panel.chunks_mut(LANES).enumerate() {
        let square = rows.map(|row| {
            let numbers: [u16; 2 * LANES] = filled(row.get(number * 2 * LANES..));
            std::array::from_fn(|index| pair(numbers[2 * index], numbers[2 * index + 1]))
        });
        for (to, pairs) in panel.iter_mut().zip(kernel.transposed(square)) {
            to[first..first + LANES].copy_from_slice(&pairs);
        }
    }
}

/// Packs rows side by side into a panel, from position `first` on.
#[inline(always)]
fn pack_together<const W: usize>(panel: &mut [[u32; W]], rows: [&[u16]; TOGETHER], first: usize) {
    let [a, b, c, d] = rows;
    let (a, a_rest) = a.as_chunks::<2>();
    let (b, b_rest) = b.as_chunks::<2>();
    let (c, c_rest) = c.as_chunks::<2>();
    let (d, d_rest) = d.as_chunks::<2>();
    let pairs = a.iter().zip(b).zip(c.iter().zip(d));
    for (to, ((a, b), (c, d))) in panel.iter_mut().zip(pairs) {
        let pairs = [
            pair(a[0], a[1]),
            pair(b[0], b[1]),
            pair(c[0], c[1]),
            pair(d[0], d[1]),
        ];
        to[first..first + TOGETHER].copy_from_slice(&pairs);
    }
    // With an odd number of elements, a row ends with half a pair.
    if let ([a], [b], [c], [d], Some(to)) = (a_rest, b_rest, c_rest, d_rest, panel.last_mut()) {
        let pairs = [pair(*a, 0), pair(*b, 0), pair(*c, 0), pair(*d, 0)];
        to[first..first + TOGETHER].copy_from_slice(&pairs);
    }
}

/// Pairs of the numbers of two columns of a matrix, which may have fewer than `W` numbers.
#[inline(always)]
fn interleave<T: Number, const W: usize>(to: &mut [u32; W], low: Option<&[T]>, high: Option<&[T]>) {
    let (low, high): ([T; W], [T; W]) = (filled(low), filled(high));
    for ((to, low), high) in to.iter_mut().zip(low).zip(high) {
        *to = pair(low.bits(), high.bits());
    }
}

/// `W` numbers; missing ones are zeros.
#[inline(always)]
pub(super) fn filled<T: Copy + Default, const W: usize>(numbers: Option<&[T]>) -> [T; W] {
    let numbers = numbers.unwrap_or(&[]);
    match numbers.first_chunk::<W>() {
        Some(numbers) => *numbers,
        None => {
            let mut places = [T::default(); W];
            places[..numbers.len()].copy_from_slice(numbers);
            places
        }
    }
}
