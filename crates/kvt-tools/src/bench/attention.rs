//! One attention operation of any kind, from q, k and v to the output, with the backward pass.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use kvt_attention::{
    AttentionConfig, AttentionError, BurnInit, Implementation, Mechanism, Mixer, Phase, Place,
};
use kvt_models::ModelError;
use kvt_ops::Key;
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

/// The case to measure: a kind of attention with its settings, at a number of tokens.
#[derive(Clone, Debug)]
pub struct AttentionCase {
    /// The sizes.
    pub shape: AttentionShape,
    /// The distribution of the scores.
    pub input: AttentionInput,
    /// The kind, with settings of one stage.
    pub attention: AttentionConfig,
}

/// The times of a case in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct AttentionTimes {
    /// Only the output, without autodiff, as in evaluation.
    pub forward: Timing,
    /// Output and the gradients of q, k, v and of all parameters, as in training: with new random numbers each time.
    pub forward_backward: Timing,
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

/// What is run: the mechanism, its inputs, and its position in a model.
struct Running {
    mixer: Mixer,
    inputs: [Tensor<4>; 3],
    place: Place,
}

impl AttentionCase {
    /// A self-attention of one or several images. The tokens form a square map, after a class token if their number is
    /// one more than a square; otherwise a sequence.
    pub fn place(&self) -> Place {
        let [_, heads, tokens, head_dim] = self.shape.sizes();
        let square = |count: usize| Some(count.isqrt()).filter(|side| side * side == count);
        let (prefix, side) = match (square(tokens), square(tokens.saturating_sub(1))) {
            (Some(side), _) => (0, Some(side)),
            (None, Some(side)) => (1, Some(side)),
            (None, None) => (0, None),
        };
        Place {
            prefix,
            grid: side.map(|side| [side; 2]),
            ..Place::new(tokens, heads * head_dim, heads)
        }
    }

    /// Rejects settings that cannot be used at this size.
    ///
    /// # Errors
    /// The reason.
    pub fn check(&self) -> Result<(), AttentionError> {
        self.attention.validate_at(&self.place())
    }

    fn start(&self, device: &Device) -> Result<Running, BenchError> {
        self.check().map_err(ModelError::from)?;
        let place = self.place();
        let device = device.clone().autodiff();
        Ok(Running {
            mixer: self.attention.init(&place, &BurnInit::new(&device)),
            inputs: self.input.tensors(self.shape, &device),
            place,
        })
    }

    /// The record of dense or k-NN attention with its times and its memory.
    #[must_use]
    pub fn measurement(
        &self,
        AttentionTimes {
            forward,
            forward_backward,
        }: AttentionTimes,
        peak_bytes: Option<u64>,
    ) -> AttentionMeasurement {
        let [batch, heads, tokens, head_dim] = self.shape.sizes();
        let product = 2.0 * (batch * heads * head_dim) as f64 * (tokens as f64).powi(2);
        let tensor = (size_of::<f32>() * batch * heads * tokens * head_dim) as f64;
        let kept = self.attention.cost(&self.place()).kept;
        let implementation = match &self.attention {
            AttentionConfig::Knn(knn) => knn.implementation,
            _ => Implementation::default(),
        };
        AttentionMeasurement {
            kind: if kept == tokens { "dense" } else { "knn" }.to_owned(),
            implementation: implementation.name().to_owned(),
            shape: self.shape,
            input: self.input,
            k: kept,
            dtype: "f32".to_owned(),
            forward_ms: forward.median,
            forward_backward_ms: forward_backward.median,
            forward,
            forward_backward,
            gflops: 7.0 * product / forward_backward.median / 1e6,
            gbps: 11.0 * tensor / forward_backward.median / 1e6,
            peak_bytes,
        }
    }

    /// The memory of one forward and backward pass in this process.
    ///
    /// # Errors
    /// If it cannot be used at this size, or the device fails.
    pub fn peak_bytes(&self, device: &Device) -> Result<Option<u64>, BenchError> {
        let small = Self {
            shape: self.shape.small(),
            ..self.clone()
        };
        // Not every kind can be used with so few tokens.
        if small.check().is_ok() {
            small.start(device)?.forward_backward(0);
        }
        let running = self.start(device)?;
        peak_of(device, || Ok(running.forward_backward(0)))
    }
}

impl Running {
    /// The output and the gradients of the inputs, so that nothing is optimised away as unused.
    fn forward_backward(&self, pass: u64) -> Vec<Tensor<4>> {
        let phase = Phase::Train(Key::new(0).child(pass));
        let leaves = self.inputs.clone().map(Tensor::require_grad);
        let [q, k, v] = leaves.clone();
        let out = self.mixer.attend(q, k, v, self.place.context(phase));
        let mut gradients = out.backward();
        let mut results = vec![out];
        results.extend(leaves.iter().filter_map(|x| x.grad_remove(&mut gradients)));
        results
    }
}

/// Times the cases in turn, round by round. `progress` is called with the number of completed rounds.
///
/// # Errors
/// If one cannot be used at its size, or the device fails.
pub fn attention(
    cases: &[AttentionCase],
    device: &Device,
    rounds: Rounds,
    progress: impl FnMut(usize),
) -> Result<Vec<AttentionTimes>, BenchError> {
    let running = cases.iter().map(|case| case.start(device));
    let mut running = running.collect::<Result<Vec<_>, _>>()?;
    let mut passes = 0;
    let times = rounds.in_turn(&mut running, progress, |running| {
        let mixer = running.mixer.valid();
        let [q, k, v] = running.inputs.clone().map(Tensor::inner);
        let context = running.place.context(Phase::Eval);
        let ahead = time(device, || Ok(mixer.attend(q, k, v, context)))?;
        passes += 1;
        let there_and_back = time(device, || Ok(running.forward_backward(passes)))?;
        Ok([ahead, there_and_back])
    })?;
    let times = times.into_iter();
    let times = times.map(|[forward, forward_backward]| AttentionTimes {
        forward,
        forward_backward,
    });
    Ok(times.collect())
}
