//! Batch normalisation (Ioffe & Szegedy, 2015) with PyTorch's parameters and running statistics.

use burn::module::{Module, Param, RunningState};
use burn::tensor::Tensor;
use kvt_ops::{
    BatchNormInput, Phase, batch_norm, batch_norm_train, current_group, in_type, widened,
};

mod shared;

/// The settings of a batch norm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BatchNormSettings {
    /// Added to the variance.
    pub epsilon: f64,
    /// The share of a new batch in the running statistics.
    pub momentum: f64,
}

impl Default for BatchNormSettings {
    /// PyTorch's.
    fn default() -> Self {
        Self {
            epsilon: 1e-5,
            momentum: 0.1,
        }
    }
}

/// Normalises each channel: in training by the statistics of the batch (over all processes of a joint
/// [`Group`](kvt_ops::Group)), in evaluation by the running mean of those statistics. The running statistics are
/// saved with the weights, but not trained. A clone shares them, as Burn's running states do.
#[derive(Module, Debug)]
pub struct BatchNorm {
    /// `[channels]`.
    pub weight: Param<Tensor<1>>,
    /// `[channels]`.
    pub bias: Param<Tensor<1>>,
    /// `[channels]`.
    pub running_mean: RunningState<Tensor<1>>,
    /// `[channels]`, of the unbiased variance.
    pub running_var: RunningState<Tensor<1>>,
    #[module(skip)]
    settings: BatchNormSettings,
}

impl BatchNorm {
    /// Unit weight and variance, zero bias and mean.
    pub(super) fn new(
        [weight, bias]: [Param<Tensor<1>>; 2],
        [mean, var]: [Tensor<1>; 2],
        settings: BatchNormSettings,
    ) -> Self {
        Self {
            weight,
            bias,
            running_mean: RunningState::new(mean),
            running_var: RunningState::new(var),
            settings,
        }
    }

    /// # Shapes
    ///
    /// `[batch, .., channels]` to the same shape.
    pub fn forward_tokens<const D: usize>(&self, x: Tensor<D>, phase: Phase) -> Tensor<D> {
        let shape = x.dims();
        // Every token is a sample of one pixel.
        let samples = x.reshape([-1, shape[D - 1] as i64, 1]);
        self.normalise(samples, phase, None, false).reshape(shape)
    }

    /// The output has the type of the input: between the convolutions of a stem, only the computations of norms are
    /// f32.
    ///
    /// # Shapes
    ///
    /// `[batch, channels, height, width]` to the same shape.
    pub fn forward(&self, x: Tensor<4>, phase: Phase) -> Tensor<4> {
        self.of_maps(x, phase, None, false)
    }

    /// [`forward`](Self::forward), followed by a ReLU.
    pub fn forward_relu(&self, x: Tensor<4>, phase: Phase) -> Tensor<4> {
        self.of_maps(x, phase, None, true)
    }

    /// [`forward`](Self::forward), added to a residual of the same shape, followed by a ReLU.
    pub fn forward_add_relu(&self, x: Tensor<4>, residual: Tensor<4>, phase: Phase) -> Tensor<4> {
        self.of_maps(x, phase, Some(residual), true)
    }

    fn of_maps(
        &self,
        x: Tensor<4>,
        phase: Phase,
        residual: Option<Tensor<4>>,
        relu: bool,
    ) -> Tensor<4> {
        let shape = x.dims();
        let planes = |x: Tensor<4>| -> Tensor<3> { x.flatten(2, 3) };
        let residual = residual.map(planes);
        self.normalise(planes(x), phase, residual, relu)
            .reshape(shape)
    }

