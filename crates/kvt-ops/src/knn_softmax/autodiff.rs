//! The backward pass of the custom operations.

use burn::backend::{
    Autodiff,
    autodiff::{
        checkpoint::{base::Checkpointer, strategy::CheckpointStrategy},
        grads::Gradients,
        ops::{Backward, Ops, OpsKind, unary},
    },
    tensor::FloatTensor,
};

use super::KnnOps;

#[derive(Debug)]
struct KnnSoftmax;

impl<B: KnnOps> Backward<B, 1> for KnnSoftmax {
    /// The probabilities are all that the gradient needs: no scores, no mask.
    /// A raw primitive of the inner backend is fine here; a node guard is not.
    type State = FloatTensor<B>;

    fn backward(
        self,
        ops: Ops<Self::State, 1>,
        grads: &mut Gradients,
        _checkpointer: &mut Checkpointer,
    ) {
        let probabilities = ops.state;
        unary::<B, _>(ops.parents, ops.node, grads, |grad| {
            B::knn_softmax_backward(probabilities, grad)
        });
    }
}

impl<B: KnnOps, C: CheckpointStrategy> KnnOps for Autodiff<B, C> {
    fn knn_softmax(scores: FloatTensor<Self>, k: usize) -> FloatTensor<Self> {
        let (scores, node) = scores.into_parts();
        match KnnSoftmax.prepare::<C>([node]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => {
                let probabilities = B::knn_softmax(scores, k);
                prep.finish(probabilities.clone(), probabilities)
            }
            OpsKind::UnTracked(prep) => prep.finish(B::knn_softmax(scores, k)),
        }
    }
    // `knn_softmax_backward` keeps its default body: portable, differentiable.
}
