//! The backward pass of layer normalisation: from its input and the statistics of its rows.

use burn::backend::{
    Autodiff, AutodiffBackend,
    autodiff::{
        checkpoint::{base::Checkpointer, strategy::CheckpointStrategy},
        grads::Gradients,
        ops::{Backward, Ops, OpsKind},
    },
    tensor::FloatTensor,
};

use super::LayerNormOps;
use crate::register;

#[derive(Debug)]
struct Normalize;

impl<B: LayerNormOps> Backward<B, 3> for Normalize {
    /// x, gamma, mean and inverse standard deviation.
    type State = [FloatTensor<B>; 4];

    fn backward(
        self,
        ops: Ops<Self::State, 3>,
        grads: &mut Gradients,
        _checkpointer: &mut Checkpointer,
    ) {
        let [x, gamma, mean, inverse] = ops.state;
        let grad = grads.consume::<B>(&ops.node);
        let (x, gamma, beta) = B::normalize_backward(x, gamma, mean, inverse, grad);
        let parents = ops.parents.map(|parent| parent.map(|node| node.id));
        register::<B, 3>(grads, parents, [x, gamma, beta]);
    }
}

impl<B: LayerNormOps, C: CheckpointStrategy> LayerNormOps for Autodiff<B, C> {
    fn normalize(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        epsilon: f64,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        let ((x, x_node), (gamma, g_node)) = (x.into_parts(), gamma.into_parts());
        let (beta, b_node) = beta.into_parts();
        let (out, mean, inverse) = B::normalize(x.clone(), gamma.clone(), beta, epsilon);
        let prep = Normalize.prepare::<C>([x_node, g_node, b_node]);
        let out = match prep.compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish([x, gamma, mean.clone(), inverse.clone()], out),
            OpsKind::UnTracked(prep) => prep.finish(out),
        };
        (out, Self::from_inner(mean), Self::from_inner(inverse))
    }
}
