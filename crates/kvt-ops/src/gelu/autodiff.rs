//! The backward pass of GELU: from its input.

use burn::backend::{
    Autodiff,
    autodiff::{
        checkpoint::{base::Checkpointer, strategy::CheckpointStrategy},
        grads::Gradients,
        ops::{Backward, Ops, OpsKind, unary},
    },
    tensor::FloatTensor,
};

use super::GeluOps;

#[derive(Debug)]
struct Gelu;

impl<B: GeluOps> Backward<B, 1> for Gelu {
    type State = FloatTensor<B>;

    fn backward(
        self,
        ops: Ops<Self::State, 1>,
        grads: &mut Gradients,
        _checkpointer: &mut Checkpointer,
    ) {
        let x = ops.state;
        unary::<B, _>(ops.parents, ops.node, grads, |grad| {
            B::exact_gelu_backward(x, grad)
        });
    }
}

impl<B: GeluOps, C: CheckpointStrategy> GeluOps for Autodiff<B, C> {
    fn exact_gelu(x: FloatTensor<Self>) -> FloatTensor<Self> {
        let (x, node) = x.into_parts();
        match Gelu.prepare::<C>([node]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish(x.clone(), B::exact_gelu(x)),
            OpsKind::UnTracked(prep) => prep.finish(B::exact_gelu(x)),
        }
    }
}
