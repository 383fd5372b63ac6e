//! One attention operation, from q, k and v to the output, with the backward pass.

use burn::tensor::{Device, Tensor};
use kvt_attention::{Score, SoftmaxAttention, attend};
use serde::{Deserialize, Serialize};

use super::timing::{Rounds, Timing, time};
use super::{AttentionInput, BenchError, peak_of};

/// Sizes of q, k and v.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttentionShape {
    /// Images.
    pub batch: usize,
    /// Heads per image.
    pub heads: usize,
    /// Number of queries, and of keys.
    pub tokens: usize,
    /// Channels per head.
    pub head_dim: usize,
}

impl AttentionShape {
    /// A small problem of the same kind, for the one-time costs of a process, such as threads and code, which do not belong to the
    /// operation.
    pub(super) fn small(self) -> Self {
        Self {
            batch: 1,
            heads: 1,
            tokens: self.tokens.min(64),
            ..self
        }
    }

    /// The sizes in this order, as those of a tensor.
    #[must_use]
    pub fn sizes(self) -> [usize; 4] {
        [self.batch, self.heads, self.tokens, self.head_dim]
    }
}

/// The case to measure.
#[derive(Clone, Copy, Debug)]
pub struct AttentionCase {
    /// The sizes.
    pub shape: AttentionShape,
    /// The distribution of the scores.
    pub input: AttentionInput,
    /// The attention.
    pub attention: SoftmaxAttention,
}

/// The measurements. Times in milliseconds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AttentionMeasurement {
    /// `dense` or `knn`.
    pub kind: String,
    /// The name of the implementation, as in a configuration.
    pub implementation: String,
    /// The sizes.
    #[serde(flatten)]
    pub shape: AttentionShape,
    /// The distribution of the scores.
    pub input: AttentionInput,
    /// Keys kept per query.
    pub k: usize,
    /// The element type.
    pub dtype: String,
    /// Only the output, without autodiff: the median.
    pub forward_ms: f64,
    /// Output and all three gradients: the median.
    pub forward_backward_ms: f64,
    /// The spread of the forward pass.
    pub forward: Timing,
    /// The spread of forward and backward pass.
    pub forward_backward: Timing,
    /// Rate, counting seven matrix products: two forward, five backward.
    pub gflops: f64,
    /// Memory rate, counting every input and output once: q, k, v and the output; in the backward pass q, k, v, the
    /// gradient of the output and the three resulting gradients.
    pub gbps: f64,
    /// Memory that forward and backward used in addition to the inputs, in a fresh process that ran only a small
    /// problem before.
    pub peak_bytes: Option<u64>,
}

impl AttentionCase {
    /// Keys kept per query.
    pub fn kept(&self) -> usize {
        self.attention.neighbors.resolve(self.shape.tokens)
    }

    fn inputs(&self, device: &Device) -> [Tensor<4>; 3] {
        self.input.tensors(self.shape, device)
    }

    fn forward(&self, [q, k, v]: [Tensor<4>; 3]) -> Result<Tensor<4>, BenchError> {
        let scale = (self.shape.head_dim as f64).powf(-0.5);
        Ok(attend(
            q,
            k,
            v,
            Score::default(),
            scale,
            &self.attention,
            None,
        )?)
    }

    fn forward_backward(&self, inputs: &[Tensor<4>; 3]) -> Result<Vec<Tensor<4>>, BenchError> {
        with_gradients(inputs, |leaves| self.forward(leaves))
    }

    /// The memory of one forward and backward pass in this process.
    ///
    /// # Errors
    /// If the device fails.
    pub fn peak_bytes(&self, device: &Device) -> Result<Option<u64>, BenchError> {
        let device = device.clone().autodiff();
        let small = Self {
            shape: self.shape.small(),
            ..*self
        };
        small.forward_backward(&small.inputs(&device))?;
        let inputs = self.inputs(&device);
        peak_of(&device, || self.forward_backward(&inputs))
    }
}

/// The output of an operation and the gradients of its inputs, so that nothing is optimised away as unused.
pub(super) fn with_gradients(
    inputs: &[Tensor<4>; 3],
    operation: impl FnOnce([Tensor<4>; 3]) -> Result<Tensor<4>, BenchError>,
) -> Result<Vec<Tensor<4>>, BenchError> {
    let leaves = inputs.clone().map(Tensor::require_grad);
    let out = operation(leaves.clone())?;
    let mut gradients = out.backward();
    let mut results = vec![out];
    results.extend(leaves.iter().filter_map(|x| x.grad_remove(&mut gradients)));
    Ok(results)
}

/// Times the cases in turn, round by round. `progress` is called with the number of completed rounds.
///
/// # Errors
/// If the device fails.
pub fn attention(
    cases: &[AttentionCase],
    device: &Device,
    rounds: Rounds,
    progress: impl FnMut(usize),
) -> Result<Vec<AttentionMeasurement>, BenchError> {
    let autodiff = device.clone().autodiff();
    let running = cases.iter().map(|case| (case, case.inputs(&autodiff)));
    let mut running: Vec<_> = running.collect();
    let times = rounds.in_turn(&mut running, progress, |(case, inputs)| {
        let plain = inputs.clone().map(Tensor::inner);
        let ahead = time(device, || case.forward(plain))?;
        let there_and_back = time(device, || case.forward_backward(inputs))?;
        Ok([ahead, there_and_back])
    })?;
    let records = cases.iter().zip(times);
    Ok(records.map(|(case, times)| record(case, times)).collect())
}

fn record(case: &AttentionCase, [forward, forward_backward]: [Timing; 2]) -> AttentionMeasurement {
    let [batch, heads, tokens, head_dim] = case.shape.sizes();
    let product = 2.0 * (batch * heads * head_dim) as f64 * (tokens as f64).powi(2);
    let tensor = (size_of::<f32>() * batch * heads * tokens * head_dim) as f64;
    let kept = case.kept();
    AttentionMeasurement {
        kind: if kept == tokens { "dense" } else { "knn" }.to_owned(),
        implementation: case.attention.implementation.name().to_owned(),
        shape: case.shape,
        input: case.input,
        k: kept,
        dtype: "f32".to_owned(),
        forward_ms: forward.median,
        forward_backward_ms: forward_backward.median,
        forward,
        forward_backward,
        gflops: 7.0 * product / forward_backward.median / 1e6,
        gbps: 11.0 * tensor / forward_backward.median / 1e6,
        peak_bytes: None,
    }
}
