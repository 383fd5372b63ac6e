//! Adds a backward pass to a custom operation.
//!
//! An operation implements its trait for `Autodiff<B, C>` in three steps: [`split`] the inputs, run the
//! forward pass of the inner backend, and [`record`] what the backward pass needs.

use burn::backend::autodiff::{
    checkpoint::{base::Checkpointer, strategy::CheckpointStrategy},
    grads,
    ops::{Backward, NodeGuard, Ops, OpsKind},
};
use burn::backend::{Autodiff, AutodiffBackend, Backend, tensor::FloatTensor};

/// Computes the gradients of the inputs from the saved state and the gradient of the output.
type GradientFn<B, S, const N: usize> = fn(S, FloatTensor<B>) -> [FloatTensor<B>; N];

/// As [`GradientFn`], only for the inputs that require a gradient; the gradients of the others are discarded.
type AskedGradientFn<B, S, const N: usize> =
    fn(S, FloatTensor<B>, [bool; N]) -> [Option<FloatTensor<B>>; N];

#[derive(Debug)]
struct Step<F>(F);

impl<B: Backend, S, const N: usize> Backward<B, N> for Step<AskedGradientFn<B, S, N>>
where
    S: Clone + Send + std::fmt::Debug + 'static,
{
    type State = S;

    fn backward(self, ops: Ops<S, N>, grads: &mut grads::Gradients, _: &mut Checkpointer) {
        let asked = ops.parents.each_ref().map(Option::is_some);
        let gradients = (self.0)(ops.state, grads.consume::<B>(&ops.node), asked);
        for (parent, gradient) in ops.parents.into_iter().zip(gradients) {
            if let (Some(parent), Some(gradient)) = (parent, gradient) {
                grads.register::<B>(parent.id, gradient);
            }
        }
    }
}

/// The graph nodes of the inputs, for [`record`], and the tensors of the inner backend.
///
/// The type of the inputs does not depend on the checkpoint strategy.
pub(crate) fn split<B: Backend, const N: usize>(
    inputs: [FloatTensor<Autodiff<B>>; N],
) -> ([NodeGuard; N], [FloatTensor<B>; N]) {
    let nodes = inputs.each_ref().map(|input| input.node());
    (nodes, inputs.map(|input| input.into_primitive()))
}

/// As [`split`], of an input that may be missing: its node is then a constant, made of `any` tensor, which gets no gradient.
pub(crate) fn split_optional<B: Backend>(
    input: Option<FloatTensor<Autodiff<B>>>,
    any: &FloatTensor<B>,
) -> (NodeGuard, Option<FloatTensor<B>>) {
    let is_given = input.is_some();
    let input = input.unwrap_or_else(|| <Autodiff<B> as AutodiffBackend>::from_inner(any.clone()));
    let ([node], [input]) = split([input]);
    (node, is_given.then_some(input))
}

/// Adds an output to the graph, after the inputs at `nodes`. `state` is dropped if none of them requires a gradient.
pub(crate) fn record<B: Backend, C: CheckpointStrategy, S, const N: usize>(
    nodes: [NodeGuard; N],
    output: FloatTensor<B>,
    state: S,
    gradients: GradientFn<B, S, N>,
) -> FloatTensor<Autodiff<B>>
where
    S: Clone + Send + std::fmt::Debug + 'static,
{
    record_asked::<B, C, _, _>(
        nodes,
        output,
        (state, gradients),
        |(state, gradients), grad, _| gradients(state, grad).map(Some),
    )
}

/// As [`record`], for gradients that are worth skipping if their input does not require one.
pub(crate) fn record_asked<B: Backend, C: CheckpointStrategy, S, const N: usize>(
    nodes: [NodeGuard; N],
    output: FloatTensor<B>,
    state: S,
    gradients: AskedGradientFn<B, S, N>,
) -> FloatTensor<Autodiff<B>>
where
    S: Clone + Send + std::fmt::Debug + 'static,
{
    match Step(gradients)
        .prepare::<C>(nodes)
        .compute_bound()
        .stateful()
    {
        OpsKind::Tracked(prep) => prep.finish(state, output),
        OpsKind::UnTracked(prep) => prep.finish(output),
    }
}
