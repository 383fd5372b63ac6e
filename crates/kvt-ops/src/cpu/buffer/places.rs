//! Places that hold nothing yet, and are written before they are read: they are not filled with zeros first.

use std::mem::MaybeUninit;

use rayon::prelude::*;

/// Two slices of places, and two slices of values in them.
pub(crate) type Places<'a, V, W> = (&'a mut [MaybeUninit<V>], &'a mut [MaybeUninit<W>]);
pub(crate) type Values<'a, V, W> = (&'a mut [V], &'a mut [W]);

/// `len` new values, part by part on all threads: `write` gets a part, the part's item of `others` and a `scratch`, which is reused for many
/// parts, and returns the part with every value written.
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
    new_values(len, |places| {
        par_write_to(places, part, others, scratch, write)
    })
}

/// `len` new values, not filled with zeros first. `write` gets their places and returns them with every value written.
///
/// # Panics
/// If another slice is returned.
pub(crate) fn new_values<V: Copy>(
    len: usize,
    write: impl for<'a> FnOnce(&'a mut [MaybeUninit<V>]) -> &'a mut [V],
) -> Vec<V> {
    let (values, _) = new_two([len, 0], |(places, nothing)| {
        let values = write(places);
        (values, filled::<V>(nothing, []))
    });
    values
}

/// As [`new_values`], of two vectors.
///
/// # Panics
/// If other slices are returned.
pub(crate) fn new_two<V: Copy, W: Copy>(
    [len, second_len]: [usize; 2],
    write: impl for<'a> FnOnce(Places<'a, V, W>) -> Values<'a, V, W>,
) -> (Vec<V>, Vec<W>) {
    let (mut values, mut second) = (Vec::with_capacity(len), Vec::with_capacity(second_len));
    let places = (
        &mut values.spare_capacity_mut()[..len],
        &mut second.spare_capacity_mut()[..second_len],
    );
    checked_two(places, write);
    #[expect(unsafe_code, reason = "vectors that are not filled with zeros first")]
    // SAFETY: every one of these places was returned as a slice of values, which have been written.
    unsafe {
        values.set_len(len);
        second.set_len(second_len);
    }
    (values, second)
}

/// As [`par_write_with`], in places that hold nothing yet.
///
/// # Panics
/// If another slice is returned.
pub(crate) fn par_write_to<'o, V: Send, S, T: Send>(
    places: &'o mut [MaybeUninit<V>],
    part: usize,
    others: impl IndexedParallelIterator<Item = T>,
    scratch: impl Fn() -> S + Sync + Send,
    write: impl for<'a> Fn(&mut S, &'a mut [MaybeUninit<V>], T) -> &'a mut [V] + Sync + Send,
) -> &'o mut [V] {
    let part = part.max(1);
    assert!(
        others.len() >= places.len().div_ceil(part),
        "fewer items than parts"
    );
    places
        .par_chunks_mut(part)
        .zip(others)
        .for_each_init(scratch, |scratch, (place, other)| {
            checked(place, |place| write(scratch, place, other));
        });
    #[expect(unsafe_code, reason = "a slice that is not filled with zeros first")]
    // SAFETY: the chunks cover every place, each has an item, and was returned with every value written.
    unsafe {
        places.assume_init_mut()
    }
}

/// As [`par_write_to`], in two places: `write` gets the parts with the same number.
///
/// # Panics
/// If other slices are returned, or there are not as many parts of both, and items.
pub(crate) fn par_write_two<'o, V: Send, W: Send, S, T: Send>(
    (places, second): Places<'o, V, W>,
    [part, second_part]: [usize; 2],
    others: impl IndexedParallelIterator<Item = T>,
    scratch: impl Fn() -> S + Sync + Send,
    write: impl for<'a> Fn(&mut S, Places<'a, V, W>, T) -> Values<'a, V, W> + Sync + Send,
) -> Values<'o, V, W> {
    let parts = [part, second_part].map(|part| part.max(1));
    let counts = [
        places.len().div_ceil(parts[0]),
        second.len().div_ceil(parts[1]),
    ];
    assert!(
        counts == [others.len(); 2],
        "parts and items that do not pair"
    );
    places
        .par_chunks_mut(parts[0])
        .zip(second.par_chunks_mut(parts[1]))
        .zip(others)
        .for_each_init(scratch, |scratch, ((place, second), other)| {
            checked_two((place, second), |places| write(scratch, places, other));
        });
    #[expect(unsafe_code, reason = "slices that are not filled with zeros first")]
    // SAFETY: the chunks cover every place, each has an item, and was returned with every value written.
    unsafe {
        (places.assume_init_mut(), second.assume_init_mut())
    }
}

