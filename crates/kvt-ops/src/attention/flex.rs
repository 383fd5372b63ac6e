//! Attention on the `flex` CPU backend: where the tensors lie, for [`super::blocks`].

use burn::backend::{Flex, TensorMetadata, tensor::FloatTensor};
use burn::tensor::{DType, Shape};

use super::blocks::{Heads, Place, Problem};
use super::{AttentionOps, AttentionSettings};
use crate::buffer::tensor;
use crate::rows::RowState;
use crate::{narrow, widen};

/// Floats of a [`RowState`].
const STATE: usize = size_of::<RowState>() / size_of::<f32>();

impl AttentionOps for Flex {
    /// Saves the state of every row, `[batch, query, heads, 4]`.
    fn knn_attention(
        q: FloatTensor<Self>,
        k: FloatTensor<Self>,
        v: FloatTensor<Self>,
        settings: AttentionSettings,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let dtype = q.dtype();
        let [q, k, v] = [q, k, v].map(prepare);
        let problem = problem(&q, &k, &v, settings);
        let (out, saved) = forward(&problem);
        // [batch, query, heads, value_dim] to [batch, heads, query, value_dim], in place.
        (narrow::<Flex>(out.permute(&[0, 2, 1, 3]), dtype), saved)
    }

    fn knn_attention_backward(
        q: FloatTensor<Self>,
        k: FloatTensor<Self>,
        v: FloatTensor<Self>,
        saved: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        settings: AttentionSettings,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        let dtype = q.dtype();
        let [q, k, v, grad] = [q, k, v, grad].map(prepare);
        let problem = problem(&q, &k, &v, settings);
        // Per image the gradients of q, k and v one after the other, each [tokens, heads, dim].
        let mut offset = 0;
        let places = [
            (problem.queries, &q),
            (problem.keys, &k),
            (problem.keys, &v),
        ]
        .map(|(tokens, x)| {
            let [_, heads, _, dim] = x.shape().dims();
            let place = Place {
                offset,
                image: 0,
                head: dim,
                token: heads * dim,
                dim,
            };
            offset += tokens * heads * dim;
            (place, tokens)
        });
        let grad = Heads {
            data: grad.storage(),
            place: place(&grad),
        };
        let places_only = places.map(|(place, _)| place);
        let out = problem.backward(grad, states(&saved), offset, places_only);
        let out = tensor(out, Shape::new([problem.images, offset]));
        let [q, k, v] = places.map(|(place, tokens)| {
            let heads = place.token / place.dim.max(1);
            let part = out.narrow(1, place.offset, tokens * place.token);
            let part = part.reshape(Shape::new([problem.images, tokens, heads, place.dim]));
            narrow::<Flex>(part.permute(&[0, 2, 1, 3]), dtype)
        });
        (q, k, v)
    }

    fn knn_self_attention(
        qkv: FloatTensor<Self>,
        heads: usize,
        settings: AttentionSettings,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let dtype = qkv.dtype();
        let qkv = widen::<Flex>(qkv).to_contiguous();
        let problem = packed(&qkv, heads, settings);
        let (out, saved) = forward(&problem);
        let out = out.reshape(Shape::new([
            problem.images,
            problem.queries,
            heads * problem.v.place.dim,
        ]));
        (narrow::<Flex>(out, dtype), saved)
    }

    fn knn_self_attention_backward(
        qkv: FloatTensor<Self>,
        saved: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        heads: usize,
        settings: AttentionSettings,
    ) -> FloatTensor<Self> {
        let dtype = qkv.dtype();
        let qkv = widen::<Flex>(qkv).to_contiguous();
        let problem = packed(&qkv, heads, settings);
        let grad = widen::<Flex>(grad).to_contiguous();
        let [_, tokens, width] = grad.shape().dims();
        let grad_place = Place {
            offset: grad.layout().start_offset(),
            image: tokens * width,
            token: width,
            ..problem.v.place
        };
        let places = [problem.q, problem.k, problem.v].map(|x| Place {
            offset: x.place.offset - problem.q.place.offset,
            ..x.place
        });
        let grad = Heads {
            data: grad.storage(),
            place: grad_place,
        };
        let size = 3 * tokens * width;
        let out = problem.backward(grad, states(&saved), size, places);
        narrow::<Flex>(tensor(out, qkv.shape()), dtype)
    }
}

/// Output `[batch, query, heads, value_dim]` and row states of a problem.
fn forward(problem: &Problem<'_>) -> (FloatTensor<Flex>, FloatTensor<Flex>) {
    let Problem {
        images,
        queries,
        heads,
        ..
    } = *problem;
    let shape = |last| Shape::new([images, queries, heads, last]);
    let mut saved = FloatTensor::<Flex>::empty(shape(STATE), DType::F32);
    let states = bytemuck::cast_slice_mut(saved.storage_mut::<f32>());
    let out = tensor(problem.forward(states), shape(problem.v.place.dim));
    (out, saved)
}

fn problem<'a>(
    q: &'a FloatTensor<Flex>,
    k: &'a FloatTensor<Flex>,
    v: &'a FloatTensor<Flex>,
    settings: AttentionSettings,
) -> Problem<'a> {
    let [images, heads, queries, _] = q.shape().dims();
    let [_, _, keys, _] = k.shape().dims();
    let [q, k, v] = [q, k, v].map(|x| Heads {
        data: x.storage(),
        place: place(x),
    });
    Problem {
        images,
        heads,
        queries,
        keys,
        q,
        k,
        v,
        scale: settings.scale as f32,
        kept: settings.kept,
    }
}

/// The problem of a contiguous `qkv`.
fn packed(qkv: &FloatTensor<Flex>, heads: usize, settings: AttentionSettings) -> Problem<'_> {
    let [images, tokens, width] = qkv.shape().dims();
    let dim = width / 3 / heads;
    let [q, k, v] = [0, 1, 2].map(|part| Heads {
        data: qkv.storage(),
        place: Place {
            offset: qkv.layout().start_offset() + part * heads * dim,
            image: tokens * width,
            head: dim,
            token: width,
            dim,
        },
    });
    Problem {
        images,
        heads,
        queries: tokens,
        keys: tokens,
        q,
        k,
        v,
        scale: settings.scale as f32,
        kept: settings.kept,
    }
}

/// In f32, with the channels of a token side by side.
fn prepare(x: FloatTensor<Flex>) -> FloatTensor<Flex> {
    let x = widen::<Flex>(x);
    let [_, _, tokens, dim] = x.shape().dims();
    let fits = match *x.layout().strides() {
        // Positive strides, and tokens that do not overlap: no broadcast, no flip.
        [image, head, token, channel] => {
            channel == 1 && image > 0 && head > 0 && (token >= dim as isize || tokens == 1)
        }
        _ => false,
    };
    if fits { x } else { x.to_contiguous() }
}

/// Where a tensor of [`prepare`] lies.
fn place(x: &FloatTensor<Flex>) -> Place {
    let stride = |axis: usize| {
        x.layout()
            .strides()
            .get(axis)
            .map_or(0, |s| s.unsigned_abs())
    };
    let [_, _, _, dim] = x.shape().dims();
    Place {
        offset: x.layout().start_offset(),
        image: stride(0),
        head: stride(1),
        token: stride(2),
        dim,
    }
}

fn states(saved: &FloatTensor<Flex>) -> &[RowState] {
    bytemuck::cast_slice(saved.storage::<f32>())
}
