//! The types of the numbers of a product.

use burn::tensor::bf16;

/// A type that numbers of a product are read from or written to.
pub(crate) trait Number: bytemuck::Pod + Default + Send + Sync {
    /// As bf16: the nearest, of two equally near the even one.
    fn bits(self) -> u16;

    /// A row as bf16, which `buffer` holds where the row has another type.
    fn bits_of<'a>(row: &'a [Self], buffer: &'a mut Vec<u16>) -> &'a [u16];

    /// A row in pairs, where it is one in memory.
    fn pairs_of(row: &[Self]) -> Option<&[[u16; 2]]>;

    fn widened(self) -> f32;

    fn rounded(x: f32) -> Self;
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
}

impl Number for f32 {
    #[inline(always)]
    fn bits(self) -> u16 {
        let bits = self.to_bits();
        // Half of a unit, less the least part of one where the result would be even already.
        let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16;
        // A NaN keeps its sign and stays one.
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
}
