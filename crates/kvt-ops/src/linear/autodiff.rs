//! The backward pass of a linear layer.

use burn::backend::{
    Autodiff,
    autodiff::{
        checkpoint::{base::Checkpointer, strategy::CheckpointStrategy},
        grads::Gradients,
        ops::{Backward, Ops, OpsKind},
    },
    tensor::FloatTensor,
};

use super::LinearOps;
use crate::register;

#[derive(Debug)]
struct Affine;

impl<B: LinearOps> Backward<B, 3> for Affine {
    /// x and the weight.
    type State = [FloatTensor<B>; 2];

    fn backward(
        self,
        ops: Ops<Self::State, 3>,
        grads: &mut Gradients,
        _checkpointer: &mut Checkpointer,
    ) {
        let [x, weight] = ops.state;
        let grad = grads.consume::<B>(&ops.node);
        let (x, weight, bias) = B::affine_backward(x, weight, grad);
        let parents = ops.parents.map(|parent| parent.map(|node| node.id));
        register::<B, 3>(grads, parents, [x, weight, bias]);
    }
}

#[derive(Debug)]
struct AffineAdd;

impl<B: LinearOps> Backward<B, 4> for AffineAdd {
    /// x and the weight.
    type State = [FloatTensor<B>; 2];

    fn backward(
        self,
        ops: Ops<Self::State, 4>,
        grads: &mut Gradients,
        _checkpointer: &mut Checkpointer,
    ) {
        let [x, weight] = ops.state;
        let grad = grads.consume::<B>(&ops.node);
        let (x, weight, bias) = B::affine_backward(x, weight, grad.clone());
        let parents = ops.parents.map(|parent| parent.map(|node| node.id));
        register::<B, 4>(grads, parents, [x, weight, bias, grad]);
    }
}

impl<B: LinearOps, C: CheckpointStrategy> LinearOps for Autodiff<B, C> {
    fn affine(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        let ((x, x_node), (weight, w_node)) = (x.into_parts(), weight.into_parts());
        let (bias, b_node) = bias.into_parts();
        let out = B::affine(x.clone(), weight.clone(), bias);
        let prep = Affine.prepare::<C>([x_node, w_node, b_node]);
        match prep.compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish([x, weight], out),
            OpsKind::UnTracked(prep) => prep.finish(out),
        }
    }

    fn affine_add(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        residual: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        let ((x, x_node), (weight, w_node)) = (x.into_parts(), weight.into_parts());
        let ((bias, b_node), (residual, r_node)) = (bias.into_parts(), residual.into_parts());
        let out = B::affine_add(x.clone(), weight.clone(), bias, residual);
        let prep = AffineAdd.prepare::<C>([x_node, w_node, b_node, r_node]);
        match prep.compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish([x, weight], out),
            OpsKind::UnTracked(prep) => prep.finish(out),
        }
    }
}
