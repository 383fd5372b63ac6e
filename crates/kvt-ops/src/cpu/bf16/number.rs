//! The element types of a product.

use burn::tensor::bf16;

use super::Kernel;
use super::pack::WIDTH;

/// A type of the elements that a product reads or writes.
pub(crate) trait Number: bytemuck::Pod + Default + Send + Sync {
    /// Rounds to the nearest bf16 number, ties to even.
    fn bits(self) -> u16;

    /// A row in bf16, in `buffer` if the row has another type.
    fn bits_of<'a>(row: &'a [Self], buffer: &'a mut Vec<u16>) -> &'a [u16];

    /// The row as pairs of bf16 numbers, if it is stored that way.
    fn pairs_of(row: &[Self]) -> Option<&[[u16; 2]]>;

    fn widened(self) -> f32;

    fn rounded(x: f32) -> Self;

    /// The sums of a row of a tile, rounded.
    fn row(kernel: Kernel, sums: &[f32; WIDTH]) -> [Self; WIDTH];
}

impl Number for bf16 {
    #[inline(always)]
    fn bits(self) -> u16 {
        self.to_bits()
    }

    #[inline(always)]
    fn bits_of<'a>(row: &'a [Self], _: &'a mut Vec<u16>) -> &'a [u16] {
        bytemuck::cast_slice(row)
    }

    #[inline(always)]
    fn pairs_of(row: &[Self]) -> Option<&[[u16; 2]]> {
        let (pairs, rest) = bytemuck::cast_slice(row).as_chunks();
        rest.is_empty().then_some(pairs)
    }

    #[inline(always)]
    fn widened(self) -> f32 {
        f32::from_bits(u32::from(self.to_bits()) << 16)
    }

    #[inline(always)]
    fn rounded(x: f32) -> Self {
        Self::from_bits(x.bits())
    }

    #[inline(always)]
    fn row(kernel: Kernel, sums: &[f32; WIDTH]) -> [Self; WIDTH] {
        kernel.round(sums)
    }
}

impl Number for f32 {
    #[inline(always)]
    fn bits(self) -> u16 {
        let bits = self.to_bits();
        // Half a unit, minus the smallest part of one if the result would already be even.
        let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16;
        // A NaN keeps its sign and remains a NaN.
        let nan = bits >> 16 | 0x40;
        (if self.is_nan() { nan } else { rounded }) as u16
    }

    #[inline(always)]
    fn bits_of<'a>(row: &'a [Self], buffer: &'a mut Vec<u16>) -> &'a [u16] {
        buffer.clear();
        buffer.extend(row.iter().map(|x| x.bits()));
        buffer
    }

    #[inline(always)]
    fn pairs_of(_: &[Self]) -> Option<&[[u16; 2]]> {
        None
    }

    #[inline(always)]
    fn widened(self) -> f32 {
        self
    }

    #[inline(always)]
    fn rounded(x: f32) -> Self {
        x
    }

    #[inline(always)]
    fn row(_: Kernel, sums: &[f32; WIDTH]) -> [Self; WIDTH] {
        *sums
    }
}