/// As [`par_write_to`], part by part on this thread; `write` gets the number of its part.
///
/// # Panics
/// If another slice is returned.
pub(crate) fn write_in_order<V>(
    places: &mut [MaybeUninit<V>],
    part: usize,
    mut write: impl for<'a> FnMut(&'a mut [MaybeUninit<V>], usize) -> &'a mut [V],
) -> &mut [V] {
    for (number, place) in places.chunks_mut(part.max(1)).enumerate() {
        checked(place, |place| write(place, number));
    }
    #[expect(unsafe_code, reason = "a slice that is not filled with zeros first")]
    // SAFETY: the chunks cover every place, and each was returned with every value written.
    unsafe {
        places.assume_init_mut()
    }
}

/// What `write` returns.
///
/// # Panics
/// If that is anything but its places, with every value written.
fn checked<'a, V>(
    place: &'a mut [MaybeUninit<V>],
    write: impl FnOnce(&'a mut [MaybeUninit<V>]) -> &'a mut [V],
) -> &'a mut [V] {
    let before = span(place);
    let part = write(place);
    assert!(before == span(part), "another slice than the part");
    part
}

/// As [`checked`], for two.
fn checked_two<'a, V, W>(
    (place, second): Places<'a, V, W>,
    write: impl FnOnce(Places<'a, V, W>) -> Values<'a, V, W>,
) -> Values<'a, V, W> {
    let before = (span(place), span(second));
    let (part, second) = write((place, second));
    let after = (span(part), span(second));
    assert!(before == after, "another slice than the part");
    (part, second)
}

/// Where a slice begins, and its length.
fn span<V>(slice: &[V]) -> (usize, usize) {
    (slice.as_ptr().addr(), slice.len())
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

#[cfg(test)]
mod tests {
    use super::*;

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
    fn parts_of_two_vectors_are_written_together() {
        let numbers = (0..3).into_par_iter();
        let (first, second) = new_two([5, 8], |places| {
            par_write_two(
                places,
                [2, 3],
                numbers,
                || (),
                |(), (first, second), number| {
                    (
                        filled(first, std::iter::repeat(number)),
                        filled(second, std::iter::repeat(number as f32)),
                    )
                },
            )
        });
        assert_eq!(first, [0, 0, 1, 1, 2]);
        assert_eq!(second, [0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 2.0, 2.0]);
        let in_order = new_values(5, |places| {
            write_in_order(places, 2, |place, number| {
                filled(place, std::iter::repeat(number))
            })
        });
        assert_eq!(in_order, first);
    }

    #[test]
    #[should_panic(expected = "do not pair")]
    fn vectors_with_other_numbers_of_parts_are_refused() {
        let numbers = (0..2).into_par_iter();
        new_two([4, 6], |places| {
            par_write_two(
                places,
                [2, 2],
                numbers,
                || (),
                |(), (first, second), _| {
                    (
                        filled(first, std::iter::repeat(1.0)),
                        filled(second, std::iter::repeat(1.0)),
                    )
                },
            )
        });
    }

    /// A place of the other vector has the same length.
    #[test]
    #[should_panic(expected = "another slice than the part")]
    fn vectors_that_are_exchanged_are_refused() {
        new_two([4, 4], |(first, second)| {
            (
                filled(second, std::iter::repeat(1.0)),
                filled(first, std::iter::repeat(1.0)),
            )
        });
    }

    #[test]
    #[should_panic(expected = "fewer values than places")]
    fn every_place_needs_a_value() {
        filled(&mut [MaybeUninit::uninit(); 3], [1.0, 2.0]);
    }
}
