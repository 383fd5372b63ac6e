//! Residual streams on the CPU.

use burn::backend::{Flex, TensorMetadata, tensor::FloatTensor};
use burn::tensor::{DType, FloatDType, bf16};
use rayon::prelude::*;

use super::ResidualOps;
use crate::contiguous::cpu::contiguous;
use crate::cpu::bf16::Number;
use crate::cpu::buffer::{par_build, par_map_copy, tensor, tensor_of, values_in, values_of};

/// Approximate number of elements per block; a block belongs to one sample.
const BLOCK: usize = 16 * 1024;

impl ResidualOps for Flex {
    fn add_scaled(
        residual: FloatTensor<Self>,
        branch: FloatTensor<Self>,
        scale: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        let parts = Parts::new(&residual, &scale);
        match (parts, residual.dtype(), branch.dtype()) {
            (Some(parts), DType::F32, DType::F32) => add::<f32>(&parts, &residual, &branch),
            (Some(parts), DType::F32, DType::BF16) => add::<bf16>(&parts, &residual, &branch),
            _ => super::add_scaled::<Self>(residual, branch, scale),
        }
    }

    fn scaled(
        x: FloatTensor<Self>,
        scale: FloatTensor<Self>,
        dtype: FloatDType,
    ) -> FloatTensor<Self> {
        let parts = Parts::new(&x, &scale);
        match (parts, x.dtype(), dtype) {
            (Some(parts), DType::F32, FloatDType::F32) => multiply::<f32>(&parts, &x),
            (Some(parts), DType::F32, FloatDType::BF16) => multiply::<bf16>(&parts, &x),
            _ => super::scaled::<Self>(x, scale, dtype),
        }
    }
}

/// How the samples of a tensor are cut into blocks of one length.
struct Parts {
    scale: Vec<f32>,
    /// Elements per sample.
    sample: usize,
}

impl Parts {
    /// `None` if the scale is not f32 or there are no elements.
    fn new(x: &FloatTensor<Flex>, scale: &FloatTensor<Flex>) -> Option<Self> {
        let scale = match scale.dtype() {
            DType::F32 => values_of(&scale.to_contiguous()).to_vec(),
            _ => return None,
        };
        let values = x.shape().num_elements();
        let sample = values.checked_div(scale.len())?;
        (sample > 0).then_some(Self { scale, sample })
    }

    /// Elements per block: a divisor of the elements per sample, so that no block spans two samples.
    fn block(&self) -> usize {
        let least = self.sample.div_ceil(BLOCK);
        let count = (least..=self.sample).find(|count| self.sample.is_multiple_of(*count));
        self.sample / count.unwrap_or(1)
    }

    /// The scale of each block.
    fn of_blocks(&self) -> impl IndexedParallelIterator<Item = f32> {
        let (block, blocks) = (self.block(), self.sample / self.block() * self.scale.len());
        (0..blocks)
            .into_par_iter()
            .map(move |number| self.scale[number * block / self.sample])
    }
}

fn add<T: Number + burn::tensor::Element>(
    parts: &Parts,
    residual: &FloatTensor<Flex>,
    branch: &FloatTensor<Flex>,
) -> FloatTensor<Flex> {
    let (residual, branch) = (residual.to_contiguous(), branch.to_contiguous());
    let block = parts.block();
    let branches: &[T] = values_in(&branch);
    let others = branches.par_chunks(block).zip(parts.of_blocks());
    let out = par_map_copy(
        values_of(&residual),
        block,
        others,
        |stream, (branch, scale)| {
            for (stream, branch) in stream.iter_mut().zip(branch) {
                *stream += branch.widened() * scale;
            }
        },
    );
    tensor(out, residual.shape())
}

fn multiply<T: Number + burn::tensor::Element>(
    parts: &Parts,
    x: &FloatTensor<Flex>,
) -> FloatTensor<Flex> {
    let x = contiguous(x.clone());
    let (values, block) = (values_of(&x), parts.block());
    let others = values.par_chunks(block).zip(parts.of_blocks());
    let out = par_build(
        values.len(),
        block,
        others,
        |out: &mut [T], (values, scale)| {
            for (out, value) in out.iter_mut().zip(values) {
                *out = T::rounded(value * scale);
            }
        },
    );
    tensor_of(out, x.shape())
}
