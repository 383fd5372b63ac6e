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
    let [a0, a1, a2, a3, a4, a5, a6, a7] = a;
    let [b0, b1, b2, b3, b4, b5, b6, b7] = b;
    [
        (a0, b0),
        (a1, b1),
        (a2, b2),
        (a3, b3),
        (a4, b4),
        (a5, b5),
        (a6, b6),
        (a7, b7),
    ]
}

/// The inverse of [`zip`].
pub(super) fn unzip<A, B>(pairs: [(A, B); GROUP]) -> ([A; GROUP], [B; GROUP]) {
    let [
        (a0, b0),
        (a1, b1),
        (a2, b2),
        (a3, b3),
        (a4, b4),
        (a5, b5),
        (a6, b6),
        (a7, b7),
    ] = pairs;
    (
        [a0, a1, a2, a3, a4, a5, a6, a7],
        [b0, b1, b2, b3, b4, b5, b6, b7],
    )
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