    /// `[outer, channels, inner]` to the same shape and type, computed in f32.
    fn normalise(
        &self,
        x: Tensor<3>,
        phase: Phase,
        residual: Option<Tensor<3>>,
        relu: bool,
    ) -> Tensor<3> {
        let BatchNormSettings { epsilon, momentum } = self.settings;
        let dtype = x.dtype();
        let (x, residual) = (widened(x), residual.map(widened));
        let input = BatchNormInput {
            gamma: self.weight.val(),
            beta: self.bias.val(),
            epsilon,
            residual,
            relu,
        };
        if phase == Phase::Eval {
            let statistics = [self.running_mean.value(), self.running_var.value()];
            return in_type(batch_norm(x, input, statistics), dtype);
        }
        let [outer, _, inner] = x.dims();
        let samples = (outer * inner) as f64;
        let (output, of_each) = match current_group() {
            Some(group) if group.is_joint() => {
                let (output, statistics) = shared::normalise(x, samples, input, &group);
                (output, vec![statistics])
            }
            group => {
                let result = batch_norm_train(x, input);
                // The batch is normalised by the biased variance; PyTorch keeps the unbiased one in the running statistics. A single
                // value has none, and PyTorch refuses it.
                let own = (samples >= 2.0).then(|| {
                    let unbiased = result.variance * (samples / (samples - 1.0));
                    [result.mean, unbiased]
                });
                let of_each = match group {
                    None => own.into_iter().collect(),
                    Some(group) => shared::of_each(own, &self.running_mean.value(), &group),
                };
                (result.output, of_each)
            }
        };
        for [mean, unbiased] in of_each {
            keep(&self.running_mean, mean, momentum);
            keep(&self.running_var, unbiased, momentum);
        }
        in_type(output, dtype)
    }
}

