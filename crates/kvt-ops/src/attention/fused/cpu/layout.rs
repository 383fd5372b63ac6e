//! Where the numbers of queries, keys, values and gradients are.

use burn::backend::{Flex, TensorMetadata, tensor::FloatTensor};
use burn::tensor::{Element, Shape};

use crate::attention::added::cpu::strides;
use crate::attention::fused::blocks::{HeadLayout, Heads, Operand, Problem};
use crate::cpu::buffer::values_in;

/// The shape of the output.
pub(super) fn out_shape(q: &FloatTensor<Flex>, v: &FloatTensor<Flex>) -> Shape {
    let mut shape = q.shape();
    shape[3] = v.shape()[3];
    shape
}

/// The shape of the output of a packed projection.
pub(super) fn packed_out(qkv: &FloatTensor<Flex>) -> Shape {
    let [images, tokens, width] = qkv.shape().dims();
    Shape::new([images, tokens, width / 3])
}

/// The number and layouts of the gradients of q, k and v of an image: one after another, each `[tokens, heads, dim]`.
pub(super) fn one_after_another(
    tensors: [&FloatTensor<Flex>; 3],
    heads: usize,
) -> (usize, [HeadLayout; 3]) {
    let mut size = 0;
    let layouts = tensors.map(|x| {
        let [_, _, tokens, dim] = x.shape().dims();
        let layout = HeadLayout {
            offset: size,
            image_stride: 0,
            head_stride: dim,
            token_stride: heads * dim,
            dim,
        };
        size += tokens * heads * dim;
        layout
    });
    (size, layouts)
}

/// The gradients of q, k and v in their shapes, as views of those from [`one_after_another`].
pub(super) fn parts(
    grads: &FloatTensor<Flex>,
    heads: usize,
    tensors: [&FloatTensor<Flex>; 3],
    layouts: [HeadLayout; 3],
) -> [FloatTensor<Flex>; 3] {
    let mut layouts = layouts.into_iter();
    tensors.map(|x| {
        let (tokens, offset) = (x.shape()[2], layouts.next().map_or(0, |x| x.offset));
        let len = tokens * heads * x.shape()[3];
        heads_first(&grads.narrow(1, offset, len), heads, x.shape())
    })
}

/// The contiguous gradient of the output of a packed projection, and the number and layouts of its own gradients in an image.
pub(super) fn of_packed<'a, T: Operand + Element>(
    problem: &Problem<'_, T>,
    d_out: &'a FloatTensor<Flex>,
) -> (Heads<'a, T>, usize, [HeadLayout; 3]) {
    let [_, tokens, width] = d_out.shape().dims();
    let layouts = [problem.q, problem.k, problem.v].map(|x| x.layout);
    let d_out = Heads {
        data: values_in(d_out),
        layout: HeadLayout {
            offset: 0,
            image_stride: tokens * width,
            token_stride: width,
            ..problem.v.layout
        },
    };
    (d_out, 3 * tokens * width, layouts)
}

/// `[image, token, head, dim]` to this shape, `[batch, heads, token, dim]`: of images of one head as it is, else as a view.
pub(super) fn heads_first(x: &FloatTensor<Flex>, heads: usize, shape: Shape) -> FloatTensor<Flex> {
    if heads == 1 {
        return x.reshape(shape);
    }
    let [batch, _, tokens, dim] = shape.dims();
    let x = x.reshape(Shape::new([batch, tokens, heads, dim]));
    x.permute(&[0, 2, 1, 3])
}

pub(super) fn heads_of<T: Operand + Element>(x: &FloatTensor<Flex>) -> Heads<'_, T> {
    Heads {
        data: x.storage(),
        layout: layout(x),
    }
}

/// With adjacent channels within a token.
pub(super) fn adjacent(x: FloatTensor<Flex>) -> FloatTensor<Flex> {
    let [_, _, tokens, dim] = x.shape().dims();
    let fits = match *x.layout().strides() {
        // Neither broadcast nor flipped: positive strides, tokens that do not overlap.
        [image, head, token, channel] => {
            channel == 1 && image > 0 && head > 0 && (token >= dim as isize || tokens == 1)
        }
        _ => false,
    };
    if fits { x } else { x.to_contiguous() }
}

/// The layout of a tensor from [`adjacent`].
fn layout(x: &FloatTensor<Flex>) -> HeadLayout {
    let [image_stride, head_stride, token_stride, _] = strides(x);
    HeadLayout {
        offset: x.layout().start_offset(),
        image_stride,
        head_stride,
        token_stride,
        dim: x.shape()[3],
    }
}
