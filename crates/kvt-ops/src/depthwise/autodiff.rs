//! The backward pass of a depthwise convolution: from its inputs.

use burn::backend::{
    Autodiff,
    autodiff::{
        checkpoint::{base::Checkpointer, strategy::CheckpointStrategy},
        grads::Gradients,
        ops::{Backward, Ops, OpsKind},
    },
    tensor::FloatTensor,
};

use super::DepthwiseOps;
use crate::register;

#[derive(Debug)]
struct Depthwise;

impl<B: DepthwiseOps> Backward<B, 2> for Depthwise {
    /// x, the weight, stride and padding.
    type State = ([FloatTensor<B>; 2], [usize; 2]);

    fn backward(
        self,
        ops: Ops<Self::State, 2>,
        grads: &mut Gradients,
        _checkpointer: &mut Checkpointer,
    ) {
        let ([x, weight], [stride, padding]) = ops.state;
        let grad = grads.consume::<B>(&ops.node);
        let (x, weight) = B::depthwise_backward(x, weight, grad, stride, padding);
        let parents = ops.parents.map(|parent| parent.map(|node| node.id));
        register::<B, 2>(grads, parents, [x, weight]);
    }
}

impl<B: DepthwiseOps, C: CheckpointStrategy> DepthwiseOps for Autodiff<B, C> {
    fn depthwise(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        stride: usize,
        padding: usize,
    ) -> FloatTensor<Self> {
        let ((x, x_node), (weight, w_node)) = (x.into_parts(), weight.into_parts());
        let out = B::depthwise(x.clone(), weight.clone(), stride, padding);
        let prep = Depthwise.prepare::<C>([x_node, w_node]);
        match prep.compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish(([x, weight], [stride, padding]), out),
            OpsKind::UnTracked(prep) => prep.finish(out),
        }
    }
}