fn keep(running: &RunningState<Tensor<1>>, new: Tensor<1>, momentum: f64) {
    let value = running.value() * (1.0 - momentum) + new * momentum;
    running.update(value.detach());
    // Burn defers an update until the next one: without this a checkpoint would lack the last step.
    running.value_sync();
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use burn::tensor::{Device, TensorData};
    use kvt_ops::Key;

    use super::*;
    use crate::layers::Init;

    const SHAPE: [usize; 4] = [2, 3, 2, 2];

    /// A value for every image, channel and pixel of a step.
    fn value(step: usize, image: usize, channel: usize, pixel: usize) -> f64 {
        let i = ((step * 2 + image) * 3 + channel) * 4 + pixel;
        (i * 37 % 23) as f64 / 4.0 - channel as f64
    }

    fn input(step: usize, device: &Device) -> Tensor<4> {
        let values: Vec<f32> = (0..24)
            .map(|i| value(step, i / 12, i / 4 % 3, i % 4) as f32)
            .collect();
        Tensor::from_data(TensorData::new(values, SHAPE), device)
    }

    /// Mean and biased variance of a channel.
    fn statistics(step: usize, channel: usize) -> (f64, f64) {
        let values: Vec<f64> = (0..8).map(|i| value(step, i / 4, channel, i % 4)).collect();
        let mean = values.iter().sum::<f64>() / 8.0;
        let squares = values.iter().map(|value| (value - mean).powi(2));
        (mean, squares.sum::<f64>() / 8.0)
    }

    fn close(what: &str, actual: &[f32], expected: impl Iterator<Item = f64>) {
        for (i, (actual, expected)) in actual.iter().zip(expected).enumerate() {
            let difference = (f64::from(*actual) - expected).abs();
            assert!(
                difference < 1e-5,
                "{what} {i}: {actual} instead of {expected}"
            );
        }
    }

    fn batch_norm(device: &Device, settings: BatchNormSettings) -> BatchNorm {
        Init::new(device, Key::new(1)).batch_norm(3, settings)
    }

    /// A single value has no unbiased variance, so the running statistics do not change.
    #[test]
    fn a_single_value_is_not_remembered() {
        let device = Device::flex();
        let norm = batch_norm(&device, BatchNormSettings::default());
        let one = input(0, &device).slice([0..1, 0..3, 0..1, 0..1]);
        norm.forward(one, Phase::Train(Key::new(0)));
        let [mean, var] = [&norm.running_mean, &norm.running_var]
            .map(|running| running.value().into_data().try_to_vec::<f32>().unwrap());
        assert_eq!((mean, var), (vec![0.0; 3], vec![1.0; 3]));
    }

    #[test]
    fn statistics_run_as_pytorchs_do() {
        for (epsilon, momentum) in [(1e-5, 0.1), (1e-3, 0.01)] {
            statistics_run(BatchNormSettings { epsilon, momentum });
        }
    }

    /// Tokens `[batch, tokens, channels]` are pixels with their channels last.
    #[test]
    fn tokens_are_normalised_as_pixels_are() {
        let device = Device::flex();
        for phase in [Phase::Train(Key::new(0)), Phase::Eval] {
            let norms = [(); 2].map(|()| batch_norm(&device, BatchNormSettings::default()));
            let of_map = norms[0].forward(input(0, &device), phase);
            let tokens = input(0, &device).reshape([2, 3, 4]).swap_dims(1, 2);
            let of_tokens = norms[1].forward_tokens(tokens, phase).swap_dims(1, 2);
            let values = |x: Tensor<4>| x.into_data().try_to_vec::<f32>().unwrap();
            close(
                "tokens",
                &values(of_tokens.reshape([2, 3, 2, 2])),
                values(of_map).into_iter().map(f64::from),
            );
            let [mean, other] = norms.map(|norm| norm.running_mean.value().into_data());
            close(
                "mean",
                &mean.try_to_vec::<f32>().unwrap(),
                other
                    .try_to_vec::<f32>()
                    .unwrap()
                    .into_iter()
                    .map(f64::from),
            );
        }
    }

    fn statistics_run(settings: BatchNormSettings) {
        let BatchNormSettings { epsilon, momentum } = settings;
        let device = Device::flex().autodiff();
        let norm = batch_norm(&device, settings);
        let mut running = [(0.0, 1.0); 3];
        for step in 0..3 {
            let output = norm.forward(input(step, &device), Phase::Train(Key::new(0)));
            let normalised = (0..24).map(|i| {
                let (mean, variance) = statistics(step, i / 4 % 3);
                (value(step, i / 12, i / 4 % 3, i % 4) - mean) / (variance + epsilon).sqrt()
            });
            let output: Vec<f32> = output.into_data().try_to_vec().unwrap();
            close("output", &output, normalised);

            for (channel, (mean, variance)) in running.iter_mut().enumerate() {
                let (new_mean, biased) = statistics(step, channel);
                *mean = (1.0 - momentum) * *mean + momentum * new_mean;
                *variance = (1.0 - momentum) * *variance + momentum * biased * 8.0 / 7.0;
            }
            let values = |running: &RunningState<Tensor<1>>| -> Vec<f32> {
                running.value().into_data().try_to_vec().unwrap()
            };
            close(
                "mean",
                &values(&norm.running_mean),
                running.iter().map(|r| r.0),
            );
            close(
                "variance",
                &values(&norm.running_var),
                running.iter().map(|r| r.1),
            );
        }

        let evaluated = (0..24).map(|i| {
            let (mean, variance) = running[i / 4 % 3];
            (value(9, i / 12, i / 4 % 3, i % 4) - mean) / (variance + epsilon).sqrt()
        });
        let evaluated: Vec<f64> = evaluated.collect();
        let output = norm.forward(input(9, &device), Phase::Eval);
        let output: Vec<f32> = output.into_data().try_to_vec().unwrap();
        close("evaluation", &output, evaluated.iter().copied());

        let valid = norm.valid();
        let output = valid.forward(input(9, &Device::flex()), Phase::Eval);
        let output: Vec<f32> = output.into_data().try_to_vec().unwrap();
        close(
            "evaluation of the valid module",
            &output,
            evaluated.into_iter(),
        );
    }
}
