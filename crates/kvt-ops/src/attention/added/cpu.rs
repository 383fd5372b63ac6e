//! Bias and mask on the CPU: the memory layout of the tensors, for [`blocks`](crate::attention::fused::blocks).

use burn::backend::{
    Flex, TensorMetadata,
    tensor::{BoolTensor, FloatTensor},
};

use super::Added;
use crate::attention::fused::blocks::{Problem, Term, Terms};
use crate::cast::to_f32;

/// The problem with bias and mask, both from [`prepare_terms`], added to the scores. Then each head is treated as an image with one
/// head: with windows folded into the heads, many small heads are shared among the threads.
pub(in crate::attention) fn with_terms<'a>(
    problem: Problem<'a>,
    bias: Option<&'a FloatTensor<Flex>>,
    mask: Option<&'a BoolTensor<Flex>>,
) -> Problem<'a> {
    if bias.is_none() && mask.is_none() {
        return problem;
    }
    Problem {
        images: problem.images * problem.heads,
        heads: 1,
        heads_folded_into_images: problem.heads.max(1),
        terms: terms(problem.heads, 1, bias, mask),
        ..problem
    }
}

/// Bias and mask, both from [`prepare_terms`], for scores of `heads` heads, where `windows` images of the tensors are one of the scores.
pub(in crate::attention) fn terms<'a>(
    heads: usize,
    windows: usize,
    bias: Option<&'a FloatTensor<Flex>>,
    mask: Option<&'a BoolTensor<Flex>>,
) -> Terms<'a> {
    Terms {
        heads,
        windows,
        bias: bias.map(|bias| term(bias, bias.storage())),
        mask: mask.map(|mask| term(mask, mask.bytes())),
    }
}

/// The bias in f32, and both tensors with adjacent values within a row.
pub(in crate::attention) fn prepare_terms(
    added: Added<Flex>,
) -> (Option<FloatTensor<Flex>>, Option<BoolTensor<Flex>>) {
    let adjacent = |x: FloatTensor<Flex>| {
        let strides = x.layout().strides();
        // A tensor that is not flipped can be read as it is stored, even if it was expanded.
        let fits = strides.iter().all(|stride| *stride >= 0)
            && (x.shape()[3] == 1 || strides.last() == Some(&1));
        if fits { x } else { x.to_contiguous() }
    };
    let (bias, mask) = added.into_parts();
    // Both are tensors of the same type on this backend.
    let bias = bias.map(|bias| adjacent(to_f32::<Flex>(bias)));
    (bias, mask.map(adjacent))
}

/// A tensor from [`prepare_terms`] and its storage.
fn term<'a, T>(x: &FloatTensor<Flex>, data: &'a [T]) -> Term<'a, T> {
    Term {
        data,
        offset: x.layout().start_offset(),
        shape: x.shape().dims(),
        strides: strides(x),
    }
}

/// The strides of a tensor of four dimensions, none of which is flipped.
pub(in crate::attention) fn strides(x: &FloatTensor<Flex>) -> [usize; 4] {
    let mut strides = [0; 4];
    for (stride, actual) in strides.iter_mut().zip(x.layout().strides()) {
        *stride = actual.unsigned_abs();
    }
    strides
}
