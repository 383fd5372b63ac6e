//! Batch normalisation (Ioffe & Szegedy, 2015) with PyTorch's parameters and running statistics.

use burn::module::{Module, Param, RunningState};
use burn::tensor::Tensor;
use burn::tensor::module::{batch_norm, batch_norm_train};
use kvt_ops::Phase;

/// PyTorch's epsilon.
const EPSILON: f64 = 1e-5;
/// The share of a new batch in the running statistics, as PyTorch has it.
const MOMENTUM: f64 = 0.1;

/// Normalises each channel: in training by the statistics of the batch, of which it keeps a running
/// mean, in evaluation by these. A clone shares them, as Burn's running states do.
#[derive(Module, Debug)]
pub struct BatchNorm {
    /// `[channels]`.
    pub weight: Param<Tensor<1>>,
    /// `[channels]`.
    pub bias: Param<Tensor<1>>,
    /// `[channels]`; saved with the weights, not trained.
    pub running_mean: RunningState<Tensor<1>>,
    /// `[channels]`, of the unbiased variance.
    pub running_var: RunningState<Tensor<1>>,
}

impl BatchNorm {
    /// # Shapes
    ///
    /// `[batch, channels, height, width]` to the same.
    pub fn forward(&self, x: Tensor<4>, phase: Phase) -> Tensor<4> {
        let (weight, bias) = (self.weight.val(), self.bias.val());
        if phase == Phase::Eval {
            let (mean, var) = (self.running_mean.value(), self.running_var.value());
            return batch_norm(x, weight, bias, mean, var, EPSILON);
        }
        let [batch, _, height, width] = x.dims();
        let samples = (batch * height * width) as f64;
        let result = batch_norm_train(x, weight, bias, EPSILON);
        // A single value has no variance to remember; PyTorch refuses it.
        if samples < 2.0 {
            return result.output;
        }
        // The batch is normalised by the biased variance; PyTorch keeps the unbiased one.
        let unbiased = result.variance.detach() * (samples / (samples - 1.0));
        keep(&self.running_mean, result.mean.detach());
        keep(&self.running_var, unbiased);
        result.output
    }
}

fn keep(running: &RunningState<Tensor<1>>, new: Tensor<1>) {
    let value = running.value() * (1.0 - MOMENTUM) + new * MOMENTUM;
    running.update(value.detach());
    // Burn holds an update back until the next: without this a checkpoint would be one step behind.
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

    /// It has no unbiased variance: what was remembered stays.
    #[test]
    fn a_single_value_is_not_remembered() {
        let device = Device::flex();
        let norm = Init::new(&device, Key::new(1)).batch_norm(3);
        let one = input(0, &device).slice([0..1, 0..3, 0..1, 0..1]);
        norm.forward(one, Phase::Train(Key::new(0)));
        let [mean, var] = [&norm.running_mean, &norm.running_var]
            .map(|running| running.value().into_data().try_to_vec::<f32>().unwrap());
        assert_eq!((mean, var), (vec![0.0; 3], vec![1.0; 3]));
    }

    #[test]
    fn statistics_run_as_pytorchs_do() {
        let device = Device::flex().autodiff();
        let norm = Init::new(&device, Key::new(1)).batch_norm(3);
        let mut running = [(0.0, 1.0); 3];
        for step in 0..3 {
            let output = norm.forward(input(step, &device), Phase::Train(Key::new(0)));
            let normalised = (0..24).map(|i| {
                let (mean, variance) = statistics(step, i / 4 % 3);
                (value(step, i / 12, i / 4 % 3, i % 4) - mean) / (variance + EPSILON).sqrt()
            });
            let output: Vec<f32> = output.into_data().try_to_vec().unwrap();
            close("output", &output, normalised);

            for (channel, (mean, variance)) in running.iter_mut().enumerate() {
                let (new_mean, biased) = statistics(step, channel);
                *mean = 0.9 * *mean + 0.1 * new_mean;
                *variance = 0.9 * *variance + 0.1 * biased * 8.0 / 7.0;
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
            (value(9, i / 12, i / 4 % 3, i % 4) - mean) / (variance + EPSILON).sqrt()
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
