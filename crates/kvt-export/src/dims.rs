//! Lengths of axes that may depend on the number of images.

use burn::tensor::Shape;

/// The length of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dim {
    Fixed(usize),
    /// As many for each image.
    PerImage(usize),
}

impl Dim {
    /// The length that is `lengths` for batches of `batches` images; `None` if it is neither fixed nor a multiple of the batch.
    fn of(lengths: [usize; 2], batches: [usize; 2]) -> Option<Self> {
        let [first, second] = lengths;
        if first == second {
            return Some(Self::Fixed(first));
        }
        let each = first / batches[0].max(1);
        let fits = [0, 1].iter().all(|at| each * batches[*at] == lengths[*at]);
        fits.then_some(Self::PerImage(each))
    }
}

/// The lengths of a tensor's axes in two recordings, of batches of `batches` images.
pub(crate) fn dims(shapes: [&Shape; 2], batches: [usize; 2]) -> Option<Vec<Dim>> {
    let [first, second] = shapes.map(|shape| shape.as_slice());
    if first.len() != second.len() {
        return None;
    }
    let lengths = first.iter().zip(second);
    lengths
        .map(|(first, second)| Dim::of([*first, *second], batches))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand: windows are as many for each image; a length that grows with the batch and does not start at 0 is neither.
    #[test]
    fn lengths_follow_the_batch_or_do_not() {
        let of = |first: &[usize], second: &[usize]| {
            let shapes = [first, second].map(|shape| Shape::from(shape.to_vec()));
            dims(shapes.each_ref(), [2, 3])
        };
        let expected = vec![Dim::PerImage(4), Dim::Fixed(49), Dim::PerImage(1)];
        assert_eq!(of(&[8, 49, 2], &[12, 49, 3]), Some(expected));
        assert_eq!(of(&[3], &[4]), None);
        assert_eq!(of(&[5], &[7]), None);
        assert_eq!(of(&[2], &[2, 1]), None);
    }
}
