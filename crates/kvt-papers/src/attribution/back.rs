//! Propagates relevance from a logit back through the blocks.

use burn::tensor::Tensor;

use super::AttributionError;
use super::forward::{BlockValues, Forward};
use super::rules::{choice, fork, linear, product, sum};
use super::weights::Weights;

/// The relevance of the attention weights of each block, first block first, `[heads, query, key]` each: relevance 1 of the logit of one
/// class, propagated back.
pub(super) fn relevance(
    forward: &Forward,
    weights: &Weights,
    class: usize,
) -> Result<Vec<Tensor<3>>, AttributionError> {
    let classes = forward.logits.dims()[1];
    let [tokens, dim] = forward.normed.dims();
    let device = forward.normed.device();
    let one = Tensor::<2>::eye(classes, &device).narrow(0, class, 1);
    let token = forward.normed.clone().narrow(0, 0, 1);
    let of_token = linear(token.clone(), weights.tensor("head.weight")?, one);
    let of_token = choice(token, of_token);
    let others = Tensor::zeros([tokens - 1, dim], &device);
    let mut relevance = Tensor::cat(vec![of_token, others], 0);
    let mut attention = Vec::new();
    for (number, values) in forward.blocks.iter().enumerate().rev() {
        let weight = |part: &str| weights.tensor::<2>(&format!("blocks.{number}.{part}.weight"));
        let (of_weights, of_input) = block(values, weight, relevance)?;
        attention.push(of_weights);
        relevance = of_input;
    }
    attention.reverse();
    Ok(attention)
}

/// Propagates relevance from the output of a block, `[tokens, dim]`, to its attention weights and its input.
fn block(
    values: &BlockValues,
    weight: impl Fn(&str) -> Result<Tensor<2>, AttributionError>,
    relevance: Tensor<2>,
) -> Result<(Tensor<3>, Tensor<2>), AttributionError> {
    let [stays, mlp] = sum(values.middle.clone(), values.mlp.clone(), relevance);
    let hidden = linear(values.hidden.clone(), weight("mlp.fc2")?, mlp);
    let mlp = linear(values.normed2.clone(), weight("mlp.fc1")?, hidden);
    let middle = fork(values.middle.clone(), stays, mlp);

    let [stays, branch] = sum(values.input.clone(), values.attention.clone(), middle);
    let mixed = linear(values.mixed.clone(), weight("attn.proj")?, branch);
    let [q, k, v] = values.qkv.clone();
    let [heads, tokens, channels] = q.dims();
    let mixed = mixed.reshape([tokens, heads, channels]).swap_dims(0, 1);
    let [of_weights, of_v] = product(values.weights.clone(), v, mixed);
    let [of_q, of_k] = product(q, k.swap_dims(1, 2), of_weights.clone());
    let parts = [of_q, of_k.swap_dims(1, 2), of_v];
    // `[tokens, 3, heads, head_dim]`, the layout of the projection.
    let parts = parts.map(|part| part.swap_dims(0, 1).unsqueeze_dim::<4>(1));
    let qkv = Tensor::cat(parts.into(), 1).reshape([tokens, 3 * heads * channels]);
    let branch = linear(values.normed1.clone(), weight("attn.qkv")?, qkv);
    Ok((of_weights, fork(values.input.clone(), stays, branch)))
}
