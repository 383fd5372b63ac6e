//! New buffers, filled on all threads. Burn first fills new buffers with zeros on one thread, which costs as much as
//! writing the result.

use burn::backend::{Flex, tensor::FloatTensor};
use burn::tensor::{Element, Shape, TensorData};
use rayon::prelude::*;

pub(crate) use places::{
    filled, new_two, new_values, par_write_to, par_write_two, par_write_with, write_in_order,
};

mod places;

/// A copy of `values`, changed block by block while the block is in the cache. `change` gets the values of a block and
/// the block's item of `others`.
pub(crate) fn par_map_copy<T: Send>(
    values: &[f32],
    block: usize,
    others: impl IndexedParallelIterator<Item = T>,
    change: impl Fn(&mut [f32], T) + Sync + Send,
) -> Vec<f32> {
    let others = values.par_chunks(block.max(1)).zip(others);
    par_write_with(
        values.len(),
        block,
        others,
        || (),
        |(), place, (values, other)| {
            let copy = place.write_copy_of_slice(values);
            change(copy, other);
            copy
        },
    )
}

/// `len` new values, built part by part. `build` gets a part, filled with zeros on the same thread, and the part's
/// item of `others`.
pub(crate) fn par_build<V: Copy + Default + Send, T: Send>(
    len: usize,
    part: usize,
    others: impl IndexedParallelIterator<Item = T>,
    build: impl Fn(&mut [V], T) + Sync + Send,
) -> Vec<V> {
    par_build_with(
        len,
        part,
        others,
        || (),
        |(), part, other| build(part, other),
    )
}

/// As [`par_build`]; `build` also gets a `scratch`, which is reused for many parts.
pub(crate) fn par_build_with<V: Copy + Default + Send, S, T: Send>(
    len: usize,
    part: usize,
    others: impl IndexedParallelIterator<Item = T>,
    scratch: impl Fn() -> S + Sync + Send,
    build: impl Fn(&mut S, &mut [V], T) + Sync + Send,
) -> Vec<V> {
    par_write_with(len, part, others, scratch, |scratch, part, other| {
        let zeros = filled(part, std::iter::repeat(V::default()));
        build(scratch, zeros, other);
        zeros
    })
}

/// The sum of parts of `len` values each, place by place, in order, on all threads; of one part, itself.
pub(crate) fn sum_of_parts(parts: Vec<f32>, len: usize) -> Vec<f32> {
    if parts.len() <= len {
        return parts;
    }
    let mut sum = vec![0.0; len];
    let parts: Vec<_> = parts.chunks_exact(len).collect();
    add_in_order(&mut sum, &parts);
    sum
}

/// Adds vectors to a sum, place by place, in order, on all threads.
pub(crate) fn add_in_order(sum: &mut [f32], vectors: &[&[f32]]) {
    const BLOCK: usize = 4096;
    let blocks = sum.par_chunks_mut(BLOCK).enumerate();
    blocks.for_each(|(number, sum)| {
        for vector in vectors {
            for (sum, x) in sum.iter_mut().zip(&vector[number * BLOCK..]) {
                *sum += x;
            }
        }
    });
}

/// The first `len` values of a buffer, which grows if it is too short. They may be stale.
pub(crate) fn grown<V: Copy + Default>(buffer: &mut Vec<V>, len: usize) -> &mut [V] {
    if buffer.len() < len {
        buffer.resize(len, V::default());
    }
    &mut buffer[..len]
}

/// The values of a contiguous tensor.
pub(crate) fn values_of(tensor: &FloatTensor<Flex>) -> &[f32] {
    tensor.as_slice().unwrap_or(&[])
}

/// The values of a contiguous tensor, in the tensor's type.
pub(crate) fn values_in<T: Element + bytemuck::Pod>(tensor: &FloatTensor<Flex>) -> &[T] {
    tensor.as_slice().unwrap_or(&[])
}

/// As [`tensor`], for values of any type.
pub(crate) fn tensor_of<T: Element>(values: Vec<T>, shape: Shape) -> FloatTensor<Flex> {
    FloatTensor::<Flex>::from_data(TensorData::new(values, shape))
}

/// A tensor that takes ownership of the values.
pub(crate) fn tensor(values: Vec<f32>, shape: Shape) -> FloatTensor<Flex> {
    tensor_of(values, shape)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_added_place_by_place() {
        // More values than are added at a time.
        for (parts, len) in [(3, 5000), (2, 1), (1, 7), (0, 7), (4, 0)] {
            let values: Vec<f32> = (0..parts * len).map(|i| (i % 97) as f32).collect();
            let sum = |place: usize| (0..parts).map(|part| values[part * len + place]).sum();
            let expected: Vec<f32> = (0..len.min(values.len())).map(sum).collect();
            assert_eq!(sum_of_parts(values.clone(), len), expected);
        }
    }

    #[test]
    fn every_part_is_built_once_from_zeros() {
        for len in [0_usize, 1, 7, 64, 65, 1000] {
            let numbers = (0..len.div_ceil(64)).into_par_iter();
            let values = par_build(len, 64, numbers, |part: &mut [f32], number| {
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
            let copy = par_map_copy(&values, 64, seen.par_iter_mut(), |block, seen| {
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
