//! Tensors of one launch.

use burn::backend::{Backend, ExtensionType, tensor::FloatTensor};

/// How many parameters an operation takes, since an operation of a backend has a fixed number of tensors. On a device with too
/// few bindings for eight parameters, the operation makes several launches.
pub(crate) const GROUP: usize = 8;

/// One tensor for each of [`GROUP`] parameters.
#[derive(ExtensionType)]
#[extension_type(fusion: cfg(feature = "cube"))]
pub(crate) struct Eight<B: Backend> {
    a: FloatTensor<B>,
    b: FloatTensor<B>,
    c: FloatTensor<B>,
    d: FloatTensor<B>,
    e: FloatTensor<B>,
    f: FloatTensor<B>,
    g: FloatTensor<B>,
    h: FloatTensor<B>,
}

/// Pairs the elements of two arrays.
pub(super) fn zip<A, B>(a: [A; GROUP], b: [B; GROUP]) -> [(A, B); GROUP] {
    array(a.into_iter().zip(b).collect())
}

/// As many elements as an array has.
fn array<T>(elements: Vec<T>) -> [T; GROUP] {
    match elements.try_into() {
        Ok(array) => array,
        Err(_) => unreachable!("as many elements as an array has"),
    }
}

/// Rows as columns.
pub(super) fn transposed<T, const A: usize, const B: usize>(rows: [[T; A]; B]) -> [[T; B]; A] {
    let mut rows = rows.map(IntoIterator::into_iter);
    std::array::from_fn(|_| {
        rows.each_mut().map(|row| match row.next() {
            Some(element) => element,
            None => unreachable!("as many elements as a row has"),
        })
    })
}

impl<B: Backend> Eight<B> {
    pub(super) fn new([a, b, c, d, e, f, g, h]: [FloatTensor<B>; GROUP]) -> Self {
        Self {
            a,
            b,
            c,
            d,
            e,
            f,
            g,
            h,
        }
    }

    pub(super) fn into_array(self) -> [FloatTensor<B>; GROUP] {
        [
            self.a, self.b, self.c, self.d, self.e, self.f, self.g, self.h,
        ]
    }
}
