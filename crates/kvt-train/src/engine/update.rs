//! One update of the weights, for training and for `kvt bench step`:
//! `loss -> gradients -> (sum over processes) -> norm -> clip -> optimizer -> ema`.

use burn::tensor::Tensor;
use kvt_ops::Phase;

use crate::data::DeviceBatch;
use crate::recipe::{Accumulator, Clip, Ema, Gradients, Optimizer, Position, Rates};
use crate::task::Task;

/// Everything that updates change: what a checkpoint saves.
pub struct TrainState<T: Task> {
    /// The weights.
    pub network: T::Network,
    /// What is trained, with its own state.
    pub task: T,
    /// The optimizer and its state.
    pub optimizer: Optimizer,
    /// The average of the weights, where one is kept.
    pub ema: Option<Ema<T::Network>>,
}

/// The numbers of an update.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UpdateSettings {
    /// The seed of the run, for [`Position::forward_key`].
    pub seed: u64,
    /// Learning rate and weight decay.
    pub rates: Rates,
    /// How the gradients are clipped.
    pub clip: Clip,
    /// The share of the average that stays.
    pub ema_decay: f64,
}

/// What came of an update.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Update {
    /// The mean loss over its images.
    pub loss: f64,
    /// The global norm of the gradients before clipping.
    pub grad_norm: f64,
    /// Its images.
    pub images: usize,
}

/// An update that was not made. Weights, moments and average are as before.
#[derive(Clone, Debug, thiserror::Error)]
pub enum UpdateError {
    /// The loss or the gradient is not a finite number.
    #[error("loss {}, gradient norm {}: not finite", .0.loss, .0.grad_norm)]
    NotFinite(Update),
    /// The loss does not depend on any parameter, or all of them were left out.
    #[error("no parameter got a gradient")]
    NoGradient,
    /// The device failed.
    #[error("the device failed: {0}")]
    Execution(String),
}

impl<T: Task> TrainState<T> {
    /// Forward and backward for each micro-batch, and one step of the optimizer. `images` is the number of images in all
    /// of them, over which the loss is the mean. `at` is the place of the first.
    ///
    /// # Errors
    /// If loss or gradient are not finite, or the device fails.
    pub fn update(
        &mut self,
        micro_batches: impl IntoIterator<Item = DeviceBatch<T::Target>>,
        images: usize,
        at: Position,
        settings: UpdateSettings,
    ) -> Result<Update, UpdateError> {
        let mut accumulator = Accumulator::default();
        let mut losses = Vec::new();
        for (index, batch) in micro_batches.into_iter().enumerate() {
            let (at, count) = (at.later(index), batch.len());
            let phase = Phase::Train(at.forward_key(settings.seed));
            let loss = self.task.loss(&self.network, batch, at, phase);
            let gradients = Gradients::take(loss.backward(), &self.network);
            accumulator.add(gradients, count);
            losses.push(loss.inner() * (count as f64 / images as f64));
        }
        let mut gradients = accumulator.finish().ok_or(UpdateError::NoGradient)?;
        // With several processes, gradients and losses are summed over them here, and nowhere else, with `images` those of
        // all processes: what follows is then the same in each.
        self.task.before_clip(&mut gradients, &self.network, at);
        losses.push(gradients.norm().ok_or(UpdateError::NoGradient)?);
        // The one place where the host waits for the device.
        let values = read(Tensor::cat(losses, 0))?;
        let (grad_norm, losses) = match values.split_last() {
            Some((norm, losses)) => (*norm, losses),
            None => (f64::NAN, &[][..]),
        };
        let update = Update {
            loss: losses.iter().sum(),
            grad_norm,
            images,
        };
        if !(update.loss.is_finite() && grad_norm.is_finite()) {
            return Err(UpdateError::NotFinite(update));
        }
        let gradients = settings.clip.apply(gradients, grad_norm, &self.network);
        let network = self.network.clone();
        self.network = self.optimizer.step(network, gradients, settings.rates);
        let ema = self.ema.take();
        self.ema = ema.map(|ema| ema.update(&self.network, settings.ema_decay));
        self.task.after_update(&self.network, at);
        Ok(update)
    }
}

fn read(values: Tensor<1>) -> Result<Vec<f64>, UpdateError> {
    let data = values
        .try_into_data()
        .map_err(|e| UpdateError::Execution(e.to_string()))?;
    data.convert::<f64>()
        .try_to_vec()
        .map_err(|e| UpdateError::Execution(format!("{e:?}")))
}
