//! Casts between bf16 and f32 on all threads. Burn casts on one thread.

use std::mem::MaybeUninit;

use burn::backend::{Flex, TensorMetadata, tensor::FloatTensor};
use burn::tensor::Element;
use pulp::Arch;
use rayon::prelude::*;

use super::bf16::Number;
use super::buffer::{filled, par_write_with, tensor_of, values_in};

/// Values per block.
const BLOCK: usize = 16 * 1024;

/// Rounds or widens the values of a block with the SIMD instructions of this CPU.
pub(crate) fn copy<A: Number, B: Number>(from: &[A], to: &mut [B]) {
    Arch::new().dispatch(
        #[inline(always)]
        || {
            for (to, from) in to.iter_mut().zip(from) {
                *to = B::rounded(from.widened());
            }
        },
    );
}

/// As [`copy`], to places that hold nothing yet.
pub(crate) fn copy_new<'a, A: Number, B: Number>(
    from: &[A],
    to: &'a mut [MaybeUninit<B>],
) -> &'a mut [B] {
    Arch::new().dispatch(
        #[inline(always)]
        || {
            // Moved: a closure that borrowed them could not return them.
            let places = to;
            filled(places, from.iter().map(|from| B::rounded(from.widened())))
        },
    )
}

/// Converts a contiguous tensor of type `A` to type `B`.
pub(crate) fn convert<A, B>(x: &FloatTensor<Flex>) -> FloatTensor<Flex>
where
    A: Number + Element,
    B: Number + Element,
{
    let values: &[A] = values_in(x);
    let blocks = values.par_chunks(BLOCK);
    let out = par_write_with(
        values.len(),
        BLOCK,
        blocks,
        || (),
        |(), to, from| copy_new::<A, B>(from, to),
    );
    tensor_of(out, x.shape())
}
