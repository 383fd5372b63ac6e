//! Unfold and fold on the CPU: rows of pixels are copied or added, the channels on all threads.

use burn::backend::{Flex, TensorMetadata, tensor::FloatTensor};
use rayon::prelude::*;

use super::UnfoldOps;
use crate::cast::{cast, to_f32};
use crate::contiguous::cpu::contiguous;
use crate::cpu::buffer::{par_build, par_write_with, tensor, values_of};
use crate::window::Window;

impl UnfoldOps for Flex {
    fn unfold_windows(x: FloatTensor<Self>, settings: Window) -> FloatTensor<Self> {
        let (dtype, shape) = (x.dtype(), settings.unfolded(&x.shape()));
        let [_, _, height, width] = x.shape().dims();
        let windows = settings.windows([height, width]);
        let x = contiguous(to_f32::<Self>(x));
        let channels = values_of(&x).par_chunks(windows.pixels());
        let part = windows.area() * windows.positions();
        let len = shape.num_elements();
        let out = par_write_with(
            len,
            part,
            channels,
            || (),
            |(), out, image| {
                windows.unfold(&(0..windows.rows), image, out, windows.positions());
                #[expect(unsafe_code, reason = "values that are not filled with zeros first")]
                // SAFETY: the lines of all elements, whose places are all written, are the whole part.
                unsafe {
                    out.assume_init_mut()
                }
            },
        );
        cast::<Self>(tensor(out, shape), dtype)
    }

    fn fold_windows(x: FloatTensor<Self>, size: [usize; 2], settings: Window) -> FloatTensor<Self> {
        let (dtype, shape) = (x.dtype(), settings.folded(&x.shape(), size));
        let windows = settings.windows(size);
        let x = contiguous(to_f32::<Self>(x));
        let columns = values_of(&x).par_chunks(windows.area() * windows.positions());
        let len = shape.num_elements();
        let out = par_build(len, windows.pixels(), columns, |image, columns| {
            windows.fold(&(0..windows.rows), columns, windows.positions(), image);
        });
        cast::<Self>(tensor(out, shape), dtype)
    }
}
