//! New buffers, filled on all threads. Burn first fills new buffers with zeros on one thread, which costs as much as
//! writing the result.

use std::mem::MaybeUninit;

use burn::backend::{Flex, tensor::FloatTensor};
use burn::tensor::{Element, Shape, TensorData};
use rayon::prelude::*;

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

/// As [`par_build_with`], for a `write` that returns its part with every value written. It costs less: nothing is filled with zeros.
///
/// # Panics
/// If another slice is returned.
pub(crate) fn par_write_with<V: Copy + Send, S, T: Send>(
    len: usize,
    part: usize,
    others: impl IndexedParallelIterator<Item = T>,
    scratch: impl Fn() -> S + Sync + Send,
    write: impl for<'a> Fn(&mut S, &'a mut [MaybeUninit<V>], T) -> &'a mut [V] + Sync + Send,
) -> Vec<V> {
    let part = part.max(1);
    let mut values = Vec::with_capacity(len);
    let spare = &mut values.spare_capacity_mut()[..len];
    assert!(others.len() >= len.div_ceil(part), "fewer items than parts");
    spare
        .par_chunks_mut(part)
        .zip(others)
        .for_each_init(scratch, |scratch, (spare, other)| {
            let (place, len) = (spare.as_ptr().addr(), spare.len());
            let part = write(scratch, spare, other);
            assert!(
                part.as_ptr().addr() == place && part.len() == len,
                "another slice than the part"
            );
        });
    #[expect(unsafe_code, reason = "a vector that is not filled with zeros first")]
    // SAFETY: the chunks cover every value, each has an item, and was returned with every value written.
    unsafe {
        values.set_len(len);
    }
    values
}

/// The sum of parts of `len` values each, place by place, in order, on all threads; of one part, itself.
pub(crate) fn sum_of_parts(parts: Vec<f32>, len: usize) -> Vec<f32> {
    const BLOCK: usize = 4096;
    if parts.len() <= len {
        return parts;
    }
    let (first, others) = parts.split_at(len);
    let starts = (0..len).into_par_iter().step_by(BLOCK);
    par_map_copy(first, BLOCK, starts, |sum, start| {
        for part in others.chunks_exact(len) {
            for (sum, x) in sum.iter_mut().zip(&part[start..]) {
                *sum += x;
            }
        }
    })
}

/// The first `len` values of a buffer, which grows if it is too short. They may be stale.
pub(crate) fn grown<V: Copy + Default>(buffer: &mut Vec<V>, len: usize) -> &mut [V] {
    if buffer.len() < len {
        buffer.resize(len, V::default());
    }
    &mut buffer[..len]
}

/// Places that hold nothing yet, with a value written to each.
///
/// # Panics
/// If there are fewer values.
#[inline(always)]
pub(crate) fn filled<V: Copy>(
    places: &mut [MaybeUninit<V>],
    values: impl IntoIterator<Item = V>,
) -> &mut [V] {
    let mut count = 0;
    for (place, value) in places.iter_mut().zip(values) {
        place.write(value);
        count += 1;
    }
    assert_eq!(count, places.len(), "fewer values than places");
    #[expect(unsafe_code, reason = "a slice that is not filled with zeros first")]
    // SAFETY: every place has just been written.
    unsafe {
        places.assume_init_mut()
    }
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
    #[should_panic(expected = "another slice than the part")]
    fn a_part_that_is_not_all_written_is_found() {
        let numbers = (0..2).into_par_iter();
        par_write_with(
            128,
            64,
            numbers,
            || (),
            |(), part, number| filled(&mut part[..64 - number], std::iter::repeat(1.0)),
        );
    }

    #[test]
    #[should_panic(expected = "fewer values than places")]
    fn every_place_needs_a_value() {
        filled(&mut [MaybeUninit::uninit(); 3], [1.0, 2.0]);
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
