//! Orders of rows on the CPU: whole rows are copied, on all threads.

use burn::backend::{Flex, TensorMetadata, tensor::FloatTensor};
use burn::tensor::{DType, Element, Shape, bf16};
use rayon::prelude::*;

use super::{RowOps, RowOrder, selected};
use crate::contiguous::cpu::contiguous;
use crate::cpu::buffer::{par_build, tensor_of, values_in};

/// Approximate number of values per block.
const BLOCK: usize = 16 * 1024;

impl RowOps for Flex {
    fn reordered(x: FloatTensor<Self>, order: RowOrder) -> FloatTensor<Self> {
        match x.dtype() {
            DType::F32 => copied::<f32>(x, &order),
            DType::BF16 => copied::<bf16>(x, &order),
            _ => selected::<Self>(x, &order),
        }
    }
}

fn copied<T: Element + bytemuck::Pod>(x: FloatTensor<Flex>, order: &RowOrder) -> FloatTensor<Flex> {
    let x = contiguous(x);
    let [batch, rows, dim] = x.shape().dims();
    let (places, values): (_, &[T]) = (order.sources.len(), values_in(&x));
    let block = (BLOCK / dim.max(1)).max(1);
    let (len, part) = (batch * places * dim, block * dim);
    let numbers = (0..(batch * places).div_ceil(block)).into_par_iter();
    let out = par_build(len, part, numbers, |out: &mut [T], number| {
        for (row, out) in out.chunks_exact_mut(dim).enumerate() {
            let place = number * block + row;
            if let Some(source) = order.sources[place % places] {
                let start = (place / places * rows + source as usize) * dim;
                out.copy_from_slice(&values[start..start + dim]);
            }
        }
    });
    tensor_of(out, Shape::new([batch, places, dim]))
}
