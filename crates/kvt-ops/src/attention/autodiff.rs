//! The backward pass of attention: from its inputs and what the backend saved.

use burn::backend::{
    Autodiff, AutodiffBackend,
    autodiff::{
        checkpoint::{base::Checkpointer, strategy::CheckpointStrategy},
        grads::Gradients,
        ops::{Backward, Ops, OpsKind, unary},
    },
    tensor::FloatTensor,
};

use super::{AttentionOps, AttentionSettings};
use crate::register;

#[derive(Debug)]
struct Attention;

impl<B: AttentionOps> Backward<B, 3> for Attention {
    /// q, k, v, what the backend saved, and the settings.
    type State = ([FloatTensor<B>; 4], AttentionSettings);

    fn backward(
        self,
        ops: Ops<Self::State, 3>,
        grads: &mut Gradients,
        _checkpointer: &mut Checkpointer,
    ) {
        let ([q, k, v, saved], settings) = ops.state;
        let grad = grads.consume::<B>(&ops.node);
        let (q, k, v) = B::knn_attention_backward(q, k, v, saved, grad, settings);
        let parents = ops.parents.map(|parent| parent.map(|node| node.id));
        register::<B, 3>(grads, parents, [q, k, v]);
    }
}

#[derive(Debug)]
struct SelfAttention;

impl<B: AttentionOps> Backward<B, 1> for SelfAttention {
    /// qkv, what the backend saved, the number of heads, and the settings.
    type State = ([FloatTensor<B>; 2], usize, AttentionSettings);

    fn backward(
        self,
        ops: Ops<Self::State, 1>,
        grads: &mut Gradients,
        _checkpointer: &mut Checkpointer,
    ) {
        let ([qkv, saved], heads, settings) = ops.state;
        unary::<B, _>(ops.parents, ops.node, grads, |grad| {
            B::knn_self_attention_backward(qkv, saved, grad, heads, settings)
        });
    }
}

impl<B: AttentionOps, C: CheckpointStrategy> AttentionOps for Autodiff<B, C> {
    fn knn_attention(
        q: FloatTensor<Self>,
        k: FloatTensor<Self>,
        v: FloatTensor<Self>,
        settings: AttentionSettings,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let ((q, q_node), (k, k_node), (v, v_node)) =
            (q.into_parts(), k.into_parts(), v.into_parts());
        let (out, saved) = B::knn_attention(q.clone(), k.clone(), v.clone(), settings);
        let prep = Attention.prepare::<C>([q_node, k_node, v_node]);
        let out = match prep.compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish(([q, k, v, saved.clone()], settings), out),
            OpsKind::UnTracked(prep) => prep.finish(out),
        };
        (out, Self::from_inner(saved))
    }

    fn knn_self_attention(
        qkv: FloatTensor<Self>,
        heads: usize,
        settings: AttentionSettings,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let (qkv, node) = qkv.into_parts();
        let (out, saved) = B::knn_self_attention(qkv.clone(), heads, settings);
        let out = match SelfAttention
            .prepare::<C>([node])
            .compute_bound()
            .stateful()
        {
            OpsKind::Tracked(prep) => prep.finish(([qkv, saved.clone()], heads, settings), out),
            OpsKind::UnTracked(prep) => prep.finish(out),
        };
        (out, Self::from_inner(saved))
    }
    // The backward methods keep their default bodies, which fit what the composed forward pass saves:
    // a gradient of a gradient is right where the backend used no kernel of its own.
}
