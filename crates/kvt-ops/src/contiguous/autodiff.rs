//! The backward pass: nothing but the layout.

use burn::backend::{
    Autodiff,
    autodiff::{
        checkpoint::{base::Checkpointer, strategy::CheckpointStrategy},
        grads::Gradients,
        ops::{Backward, Ops, OpsKind, unary},
    },
    tensor::FloatTensor,
};

use super::LayoutOps;

#[derive(Debug)]
struct Contiguous;

impl<B: LayoutOps> Backward<B, 1> for Contiguous {
    type State = ();

    fn backward(
        self,
        ops: Ops<Self::State, 1>,
        grads: &mut Gradients,
        _checkpointer: &mut Checkpointer,
    ) {
        unary::<B, _>(ops.parents, ops.node, grads, B::contiguous);
    }
}

impl<B: LayoutOps, C: CheckpointStrategy> LayoutOps for Autodiff<B, C> {
    fn contiguous_gradient(x: FloatTensor<Self>) -> FloatTensor<Self> {
        let (x, node) = x.into_parts();
        match Contiguous.prepare::<C>([node]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish((), x),
            OpsKind::UnTracked(prep) => prep.finish(x),
        }
    }
}
