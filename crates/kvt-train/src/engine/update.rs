//! One update of the weights, for training and for `kvt bench step`:
//! `loss -> gradients -> (sum over processes) -> norm -> clip -> optimizer -> ema`; in f16 with a scaled loss.

use std::collections::HashMap;

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param, ParamId};
use burn::tensor::Tensor;
use kvt_ops::Phase;

use super::Processes;
use crate::data::{DataError, DeviceBatch};
use crate::recipe::{
    Accumulator, Clip, Ema, Gradients, LossScale, Optimizer, Position, Rates, flat,
};
use crate::task::Task;
use crate::world::{Failure, WorldError};

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
    /// What the loss is multiplied with before the backward pass, where the precision needs that.
    pub loss_scale: Option<LossScale>,
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
    /// Whether it was made. With a scaled loss that made the gradients infinite, it was not: weights, moments, the optimizer's
    /// count, the average and what the network and the task remember are as before, and the scale is halved.
    pub made: bool,
}

/// An update that was not made. Weights, moments and average are as before.
#[derive(Debug, thiserror::Error)]
pub enum UpdateError {
    /// A micro-batch that cannot be had. The state is as before, also what the micro-batches ahead of it changed.
    #[error(transparent)]
    Data(DataError),
    /// The loss or the gradient is not a finite number.
    #[error("loss {}, gradient norm {}: not finite", .0.loss, .0.grad_norm)]
    NotFinite(Update),
    /// The loss does not depend on any parameter, or all of them were left out.
    #[error("no parameter got a gradient")]
    NoGradient,
    /// The device failed.
    #[error("the device failed: {0}")]
    Execution(String),
    /// A process of the job failed.
    #[error("{}", .0.message)]
    Job(Failure),
    /// The processes of the job lost each other.
    #[error(transparent)]
    World(#[from] WorldError),
}

impl<T: Task> TrainState<T> {
    /// Forward and backward for each micro-batch, and one step of the optimizer; the loss is the mean over the images of
    /// all of them. `at` is the place of the first.
    ///
    /// Each micro-batch is asked for after the work on the one before it was handed to the device, and the end of them
    /// before the host waits for the device.
    ///
    /// # Errors
    /// If a micro-batch cannot be had, the loss is not finite, the gradient is not finite with a loss that is not scaled (or
    /// no longer: a factor of 1), or the device fails.
    pub fn update(
        &mut self,
        micro_batches: impl IntoIterator<Item = Result<DeviceBatch<T::Target>, DataError>>,
        at: Position,
        settings: UpdateSettings,
    ) -> Result<Update, UpdateError> {
        self.update_with(&Processes::alone(), micro_batches, at, settings)
    }

