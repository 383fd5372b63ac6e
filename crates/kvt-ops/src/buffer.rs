//! Buffers of results on the CPU. Burn's are filled with zeros by one thread before anything is
//! written to them, which costs as much as writing the result.

use burn::backend::{Flex, tensor::FloatTensor};
use burn::tensor::{Shape, TensorData};
use rayon::prelude::*;

/// A copy of `values`, changed block by block while a block is in the cache. `change` gets the values
/// of a block and the block's own one of `others`.
pub(crate) fn changed_copy<T: Send>(
    values: &[f32],
    block: usize,
    others: impl IndexedParallelIterator<Item = T>,
    change: impl Fn(&mut [f32], T) + Sync + Send,
) -> Vec<f32> {
    let block = block.max(1);
    let mut copy = Vec::with_capacity(values.len());
    let spare = &mut copy.spare_capacity_mut()[..values.len()];
    assert!(
        others.len() >= values.len().div_ceil(block),
        "too few for the blocks"
    );
    spare
        .par_chunks_mut(block)
        .zip(values.par_chunks(block))
        .zip(others)
        .for_each(|((spare, values), other)| change(spare.write_copy_of_slice(values), other));
    #[expect(unsafe_code, reason = "the way to a vector that was not filled before")]
    // SAFETY: the chunks of both slices, which are equally long, cover every value, and there is
    // something to go with each of them.
    unsafe {
        copy.set_len(values.len());
    }
    copy
}

/// New values, made part by part: `make` gets a part, filled with zeros by its own thread, and its
/// own one of `others`.
pub(crate) fn made<T: Send>(
    len: usize,
    part: usize,
    others: impl IndexedParallelIterator<Item = T>,
    make: impl Fn(&mut [f32], T) + Sync + Send,
) -> Vec<f32> {
    let part = part.max(1);
    let mut values = Vec::with_capacity(len);
    let spare = &mut values.spare_capacity_mut()[..len];
    assert!(others.len() >= len.div_ceil(part), "too few for the parts");
    spare
        .par_chunks_mut(part)
        .zip(others)
        .for_each(|(spare, other)| {
            for value in spare.iter_mut() {
                value.write(0.0);
            }
            #[expect(unsafe_code, reason = "the way to a vector that was not filled before")]
            // SAFETY: every value of the part has just been written.
            make(unsafe { spare.assume_init_mut() }, other);
        });
    #[expect(unsafe_code, reason = "the way to a vector that was not filled before")]
    // SAFETY: the chunks cover every value, and there is something to go with each of them.
    unsafe {
        values.set_len(len);
    }
    values
}

/// Nothing to go with the blocks of [`changed_copy`].
pub(crate) fn nothing(len: usize, block: usize) -> impl IndexedParallelIterator<Item = ()> {
    rayon::iter::repeat_n((), len.div_ceil(block.max(1)))
}

/// The values of a contiguous tensor.
pub(crate) fn values_of(tensor: &FloatTensor<Flex>) -> &[f32] {
    tensor.as_slice().unwrap_or(&[])
}

/// A tensor of values, without a copy.
pub(crate) fn tensor(values: Vec<f32>, shape: Shape) -> FloatTensor<Flex> {
    FloatTensor::<Flex>::from_data(TensorData::new(values, shape))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_is_made_once_from_zeros() {
        for len in [0_usize, 1, 7, 64, 65, 1000] {
            let numbers = (0..len.div_ceil(64)).into_par_iter();
            let values = made(len, 64, numbers, |part, number| {
                for x in part {
                    *x += number as f32;
                }
            });
            let expected: Vec<f32> = (0..len).map(|i| (i / 64) as f32).collect();
            assert_eq!(values, expected);
        }
    }

    #[test]
    fn every_value_is_copied_and_every_block_changed_once() {
        for len in [0, 1, 7, 64, 65, 1000] {
            let values: Vec<f32> = (0..len).map(|i| i as f32).collect();
            let mut seen = vec![0; values.len().div_ceil(64)];
            let copy = changed_copy(&values, 64, seen.par_iter_mut(), |block, seen| {
                *seen += block.len();
                for x in block {
                    *x += 0.5;
                }
            });
            let expected: Vec<f32> = values.iter().map(|x| x + 0.5).collect();
            assert_eq!(copy, expected);
            assert_eq!(seen.iter().sum::<usize>(), len);
        }
    }
}