    /// One update by all processes of a job: `micro_batches` are those of this process, which takes every n-th of the
    /// update's, its own rank being its first one. Everything that is drawn goes by the number of the micro-batch among those
    /// of all processes, so that it does not matter how many there are.
    ///
    /// # Errors
    /// As [`update`](Self::update), in all processes.
    pub fn update_with(
        &mut self,
        processes: &Processes,
        micro_batches: impl IntoIterator<Item = Result<DeviceBatch<T::Target>, DataError>>,
        at: Position,
        settings: UpdateSettings,
    ) -> Result<Update, UpdateError> {
        let mut micro_batches = micro_batches.into_iter();
        let mut accumulator = Accumulator::default();
        let (mut losses, mut places) = (Vec::new(), Vec::new());
        // Of all processes.
        let (mut images, mut done, mut is_uneven) = (0, 0, false);
        let before = Untrained::of(&self.network);
        self.task.begin();
        loop {
            let mut round = match processes.round(micro_batches.next()) {
                Ok(Some(round)) => round,
                Ok(None) => break,
                Err(error) => {
                    before.put_back(&self.network);
                    self.task.undo();
                    return Err(error);
                }
            };
            if let Some(batch) = round.batch.take() {
                let place = done + processes.world().rank();
                let (at, count) = (at.later(place), batch.len());
                let phase = Phase::Train(at.forward_key(settings.seed));
                let (task, network) = (&mut self.task, &self.network);
                let loss = round.within(|| task.loss(network, batch, at, phase));
                let (weighed, weight) = round.weighed(loss.clone(), count);
                let scaled = match self.loss_scale {
                    Some(scale) => weighed * scale.factor(),
                    None => weighed,
                };
                let backward = round.within(|| scaled.backward());
                accumulator.add(Gradients::take(backward, &self.network), weight);
                losses.push((loss.inner(), count));
                places.push(place);
            }
            images += round.images();
            done += round.micro_batches();
            is_uneven |= round.is_uneven();
        }
        let share = |(loss, count): (Tensor<1>, usize)| loss * (count as f64 / images as f64);
        let mut losses: Vec<_> = losses.into_iter().map(share).collect();
        let counts = (accumulator.images(), images);
        // Gradients are summed over the processes here, and losses below: all else is then the same in each.
        let gradients = processes.reduce(accumulator.finish(), counts, &self.network)?;
        let gradients = gradients.ok_or(UpdateError::NoGradient)?;
        let mut gradients = gradients.unscaled(self.loss_scale.map_or(1.0, LossScale::factor));
        self.task.before_clip(&mut gradients, &self.network, at);
        losses.push(gradients.norm().ok_or(UpdateError::NoGradient)?);
        // The one place where the host waits for the device.
        let values = processes.losses(read(Tensor::cat(losses, 0)), &places, done)?;
        let (grad_norm, losses) = match values.split_last() {
            Some((norm, losses)) => (*norm, losses),
            None => (f64::NAN, &[][..]),
        };
        let update = Update {
            loss: losses.iter().sum(),
            grad_norm,
            images,
            made: true,
        };
        if !(update.loss.is_finite() && grad_norm.is_finite()) {
            // A smaller scale does not mend a loss that is not finite.
            let smaller = self.loss_scale.filter(|_| update.loss.is_finite());
            let Some(smaller) = smaller.and_then(LossScale::after_overflow) else {
                return Err(UpdateError::NotFinite(update));
            };
            before.put_back(&self.network);
            self.task.undo();
            self.loss_scale = Some(smaller);
            return Ok(Update {
                made: false,
                ..update
            });
        }
        if is_uneven {
            // What forward passes changed in the first process; averages and teachers take it from the network.
            processes.share_untrained(&self.network)?;
        }
        let gradients = settings.clip.apply(gradients, grad_norm, &self.network);
        let network = self.network.clone();
        self.network = self.optimizer.step(network, gradients, settings.rates);
        let ema = self.ema.take();
        self.ema = ema.map(|ema| ema.update(&self.network, settings.ema_decay));
        if let Some((sum, rows)) = self.task.sums() {
            let (sum, rows) = processes.total(sum, rows)?;
            self.task.take_sums(sum, rows);
        }
        self.task.after_update(&self.network, at);
        self.loss_scale = self.loss_scale.map(LossScale::after_update);
        Ok(update)
    }
}

/// What a network remembers without being trained, such as the running statistics of batch norms: its forward pass changes
/// them, and a clone shares them.
struct Untrained(HashMap<ParamId, Tensor<1>>);

impl Untrained {
    fn of(network: &impl Module) -> Self {
        let mut found = Self(HashMap::new());
        network.visit(&mut found);
        found
    }

    /// Gives the network, and all that share with it, what was found before.
    fn put_back<M: Module>(mut self, network: &M) {
        let _shared = network.clone().map(&mut self);
    }
}

impl ModuleVisitor for Untrained {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let value = param.val();
        if !value.is_require_grad() {
            self.0.insert(param.id, flat(value));
        }
    }
}

impl ModuleMapper for Untrained {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        match self.0.remove(&param.id) {
            Some(before) => param.map(|now| before.reshape(now.shape())),
            None => param,
        }
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
